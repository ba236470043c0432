#pragma once

#include "data/datasets.h"
#include "data/loader.h"

namespace outsize {

// Full batches of a dataset, made by `make` when a test asks for them, in no thread of their own.
inline std::unique_ptr<Loader> batches_of(std::shared_ptr<const Dataset> dataset, const BatchSpec& spec, bool shuffle,
                                          std::uint64_t seed) {
  return std::make_unique<Loader>(std::move(dataset), spec,
                                  LoaderOptions{.shuffle = shuffle, .drop_last = true, .seed = seed, .threads = 0});
}

inline std::unique_ptr<Loader> synthetic_batches(const BatchSpec& spec, std::uint64_t seed) {
  return batches_of(make_synthetic_dataset({.spec = spec, .seed = seed}), spec, false, seed);
}

inline std::unique_ptr<Loader> npz_batches(const std::string& path, const BatchSpec& spec, bool shuffle, std::uint64_t seed) {
  return batches_of(make_npz_dataset(path, {.spec = spec, .seed = seed}), spec, shuffle, seed);
}

}  // namespace outsize
