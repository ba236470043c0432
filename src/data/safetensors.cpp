#include "data/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "data/json.h"

namespace outsize {

namespace {

static_assert(std::endian::native == std::endian::little, "safetensors and npy files are little-endian");

using Json = nlohmann::json;

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kLargestHeader = 100 << 20;  // as the format's own library has it

constexpr std::array<std::pair<ElementType, std::string_view>, 5> kTypeNames{{{ElementType::f32, "F32"},
                                                                              {ElementType::f64, "F64"},
                                                                              {ElementType::i32, "I32"},
                                                                              {ElementType::i64, "I64"},
                                                                              {ElementType::u8, "U8"}}};

ElementType parse_type(const std::string& name, std::string_view what) {
  for (const auto& [type, text] : kTypeNames)
    if (text == name) return type;
  user_error("{}: dtype {} is not read; expected F32, F64, I32, I64 or U8", what, in_quotes(name));
}

std::string_view type_name(ElementType type) {
  for (const auto& [value, text] : kTypeNames)
    if (value == type) return text;
  internal_error("no safetensors name for {}", name_of(type));
}

std::vector<std::int64_t> integers(const Json& entry, const char* key, std::string_view what) {
  if (!entry.contains(key) || !entry[key].is_array()) user_error("{}: expected a list of integers '{}'", what, key);
  std::vector<std::int64_t> numbers;
  for (const Json& number : entry[key]) {
    if (!number.is_number_integer() || (number.is_number_unsigned() && number.get<std::uint64_t>() > INT64_MAX))
      user_error("{}: '{}' holds {}, expected an integer", what, key, in_quotes(number.dump()));
    numbers.push_back(number.get<std::int64_t>());
  }
  return numbers;
}

// An entry with its offset counted from the end of the header, as the file states it.
TensorEntry parse_entry(const std::string& name, const Json& json, const std::string& path) {
  const std::string what = fmt::format("{}: tensor {}", path, in_quotes(name));
  if (!json.is_object()) user_error("{}: expected an object with dtype, shape and data_offsets", what);
  if (!json.contains("dtype") || !json["dtype"].is_string()) user_error("{}: expected a string 'dtype'", what);
  TensorEntry entry;
  entry.name = name;
  entry.type = parse_type(json["dtype"].get<std::string>(), what);
  entry.shape = checked_shape(integers(json, "shape", what), entry.type, what);
  const std::vector<std::int64_t> range = integers(json, "data_offsets", what);
  if (range.size() != 2 || range[0] < 0 || range[1] < range[0])
    user_error("{}: data_offsets must be [begin, end], found {}", what, in_quotes(json["data_offsets"].dump()));
  if (range[1] - range[0] != entry.bytes())
    user_error("{}: {} of shape {} takes {} bytes, but data_offsets {} cover {}", what, name_of(entry.type), to_string(entry.shape),
               entry.bytes(), json["data_offsets"].dump(), range[1] - range[0]);
  entry.offset = range[0];
  return entry;
}

// Tensors must follow each other without gap or overlap and end where the file ends.
void check_layout(std::vector<TensorEntry> entries, std::int64_t data_bytes, const std::string& path) {
  std::stable_sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.offset, a.bytes()) < std::pair(b.offset, b.bytes());
  });
  std::int64_t end = 0;
  for (const TensorEntry& entry : entries) {
    if (entry.offset + entry.bytes() > data_bytes)
      user_error("{}: truncated: tensor {} ends at byte {} of the data, but there are {}", path, in_quotes(entry.name),
                 entry.offset + entry.bytes(), data_bytes);
    if (entry.offset != end)
      user_error("{}: tensor {} begins at byte {} of the data, expected {}: tensors may neither overlap nor leave gaps", path,
                 in_quotes(entry.name), entry.offset, end);
    end += entry.bytes();
  }
  if (end != data_bytes) user_error("{}: {} bytes follow the last tensor; expected none", path, data_bytes - end);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  std::uint64_t length = 0;
  file_.read(0, std::as_writable_bytes(std::span(&length, 1)), "header length");
  if (length < 2 || length > kLargestHeader || static_cast<std::int64_t>(length) > file_.size() - kLengthBytes)
    user_error("{}: not a safetensors file, or truncated: it states a header of {} bytes, the file has {}", path, length,
               file_.size());
  std::string text(length, '\0');
  file_.read(kLengthBytes, std::as_writable_bytes(std::span(text)), "header");

  const std::string what = fmt::format("{}: the header", path);
  const Json header = parse_json(text, what, kLengthBytes);
  if (!header.is_object()) user_error("{} is not a JSON object", what);
  for (const auto& [name, json] : header.items())
    if (name != "__metadata__") entries_.push_back(parse_entry(name, json, path));
  const std::int64_t data_begin = kLengthBytes + static_cast<std::int64_t>(length);
  check_layout(entries_, file_.size() - data_begin, path);
  for (TensorEntry& entry : entries_) entry.offset += data_begin;
  std::sort(entries_.begin(), entries_.end(), [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), name,
                                      [](const TensorEntry& entry, std::string_view wanted) { return entry.name < wanted; });
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

Array SafetensorsFile::read(const TensorEntry& entry, std::int64_t first, std::int64_t count) const {
  const std::int64_t elements = entry.shape.product();
  OUTSIZE_CHECK(first >= 0 && count >= 0 && first + count <= elements);
  Array array = make_array(entry.type, count == elements ? entry.shape : Dims{count});
  const std::int64_t each = elements > 0 ? entry.bytes() / elements : 0;
  file_.read(entry.offset + first * each, array.data, fmt::format("tensor {}", in_quotes(entry.name)));
  return array;
}

void expect_replaceable(const std::string& path) {
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path, failure)) return;
  if (std::filesystem::file_size(path, failure) == 0 && !failure) return;
  try {
    SafetensorsFile{path};
  } catch (const UserError& error) {
    user_error("{}; nothing but a safetensors file is written over: give another name, or remove this file first", error.what());
  }
}

void write_safetensors(const std::string& path, std::vector<TensorEntry> entries,
                       const std::function<void(const TensorEntry&, const TensorSink& sink)>& write) {
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  auto header = nlohmann::ordered_json::object();
  std::int64_t end = 0;
  for (const TensorEntry& entry : entries) {
    if (header.contains(entry.name)) user_error("{}: the tensor '{}' would be written twice", path, entry.name);
    header[entry.name] = {{"dtype", type_name(entry.type)},
                          {"shape", std::vector<std::int64_t>(entry.shape.begin(), entry.shape.end())},
                          {"data_offsets", {end, end + entry.bytes()}}};
    end += entry.bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data is aligned when the file is mapped
  const std::uint64_t length = text.size();

  OutputFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(text)));
  for (const TensorEntry& entry : entries) {
    std::int64_t written = 0;
    write(entry, [&](std::span<const std::byte> part) {
      file.write(part);
      written += static_cast<std::int64_t>(part.size());
    });
    OUTSIZE_CHECK(written == entry.bytes());
  }
  file.commit();
}

}  // namespace outsize
