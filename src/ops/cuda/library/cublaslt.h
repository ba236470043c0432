#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace outsize {

// A row-major matrix in memory: a stored row begins `stride` elements after the one before. Where `transposed`, the product takes
// its stored columns as rows.
struct MatrixLayout {
  std::int64_t stride = 0;
  bool transposed = false;

  bool operator==(const MatrixLayout&) const = default;
};

// Products of one shape side by side: how many, and the elements from a matrix to that of the next product.
struct ProductBatch {
  std::int64_t count = 1;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;

  bool operator==(const ProductBatch&) const = default;
};

// C = A · B, and with `bias` one number more a column: A is rows × inner, B is inner × columns, C is rows × columns, as the
// product takes them.
struct ProductShape {
  std::int64_t rows = 0;
  std::int64_t inner = 0;
  std::int64_t columns = 0;
  MatrixLayout a, b, c;  // c is not transposed
  // The products of a batch of batches: (i, j) at i · the first's strides + j · the second's.
  std::array<ProductBatch, 2> batches;
  bool bias = false;

  bool operator==(const ProductShape&) const = default;
};

struct ProductOperands {
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  const float* bias = nullptr;  // `columns` numbers, where the shape has a bias
};

// A product by cuBLASLt, of f32 on a card. Which of the library's kernels runs is settled when it is made: the fastest of those
// that its heuristics offer, tried on the card once a shape and process, in memory that is given back at once. None that adds up in
// an order of chance is taken.
class LibraryProduct {
 public:
  // Of the shape's batches only the first counts. `tf32`: factors may be rounded to TF32. Throws UserError where the library is not
  // here or knows no kernel that does with `workspace_bytes`. Where there is no card it is made too, but cannot run.
  LibraryProduct(const ProductShape& shape, bool tf32, std::int64_t workspace_bytes);
  ~LibraryProduct();
  LibraryProduct(LibraryProduct&&) noexcept;
  LibraryProduct& operator=(LibraryProduct&&) noexcept;

  // "cublaslt:66/20/36/1/0/0/0/2": the kernel, in the library's numbers; the same name gives the same bits.
  std::string name() const;

  // Puts the product into the stream `queue`; with `add`, it is added to what C holds.
  void run(const ProductOperands& operands, bool add, std::byte* workspace, void* queue) const;

 private:
  struct Prepared;
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace outsize
