#include "ops/cuda/library/cublaslt.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/cuda/library/shared_library.h"
#include "ops/cuda/library/trial.h"
#include "ops/cuda/library/tuned.h"

namespace outsize {
namespace {

// The functions of the library that are used, and its handle.
struct Library {
  SharedLibrary file{"cuBLASLt, a part of NVIDIA's CUDA toolkit", {"libcublasLt.so.13", "libcublasLt.so.12"}};

#define OUTSIZE_FUNCTION(name) decltype(&::name) name = file.function<decltype(&::name)>(#name)
  OUTSIZE_FUNCTION(cublasLtCreate);
  OUTSIZE_FUNCTION(cublasLtGetStatusString);
  OUTSIZE_FUNCTION(cublasLtGetVersion);
  OUTSIZE_FUNCTION(cublasLtMatmul);
  OUTSIZE_FUNCTION(cublasLtMatmulAlgoConfigGetAttribute);
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

// How many of the library's kernels are tried, by how much another must be faster than the one that its heuristics put first, so
// that chance decides nothing, and the multiply-adds from which on it is worth the trouble.
constexpr int kMostTried = 10;
constexpr double kFaster = 0.95;
constexpr double kWorthTrying = 1e8;

// What is chosen, by alignment; none where the library knows nothing.
using Algorithms = std::array<std::optional<cublasLtMatmulAlgo_t>, std::size(kAlignments)>;

// The number that an attribute of a kernel is, in as many bytes as the library has for it.
template <class Value>
std::int64_t number_of(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  Value value{};
  std::size_t written = 0;
  const cublasStatus_t status =
      library().cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS && written == sizeof value ? static_cast<std::int64_t>(value) : -1;
}

// All that a kernel's additions may depend on, in numbers.
std::string name_of(const cublasLtMatmulAlgo_t& algorithm) {
  return fmt::format("cublaslt:{}/{}/{}/{}/{}/{}/{}/{}", number_of<std::int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_ID),
                     number_of<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID),
                     number_of<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                     number_of<std::int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                     number_of<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
                     number_of<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
                     number_of<std::uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
                     number_of<std::uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
}

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

// The same as a text, to keep what was found of it.
std::string text_of(const ProductShape& shape, bool tf32, std::size_t workspace_bytes) {
  return fmt::format("product {}", fmt::join(signature_of(shape, tf32, static_cast<std::int64_t>(workspace_bytes)), " "));
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

  // The kernels that the library's heuristics offer, the best first.
  std::vector<cublasLtMatmulAlgo_t> ask(const Preference& preference) const {
    std::array<cublasLtMatmulHeuristicResult_t, kMostTried> found{};
    int count = 0;
    const cublasStatus_t status =
        library().cublasLtMatmulAlgoGetHeuristic(library().handle, description.get(), first.get(), second.get(), result.get(),
                                                 result.get(), preference.get(), kMostTried, found.data(), &count);
    std::vector<cublasLtMatmulAlgo_t> offered;
    if (status != CUBLAS_STATUS_SUCCESS) return offered;
    for (const auto& one : std::span(found).first(static_cast<std::size_t>(count)))
      if (one.state == CUBLAS_STATUS_SUCCESS && one.workspaceSize <= workspace_bytes) offered.push_back(one.algo);
    return offered;
  }

  cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm, const ProductOperands& operands, bool add, std::byte* workspace,
                     void* queue) const {
    if (bias) set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(operands.bias));
    const float alpha = 1, beta = add ? 1 : 0;
    return library().cublasLtMatmul(library().handle, description.get(), &alpha, operands.b, first.get(), operands.a, second.get(),
                                    &beta, operands.c, result.get(), operands.c, result.get(), &algorithm, workspace,
                                    workspace_bytes, static_cast<cudaStream_t>(queue));
  }

  // Of the kernels that are offered the fastest on the card; the first, where there is no memory to try them or it is not worth it.
  std::optional<cublasLtMatmulAlgo_t> fastest(const std::vector<cublasLtMatmulAlgo_t>& offered, const ProductShape& shape,
                                              bool tf32) const {
    if (offered.empty()) return std::nullopt;
    const ProductBatch& batch = shape.batches[0];
    const double work = static_cast<double>(shape.rows) * static_cast<double>(shape.inner) * static_cast<double>(shape.columns) *
                        static_cast<double>(batch.count);
    if (offered.size() == 1 || work < kWorthTrying) return offered.front();
    std::int64_t bytes = 0;
    const auto book = [&](std::int64_t elements) {
      constexpr std::int64_t kAlignment = 256;
      const std::int64_t at = bytes;
      bytes += (4 * elements + kAlignment - 1) / kAlignment * kAlignment;
      return at;
    };
    const auto book_matrix = [&](const MatrixLayout& matrix, std::int64_t rows, std::int64_t columns, std::int64_t batch_stride) {
      if (matrix.transposed) std::swap(rows, columns);
      return book((batch.count - 1) * batch_stride + (rows - 1) * matrix.stride + columns);
    };
    const std::int64_t a = book_matrix(shape.a, shape.rows, shape.inner, batch.a);
    const std::int64_t b = book_matrix(shape.b, shape.inner, shape.columns, batch.b);
    const std::int64_t c = book_matrix(shape.c, shape.rows, shape.columns, batch.c);
    const std::int64_t numbers = book(shape.columns);
    // Made when the first is tried.
    std::unique_ptr<Trial> trial;
    const auto try_it = [&](const cublasLtMatmulAlgo_t& algorithm, double best) {
      const auto at = [&](std::int64_t offset) { return reinterpret_cast<float*>(trial->memory() + offset); };
      const ProductOperands operands{at(a), at(b), at(c), bias ? at(numbers) : nullptr};
      const auto work_of_it = [&] {
        return run(algorithm, operands, false, trial->memory() + bytes, trial->queue()) == CUBLAS_STATUS_SUCCESS;
      };
      return trial->seconds(work_of_it, best).value_or(INFINITY);
    };
    const std::string call = text_of(shape, tf32, workspace_bytes);
    std::size_t chosen = 0;
    double best = INFINITY;
    for (std::size_t i = 0; i < offered.size(); ++i) {
      const std::string way = fmt::format("cuBLASLt {}, candidate {} of {}", library().cublasLtGetVersion(), i, offered.size());
      if (!trial && !tuned_seconds(call, way)) {
        trial = Trial::make(bytes + static_cast<std::int64_t>(workspace_bytes));
        if (!trial) return offered[chosen];
      }
      const double seconds = tuned_seconds(call, way, [&] { return try_it(offered[i], best); });
      if (seconds >= (std::isinf(best) ? best : chosen == 0 ? kFaster * best : best)) continue;
      chosen = i;
      best = seconds;
    }
    return offered[chosen];
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
      const std::vector<cublasLtMatmulAlgo_t> offered = p.ask(preference);
      if (i == 0)
        algorithms[i] = p.fastest(offered, shape, tf32);
      else if (!offered.empty())
        algorithms[i] = offered.front();
    }
    return algorithms;
  });
  // A kernel that takes any address takes aligned ones.
  if (!p.algorithms[0]) p.algorithms[0] = p.algorithms[1];
  if (!p.algorithms[0])
    user_error("cuBLASLt has no kernel for {} products of {} × {} × {} with {} bytes of workspace", batch.count, shape.rows,
               shape.inner, shape.columns, workspace_bytes);
}

std::string LibraryProduct::name() const { return prepared_->algorithms[0] ? name_of(*prepared_->algorithms[0]) : "cublaslt"; }

void LibraryProduct::run(const ProductOperands& operands, bool add, std::byte* workspace, void* queue) const {
  const Prepared& p = *prepared_;
  std::size_t choice = 0;
  for (const void* pointer : {static_cast<const void*>(operands.a), static_cast<const void*>(operands.b),
                              static_cast<const void*>(operands.c), static_cast<const void*>(operands.bias)})
    if (!aligned_to(pointer, kAlignments[0])) choice = 1;
  if (!p.algorithms[choice]) internal_error("cuBLASLt has no kernel for a product's addresses, or was prepared without a card");
  library().expect(p.run(*p.algorithms[choice], operands, add, workspace, queue), "run a product");
}

}  // namespace outsize
