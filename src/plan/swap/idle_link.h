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
      : full_duplex_(device.full_duplex), all_(seconds), out_(seconds), in_(seconds) {}

  // Of a run, those in which it is not: the busier direction counts.
  double busy(std::int32_t run) const { return all_[run] - std::min(out_[run], full_duplex_ ? in_[run] : out_[run]); }
  // Takes them for copies of the run's own.
  void occupy(std::int32_t run, double seconds) {
    changed_ = true;
    for (Table<double>* idle : {&out_, &in_}) (*idle)[run] = std::max(0.0, (*idle)[run] - seconds);
  }

  // To be called after changes and before what is left is asked for.
  void add_up() {
    if (!changed_) return;
    changed_ = false;
    for (auto [idle, sums] : {std::pair(&out_, &out_sums_), std::pair(&in_, &in_sums_)}) {
      sums->assign(1, 0.0);
      for (const double seconds : *idle) sums->push_back(sums->back() + seconds);
    }
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
    changed_ = true;
    for (std::int32_t u = first; u < end && seconds > 0; ++u) take(out_[u], seconds);
  }
  void take_in(double seconds, std::int32_t first, std::int32_t end) {
    changed_ = true;
    Table<double>& idle = full_duplex_ ? in_ : out_;
    for (std::int32_t u = end; u-- > first && seconds > 0;) take(idle[u], seconds);
  }

 private:
  static double left(const Table<double>& sums, double seconds, std::int32_t first, std::int32_t end) {
    return first >= end ? seconds : std::max(0.0, seconds - (sums[end] - sums[first]));
  }
  static void take(double& idle, double& seconds) {
    const double taken = std::min(idle, seconds);
    idle -= taken;
    seconds -= taken;
  }

  bool full_duplex_;
  Table<double> all_;                 // seconds of each run
  Table<double> out_, in_;            // where the link is half duplex, only the first counts
  Table<double> out_sums_, in_sums_;  // before each run
  bool changed_ = true;
};

}  // namespace outsize
