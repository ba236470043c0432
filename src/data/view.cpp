#include "data/view.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/philox.h"
#include "data/window.h"

namespace outsize {

namespace {

constexpr std::int64_t kOverhang = 8;  // a crop hangs over by at most its extent divided by this

// Uniform over [0, limit), from one word.
std::int64_t scaled(std::uint32_t word, std::int64_t limit) {
  return static_cast<std::int64_t>((std::uint64_t{word} * static_cast<std::uint64_t>(limit)) >> 32);
}

template <class T>
void mirror_rows(std::byte* data, std::int64_t rows, std::int64_t columns) {
  T* row = reinterpret_cast<T*>(data);
  for (std::int64_t r = 0; r < rows; ++r, row += columns) std::reverse(row, row + columns);
}

template <class T>
void fill(std::byte* out, std::int64_t count, std::int64_t value) {
  std::fill_n(reinterpret_cast<T*>(out), count, static_cast<T>(value));
}

void fill(std::byte* out, std::int64_t count, DType dtype, std::int64_t value) {
  switch (dtype) {
    case DType::f32: return fill<float>(out, count, value);
    case DType::f64: return fill<double>(out, count, value);
    case DType::i32: return fill<std::int32_t>(out, count, value);
    case DType::u8: return fill<std::uint8_t>(out, count, value);
  }
}

// `window` of what `view` shows of a value with those extents, of which `read` writes a box.
template <class Read>
void read_through(const View& view, const Dims& extents, const Box& window, DType dtype, std::int64_t beyond, std::byte* out,
                  const Read& read) {
  const int leading = extents.rank() - view.origin.rank();
  const int last = extents.rank() - 1;
  Box source = window;
  if (view.mirrored) {
    const std::int64_t columns = view.extents[view.extents.rank() - 1];
    source.set(last, {columns - window.hi[last], columns - window.lo[last]});
  }
  for (int d = leading; d <= last; ++d) {
    source.lo[d] += view.origin[d - leading];
    source.hi[d] += view.origin[d - leading];
  }
  const Box inside = intersect(source, Box::whole(extents));
  const auto element = static_cast<std::size_t>(size_of(dtype));
  if (inside == source) {
    read(source, out);
  } else {
    fill(out, source.elements(), dtype, beyond);
    if (!inside.empty()) {
      std::vector<std::byte> part(static_cast<std::size_t>(inside.elements()) * element);
      read(inside, part.data());
      const std::byte* from = part.data();
      for_each_row(source.shape(), inside.shifted(source.lo, -1), [&](std::int64_t offset, std::int64_t count) {
        const std::size_t bytes = static_cast<std::size_t>(count) * element;
        std::memcpy(out + static_cast<std::size_t>(offset) * element, from, bytes);
        from += bytes;
      });
    }
  }
  if (!view.mirrored) return;
  const std::int64_t columns = source.extent(last), rows = source.elements() / std::max<std::int64_t>(columns, 1);
  switch (element) {
    case 8: return mirror_rows<std::uint64_t>(out, rows, columns);
    case 4: return mirror_rows<std::uint32_t>(out, rows, columns);
    default: return mirror_rows<std::uint8_t>(out, rows, columns);
  }
}

}  // namespace

View draw_view(const Dims& sample_extents, const Dims& extents, const Augment& augment, std::uint64_t seed, std::int64_t epoch,
               std::int64_t sample) {
  OUTSIZE_CHECK(sample_extents.rank() == extents.rank());
  View view{extents, extents, false};
  const auto words = RandomStream(seed, fmt::format("augment.{}", epoch)).block(static_cast<std::uint64_t>(sample));
  for (int d = 0; d < extents.rank(); ++d) {
    const std::int64_t own = sample_extents[d];
    if (view.extents[d] == 0) view.extents[d] = own;
    const std::int64_t room = own - view.extents[d];
    const std::int64_t overhang = room > 0 ? 0 : view.extents[d] / kOverhang;
    if (augment.crop && extents[d] != 0 && d < 3)
      view.origin[d] =
          std::min<std::int64_t>(room, 0) - overhang + scaled(words[d + 1], (room < 0 ? -room : room) + 2 * overhang + 1);
    else
      view.origin[d] = room < 0 ? -(-room / 2) : room / 2;
  }
  view.mirrored = augment.flip && extents.rank() >= 2 && (words[0] & 1) != 0;
  return view;
}

void read_x(const Sample& sample, const View& view, const Box& window, DType dtype, std::byte* out) {
  read_through(view, sample.x_extents(), window, dtype, 0, out,
               [&](const Box& box, std::byte* to) { sample.read_x(box, dtype, to); });
}

void read_y(const Sample& sample, const View& view, const Box& window, DType dtype, std::int64_t beyond, std::byte* out) {
  read_through(view, sample.y_extents(), window, dtype, beyond, out,
               [&](const Box& box, std::byte* to) { sample.read_y(box, dtype, to); });
}

}  // namespace outsize
