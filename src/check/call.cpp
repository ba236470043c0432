#include "check/call.h"

#include <cmath>
#include <cstring>
#include <new>

#include "base/alignment.h"
#include "base/bytes.h"
#include "base/each_position.h"
#include "base/relative_error.h"

namespace outsize::checks {

// Memory of a card that only grows: taking some for every call would cost more than the calls.
class CardMemory {
 public:
  explicit CardMemory(Backend& device) : device_(device) {}
  ~CardMemory() { device_.deallocate(Tier::device, memory_, bytes_); }
  CardMemory(const CardMemory&) = delete;
  CardMemory& operator=(const CardMemory&) = delete;
  std::byte* get(std::int64_t bytes) {
    if (bytes <= bytes_) return memory_;
    device_.deallocate(Tier::device, memory_, bytes_);
    memory_ = device_.allocate(Tier::device, 2 * bytes);
    bytes_ = 2 * bytes;
    return memory_;
  }

 private:
  Backend& device_;
  std::byte* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Row-major: what a plain value is in every layout.
std::size_t offset(const Box& box, const Dims& position) { return at(stored_offset({}, Format::plain, box, position)); }

template <class Function>
void with_type(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::f32: return function(float{});
    case DType::f64: return function(double{});
    case DType::i32: return function(std::int32_t{});
    case DType::u8: return function(std::uint8_t{});
  }
}

// Memory of a piece with guards on both sides. It is filled with a pattern that is NaN as f32 and f64, so that what a kernel
// reads without having been given, or leaves unwritten, shows in the result.
class Piece {
 public:
  explicit Piece(std::int64_t bytes) : bytes_(at(bytes)) {
    if (bytes_ == 0) return;
    memory_ = static_cast<std::byte*>(::operator new (bytes_ + 2 * kGuard, std::align_val_t{kGuard}));
    std::memset(memory_, kPattern, bytes_ + 2 * kGuard);
  }
  Piece(Piece&& other) noexcept : bytes_(other.bytes_), memory_(std::exchange(other.memory_, nullptr)) {}
  Piece& operator=(Piece&&) = delete;
  ~Piece() {
    if (memory_) ::operator delete (memory_, std::align_val_t{kGuard});
  }

  // Null when empty, as the executor gives it.
  std::byte* data() const { return memory_ ? memory_ + kGuard : nullptr; }
  // The piece with its guards.
  std::span<std::byte> all() const { return {memory_, memory_ ? bytes_ + 2 * kGuard : 0}; }
  // Of memory that holds all(), where the piece begins.
  std::byte* data_in(std::byte* memory) const { return memory_ ? memory + kGuard : nullptr; }
  std::size_t bytes() const { return bytes_; }
  bool guards_intact() const {
    for (std::size_t i = 0; memory_ && i < kGuard; ++i)
      if (memory_[i] != std::byte{kPattern} || memory_[kGuard + bytes_ + i] != std::byte{kPattern}) return false;
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 256;  // also the alignment of pieces
  static constexpr unsigned char kPattern = 0xFF;
  std::size_t bytes_ = 0;
  std::byte* memory_ = nullptr;
};

// Pieces as a card sees them: copies in its memory, which come back after the run.
class OnCard {
 public:
  OnCard(const Kernels& kernels, std::vector<const Piece*> pieces) : device_(*kernels.device), pieces_(std::move(pieces)) {
    for (const Piece* piece : pieces_) {
      places_.push_back(static_cast<std::int64_t>(all_.size()));
      all_.insert(all_.end(), piece->all().begin(), piece->all().end());
      all_.resize(at(align_up(static_cast<std::int64_t>(all_.size()), kAlignment)));
    }
    if (!kernels.card_memory) kernels.card_memory = std::make_shared<CardMemory>(device_);
    memory_ = kernels.card_memory->get(std::max<std::int64_t>(static_cast<std::int64_t>(all_.size()), 1));
    device_.upload(Tier::device, all_, memory_);
  }

  // Where the card has the piece that begins at `data` here.
  std::byte* address(const std::byte* data) const {
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      if (data != nullptr && pieces_[i]->data() == data) return pieces_[i]->data_in(memory_ + places_[i]);
    return nullptr;
  }
  void fetch() {
    device_.queues()->finish();
    device_.download(Tier::device, memory_, all_);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const std::span<std::byte> piece = pieces_[i]->all();
      std::copy_n(all_.begin() + places_[i], piece.size(), piece.begin());
    }
  }

 private:
  Backend& device_;
  std::vector<const Piece*> pieces_;
  std::vector<std::int64_t> places_;
  std::vector<std::byte> all_;
  std::byte* memory_ = nullptr;
};

// The piece a backend holds for a tensor: padding is zero.
Piece pack(const Tensor& tensor, const StorageRule& rule) {
  Piece piece(tensor.box.empty() ? 0 : stored_bytes(rule, tensor.type, tensor.box.shape()));
  if (!piece.data()) return piece;
  std::memset(piece.data(), 0, piece.bytes());
  with_type(tensor.type.dtype, [&]<class T>(T) {
    T* const data = reinterpret_cast<T*>(piece.data());
    for_each_position(tensor.box, [&](const Dims& position) {
      data[stored_offset(rule, tensor.type.format, tensor.box, position)] = static_cast<T>(tensor[position]);
    });
  });
  return piece;
}

// What a piece holds; anything but zeros in its padding, or with `may_be_nan` zeros and NaN, is a fault.
Tensor unpack(const std::byte* memory, const ValueType& type, const Box& box, const StorageRule& rule, const std::string& what,
              const Fault& fault, bool may_be_nan) {
  Tensor tensor = Tensor::zeros(type, box);
  if (box.empty()) return tensor;
  with_type(type.dtype, [&]<class T>(T) {
    const T* const data = reinterpret_cast<const T*>(memory);
    std::vector<bool> real(at(stored_elements(rule, type.format, box.shape())), false);
    for_each_position(box, [&](const Dims& position) {
      const std::size_t i = at(stored_offset(rule, type.format, box, position));
      tensor[position] = static_cast<double>(data[i]);
      real[i] = true;
    });
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < real.size(); ++i) wrong += !real[i] && data[i] != T{0} && !(may_be_nan && data[i] != data[i]);
    if (wrong > 0) fault(fmt::format("{}: {} elements of padding channels are not zero, box {}", what, wrong, to_string(box)));
  });
  return tensor;
}

std::shared_ptr<const Kernel> prepare(const Kernels& kernels, const Call& call) {
  return kernels.table ? kernels.table->prepare(call, kernels.storage) : kernels.device->kernel(call);
}

}  // namespace

Tensor Tensor::zeros(const ValueType& type, const Box& box) { return {type, box, std::vector<double>(at(box.elements()), 0.0)}; }
double& Tensor::operator[](const Dims& position) { return numbers[offset(box, position)]; }
double Tensor::operator[](const Dims& position) const { return numbers[offset(box, position)]; }

Tensor crop(const Tensor& tensor, const Box& box) {
  OUTSIZE_CHECK(tensor.box.contains(box));
  Tensor part = Tensor::zeros(tensor.type, box);
  for_each_position(box, [&](const Dims& position) { part[position] = tensor[position]; });
  return part;
}

Tensor convert(const Tensor& tensor, DType dtype) {
  Tensor result = tensor;
  result.type.dtype = dtype;
  if (dtype == DType::f32)
    for (double& number : result.numbers) number = static_cast<float>(number);
  return result;
}

double relative_error(const Tensor& a, const Tensor& b, const Tensor* whole) {
  OUTSIZE_CHECK(a.box == b.box);
  double least = 0;
  if (whole) {
    double total = 0;
    for (double number : whole->numbers) total += number * number;
    least = std::sqrt(total * static_cast<double>(b.numbers.size()) / static_cast<double>(whole->numbers.size()));
  }
  return relative_l2_error(a.numbers, b.numbers, least);
}

Invocation whole(const OpSite& site) {
  CallBoxes boxes;
  for (int i = 0; i < site.inputs(); ++i) boxes.in.push_back(Box::whole(site.in(i).shape));
  for (int i = 0; i < site.outputs(); ++i) boxes.out.push_back(Box::whole(site.out(i).shape));
  return invocation(site, std::move(boxes));
}

Invocation invocation(const OpSite& site, CallBoxes boxes) {
  const Box owned = boxes.in[at(site.op.def->push_driver(site))];
  return {std::move(boxes), owned};
}

std::vector<Tensor> run_op(const Kernels& kernels, const OpSite& site, const std::vector<Tensor>& inputs,
                           const Invocation& invocation, const Fault& fault) {
  const CallBoxes& boxes = invocation.boxes;
  OUTSIZE_CHECK(at(site.inputs()) == inputs.size() && boxes.in.size() == inputs.size());
  OUTSIZE_CHECK(boxes.out.size() == at(site.outputs()));
  const Call call{site, invocation.prepared ? *invocation.prepared : boxes,
                  invocation.prepared ? invocation.prepared_owned : invocation.owned};
  const std::shared_ptr<const Kernel> kernel = prepare(kernels, call);

  std::vector<Piece> in_pieces;
  std::vector<const std::byte*> in;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    OUTSIZE_CHECK(inputs[i].box == boxes.in[i] && inputs[i].type == site.in(static_cast<int>(i)));
    in.push_back(in_pieces.emplace_back(pack(inputs[i], kernels.storage)).data());
  }
  std::vector<Piece> out_pieces;
  std::vector<std::byte*> out;
  std::vector<bool> overwritten(inputs.size(), false);
  for (int i = 0; i < site.outputs(); ++i) {
    const Box& box = boxes.out[at(i)];
    out_pieces.emplace_back(box.empty() ? 0 : stored_bytes(kernels.storage, site.out(i), box.shape()));
    out.push_back(out_pieces.back().data());
  }
  for (const InPlacePair& pair : invocation.aliases) {
    OUTSIZE_CHECK(out_pieces[at(pair.output)].bytes() == in_pieces[at(pair.input)].bytes());
    out[at(pair.output)] = in_pieces[at(pair.input)].data();
    overwritten[at(pair.input)] = true;
  }

  const Piece workspace(kernel->workspace_bytes());
  if (kernels.device && !kernels.device->addressable(Tier::device)) {
    std::vector<const Piece*> pieces{&workspace};
    for (const std::vector<Piece>* list : {&in_pieces, &out_pieces})
      for (const Piece& piece : *list) pieces.push_back(&piece);
    OnCard card(kernels, std::move(pieces));
    std::vector<const std::byte*> card_in;
    std::vector<std::byte*> card_out;
    for (const std::byte* data : in) card_in.push_back(card.address(data));
    for (std::byte* data : out) card_out.push_back(card.address(data));
    kernel->run({card_in, card_out, card.address(workspace.data()), boxes.in, boxes.out, invocation.owned,
                 kernels.device->queues()->queue(Lane::compute)});
    card.fetch();
  } else {
    kernel->run({in, out, workspace.data(), boxes.in, boxes.out, invocation.owned});
  }

  const std::string what = fmt::format("{} of op {} ({}) on {}", kernel->name(), site.op.name, site.op.def->kind(), kernels.name);
  if (!workspace.guards_intact()) fault(what + ": wrote past its workspace");
  for (std::size_t i = 0; i < in_pieces.size(); ++i) {
    if (!in_pieces[i].guards_intact()) fault(fmt::format("{}: wrote past input {}", what, i));
    if (overwritten[i]) continue;
    const Piece before = pack(inputs[i], kernels.storage);
    if (before.bytes() > 0 && std::memcmp(before.data(), in_pieces[i].data(), before.bytes()) != 0)
      fault(fmt::format("{}: changed input {}", what, i));
  }
  std::vector<Tensor> results;
  for (int i = 0; i < site.outputs(); ++i) {
    if (!out_pieces[at(i)].guards_intact()) fault(fmt::format("{}: wrote past output {}", what, i));
    results.push_back(unpack(out[at(i)], site.out(i), boxes.out[at(i)], kernels.storage, fmt::format("{}, output {}", what, i),
                             fault, invocation.not_finite));
  }
  return results;
}

bool offers(const Kernels& kernels, const OpSite& site) {
  if (kernels.every_op) return true;
  try {
    const Invocation all = whole(site);
    (void)prepare(kernels, {site, all.boxes, all.owned});
    return true;
  } catch (const InternalError&) {
    return false;
  }
}

}  // namespace outsize::checks
