#pragma once

#include <optional>

#include "ops/alternatives.h"
#include "ops/cuda/library/convolution.h"
#include "ops/cuda/support.h"

namespace outsize {

// Which kernel a convolution gets that both block programs and cuDNN have: the faster one on the card, or one of them in any case.
enum class ConvolutionChoice : std::uint8_t { fastest, own, library };

namespace card {
// What cuDNN plans for a call on a card that is only described, in its JSON: name and workspace; nothing for a call that is no
// convolution of the library's, or that it has no plan for. It needs neither card nor driver, and is worked out once a process.
std::optional<Alternative> described_convolution(const Call& call, bool tf32, const std::string& description);
}  // namespace card

// Of the kernels for the card that are made from then on. Benchmarks set it.
namespace card {
ConvolutionChoice& convolution_choice();
}
namespace emulated {
ConvolutionChoice& convolution_choice();
}

}  // namespace outsize

namespace outsize::OUTSIZE_PLACE {

// Kernels for a call of a convolution, by cuDNN where it is fast and by block programs else. `tf32`: whether factors may be rounded
// to 10 bits.

// in[0]: x, in[1]: the weights, in[2], if there is one: a number a channel of y; out[0]: y, with the op's activation.
std::unique_ptr<Kernel> make_convolution(const Call& call, const StorageRule& storage, bool tf32,
                                         ConvolutionChoice choice = convolution_choice());
// in[0]: the y side, in[1]: the weights, in[2], if there is one: a number a channel of x; out[0]: the x side. It is the gradient of
// a convolution with respect to x, and the transposed convolution.
std::unique_ptr<Kernel> make_spread(const Call& call, const StorageRule& storage, bool tf32,
                                    ConvolutionChoice choice = convolution_choice());
// in[0]: dy, in[1]: x; out[0]: the gradient of the weights, out[1], if there is one: that of the bias.
std::unique_ptr<Kernel> make_convolution_weights(const Call& call, const StorageRule& storage, bool tf32,
                                                 ConvolutionChoice choice = convolution_choice());

// The kernel that one of these gives, and all others there are for the call: the block program, and the library's, each with less
// workspace than the one before.
std::vector<PreparedAlternative> convolution_alternatives(const Call& call, const StorageRule& storage, bool tf32);
std::vector<PreparedAlternative> spread_alternatives(const Call& call, const StorageRule& storage, bool tf32);
std::vector<PreparedAlternative> convolution_weights_alternatives(const Call& call, const StorageRule& storage, bool tf32);

// What the library is asked for in a call of any of these kinds, without a bias or activation; nothing where block programs serve.
std::vector<ConvolutionSignature> convolution_signatures(const Call& call, bool tf32);

}  // namespace outsize::OUTSIZE_PLACE
