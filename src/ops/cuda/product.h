#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/cuda/block.h"
#include "ops/cuda/library/cublaslt.h"

// Matrix products of f32: on the card by cuBLASLt, emulated by plain loops that take the same shapes, strides and workspaces.
namespace outsize::OUTSIZE_PLACE {

// A product that is prepared once and run many times. It is made of several, always in the same order, where a matrix has more
// elements than the library is trusted with, or the batch more products; and where one large matrix has rows that begin between
// multiples of 16 bytes, which the library's fast kernels do not take: then of every second or fourth row, which are as they want,
// without the few columns at its ends.
class Product {
 public:
  // `tf32`: factors may be rounded to TF32. No extent is 0.
  Product(const ProductShape& shape, bool tf32);

  // What it is made of, for the table of kernels.
  std::string name() const;
  std::int64_t workspace_bytes() const { return bias_at_ + bias_bytes_; }
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
    std::string name() const { return "loops"; }
    void run(const ProductOperands& operands, bool add, std::byte* workspace, void* queue) const;

   private:
    ProductShape shape_;
    std::int64_t workspace_bytes_;
  };
#endif
  // One call of the library: elements from the beginning of each operand, and which of the singles it is.
  struct Part {
    std::int64_t a = 0, b = 0, c = 0, bias = 0;
    std::size_t single = 0;
    bool adds = false;         // to what another part wrote
    bool aligns_bias = false;  // its bias is copied to where the kernels that load 16 bytes take it
  };

  // The product of rows that begin at multiples of 16 bytes, as far as they can be had; false where it is better left as it is.
  bool add_aligned(const ProductShape& whole, bool tf32);
  // Parts that the library is trusted with, of a shape that begins where `origin` says.
  void add(const ProductShape& whole, const Part& origin, bool tf32);
  void append(const ProductShape& shape, Part part, bool tf32);

  ProductBatch repeats_;              // of all the parts
  std::int64_t bias_at_ = 0;          // in the workspace, behind what the library takes
  std::int64_t bias_bytes_ = 0;       // of the largest part that aligns it
  std::vector<ProductShape> shapes_;  // of the singles
  std::vector<Single> singles_;
  std::vector<Part> parts_;
};

// The product of dense matrices: a is stored rows × inner or, transposed, inner × rows; likewise b. `batch` of them follow each
// other.
ProductShape dense_product(std::int64_t batch, std::int64_t rows, std::int64_t inner, std::int64_t columns, bool transpose_a,
                           bool transpose_b);

}  // namespace outsize::OUTSIZE_PLACE
