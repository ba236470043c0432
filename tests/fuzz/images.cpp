#include "data/image_reader.h"
#include "support.h"

// Opens the input as an image, in colours and as labels, and decodes its rows.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace outsize;
  static fuzz::InputPath input;
  const std::string& path = input.of({data, size});
  for (const PixelForm form : {PixelForm::rgb, PixelForm::labels})
    fuzz::accept_or_refuse(path, [&] {
      const std::unique_ptr<ImageReader> image = open_image(path, form);
      std::vector<std::uint8_t> row(static_cast<std::size_t>(image->columns() * size_of(form)));
      for (std::int64_t i = 0; i < image->rows(); ++i) image->next_row(row.data());
    });
  return 0;
}
