#include "ops/cuda/library/cudnn.h"

#include "base/error.h"

namespace outsize {

namespace {

constexpr std::size_t kOldest = 90800;  // the first that plans for cards which are only described

}  // namespace

Cudnn::Cudnn()
    : library("cuDNN 9", {"libcudnn.so.9"}),
      create(library.function<decltype(create)>("cudnnCreate")),
      set_stream(library.function<decltype(set_stream)>("cudnnSetStream")),
      version(library.function<decltype(version)>("cudnnGetVersion")),
      error_string(library.function<decltype(error_string)>("cudnnGetErrorString")),
      last_error_string(library.function<decltype(last_error_string)>("cudnnGetLastErrorString")),
      create_descriptor(library.function<decltype(create_descriptor)>("cudnnBackendCreateDescriptor")),
      destroy_descriptor(library.function<decltype(destroy_descriptor)>("cudnnBackendDestroyDescriptor")),
      set_attribute(library.function<decltype(set_attribute)>("cudnnBackendSetAttribute")),
      get_attribute(library.function<decltype(get_attribute)>("cudnnBackendGetAttribute")),
      finalize(library.function<decltype(finalize)>("cudnnBackendFinalize")),
      execute(library.function<decltype(execute)>("cudnnBackendExecute")) {
  if (version() < kOldest) user_error("the cuda backend needs cuDNN 9.8 or newer, but the one that is here is {}", version());
}

std::string Cudnn::explain(cudnnStatus_t status) const {
  std::string message(1024, '\0');
  last_error_string(message.data(), message.size());
  message.resize(message.find('\0') == std::string::npos ? message.size() : message.find('\0'));
  return fmt::format("{}{}{}", error_string(status), message.empty() ? "" : ": ", message);
}

const Cudnn& cudnn() {
  // Never destroyed: what holds descriptors may outlive it otherwise.
  static const Cudnn& functions = *new Cudnn();
  return functions;
}

cudnnHandle_t cudnn_handle() {
  static const cudnnHandle_t handle = [] {
    cudnnHandle_t made = nullptr;
    if (const cudnnStatus_t status = cudnn().create(&made); status != CUDNN_STATUS_SUCCESS)
      user_error("cuDNN cannot use the CUDA device: {}", cudnn().explain(status));
    return made;
  }();
  return handle;
}

void use_stream(void* queue) {
  static void* used = nullptr;
  const cudnnHandle_t handle = cudnn_handle();
  if (queue == used) return;
  if (const cudnnStatus_t status = cudnn().set_stream(handle, static_cast<cudaStream_t>(queue)); status != CUDNN_STATUS_SUCCESS)
    internal_error("cuDNN does not take a stream: {}", cudnn().explain(status));
  used = queue;
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) { note(cudnn().create_descriptor(type, &descriptor_)); }

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_) cudnn().destroy_descriptor(descriptor_);
}

CudnnDescriptor& CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                                      const void* values) {
  if (ok()) note(cudnn().set_attribute(descriptor_, name, type, count, values));
  return *this;
}

CudnnDescriptor& CudnnDescriptor::set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  if (!ok()) return *this;
  if (!value.ok()) {
    status_ = value.status_;
    why_ = value.why_;
    return *this;
  }
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
}

CudnnDescriptor& CudnnDescriptor::finish() {
  if (ok()) note(cudnn().finalize(descriptor_));
  return *this;
}

std::int64_t CudnnDescriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                                  void* values) const {
  std::int64_t count = 0;
  if (cudnn().get_attribute(descriptor_, name, type, most, &count, values) != CUDNN_STATUS_SUCCESS) return 0;
  return count;
}

std::int64_t CudnnDescriptor::get_integer(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0;
  get(name, CUDNN_TYPE_INT64, 1, &value);
  return value;
}

void CudnnDescriptor::note(cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  status_ = status;
  why_ = cudnn().explain(status);
}

}  // namespace outsize
