#include "data/loader.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/philox.h"
#include "base/positions.h"
#include "base/say.h"
#include "base/threads.h"

namespace outsize {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kAheadOfThread = 2;  // batches that each thread may be ahead

Dims with_first(std::int64_t first, const Dims& rest) {
  Dims shape{first};
  for (std::int64_t extent : rest) shape.push_back(extent);
  return shape;
}

// Rows, columns and so on: everything after the channels.
Dims spatial(const Dims& x_extents) { return without_first(x_extents); }

// An extent 0 in `wanted` stands for any.
bool agrees(const Dims& found, const Dims& wanted) {
  if (found.rank() != wanted.rank()) return false;
  for (int d = 0; d < found.rank(); ++d)
    if (wanted[d] != 0 && found[d] != wanted[d]) return false;
  return true;
}

// Keeps the first `samples` of a batch that was made for more.
void shorten(Batch& batch, std::int64_t samples, std::int64_t made_for) {
  batch.samples = samples;
  if (samples == 0) return;
  batch.x.resize(batch.x.size() / static_cast<std::size_t>(made_for) * static_cast<std::size_t>(samples));
  batch.y.resize(batch.y.size() / static_cast<std::size_t>(made_for) * static_cast<std::size_t>(samples));
  batch.x_shape[0] = batch.y_shape[0] = samples;
}

std::int64_t bytes_of(const Dims& shape, DType dtype) { return shape.product() * size_of(dtype); }

// The most that the y of a batch may take where batches leave x out: labels of images are less, a label or a target for every pixel
// of a large one may be as large as the image.
constexpr std::int64_t kMostWholeY = 1 << 20;

// What samples of a batch that are open may hold, about: each what its x would take.
constexpr std::int64_t kOpenBytes = 16 << 20;

// The samples of a batch, opened when they are read and closed again when others are, the one used least lately first.
class OpenSamples {
 public:
  static constexpr std::int64_t kLeastOpen = 8;

  // Some stay open whatever they hold, so that threads do not open theirs again and again.
  OpenSamples(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> numbers, std::int64_t most)
      : dataset_(std::move(dataset)), numbers_(std::move(numbers)), most_(std::max(most, kLeastOpen)) {}

  // For several threads at a time; what is returned stays open while it is held.
  std::shared_ptr<const Sample> sample(std::int64_t n) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(open_, n, &Open::n);
    if (found != open_.end()) {
      std::rotate(found, found + 1, open_.end());
    } else {
      if (open_.size() >= most_) open_.erase(open_.begin());
      open_.push_back({n, dataset_->open(numbers_[n])});
    }
    return open_.back().sample;
  }

 private:
  struct Open {
    std::int64_t n = 0;
    std::shared_ptr<const Sample> sample;
  };

  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::int64_t> numbers_;
  std::size_t most_;
  std::mutex mutex_;
  std::vector<Open> open_;  // the one used last at the end
};

}  // namespace

Loader::Loader(std::shared_ptr<const Dataset> dataset, const BatchSpec& spec, LoaderOptions options)
    : dataset_(std::move(dataset)), spec_(spec), options_(std::move(options)) {
  if (!options_.warn) options_.warn = [](std::string_view text) { say("{}", text); };
  if (options_.drop_last && dataset_->size() > 0 && dataset_->size() < spec_.batch())
    user_error("{}: has {} samples, fewer than one batch of {}; give a smaller --batch", dataset_->name(), dataset_->size(),
               spec_.batch());
  if (spec_.x_shape.product() == 0 && spec_.batch() > 1)
    user_error("{}: samples of their own sizes make no batch of {}; give --batch 1, or one size (--image)", dataset_->name(),
               spec_.batch());
  const bool flat = spec_.x_shape.rank() < 4;
  if (flat && (options_.augment.flip || options_.augment.crop))
    user_error("{}: only images can be flipped or cropped; the model takes {}", dataset_->name(),
               to_string(without_first(spec_.x_shape)));
  const std::int64_t batch_bytes = bytes_of(spec_.x_shape, spec_.x_dtype) + bytes_of(spec_.y_shape, spec_.y_dtype);
  const std::int64_t affordable = options_.most_bytes / std::max<std::int64_t>(batch_bytes, 1);
  slots_.resize(std::clamp<std::int64_t>(affordable, 1, 1 + options_.threads * kAheadOfThread));
}

Loader::~Loader() { stop(); }

std::int64_t Loader::batches_per_epoch() const {
  const std::int64_t more = options_.drop_last ? 0 : spec_.batch() - 1;
  return (dataset_->size() + more) / spec_.batch();
}

Loader::Placed Loader::place(std::int64_t step) const {
  const std::int64_t batch = spec_.batch(), batches = batches_per_epoch();
  if (batches == 0) return {0, step * batch, batch};
  const std::int64_t first = step % batches * batch;
  return {step / batches, first, std::min(batch, dataset_->size() - first)};
}

std::int64_t Loader::samples_of(std::int64_t step) const { return place(step).samples; }

std::shared_ptr<const Loader::Order> Loader::order_of(std::int64_t epoch) const {
  if (!options_.shuffle || dataset_->size() == 0) return nullptr;
  const std::lock_guard lock(order_mutex_);
  if (epoch == order_epoch_) return order_;
  // Fisher and Yates.
  const RandomStream stream(options_.seed, fmt::format("shuffle.{}", epoch));
  Order order(dataset_->size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.below(i, static_cast<std::int64_t>(i))]);
  order_epoch_ = epoch;
  order_ = std::make_shared<const Order>(std::move(order));
  return order_;
}

std::vector<std::int64_t> Loader::sample_numbers(std::int64_t step) const {
  const Placed placed = place(step);
  const auto order = order_of(placed.epoch);
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = placed.first; i < placed.first + placed.samples; ++i) numbers.push_back(order ? (*order)[i] : i);
  return numbers;
}

View Loader::view_of(const Sample& sample, std::int64_t number, std::int64_t step) const {
  return draw_view(spatial(sample.x_extents()), spatial(without_first(spec_.x_shape)), options_.augment, options_.seed,
                   place(step).epoch, number);
}

std::vector<Unread> Loader::make(std::int64_t step, Batch& batch) const {
  const Placed placed = place(step);
  const auto order = order_of(placed.epoch);
  const std::int64_t size = dataset_->size();
  batch.samples = placed.samples;
  std::vector<Unread> bad;
  std::vector<Left> left;
  std::int64_t left_out = 0;
  for (std::int64_t read = 0; read < placed.samples; ++read) {
    const std::int64_t at = read - left_out;
    for (std::int64_t tried = 0;; ++tried) {
      if (size > 0 && tried == size)
        user_error("{}: not one of its {} samples can be read; the first: {}", dataset_->name(), size, bad.front().why);
      const std::int64_t place_in_order = size > 0 ? (placed.first + read + tried) % size : placed.first + read;
      const std::int64_t number = order ? (*order)[place_in_order] : place_in_order;
      try {
        read_sample(number, placed.epoch, at, placed.samples, batch, left);
        break;
      } catch (const SampleError& error) {
        if (options_.strict || size == 0) throw;
        bad.push_back({number, error.what()});
        if (options_.replace) continue;
        ++left_out;
        break;
      }
    }
  }
  if (left_out > 0) shorten(batch, placed.samples - left_out, placed.samples);
  batch.windows = batch.y_windows = nullptr;
  if (!leaves_out_) return bad;
  const bool for_several = std::ranges::all_of(left, &Left::for_several);
  std::vector<std::int64_t> numbers;
  for (const Left& one : left) numbers.push_back(one.number);
  const std::int64_t sample_bytes = bytes_of(without_first(batch.x_shape), spec_.x_dtype);
  const auto open =
      std::make_shared<OpenSamples>(dataset_, std::move(numbers), kOpenBytes / std::max<std::int64_t>(sample_bytes, 1));
  const auto views = std::make_shared<const std::vector<Left>>(std::move(left));
  // Calls read(sample, what was left of it, window, out) for each sample of a window.
  const auto by_sample = [open, views](DType dtype, const auto& read) {
    return [open, views, dtype, read](const Box& window, std::byte* out) {
      const Box part(without_first(window.lo), without_first(window.hi));
      for (std::int64_t n = window.lo[0]; n < window.hi[0]; ++n, out += bytes_of(part.shape(), dtype))
        read(*open->sample(n), (*views)[static_cast<std::size_t>(n)], part, out);
    };
  };
  batch.windows = {
      by_sample(spec_.x_dtype, [dtype = spec_.x_dtype](const Sample& sample, const Left& one, const Box& part,
                                                       std::byte* out) { read_x(sample, one.view, part, dtype, out); }),
      for_several, true};
  if (batch.y.empty())
    batch.y_windows = {by_sample(spec_.y_dtype, [dtype = spec_.y_dtype, beyond = spec_.ignored_label.value_or(0)](
                                                    const Sample& sample, const Left& one, const Box& part,
                                                    std::byte* out) { read_y(sample, one.y_view, part, dtype, beyond, out); }),
                       for_several, true};
  return bad;
}

void Loader::leave_out() {
  OUTSIZE_CHECK(threads_.empty());
  leaves_out_ = spec_.x_classes == 0;
}

void Loader::read_sample(std::int64_t number, std::int64_t epoch, std::int64_t at, std::int64_t samples, Batch& batch,
                         std::vector<Left>& left) const {
  auto sample = dataset_->open(number);
  const Dims x = sample->x_extents(), y = sample->y_extents();
  const Dims x_wanted = without_first(spec_.x_shape), y_wanted = without_first(spec_.y_shape);
  if (x.rank() != x_wanted.rank() || (x.rank() > 0 && x[0] != x_wanted[0]))
    user_error("{}: expected extents {}, found {}", dataset_->sample_name(number), to_string(x_wanted), to_string(x));
  const View view = draw_view(spatial(x), spatial(x_wanted), options_.augment, options_.seed, epoch, number);
  const View y_view = follows(y, spatial(x)) ? view : View{};
  const Dims x_seen = with_positions(x, view.extents), y_seen = with_positions(y, y_view.extents);
  if (!agrees(y_seen, y_wanted))
    user_error("{}: expected {} for y, found {}", dataset_->sample_name(number),
               y_wanted.rank() == 0 ? "one label" : "extents " + to_string(y_wanted),
               y.rank() == 0 ? "one label" : "extents " + to_string(y));

  const std::int64_t x_bytes = bytes_of(x_seen, spec_.x_dtype), y_bytes = bytes_of(y_seen, spec_.y_dtype);
  const bool leaves_y_out = leaves_out_ && samples * y_bytes > kMostWholeY;
  if (at == 0) {
    batch.x_shape = with_first(samples, x_seen);
    batch.y_shape = with_first(samples, y_seen);
    batch.x.resize(leaves_out_ ? 0 : static_cast<std::size_t>(samples * x_bytes));
    batch.y.resize(leaves_y_out ? 0 : static_cast<std::size_t>(samples * y_bytes));
    batch.labelled = 0;
  }
  if (leaves_y_out) {
    batch.labelled += check_labels(*sample, y_view, y_seen, number);
  } else {
    std::byte* y_out = batch.y.data() + at * y_bytes;
    read_y(*sample, y_view, Box::whole(y_seen), spec_.y_dtype, spec_.ignored_label.value_or(0), y_out);
    if (spec_.classes > 0)
      check_integers(number, y_out, y_seen.product(), 0, "label", spec_.classes, spec_.ignored_label, "classes (--classes)");
  }
  if (leaves_out_) {
    left.push_back({number, view, y_view, sample->for_several()});
    return;
  }
  std::byte* x_out = batch.x.data() + at * x_bytes;
  read_x(*sample, view, Box::whole(x_seen), spec_.x_dtype, x_out);
  if (spec_.x_classes > 0)
    check_integers(number, x_out, x_seen.product(), 0, "token", spec_.x_classes, {}, "tokens of its vocabulary");
}

std::int64_t Loader::check_labels(const Sample& sample, const View& view, const Dims& extents, std::int64_t number) const {
  if (spec_.classes == 0) return 0;
  const std::int64_t row = extents.product() / extents[0],
                     rows = std::max<std::int64_t>(1, kMostWholeY / size_of(spec_.y_dtype) / row);
  std::vector<std::byte> part(static_cast<std::size_t>(std::min(rows, extents[0]) * row * size_of(spec_.y_dtype)));
  std::int64_t labelled = 0;
  for (Interval band{0, std::min(rows, extents[0])}; !band.empty(); band = {band.hi, std::min(band.hi + rows, extents[0])}) {
    Box window = Box::whole(extents);
    window.set(0, band);
    read_y(sample, view, window, spec_.y_dtype, spec_.ignored_label.value_or(0), part.data());
    check_integers(number, part.data(), window.elements(), band.lo * row, "label", spec_.classes, spec_.ignored_label,
                   "classes (--classes)");
    labelled +=
        count_labels(std::span(part).first(static_cast<std::size_t>(window.elements() * size_of(spec_.y_dtype))), spec_.classes);
  }
  return labelled;
}

void Loader::check_integers(std::int64_t number, const std::byte* from, std::int64_t count, std::int64_t first,
                            std::string_view element, std::int64_t limit, std::optional<std::int64_t> ignored,
                            std::string_view counted) const {
  const std::span values(reinterpret_cast<const std::int32_t*>(from), static_cast<std::size_t>(count));
  const std::int64_t found = find_outside(values, limit, ignored);
  if (found == count) return;
  const std::string where = count == 1 && first == 0 ? std::string() : fmt::format(" (element {} of it)", first + found);
  user_error("{}: {} {}{} is not one of the model's {} {}: {}", dataset_->sample_name(number), element,
             values[static_cast<std::size_t>(found)], where, limit, counted, expected_integers(limit, ignored));
}

const Batch& Loader::batch(std::int64_t step) {
  OUTSIZE_CHECK(step >= 0);
  const auto begin = Clock::now();
  if (!threaded()) {
    slots_.front().step = step;
    make_into(slots_.front());
  } else {
    // Started here, so that a run that resumes makes nothing it does not need.
    if (step != given_ && step != given_ + 1) seek(step);
    start();
    std::unique_lock lock(mutex_);
    given_ = step;
    changed_.notify_all();
    changed_.wait(lock, [&] { return slot_of(step).step == step && slot_of(step).ready; });
  }
  waited_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  const Slot& slot = slot_of(step);
  if (slot.error) std::rethrow_exception(slot.error);
  warn_of(slot);
  return slot.batch;
}

void Loader::warn_of(const Slot& slot) {
  for (const Unread& unread : slot.bad)
    if (bad_.insert(unread.number).second) options_.warn(fmt::format("skipped: {}", unread.why));
}

void Loader::seek(std::int64_t step) {
  stop();
  claimed_ = step;
  given_ = step - 1;
}

void Loader::start() {
  if (!threaded() || !threads_.empty()) return;
  for (Slot& slot : slots_) slot.step = -1;
  stopping_ = false;
  for (int i = 0; i < options_.threads; ++i) threads_.push_back(start_thread("reading data", [this] { work(); }));
}

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Loader::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || claimed_ < given_ + static_cast<std::int64_t>(slots_.size()); });
    if (stopping_) return;
    Slot& slot = slot_of(claimed_);
    slot.step = claimed_++;
    slot.ready = false;
    lock.unlock();
    make_into(slot);
    lock.lock();
    slot.ready = true;
    changed_.notify_all();
  }
}

void Loader::make_into(Slot& slot) const {
  slot.error = nullptr;
  slot.bad.clear();
  try {
    slot.bad = make(slot.step, slot.batch);
  } catch (...) {
    slot.error = std::current_exception();
  }
}

}  // namespace outsize
