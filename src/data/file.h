#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

namespace outsize {

// A file that is read at given offsets. Every failure is a UserError that names the file.
class InputFile {
 public:
  explicit InputFile(std::string path);
  // An open file that has no name of its own, which is closed with this; messages call it `name`.
  InputFile(int descriptor, std::string name) : path_(std::move(name)), descriptor_(descriptor) {}
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }
  // Takes the size that the file has now, which was written since it was opened.
  void find_size();
  // Fills `bytes` from `offset` on; `what` completes "truncated: expected N bytes of … ".
  void read(std::int64_t offset, std::span<std::byte> bytes, std::string_view what) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

// A file written from begin to end. It appears under its path only when commit() is called; until then, and after a failure,
// whatever was there before stays.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  std::int64_t position() const { return position_; }
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
  std::int64_t position_ = 0;
};

// The CRC-32 of some bytes; or of those that the checksum `before` is of, and these behind them.
std::uint32_t checksum_of(std::span<const std::byte> bytes, std::uint32_t before = 0);
// The CRC-32 of a whole file.
std::uint32_t checksum_of(const InputFile& file);

// The whole file as text. Throws UserError naming it.
std::string read_text(const std::string& path);

}  // namespace outsize
