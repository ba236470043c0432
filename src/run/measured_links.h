#pragma once

#include "backend/interface.h"

namespace outsize {

// What copies of one size between host and device take, and a kernel that is bound by the device's memory: alone, and while others
// run all the time. In seconds.
struct LinkTimes {
  double bytes = 0;  // of a copy
  double out = 0, in = 0;
  double out_beside_in = 0, in_beside_out = 0;
  double kernel = 0, kernel_beside_copies = 0;
  double out_beside_kernel = 0, in_beside_kernel = 0;
};

// Times them, the median of a few times each, on a device that has queues. Takes a few tenths of a second, 128 MiB of host memory
// and 384 MiB of the device's, or an eighth of what is free there.
LinkTimes time_links(Backend& backend);

// Gives the device the rates of its link and what copies and kernels take of each other. Of kernels, those bound by arithmetic are
// taken to share nothing with copies, and most lie between these and those that were timed: the overlaps are the means of both.
void use_links(Device& device, const LinkTimes& times);

}  // namespace outsize
