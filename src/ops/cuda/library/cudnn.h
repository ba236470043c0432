#pragma once

#include <cudnn.h>

#include <span>
#include <string>
#include <utility>

#include "ops/cuda/library/shared_library.h"

// The few functions of cuDNN 9 that are called, by its C interface, loaded when they are first needed.
namespace outsize {

struct Cudnn {
  SharedLibrary library;
  decltype(&::cudnnCreate) create;
  decltype(&::cudnnSetStream) set_stream;
  decltype(&::cudnnGetVersion) version;
  decltype(&::cudnnGetErrorString) error_string;
  decltype(&::cudnnGetLastErrorString) last_error_string;
  decltype(&::cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&::cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&::cudnnBackendSetAttribute) set_attribute;
  decltype(&::cudnnBackendGetAttribute) get_attribute;
  decltype(&::cudnnBackendFinalize) finalize;
  decltype(&::cudnnBackendExecute) execute;

  // "CUDNN_STATUS_NOT_SUPPORTED: …", with what it last said.
  std::string explain(cudnnStatus_t status) const;

 private:
  friend const Cudnn& cudnn();
  Cudnn();
};

// Throws UserError where cuDNN 9.8 or newer cannot be loaded.
const Cudnn& cudnn();

// The one handle of the process, for the card in use; made at the first call. Only one thread may use it.
cudnnHandle_t cudnn_handle();
// Makes the calls that follow go into this stream.
void use_stream(void* queue);

// A descriptor. Once an attribute or its end is refused, ok() is false, why() says what cuDNN answered, and nothing more is set.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  CudnnDescriptor(CudnnDescriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, nullptr)), status_(other.status_), why_(std::move(other.why_)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&&) = delete;
  ~CudnnDescriptor();

  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
    return set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, std::int64_t value) { return set(name, CUDNN_TYPE_INT64, 1, &value); }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, float value) { return set(name, CUDNN_TYPE_FLOAT, 1, &value); }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, bool value) { return set(name, CUDNN_TYPE_BOOLEAN, 1, &value); }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    return set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
  }
  // Takes over the other's failure.
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  CudnnDescriptor& finish();

  // The values of an attribute, `most` at most: how many there are.
  std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most, void* values) const;
  std::int64_t get_integer(cudnnBackendAttributeName_t name) const;

  bool ok() const { return status_ == CUDNN_STATUS_SUCCESS; }
  const std::string& why() const { return why_; }
  cudnnBackendDescriptor_t raw() const { return descriptor_; }

 private:
  void note(cudnnStatus_t status);

  cudnnBackendDescriptor_t descriptor_ = nullptr;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
  std::string why_;
};

}  // namespace outsize
