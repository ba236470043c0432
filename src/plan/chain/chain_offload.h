#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/chain/chain.h"

namespace outsize {

// Offloading in the chain model: over a half-duplex link of `bandwidth` bytes a second, one transfer at a time, some of x_0 … x_L
// leave in forward, in increasing order and as early as they can, and come back in backward in decreasing order, as late as they
// can. A vector of decisions has an entry for each of x_0 … x_L; x_{L+1} is made by F_L and read by B_L, so it stays.

// Problem 1: seconds when exactly `offloaded` leave and transfers are whole: bytes are free after the last of their activation has
// left and are taken from the moment its first comes back. nullopt: some op does not fit even when all that may be out is out.
std::optional<double> offload_seconds(const Chain& chain, const std::vector<bool>& offloaded, std::int64_t memory,
                                      double bandwidth);

// Problem 2: the same where a transfer may be interrupted and every byte counts by itself. It fits exactly when Problem 1 does.
std::optional<double> interruptible_offload_seconds(const Chain& chain, const std::vector<bool>& offloaded, std::int64_t memory,
                                                    double bandwidth);

// Theorem 2: the least seconds when any part of an activation may leave. nullopt: some op alone needs more than `memory`.
std::optional<double> fractional_offload_seconds(const Chain& chain, std::int64_t memory, double bandwidth);

// Greedy: Theorem 2 rounded up to whole activations: the first ones, until M_peak − memory bytes leave.
std::vector<bool> greedy_offload(const Chain& chain, std::int64_t memory);

// vDNN as the paper has it: among the activations with u_F/|x| at or above a threshold, for every threshold (or for the one given),
// all and every other of them; the decisions with the least `offload_seconds`, or nullopt when none fits.
std::optional<std::vector<bool>> vdnn_offload(const Chain& chain, std::int64_t memory, double bandwidth,
                                              std::optional<double> threshold = std::nullopt);

}  // namespace outsize
