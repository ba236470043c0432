#include "data/npy.h"

#include <fmt/ranges.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "base/text.h"

namespace outsize {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

constexpr std::array<std::pair<ElementType, std::string_view>, 10> kDescriptions{{{ElementType::f32, "<f4"},
                                                                                  {ElementType::f64, "<f8"},
                                                                                  {ElementType::i32, "<i4"},
                                                                                  {ElementType::i64, "<i8"},
                                                                                  {ElementType::u8, "|u1"},
                                                                                  {ElementType::i8, "|i1"},
                                                                                  {ElementType::i16, "<i2"},
                                                                                  {ElementType::u16, "<u2"},
                                                                                  {ElementType::u32, "<u4"},
                                                                                  {ElementType::u64, "<u8"}}};

// Reads the header's Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string_view what) : rest_(text), what_(what) {}

  NpyHeader read() {
    NpyHeader header;
    std::optional<std::vector<std::int64_t>> shape;
    bool has_type = false, has_order = false;
    expect("{");
    while (!accept("}")) {
      const std::string_view key = text_in_quotes();
      expect(":");
      if (key == "descr") {
        header.type = element_type(text_in_quotes());
        has_type = true;
      } else if (key == "fortran_order") {
        if (accept("True")) user_error("{}: is in Fortran order; save numpy.ascontiguousarray of it", what_);
        expect("False");
        has_order = true;
      } else if (key == "shape") {
        shape = tuple();
      } else {
        user_error("{}: unknown key {} in the npy header", what_, in_quotes(key));
      }
      if (!accept(",")) {
        expect("}");
        break;
      }
    }
    if (!has_type || !has_order || !shape) user_error("{}: the npy header lacks descr, fortran_order or shape", what_);
    header.shape = checked_shape(*shape, header.type, what_);
    return header;
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n')) rest_.remove_prefix(1);
  }
  bool accept(std::string_view token) {
    skip_blanks();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) user_error("{}: expected '{}' in the npy header, found {}", what_, token, in_quotes(rest_.substr(0, 16)));
  }
  std::string_view text_in_quotes() {
    const std::string_view quote = accept("\"") ? "\"" : "'";
    if (quote == "'") expect("'");
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) user_error("{}: unfinished string in the npy header", what_);
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }
  ElementType element_type(std::string_view description) const {
    for (const auto& [type, text] : kDescriptions)
      if (text == description) return type;
    user_error("{}: element type {} is not read; expected float32, float64 or whole numbers (little-endian)", what_,
               in_quotes(description));
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> extents;
    expect("(");
    while (!accept(")")) {
      skip_blanks();
      const std::size_t length = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
      std::int64_t extent = 0;
      if (!parse_integer(rest_.substr(0, length), extent))
        user_error("{}: expected an extent in the npy header, found {}", what_, in_quotes(rest_.substr(0, 16)));
      extents.push_back(extent);
      rest_.remove_prefix(length);
      if (!accept(",")) {
        expect(")");
        break;
      }
    }
    return extents;
  }

  std::string_view rest_;
  std::string_view what_;
};

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> bytes, std::string_view what) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic) || text.size() < 10) user_error("{}: not an npy array", what);
  // Version 1 has two bytes of header length, later ones four.
  const auto version = std::to_integer<int>(bytes[6]);
  if (version < 1 || version > 3) user_error("{}: npy version {} is not read; expected 1, 2 or 3", what, version);
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t begin = 8 + length_bytes;
  std::uint32_t length = 0;
  if (text.size() >= begin) std::memcpy(&length, bytes.data() + 8, length_bytes);
  if (text.size() < begin || length > text.size() - begin) user_error("{}: truncated in the npy header", what);
  NpyHeader header = HeaderReader(text.substr(begin, length), what).read();
  header.data_offset = static_cast<std::int64_t>(begin + length);
  return header;
}

Array parse_npy(std::vector<std::byte> bytes, std::string_view what) {
  const NpyHeader header = parse_npy_header(bytes, what);
  // In place: an image of many gigabytes should not be in memory twice.
  bytes.erase(bytes.begin(), bytes.begin() + header.data_offset);
  const std::int64_t expected = header.shape.product() * size_of(header.type);
  if (static_cast<std::int64_t>(bytes.size()) != expected)
    user_error("{}: expected {} bytes for {} of shape {}, found {}", what, expected, name_of(header.type), to_string(header.shape),
               bytes.size());
  return {header.type, header.shape, std::move(bytes)};
}

std::vector<std::byte> make_npy_header(ElementType type, const Dims& shape) {
  std::string_view description;
  for (const auto& [value, text] : kDescriptions)
    if (value == type) description = text;
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", description,
                                 fmt::join(shape.begin(), shape.end(), ", "), shape.rank() == 1 ? "," : "");
  // The elements begin at a multiple of 64 bytes, the header ends with a newline.
  constexpr std::size_t kBegin = 10;
  text.resize((kBegin + text.size() + 1 + 63) / 64 * 64 - kBegin - 1, ' ');
  text += '\n';
  const auto length = static_cast<std::uint16_t>(text.size());
  std::string header = std::string(kMagic) + std::string("\x01\x00", 2);
  header.append(reinterpret_cast<const char*>(&length), 2).append(text);
  const auto bytes = std::as_bytes(std::span(header));
  return {bytes.begin(), bytes.end()};
}

}  // namespace outsize
