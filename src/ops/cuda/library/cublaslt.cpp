#include "ops/cuda/library/cublaslt.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "ops/cuda/library/shared_library.h"

namespace outsize {
namespace {

// The functions of the library that are used, and its handle.
struct Library {
  SharedLibrary file{"cuBLASLt, a part of NVIDIA's CUDA toolkit", {"libcublasLt.so.13", "libcublasLt.so.12"}};

#define OUTSIZE_FUNCTION(name) decltype(&::name) name = file.function<decltype(&::name)>(#name)
  OUTSIZE_FUNCTION(cublasLtCreate);
  OUTSIZE_FUNCTION(cublasLtGetStatusString);
  OUTSIZE_FUNCTION(cublasLtMatmul);
  OUTSIZE_FUNCTION(cublasLtMatmulAlgoGetHeuristic);
  OUTSIZE_FUNCTION(cublasLtMatmulDescCreate);
  OUTSIZE_FUNCTION(cublasLtMatmulDescDestroy);
  OUTSIZE_FUNCTION(cublasLtMatmulDescSetAttribute);
  OUTSIZE_FUNCTION(cublasLtMatrixLayoutCreate);
  OUTSIZE_FUNCTION(cublasLtMatrixLayoutDestroy);
  OUTSIZE_FUNCTION(cublasLtMatrixLayoutSetAttribute);
  OUTSIZE_FUNCTION(cublasLtMatmulPreferenceCreate);
  OUTSIZE_FUNCTION(cublasLtMatmulPreferenceDestroy);
  OUTSIZE_FUNCTION(cublasLtMatmulPreferenceSetAttribute);
#undef OUTSIZE_FUNCTION

  cublasLtHandle_t handle = nullptr;  // null where there is no card

  void expect(cublasStatus_t status, const char* what) const {
    if (status != CUBLAS_STATUS_SUCCESS) internal_error("cuBLASLt cannot {}: {}", what, cublasLtGetStatusString(status));
  }
};

const Library& library() {
  static const Library loaded = [] {
    Library fresh;
    int cards = 0;
    if (cudaGetDeviceCount(&cards) == cudaSuccess && cards > 0) fresh.expect(fresh.cublasLtCreate(&fresh.handle), "begin");
    return fresh;
  }();
  return loaded;
}

struct DestroyLayout {
  void operator()(cublasLtMatrixLayout_t layout) const { library().cublasLtMatrixLayoutDestroy(layout); }
};
struct DestroyDescription {
  void operator()(cublasLtMatmulDesc_t description) const { library().cublasLtMatmulDescDestroy(description); }
};
struct DestroyPreference {
  void operator()(cublasLtMatmulPreference_t preference) const { library().cublasLtMatmulPreferenceDestroy(preference); }
};
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, DestroyLayout>;
using Description = std::unique_ptr<cublasLtMatmulDescOpaque_t, DestroyDescription>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DestroyPreference>;

// The library counts columns first: to it our stored matrix of `rows` × `columns` is one of columns × rows.
Layout make_layout(std::int64_t rows, std::int64_t columns, std::int64_t stride, std::int64_t batches, std::int64_t batch_stride) {
  const Library& lib = library();
  cublasLtMatrixLayout_t made = nullptr;
  lib.expect(lib.cublasLtMatrixLayoutCreate(&made, CUDA_R_32F, static_cast<std::uint64_t>(columns),
                                            static_cast<std::uint64_t>(rows), stride),
             "describe a matrix");
  Layout layout(made);
  const auto count = static_cast<std::int32_t>(batches);
  lib.expect(lib.cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
             "describe a batch");
  lib.expect(
      lib.cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride, sizeof batch_stride),
      "describe a batch");
  return layout;
}

template <class Value>
void set(const Description& description, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  library().expect(library().cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof value),
                   "describe a product");
}
template <class Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  library().expect(library().cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
                   "be told what is wanted");
}

// Kernels that load 16 bytes at once, and kernels that take any address of an f32.
constexpr std::uint32_t kAlignments[] = {16, 4};

bool aligned_to(const void* pointer, std::uint32_t bytes) { return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0; }

// What the library's heuristics choose, by alignment; none where they know nothing.
using Algorithms = std::array<std::optional<cublasLtMatmulAlgo_t>, std::size(kAlignments)>;

// All that the choice depends on, in numbers.
using Signature = std::array<std::int64_t, 15>;

Signature signature_of(const ProductShape& shape, bool tf32, std::int64_t workspace_bytes) {
  const ProductBatch& batch = shape.batches[0];
  return {shape.rows,
          shape.inner,
          shape.columns,
          shape.a.stride,
          shape.a.transposed,
          shape.b.stride,
          shape.b.transposed,
          shape.c.stride,
          batch.count,
          batch.a,
          batch.b,
          batch.c,
          shape.bias,
          tf32,
          workspace_bytes};
}

// Many calls of a program have the same products: the library is asked once for each.
template <class Ask>
Algorithms algorithms_for(const Signature& signature, const Ask& ask) {
  static std::mutex mutex;
  static std::map<Signature, Algorithms> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(signature);
  return found != known.end() ? found->second : known.emplace(signature, ask()).first->second;
}

}  // namespace

// The library computes Cᵀ = Bᵀ · Aᵀ, whose operands lie as it wants them; so its first operand is our second.
struct LibraryProduct::Prepared {
  Description description;
  Layout first, second, result;
  Algorithms algorithms;
  std::size_t workspace_bytes = 0;
  bool bias = false;

  std::optional<cublasLtMatmulAlgo_t> ask(const Preference& preference) const {
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status =
        library().cublasLtMatmulAlgoGetHeuristic(library().handle, description.get(), first.get(), second.get(), result.get(),
                                                 result.get(), preference.get(), 1, &found, &count);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0 || found.state != CUBLAS_STATUS_SUCCESS) return std::nullopt;
    return found.algo;
  }
};

LibraryProduct::~LibraryProduct() = default;
LibraryProduct::LibraryProduct(LibraryProduct&&) noexcept = default;
LibraryProduct& LibraryProduct::operator=(LibraryProduct&&) noexcept = default;

LibraryProduct::LibraryProduct(const ProductShape& shape, bool tf32, std::int64_t workspace_bytes)
    : prepared_(std::make_unique<Prepared>()) {
  const Library& lib = library();
  Prepared& p = *prepared_;
  p.workspace_bytes = static_cast<std::size_t>(workspace_bytes);
  p.bias = shape.bias;

  cublasLtMatmulDesc_t made = nullptr;
  lib.expect(lib.cublasLtMatmulDescCreate(&made, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "describe a product");
  p.description.reset(made);
  set(p.description, CUBLASLT_MATMUL_DESC_TRANSA, shape.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(p.description, CUBLASLT_MATMUL_DESC_TRANSB, shape.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (p.bias) {
    set(p.description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    // Which address it will be is said when it runs; now, that there is one.
    set(p.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(std::uintptr_t{4096}));
  }

  const ProductBatch& batch = shape.batches[0];
  const auto layout = [&](std::int64_t rows, std::int64_t columns, const MatrixLayout& matrix, std::int64_t batch_stride) {
    if (matrix.transposed) std::swap(rows, columns);
    return make_layout(rows, columns, matrix.stride, batch.count, batch_stride);
  };
  p.first = layout(shape.inner, shape.columns, shape.b, batch.b);
  p.second = layout(shape.rows, shape.inner, shape.a, batch.a);
  p.result = layout(shape.rows, shape.columns, shape.c, batch.c);

  cublasLtMatmulPreference_t preference_made = nullptr;
  lib.expect(lib.cublasLtMatmulPreferenceCreate(&preference_made), "be told what is wanted");
  const Preference preference(preference_made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, p.workspace_bytes);
  // Splits of the inner dimension are added up in a fixed order by these two; the third scheme adds in place, as blocks come.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
  if (lib.handle == nullptr) return;
  p.algorithms = algorithms_for(signature_of(shape, tf32, workspace_bytes), [&] {
    Algorithms algorithms;
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                   CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
        set(preference, attribute, kAlignments[i]);
      algorithms[i] = p.ask(preference);
    }
    return algorithms;
  });
  // A kernel that takes any address takes aligned ones.
  if (!p.algorithms[0]) p.algorithms[0] = p.algorithms[1];
  if (!p.algorithms[0])
    user_error("cuBLASLt has no kernel for {} products of {} × {} × {} with {} bytes of workspace", batch.count, shape.rows,
               shape.inner, shape.columns, workspace_bytes);
}

void LibraryProduct::run(const ProductOperands& operands, bool add, std::byte* workspace, void* queue) const {
  const Library& lib = library();
  const Prepared& p = *prepared_;
  if (p.bias) set(p.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(operands.bias));
  std::size_t choice = 0;
  for (const void* pointer : {static_cast<const void*>(operands.a), static_cast<const void*>(operands.b),
                              static_cast<const void*>(operands.c), static_cast<const void*>(operands.bias)})
    if (!aligned_to(pointer, kAlignments[0])) choice = 1;
  if (!p.algorithms[choice]) internal_error("cuBLASLt has no kernel for a product's addresses, or was prepared without a card");
  const float alpha = 1, beta = add ? 1 : 0;
  lib.expect(lib.cublasLtMatmul(lib.handle, p.description.get(), &alpha, operands.b, p.first.get(), operands.a, p.second.get(),
                                &beta, operands.c, p.result.get(), operands.c, p.result.get(), &*p.algorithms[choice], workspace,
                                p.workspace_bytes, static_cast<cudaStream_t>(queue)),
             "run a product");
}

}  // namespace outsize
