#include "data/zip.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>

#include "base/error.h"
#include "base/nameless_file.h"
#include "base/text.h"

namespace outsize {

namespace {

// Signatures and fixed sizes of the records (PKWARE's APPNOTE, sections 4.3.7 to 4.3.16).
constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kCentralHeader = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kEnd64Locator = 0x07064b50;
constexpr std::int64_t kLocalBytes = 30;
constexpr std::int64_t kCentralBytes = 46;
constexpr std::int64_t kEndBytes = 22;
constexpr std::int64_t kEnd64Bytes = 56;
constexpr std::int64_t kLocatorBytes = 20;
constexpr std::uint16_t kExtra64 = 1;
constexpr std::uint32_t kSeeExtra = 0xFFFFFFFF;
constexpr std::uint16_t kSeeEnd64 = 0xFFFF;
constexpr std::uint16_t kEncrypted = 1;
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;

using Bytes = std::vector<std::byte>;

template <class T>
T number_at(std::span<const std::byte> bytes, std::int64_t offset) {
  T number;
  std::memcpy(&number, bytes.data() + offset, sizeof(T));
  return number;
}

void expect_inside(const InputFile& file, std::int64_t offset, std::int64_t count, std::string_view what) {
  if (count < 0 || offset < 0 || count > file.size() - offset)
    user_error("{}: damaged or truncated: {} of {} bytes at offset {} lies outside the file's {} bytes", file.path(), what, count,
               offset, file.size());
}

Bytes read_at(const InputFile& file, std::int64_t offset, std::int64_t count, std::string_view what) {
  expect_inside(file, offset, count, what);
  Bytes bytes(static_cast<std::size_t>(count));
  file.read(offset, bytes, what);
  return bytes;
}

struct Directory {
  std::int64_t entries = 0;
  std::int64_t bytes = 0;
  std::int64_t offset = 0;
};

// The end record is the last thing in the file but for a comment of at most 65,535 bytes.
Directory find_directory(const InputFile& file) {
  const std::int64_t searched = std::min<std::int64_t>(file.size(), kEndBytes + 0xFFFF);
  const Bytes tail = read_at(file, file.size() - searched, searched, "the archive's end");
  for (std::int64_t at = searched - kEndBytes; at >= 0; --at) {
    if (number_at<std::uint32_t>(tail, at) != kEnd) continue;
    const std::int64_t position = file.size() - searched + at;
    Directory directory{number_at<std::uint16_t>(tail, at + 10), number_at<std::uint32_t>(tail, at + 12),
                        number_at<std::uint32_t>(tail, at + 16)};
    if (directory.entries != kSeeEnd64 && directory.bytes != kSeeExtra && directory.offset != kSeeExtra) return directory;
    if (position < kLocatorBytes) break;
    const Bytes locator = read_at(file, position - kLocatorBytes, kLocatorBytes, "the ZIP64 locator");
    if (number_at<std::uint32_t>(locator, 0) != kEnd64Locator) return directory;
    const Bytes end = read_at(file, number_at<std::int64_t>(locator, 8), kEnd64Bytes, "the ZIP64 end record");
    if (number_at<std::uint32_t>(end, 0) != kEnd64) break;
    return {number_at<std::int64_t>(end, 32), number_at<std::int64_t>(end, 40), number_at<std::int64_t>(end, 48)};
  }
  user_error("{}: not a ZIP archive (as .npz files are), or truncated", file.path());
}

// Replaces sizes and offset that did not fit 32 bits by those of the ZIP64 extra field.
void apply_extra(ZipMember& member, std::span<const std::byte> extra, const std::string& path) {
  while (extra.size() >= 4) {
    const auto id = number_at<std::uint16_t>(extra, 0);
    const std::size_t length = number_at<std::uint16_t>(extra, 2);
    if (length > extra.size() - 4) break;
    if (id == kExtra64) {
      std::int64_t at = 4;
      for (std::int64_t* field : {&member.bytes, &member.packed_bytes, &member.header_offset}) {
        if (*field != kSeeExtra) continue;
        if (at + 8 > 4 + static_cast<std::int64_t>(length))
          user_error("{}: member {} has a damaged ZIP64 field", path, in_quotes(member.name));
        *field = number_at<std::int64_t>(extra, at);
        at += 8;
      }
    }
    extra = extra.subspan(4 + length);
  }
}

// What is read or unpacked at a time.
constexpr std::int64_t kPart = std::int64_t{1} << 18;

// Calls sink(part) for the parts of a file from `begin` on, in order.
template <class Sink>
void for_each_part(const InputFile& file, std::int64_t begin, std::int64_t bytes, std::string_view what, const Sink& sink) {
  Bytes part(static_cast<std::size_t>(std::min(bytes, kPart)));
  for (std::int64_t done = 0; done < bytes; done += kPart) {
    const std::span now = std::span(part).first(static_cast<std::size_t>(std::min(bytes - done, kPart)));
    file.read(begin + done, now, what);
    sink(std::span<const std::byte>(now));
  }
}

// Unpacks what it is given part by part.
class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Calls sink(part) for what the packed bytes that follow make.
  template <class Sink>
  void take(std::span<const std::byte> packed, const Sink& sink) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
    while (result_ == Z_OK || result_ == Z_BUF_ERROR) {
      stream_.next_out = reinterpret_cast<Bytef*>(room_.data());
      stream_.avail_out = static_cast<uInt>(room_.size());
      result_ = inflate(&stream_, Z_NO_FLUSH);
      const std::size_t made = room_.size() - stream_.avail_out;
      sink(std::span<const std::byte>(room_).first(made));
      if (made == 0 && stream_.avail_in == 0) return;
    }
  }
  // Whether the last part was the end.
  bool ended() const { return result_ == Z_STREAM_END; }

 private:
  z_stream stream_{};
  int result_ = Z_OK;
  Bytes room_ = Bytes(static_cast<std::size_t>(kPart));
};

}  // namespace

ZipReader::ZipReader(const std::string& path) : file_(std::make_shared<InputFile>(path)) {
  const Directory directory = find_directory(*file_);
  const Bytes records = read_at(*file_, directory.offset, directory.bytes, "the central directory");
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < directory.entries; ++i) {
    const std::int64_t left = directory.bytes - at;
    if (left < kCentralBytes || number_at<std::uint32_t>(records, at) != kCentralHeader)
      user_error("{}: the archive's directory is damaged at entry {}", path, i);
    const std::int64_t name_bytes = number_at<std::uint16_t>(records, at + 28);
    const std::int64_t extra_bytes = number_at<std::uint16_t>(records, at + 30);
    const std::int64_t comment_bytes = number_at<std::uint16_t>(records, at + 32);
    if (left < kCentralBytes + name_bytes + extra_bytes + comment_bytes)
      user_error("{}: the archive's directory is damaged at entry {}", path, i);
    ZipMember member;
    member.name.assign(reinterpret_cast<const char*>(records.data() + at + kCentralBytes), static_cast<std::size_t>(name_bytes));
    const auto flags = number_at<std::uint16_t>(records, at + 8);
    const auto method = number_at<std::uint16_t>(records, at + 10);
    if (flags & kEncrypted) user_error("{}: member {} is encrypted", path, in_quotes(member.name));
    if (method != kStored && method != kDeflated)
      user_error("{}: member {} uses compression method {}; expected stored or deflated", path, in_quotes(member.name), method);
    member.deflated = method == kDeflated;
    member.checksum = number_at<std::uint32_t>(records, at + 16);
    member.packed_bytes = number_at<std::uint32_t>(records, at + 20);
    member.bytes = number_at<std::uint32_t>(records, at + 24);
    member.header_offset = number_at<std::uint32_t>(records, at + 42);
    apply_extra(member,
                std::span(records).subspan(static_cast<std::size_t>(at + kCentralBytes + name_bytes),
                                           static_cast<std::size_t>(extra_bytes)),
                path);
    members_.push_back(std::move(member));
    at += kCentralBytes + name_bytes + extra_bytes + comment_bytes;
  }
}

std::int64_t ZipReader::begin_of(const ZipMember& member, std::string_view what) const {
  const Bytes local = read_at(*file_, member.header_offset, kLocalBytes, what);
  if (number_at<std::uint32_t>(local, 0) != kLocalHeader)
    user_error("{}: {} is damaged: no header where one should be", path(), what);
  const std::int64_t begin =
      member.header_offset + kLocalBytes + number_at<std::uint16_t>(local, 26) + number_at<std::uint16_t>(local, 28);
  expect_inside(*file_, begin, member.packed_bytes, what);
  // Deflate packs at most 1032 : 1, so a stated size beyond that is damage and not a reason to ask for the memory.
  const bool sizes_fit =
      member.deflated ? member.bytes >= 0 && member.bytes / 1040 <= member.packed_bytes : member.bytes == member.packed_bytes;
  if (!sizes_fit) user_error("{}: {} is damaged: {} bytes cannot unpack to {}", path(), what, member.packed_bytes, member.bytes);
  return begin;
}

void ZipReader::unpack(const ZipMember& member, const std::function<void(std::span<const std::byte>)>& sink) const {
  const std::string what = fmt::format("member {}", in_quotes(member.name));
  const std::int64_t begin = begin_of(member, what);
  std::int64_t made = 0;
  std::uint32_t checksum = 0;
  const auto give = [&](std::span<const std::byte> part) {
    made += static_cast<std::int64_t>(part.size());
    if (made > member.bytes) user_error("{}: {} is damaged: it does not unpack to {} bytes", path(), what, member.bytes);
    checksum = checksum_of(part, checksum);
    sink(part);
  };
  if (member.deflated) {
    Inflater inflater;
    for_each_part(*file_, begin, member.packed_bytes, what, [&](std::span<const std::byte> part) { inflater.take(part, give); });
    if (!inflater.ended() || made != member.bytes)
      user_error("{}: {} is damaged: it does not unpack to {} bytes", path(), what, member.bytes);
  } else {
    for_each_part(*file_, begin, member.packed_bytes, what, give);
  }
  if (checksum != member.checksum) user_error("{}: {} is damaged: its checksum is wrong", path(), what);
}

std::vector<std::byte> ZipReader::read(const ZipMember& member) const {
  begin_of(member, fmt::format("member {}", in_quotes(member.name)));  // its size is believed only where it can be
  Bytes bytes;
  bytes.reserve(static_cast<std::size_t>(member.bytes));
  unpack(member, [&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
  return bytes;
}

UnpackedMember ZipReader::open(const ZipMember& member) const {
  if (!member.deflated) {
    unpack(member, [](std::span<const std::byte>) {});
    return {file_, begin_of(member, member.name), member.bytes};
  }
  const std::string directory = std::filesystem::temp_directory_path().string();
  const int file = open_nameless_file(directory);
  const auto fail = [&] {
    user_error("{}: cannot be unpacked in {}: {}; free some room there, or name another directory in TMPDIR", path(), directory,
               std::strerror(errno));
  };
  if (file < 0) fail();
  const auto opened = std::make_shared<InputFile>(file, path());
  unpack(member, [&](std::span<const std::byte> part) {
    while (!part.empty()) {
      const ::ssize_t put = ::write(file, part.data(), part.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) fail();
      part = part.subspan(static_cast<std::size_t>(put));
    }
  });
  opened->find_size();
  return {opened, 0, member.bytes};
}

}  // namespace outsize
