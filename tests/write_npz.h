#pragma once

#include <zlib.h>

#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/array.h"
#include "data/file.h"
#include "data/npy.h"

namespace outsize {

// Writes a ZIP archive below 4 GiB, record by record as in PKWARE's APPNOTE, sections 4.3.7 to 4.3.16.
class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path) : file_(path) {}

  void add(const std::string& name, std::span<const std::byte> bytes, bool compressed) {
    const std::vector<std::byte> content = compressed ? deflated(bytes) : std::vector<std::byte>(bytes.begin(), bytes.end());
    const auto checksum =
        static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<z_size_t>(bytes.size())));
    Record common;  // what local and central header share
    common.add<std::uint16_t>(20).add<std::uint16_t>(0).add<std::uint16_t>(compressed ? 8 : 0);
    common.add<std::uint32_t>(0x00210000);  // 1980-01-01 00:00
    common.add(checksum).add(count(content.size())).add(count(bytes.size()));
    common.add(static_cast<std::uint16_t>(name.size())).add<std::uint16_t>(0);
    Record central;
    central.add<std::uint32_t>(0x02014b50).add<std::uint16_t>(20).add(common);
    central.add<std::uint16_t>(0).add<std::uint16_t>(0).add<std::uint16_t>(0).add<std::uint32_t>(0);
    central.add(count(static_cast<std::size_t>(file_.position()))).add(name);
    central_.add(central);
    ++members_;
    file_.write(Record().add<std::uint32_t>(0x04034b50).add(common).add(name).bytes());
    file_.write(content);
  }
  // The file appears.
  void finish() {
    Record end;
    end.add<std::uint32_t>(0x06054b50).add<std::uint32_t>(0).add(members_).add(members_);
    end.add(count(central_.bytes().size())).add(count(static_cast<std::size_t>(file_.position()))).add<std::uint16_t>(0);
    file_.write(central_.bytes());
    file_.write(end.bytes());
    file_.commit();
  }

 private:
  class Record {
   public:
    template <class T>
    Record& add(T number) requires std::is_integral_v<T> {
      text_.append(reinterpret_cast<const char*>(&number), sizeof number);
      return *this;
    }
    Record& add(const std::string& text) {
      text_ += text;
      return *this;
    }
    Record& add(const Record& other) { return add(other.text_); }
    std::span<const std::byte> bytes() const { return std::as_bytes(std::span(text_)); }

   private:
    std::string text_;
  };

  static std::uint32_t count(std::size_t bytes) {
    OUTSIZE_CHECK(bytes < std::numeric_limits<std::uint32_t>::max());
    return static_cast<std::uint32_t>(bytes);
  }
  static std::vector<std::byte> deflated(std::span<const std::byte> bytes) {
    z_stream stream{};
    OUTSIZE_CHECK(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    std::vector<std::byte> packed(deflateBound(&stream, bytes.size()));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
    stream.avail_in = count(bytes.size());
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = count(packed.size());
    const int result = deflate(&stream, Z_FINISH);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    OUTSIZE_CHECK(result == Z_STREAM_END);
    return packed;
  }

  OutputFile file_;
  Record central_;
  std::uint16_t members_ = 0;
};

// Writes the arrays to `path`, as numpy.savez (or, with `compressed`, savez_compressed) does.
inline void write_npz(const std::string& path, const std::vector<std::pair<std::string, Array>>& arrays, bool compressed = false) {
  ZipWriter zip(path);
  for (const auto& [name, array] : arrays) {
    std::vector<std::byte> bytes = make_npy_header(array.type, array.shape);
    bytes.insert(bytes.end(), array.data.begin(), array.data.end());
    zip.add(name + ".npy", bytes, compressed);
  }
  zip.finish();
}

}  // namespace outsize
