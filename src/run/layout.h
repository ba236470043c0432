#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "graph/storage.h"

namespace outsize {

// Turns a whole value from dense row-major into its stored form, channels that pad the last block as zeros. `sink(offset, bytes)`
// takes it part by part, in order; offsets are in bytes of the stored form.
void store_dense(const StorageRule& rule, const ValueType& type, std::span<const std::byte> dense,
                 const std::function<void(std::int64_t, std::span<const std::byte>)>& sink);

// The same into memory that holds all of the stored form; allocates nothing.
void store_dense(const StorageRule& rule, const ValueType& type, const std::byte* dense, std::byte* stored);
// Whether the stored form is the dense one.
bool stored_dense(const StorageRule& rule, const ValueType& type);

// The way back: `source(offset, bytes)` fills part by part what is asked of the stored form.
void load_dense(const StorageRule& rule, const ValueType& type, std::span<std::byte> dense,
                const std::function<void(std::int64_t, std::span<std::byte>)>& source);

}  // namespace outsize
