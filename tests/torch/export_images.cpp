// Reads every image of a folder as training would: export_images FOLDER ROWS COLUMNS OUT.npz writes bytes [channels, rows,
// columns], "0", "1" and so on as they are, and "scaled.0" and so on where they are scaled to cover ROWS x COLUMNS.
#include <cmath>
#include <cstdlib>

#include "../write_npz.h"
#include "data/datasets.h"

using namespace outsize;

namespace {

Array bytes_of(const Sample& sample) {
  const Dims extents = sample.x_extents();
  std::vector<float> values(static_cast<std::size_t>(extents.product()));
  sample.read_x(Box::whole(extents), DType::f32, reinterpret_cast<std::byte*>(values.data()));
  Array array = make_array(ElementType::u8, extents);
  for (std::size_t i = 0; i < values.size(); ++i) array.data[i] = static_cast<std::byte>(std::lround(values[i]));
  return array;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const std::int64_t rows = std::atoll(arguments[2]), columns = std::atoll(arguments[3]);
  DataOptions options{.spec = {DType::f32, {1, 3, rows, columns}, DType::i32, {1}, 1}, .mean = {0}, .deviation = {1 / 255.0}};
  std::vector<std::pair<std::string, Array>> arrays;
  for (Fit fit : {Fit::crop, Fit::resize}) {
    options.fit = fit;
    const auto data = make_dataset(arguments[1], options);
    for (std::int64_t i = 0; i < data->size(); ++i)
      arrays.emplace_back(fmt::format("{}{}", fit == Fit::resize ? "scaled." : "", i), bytes_of(*data->open(i)));
  }
  write_npz(arguments[4], arrays);
}
