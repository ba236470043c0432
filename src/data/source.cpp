#include "data/source.h"

#include "data/datasets.h"
#include "data/loader.h"

namespace outsize {

namespace {

// Full batches, made when they are asked for.
class LoadedSource final : public DataSource {
 public:
  LoadedSource(std::shared_ptr<const Dataset> dataset, const BatchSpec& spec, bool shuffle, std::uint64_t seed)
      : loader_(std::move(dataset), spec, LoaderOptions{.shuffle = shuffle, .drop_last = true, .seed = seed, .threads = 0}) {}

  std::string name() const override { return loader_.dataset().name(); }
  std::int64_t batches_per_epoch() const override { return loader_.batches_per_epoch(); }
  void fill(std::int64_t step, Batch& batch) const override { loader_.make(step, batch); }

 private:
  Loader loader_;
};

}  // namespace

std::unique_ptr<DataSource> make_synthetic_source(const BatchSpec& spec, std::uint64_t seed) {
  return std::make_unique<LoadedSource>(make_synthetic_dataset({.spec = spec, .seed = seed}), spec, false, seed);
}

std::unique_ptr<DataSource> make_npz_source(const std::string& path, const BatchSpec& spec, bool shuffle, std::uint64_t seed) {
  return std::make_unique<LoadedSource>(make_npz_dataset(path, {.spec = spec, .seed = seed}), spec, shuffle, seed);
}

}  // namespace outsize
