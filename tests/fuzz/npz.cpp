#include "data/npz.h"

#include "data/npy_file.h"
#include "support.h"

// Opens the input as an .npz archive and reads every array, converted to labels and to f32; then as an .npy file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace outsize;
  static fuzz::InputPath input;
  const std::string& path = input.of({data, size});
  const auto convert = [&](const Array& array) {
    fuzz::accept_or_refuse(path, [&] { converted(array, DType::f32, path); });
    fuzz::accept_or_refuse(path, [&] { converted(array, DType::i32, path); });
  };
  fuzz::accept_or_refuse(path, [&] {
    const NpzFile file(path);
    for (const std::string& name : file.names()) {
      OUTSIZE_CHECK(file.has(name));
      fuzz::accept_or_refuse(path, [&] { convert(file.read(name)); });
    }
  });
  fuzz::accept_or_refuse(path, [&] {
    const ArrayReader reader(path);
    Array array = make_array(reader.type(), reader.shape());
    reader.read(0, array.data);
    convert(array);
  });
  return 0;
}
