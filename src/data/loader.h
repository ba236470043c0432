#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "data/batch.h"
#include "data/dataset.h"
#include "data/view.h"

namespace outsize {

struct LoaderOptions {
  bool shuffle = true;     // each epoch has its own order; otherwise the dataset's
  bool drop_last = false;  // leave out an epoch's last batch where it is smaller
  bool strict = false;     // a sample that cannot be read ends the run
  bool replace = true;     // the next sample stands for one that cannot be read; otherwise the batch is smaller by it
  Augment augment;         // how views are drawn
  std::uint64_t seed = 0;  // decides orders and views
  int threads = 1;         // that run ahead; 0: batches are made when they are asked for
  // What batches may hold altogether, those made ahead and the one that is used. Where two would be more, none is made ahead.
  std::int64_t most_bytes = 32LL << 20;
  std::function<void(std::string_view)> warn;  // told once of each sample that cannot be read; [a line on standard error]
};

// A sample that could not be read, and what was wrong with it.
struct Unread {
  std::int64_t number = 0;
  std::string why;
};

// Batches of a dataset, made ahead by threads of its own. Batch `step` is a pure function of dataset, spec, options and step:
// neither the number of threads nor what was asked for before changes a bit of it.
//
// A sample larger or smaller than the spec's spatial extents is cropped or laid into zeros; an extent 0 in the spec stands for the
// sample's own, which needs a batch of 1. A sample that cannot be read is replaced by the next in the epoch's order that can, or
// left out.
class Loader {
 public:
  // Throws UserError when the dataset's samples do not fit the spec.
  Loader(std::shared_ptr<const Dataset> dataset, const BatchSpec& spec, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const Dataset& dataset() const { return *dataset_; }
  // 0: the dataset has no end.
  std::int64_t batches_per_epoch() const;
  // How many samples batch `step` has; the same as batch() fills, without making it.
  std::int64_t samples_of(std::int64_t step) const;

  // Whether batches are made ahead. Where they are too large, their x had better be left out.
  bool runs_ahead() const { return slots_.size() > 1; }
  // From here on batches leave x out, and y where it takes more than a MiB, and have readers of their windows instead, which hold
  // no more than a few samples open. Labels are checked all the same, part by part. A sample whose labels can be read but whose x
  // cannot shows in the reader, and is not replaced. Before the first batch; nothing where x holds tokens.
  void leave_out();

  // Batch `step`, valid until the next call. Quick when steps follow each other; any other step seeks first. An error that a thread
  // met while making this batch is thrown here.
  const Batch& batch(std::int64_t step);
  // Threads go on from `step`: to resume a run there.
  void seek(std::int64_t step);
  // Starts the threads now and not with the first batch, so that it shows now where the system has no room for them.
  void start();
  // Makes batch `step` at once, in the calling thread; for several threads at a time. Returns the samples that could not be read.
  std::vector<Unread> make(std::int64_t step, Batch& batch) const;

  // How long batch() has waited altogether.
  double waited_seconds() const { return waited_seconds_; }
  // How many different samples could not be read, in the batches that batch() has given.
  std::int64_t skipped() const { return static_cast<std::int64_t>(bad_.size()); }

  // What batch `step` shows of the dataset: the sample numbers in their order, and the view of a sample that has been opened.
  std::vector<std::int64_t> sample_numbers(std::int64_t step) const;
  View view_of(const Sample& sample, std::int64_t number, std::int64_t step) const;

 private:
  using Order = std::vector<std::int64_t>;
  // A batch that is made, being made or to be made.
  struct Slot {
    Batch batch;
    std::vector<Unread> bad;
    std::exception_ptr error;
    std::int64_t step = -1;
    bool ready = false;
  };
  struct Placed {
    std::int64_t epoch = 0;
    std::int64_t first = 0;  // in the epoch's order
    std::int64_t samples = 0;
  };

  // A sample of a batch that was left out, and the views of its x and y.
  struct Left {
    std::int64_t number = 0;
    View view, y_view;
    bool for_several = false;
  };

  Placed place(std::int64_t step) const;
  std::shared_ptr<const Order> order_of(std::int64_t epoch) const;
  void read_sample(std::int64_t number, std::int64_t epoch, std::int64_t at, std::int64_t samples, Batch& batch,
                   std::vector<Left>& left) const;
  // Throws UserError where an integer, of which `first` come before those here, is neither in [0, limit) nor `ignored`.
  void check_integers(std::int64_t number, const std::byte* from, std::int64_t count, std::int64_t first, std::string_view element,
                      std::int64_t limit, std::optional<std::int64_t> ignored, std::string_view counted) const;
  // The same of all labels of a sample, where there are labels, read part by part. Returns how many of them name a class.
  std::int64_t check_labels(const Sample& sample, const View& view, const Dims& extents, std::int64_t number) const;
  bool threaded() const { return runs_ahead(); }
  void stop();
  void work();
  void make_into(Slot& slot) const;
  Slot& slot_of(std::int64_t step) { return slots_[step % static_cast<std::int64_t>(slots_.size())]; }
  void warn_of(const Slot& slot);

  std::shared_ptr<const Dataset> dataset_;
  BatchSpec spec_;
  LoaderOptions options_;
  bool leaves_out_ = false;
  std::set<std::int64_t> bad_;
  double waited_seconds_ = 0;

  mutable std::mutex order_mutex_;
  mutable std::int64_t order_epoch_ = -1;
  mutable std::shared_ptr<const Order> order_;  // of the epoch asked for last

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  std::vector<std::thread> threads_;
  std::int64_t claimed_ = 0;  // the next step that no thread has taken
  std::int64_t given_ = -1;   // the step whose slot the caller may still read
  bool stopping_ = false;
};

}  // namespace outsize
