#include "data/image_file.h"

#include <cstring>

#include "data/resize.h"

namespace outsize {

namespace {
constexpr std::int64_t kKeptBytes = 64 << 20;  // an image of up to so many bytes is kept
}

ImageFile::ImageFile(const std::string& path, PixelForm form)
    : path_(path), form_(form), reader_(open_image(path, form)), rows_(reader_->rows()), columns_(reader_->columns()) {
  row_.resize(columns_ * size_of(form_));
}

void ImageFile::resize(std::int64_t rows, std::int64_t columns) {
  rows_ = rows;
  columns_ = columns;
}

void ImageFile::advance() {
  reader_->next_row(row_.data());
  ++next_;
}

void ImageFile::decode_whole() {
  kept_.resize(static_cast<std::size_t>(rows_) * row_.size());
  for (std::int64_t r = 0; r < rows_; ++r) {
    advance();
    std::memcpy(kept_.data() + static_cast<std::size_t>(r) * row_.size(), row_.data(), row_.size());
  }
}

void ImageFile::decode_scaled() {
  const std::int64_t from_rows = reader_->rows(), from_columns = reader_->columns();
  if (form_ != PixelForm::labels) {
    Resizer resizer({from_rows, from_columns}, {rows_, columns_}, size_of(form_));
    while (next_ < from_rows) {
      advance();
      resizer.add(row_.data());
    }
    kept_ = resizer.take();
    return;
  }
  const auto nearest = [](std::int64_t i, std::int64_t from, std::int64_t to) { return (2 * i + 1) * from / (2 * to); };
  const std::int64_t bytes = size_of(form_);
  kept_.resize(rows_ * columns_ * bytes);
  std::uint8_t* out = kept_.data();
  for (std::int64_t r = 0; r < rows_; ++r) {
    while (next_ <= nearest(r, from_rows, rows_)) advance();
    for (std::int64_t c = 0; c < columns_; ++c, out += bytes)
      std::memcpy(out, row_.data() + nearest(c, from_columns, columns_) * bytes, static_cast<std::size_t>(bytes));
  }
  while (next_ < from_rows) advance();  // to its end, so that damage is found wherever it is
}

void ImageFile::read(Interval rows, Interval columns, std::uint8_t* out) {
  const bool scaled = rows_ != reader_->rows() || columns_ != reader_->columns();
  const std::int64_t pixel = size_of(form_);
  if (kept_.empty() && (scaled || rows_ * columns_ * pixel <= kKeptBytes)) scaled ? decode_scaled() : decode_whole();
  const auto bytes = static_cast<std::size_t>(columns.size() * pixel);
  if (!kept_.empty()) {
    for (std::int64_t r = rows.lo; r < rows.hi; ++r, out += bytes)
      std::memcpy(out, kept_.data() + (r * columns_ + columns.lo) * pixel, bytes);
    return;
  }
  if (rows.lo < next_) {
    reader_ = open_image(path_, form_);
    next_ = 0;
  }
  while (next_ < rows.hi) {
    advance();
    if (next_ <= rows.lo) continue;
    std::memcpy(out, row_.data() + columns.lo * pixel, bytes);
    out += bytes;
  }
}

}  // namespace outsize
