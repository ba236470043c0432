#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "ops/kernel.h"
#include "outsize/devices.h"
#include "outsize/reports.h"

namespace outsize {

// What identifies the price of a call: kind, attributes, types and extents of its boxes, not its name or position.
std::string signature(const Call& call);
// The same where the kernel of that name computes it, "… by NAME"; without a name, the target's first.
std::string signature(const Call& call, std::string_view kernel);

// Time of each op signature on a device: measured where an entry exists, otherwise the roofline of the device, times the scale of
// the kind of op.
struct Profile {
  Device device;
  std::unordered_map<std::string, double> seconds;  // by signature
  std::unordered_map<std::string, Scale> scale;     // by kind; the ratio is 1 where there is none
  std::unordered_set<std::string> disturbed;        // signatures whose seconds something else that ran may have lengthened

  double seconds_of(const Call& call) const;
  // The same where the kernel of that name computes it; where that was not measured, what the target's first one takes.
  double seconds_of(const Call& call, std::string_view kernel) const;
};

// What products reach of a card's TF32 rate, which its tensor cores have only while nothing makes them wait: of 495 TFLOP/s of an
// H200, cuDNN's convolutions with 64 to 512 channels reach 230 to 400 forward and for the data's gradient, cuBLASLt's products 260
// to 405; and 100 to 220 those that are added up over all positions of maps, as the gradients of convolutions' weights are.
inline constexpr double kProductShare = 0.7;
inline constexpr double kSummedShare = 0.38;

// Operations a second that a call is estimated with. Where products have a rate of their own it counts for all ops: those that are
// no products are bound by memory, whatever the rate.
double flops_of(const Device& device, const Call& call);

// max(operations / flops_of(), bytes / bandwidth) + launch.
double roofline_seconds(const Device& device, const Call& call);

// The time of an op, measured and by its roofline.
struct MeasuredOp {
  double seconds = 0;
  double roofline_seconds = 0;
};

// The scale of a kind of which these ops are measured: the median of their ratios, at most kMostScale and at least 1 / kMostScale.
// Ops with a roofline below kLeastScaledSeconds do not count; nothing where fewer than kLeastScaledOps are left.
std::optional<Scale> scale_of(std::span<const MeasuredOp> ops);

// A short op takes what it costs to call it: threads to wake, code and operands that are not in the cache yet. On processors that
// is some tens of microseconds, whatever the op computes, so that the ratio of a shorter op says nothing about a longer one.
inline constexpr double kLeastScaledSeconds = 1e-4;
// The median of three is not moved by one that is wrong.
inline constexpr std::int64_t kLeastScaledOps = 3;
// Of the kinds in the models of the zoo none takes more than ten times its roofline, on processors that others use too. Where a
// ratio is larger, the shapes that were measured are the reason, and it says little about others.
inline constexpr double kMostScale = 16;

// Has `known` take the place of `kept`, unless `kept` rests on more ops.
void keep_better(Scale& kept, const Scale& known);

// The text form: one `device key=value …` line, then `scale RATIO OPS KIND`, `op SECONDS SIGNATURE` and `disturbed SIGNATURE`
// lines, one an entry; round-trips. A `scale RATIO KIND` of earlier versions, which says not how many ops it rests on, is read
// and left out.
std::string print_profile(const Profile& profile);
// Throws UserError "FILE:LINE: …".
Profile parse_profile(std::string_view text, std::string_view file);

}  // namespace outsize
