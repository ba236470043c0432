#include "data/safetensors.h"

#include "support.h"

// Opens the input as a safetensors file, reads every tensor and converts it to f32 as loading weights does.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace outsize;
  static fuzz::InputPath input;
  const std::string& path = input.of({data, size});
  fuzz::accept_or_refuse(path, [&] {
    const SafetensorsFile file(path);
    for (const TensorEntry& entry : file.entries()) {
      OUTSIZE_CHECK(file.find(entry.name) != nullptr);
      converted(file.read(entry), DType::f32, path);
    }
  });
  return 0;
}
