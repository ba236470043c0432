#pragma once

#include <cstdint>
#include <vector>

#include "ops/cuda/block.h"
#include "ops/cuda/library/cublaslt.h"

// Matrix products of f32: on the card by cuBLASLt, emulated by plain loops that take the same shapes, strides and workspaces.
namespace outsize::OUTSIZE_PLACE {

// A product that is prepared once and run many times. Where a matrix has more elements than the library is trusted with, or the
// batch more products, it is made of several, always in the same order.
class Product {
 public:
  // `tf32`: factors may be rounded to TF32. No extent is 0.
  Product(const ProductShape& shape, bool tf32);

  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  // Puts the product into the stream; with `add`, it is added to what C holds, else C need not hold anything. The workspace may
  // hold anything, and does so afterwards.
  void run(const ProductOperands& operands, bool add, std::byte* workspace, void* queue) const;

 private:
#if defined(__CUDACC__)
  using Single = LibraryProduct;
#else
  class Single {
   public:
    Single(const ProductShape& shape, bool tf32, std::int64_t workspace_bytes);
    void run(const ProductOperands& operands, bool add, std::byte* workspace, void* queue) const;

   private:
    ProductShape shape_;
    std::int64_t workspace_bytes_;
  };
#endif
  // One call of the library: elements from the beginning of each operand, and which of the singles it is.
  struct Part {
    std::int64_t a, b, c, bias;
    std::size_t single;
    bool adds;  // to what another part wrote
  };

  void append(const ProductShape& shape, Part part, bool tf32);

  ProductBatch repeats_;  // of all the parts
  std::int64_t workspace_bytes_ = 0;
  std::vector<ProductShape> shapes_;  // of the singles
  std::vector<Single> singles_;
  std::vector<Part> parts_;
};

// The product of dense matrices: a is stored rows × inner or, transposed, inner × rows; likewise b. `batch` of them follow each
// other.
ProductShape dense_product(std::int64_t batch, std::int64_t rows, std::int64_t inner, std::int64_t columns, bool transpose_a,
                           bool transpose_b);

}  // namespace outsize::OUTSIZE_PLACE
