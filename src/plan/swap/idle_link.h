#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/table.h"
#include "cost/profile.h"

namespace outsize {

// The seconds of each run in which a link is free.
class IdleLink {
 public:
  IdleLink(const Device& device, const Table<double>& seconds)
      : full_duplex_(device.full_duplex), all_(seconds), out_(seconds), in_(seconds), up_(seconds.size()), down_(seconds.size()) {}

  // Of a run, those in which it is not: the busier direction counts.
  double busy(std::int32_t run) const { return all_[run] - std::min(out_[run], full_duplex_ ? in_[run] : out_[run]); }
  // Takes them for copies of the run's own.
  void occupy(std::int32_t run, double seconds) {
    out_sums_.changed(run);
    in_sums_.changed(run);
    if (seconds < 0) {  // what was not idle may be again
      up_.forget();
      down_.forget();
    }
    for (Table<double>* idle : {&out_, &in_}) (*idle)[run] = std::max(0.0, (*idle)[run] - seconds);
  }

  // To be called after changes and before what is left is asked for.
  void add_up() {
    out_sums_.add_up(out_);
    if (full_duplex_) in_sums_.add_up(in_);
  }
  // Of a copy that takes `seconds` and may go during the runs [first, end), what is left when they are over.
  double left_out(double seconds, std::int32_t first, std::int32_t end) const { return left(out_sums_, seconds, first, end); }
  // The same of a copy in, if there is room for it in all of them.
  double least_left_in(double seconds, std::int32_t first, std::int32_t end) const {
    return left(full_duplex_ ? in_sums_ : out_sums_, seconds, first, end);
  }
  // Of one that must be whole before run `end`, and may go during runs from `first` on that `fits` says have room for it, with all
  // that follow.
  template <class Fits>
  double left_in(double seconds, std::int32_t first, std::int32_t end, const Fits& fits) const {
    const Table<double>& idle = full_duplex_ ? in_ : out_;
    for (std::int32_t u = end; u-- > first && seconds > 0 && fits(u);) seconds -= idle[u];
    return std::max(seconds, 0.0);
  }
  void take_out(double seconds, std::int32_t first, std::int32_t end) {
    out_sums_.changed(first);
    for (std::int32_t u = first; seconds > 0; ++u) {
      u = up_.next(out_, u, [&](std::int32_t at) { return at < end; });
      if (u >= end) return;
      take(out_[u], seconds);
    }
  }
  void take_in(double seconds, std::int32_t first, std::int32_t end) {
    Table<double>& idle = full_duplex_ ? in_ : out_;
    std::int32_t u = end;
    while (seconds > 0) {
      u = down_.next(idle, u - 1, [&](std::int32_t at) { return at >= first; });
      if (u < first) break;
      take(idle[u], seconds);
    }
    (full_duplex_ ? in_sums_ : out_sums_).changed(std::max(u, first));
  }

 private:
  // What is idle before each run, added up anew from the first run that has changed.
  class Sums {
   public:
    double between(std::int32_t first, std::int32_t end) const { return sums_[end] - sums_[first]; }
    void changed(std::int64_t run) { known_ = std::min(known_, run); }
    void add_up(const Table<double>& idle) {
      sums_.resize(idle.size() + 1);
      double sum = sums_[known_];
      for (; known_ < idle.size(); ++known_) sums_[known_ + 1] = sum += idle[known_];
    }

   private:
    Table<double> sums_;
    std::int64_t known_ = 0;  // the sums before the runs up to this one are right
  };

  // Steps over runs in which nothing is idle any more, however many they are, in one direction.
  template <int kStep>
  class Skips {
   public:
    explicit Skips(std::int64_t runs) : jump_(runs, 0) {}
    // The first run from `from` on, while `inside` holds, in which the link is idle; else one that is not inside.
    template <class Inside>
    std::int32_t next(const Table<double>& idle, std::int32_t from, const Inside& inside) {
      std::int32_t at = from;
      while (inside(at) && idle[at] == 0) at += std::max(jump_[at], 1) * kStep;
      for (std::int32_t u = from; (at - u) * kStep > 0;) {
        const std::int32_t step = std::max(jump_[u], 1);
        jump_[u] = (at - u) * kStep;
        u += step * kStep;
      }
      return at;
    }
    void forget() { jump_.assign(jump_.size(), 0); }

   private:
    Table<std::int32_t> jump_;  // from a run, so many runs in which nothing is idle, that one included; 0: not known
  };

  static double left(const Sums& sums, double seconds, std::int32_t first, std::int32_t end) {
    return first >= end ? seconds : std::max(0.0, seconds - sums.between(first, end));
  }
  static void take(double& idle, double& seconds) {
    const double taken = std::min(idle, seconds);
    idle -= taken;
    seconds -= taken;
  }

  bool full_duplex_;
  Table<double> all_;       // seconds of each run
  Table<double> out_, in_;  // where the link is half duplex, only the first counts
  Sums out_sums_, in_sums_;
  Skips<1> up_;     // of `out_`
  Skips<-1> down_;  // of what copies in are taken from
};

}  // namespace outsize
