#include "data/safetensors.h"

#include "support.h"

namespace outsize {
namespace {

// A file of that header and that many bytes of data, with `length` as its stated header length where given.
std::string file_bytes(const std::string& header, std::size_t data_bytes, std::uint64_t length = 0) {
  if (length == 0) length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), 8);
  return bytes + header + std::string(data_bytes, '\0');
}

class Safetensors : public FileTest {
 protected:
  std::string open(const std::string& bytes) const {
    const std::string file = write("bad.safetensors", bytes);
    const std::string message = refusal([&] { SafetensorsFile{file}; });
    expect_contains(message, file);
    return message;
  }
};

TEST_F(Safetensors, RoundTrip) {
  const Array weight = array_of<float>(ElementType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  const Array count = array_of<std::int64_t>(ElementType::i64, {}, {7});
  const Array none = make_array(ElementType::f64, {0, 4});
  write_safetensors(path("a.safetensors"),
                    {{"weight", weight.type, weight.shape}, {"count", count.type, count.shape}, {"none", none.type, none.shape}},
                    [&](const TensorEntry& entry, const TensorSink& sink) {
                      if (entry.name == "count") return sink(count.data);
                      // In parts of any length.
                      const std::span<const std::byte> all = entry.name == "weight" ? weight.data : none.data;
                      const std::size_t part = std::min<std::size_t>(all.size(), 5);
                      sink(all.first(part));
                      sink(all.subspan(part));
                    });
  const SafetensorsFile file(path("a.safetensors"));
  ASSERT_EQ(file.entries().size(), 3U);
  EXPECT_EQ(file.entries()[0].name, "count");
  const TensorEntry* entry = file.find("weight");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->shape, (Dims{2, 3}));
  EXPECT_EQ(file.read(*entry).data, weight.data);
  const Array part = file.read(*entry, 2, 3);
  EXPECT_EQ(part.shape, Dims{3});
  EXPECT_EQ(part.data, array_of<float>(ElementType::f32, {3}, {3, 4, 5}).data);
  EXPECT_EQ(file.read(*file.find("count")).data, count.data);
  EXPECT_EQ(file.find("bias"), nullptr);
}

// Written by hand from the format's description: another writer's file, with metadata and trailing blanks.
TEST_F(Safetensors, ForeignFile) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}}   )";
  const std::string file = write("f.safetensors", file_bytes(header, 0) + std::string("\x01\x02\x00\x00\x05\x06", 6));
  const SafetensorsFile opened(file);
  EXPECT_EQ(opened.read(*opened.find("a")).data, array_of<std::int32_t>(ElementType::i32, {1}, {513}).data);
  EXPECT_EQ(opened.read(*opened.find("b")).data, array_of<std::uint8_t>(ElementType::u8, {2}, {5, 6}).data);
}

TEST_F(Safetensors, Refusals) {
  expect_contains(open(""), "truncated");
  expect_contains(open(file_bytes("{}", 0, 1000)), "header of 1000 bytes");
  expect_contains(open(file_bytes("[1]", 0)), "not a JSON object");
  expect_contains(open(file_bytes(R"({"a":3})", 0)), "expected an object");
  expect_contains(open(file_bytes(R"({"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})", 2)), "dtype 'BF16' is not read");
  expect_contains(open(file_bytes(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4)), "negative extent");
  expect_contains(open(file_bytes(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4)), "expected an integer");
  expect_contains(open(file_bytes(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0)),
                  "larger than any memory");
  expect_contains(open(file_bytes(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4)), "takes 8 bytes");
  expect_contains(open(file_bytes(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4)), "truncated");
  expect_contains(open(file_bytes(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5)), "1 bytes follow");
  expect_contains(
      open(file_bytes(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", 6)),
      "neither overlap nor leave gaps");
  expect_contains(
      open(file_bytes(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", 12)),
      "neither overlap nor leave gaps");
  expect_contains(
      open(file_bytes(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1)),
      "twice");
  expect_contains(refusal([&] { SafetensorsFile{path("absent.safetensors")}; }), "cannot be opened");
}

// The header begins at byte 8 of the file.
TEST_F(Safetensors, HeaderThatIsNotJsonIsRefusedByItsByte) {
  expect_contains(open(file_bytes("{]", 0)), "the header: not JSON: it goes wrong at byte 9 of the file, the end of '{]'");
  expect_contains(open(file_bytes(R"({"a":)", 0)), "the header: not JSON: it ends too early, at byte 13 of the file");
  expect_contains(open(file_bytes("{\"\xff\":1}", 0)), "at byte 10 of the file");
  expect_contains(open(file_bytes(std::string("{\0}", 3), 0)), "at byte 9 of the file, the end of '{\\x00'");
  expect_contains(open(file_bytes(R"({"a":1e999})", 0)), "a number that no 64 bits can");
}

// Showing such a value would take a stack as deep.
TEST_F(Safetensors, DeepHeaderIsRefused) {
  const std::string nested(1 << 20, '[');
  expect_contains(open(file_bytes(R"({"a":{"dtype":"F32","shape":)" + nested, 0)), "nested more than 16 deep");
  expect_contains(open(file_bytes(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4)),
                  "holds '[1]', expected an integer");
}

// What a file holds is shown on one line, and not at any length.
TEST_F(Safetensors, NamesAreShownOnOneLine) {
  const std::string message = open(file_bytes(R"({"a\nb)" + std::string(1000, 'x') + R"(":3})", 0));
  expect_contains(message, "tensor 'a\\x0ab" + std::string(77, 'x') + "…': expected an object");
}

TEST_F(Safetensors, OnlySafetensorsAndNothingAreReplaceable) {
  expect_replaceable(path("absent"));
  expect_replaceable(write("empty", ""));
  write_safetensors(path("a.safetensors"), {{"a", ElementType::u8, {1}}},
                    [](const TensorEntry&, const TensorSink& sink) { sink(std::vector<std::byte>(1)); });
  expect_replaceable(path("a.safetensors"));
  expect_replaceable(path("."));  // which no file can be written to anyhow
  const std::string text = write("text", "what took a day to write");
  const std::string message = refusal([&] { expect_replaceable(text); });
  expect_contains(message, text + ": not a safetensors file");
  expect_contains(message, "nothing but a safetensors file is written over: give another name, or remove this file first");
}

// A write that fails half way leaves what was there.
TEST_F(Safetensors, FailedWriteKeepsTheOldFile) {
  write("a.safetensors", "old");
  EXPECT_THROW(write_safetensors(path("a.safetensors"), {{"a", ElementType::u8, {1}}},
                                 [](const TensorEntry&, const TensorSink&) { throw UserError("no"); }),
               UserError);
  EXPECT_EQ(content("a.safetensors"), "old");
}

}  // namespace
}  // namespace outsize
