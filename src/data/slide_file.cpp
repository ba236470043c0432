#include "data/slide_file.h"

#include <list>
#include <mutex>
#include <vector>

#include "data/dataset.h"

#if OUTSIZE_OPENSLIDE
#include <openslide/openslide.h>
#endif

namespace outsize {

#if OUTSIZE_OPENSLIDE

namespace {

class OpenSlideFile final : public SlideFile {
 public:
  OpenSlideFile(const std::string& path, int level) : path_(path), level_(level), slide_(::openslide_open(path.c_str())) {
    if (!slide_) sample_error("{}: is no slide or tiled TIFF that OpenSlide reads", path);
    if (const char* problem = ::openslide_get_error(slide_)) {
      const std::string text = problem;
      ::openslide_close(slide_);
      sample_error("{}: damaged slide: {}", path, text);
    }
    const int levels = ::openslide_get_level_count(slide_);
    if (level >= levels) {
      ::openslide_close(slide_);
      user_error("{}: has the levels 0 to {}, but level {} is asked for", path, levels - 1, level);
    }
    ::openslide_get_level_dimensions(slide_, level, &columns_, &rows_);
    downsample_ = ::openslide_get_level_downsample(slide_, level);
  }
  ~OpenSlideFile() override { ::openslide_close(slide_); }

  std::int64_t rows() const override { return rows_; }
  std::int64_t columns() const override { return columns_; }

  void read_rgb(Interval rows, Interval columns, std::uint8_t* out) const override {
    const std::int64_t count = rows.size() * columns.size();
    std::vector<std::uint32_t> pixels(count);
    // OpenSlide takes the corner in the coordinates of level 0.
    ::openslide_read_region(slide_, pixels.data(), static_cast<std::int64_t>(static_cast<double>(columns.lo) * downsample_),
                            static_cast<std::int64_t>(static_cast<double>(rows.lo) * downsample_), level_, columns.size(),
                            rows.size());
    if (const char* problem = ::openslide_get_error(slide_)) sample_error("{}: damaged slide: {}", path_, problem);
    // Alpha, red, green, blue; premultiplied, so that adding what alpha lacks lays it on white.
    for (const std::uint32_t pixel : pixels) {
      const std::uint32_t lacking = 255 - (pixel >> 24);
      for (int shift : {16, 8, 0}) *out++ = static_cast<std::uint8_t>((pixel >> shift & 255) + lacking);
    }
  }
  // A slide that has failed once fails always.
  bool failed() const { return ::openslide_get_error(slide_) != nullptr; }

 private:
  std::string path_;
  int level_;
  openslide_t* slide_;
  std::int64_t rows_ = 0, columns_ = 0;
  double downsample_ = 1;
};

// Opening a slide reads its directories: slides in use stay open.
class OpenSlides {
 public:
  std::shared_ptr<const SlideFile> open(const std::string& path, int level) {
    const std::lock_guard lock(mutex_);
    for (auto it = open_.begin(); it != open_.end(); ++it)
      if (it->path == path && it->level == level && !it->slide->failed()) {
        open_.splice(open_.begin(), open_, it);
        return open_.front().slide;
      }
    open_.push_front({path, level, std::make_shared<OpenSlideFile>(path, level)});
    if (open_.size() > kMost) open_.pop_back();
    return open_.front().slide;
  }

 private:
  static constexpr std::size_t kMost = 16;
  struct Entry {
    std::string path;
    int level = 0;
    std::shared_ptr<OpenSlideFile> slide;
  };
  std::mutex mutex_;
  std::list<Entry> open_;  // the last used first
};

}  // namespace

bool slides_are_read() { return true; }

std::shared_ptr<const SlideFile> open_slide(const std::string& path, int level) {
  static OpenSlides slides;
  return slides.open(path, level);
}

#else

bool slides_are_read() { return false; }

std::shared_ptr<const SlideFile> open_slide(const std::string& path, int) {
  user_error(
      "{}: slides and TIFF images are read through OpenSlide, which this build has not; install libopenslide-dev and build again",
      path);
}

#endif

}  // namespace outsize
