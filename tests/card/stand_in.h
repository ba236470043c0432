#pragma once

#include <cstdint>
#include <functional>
#include <vector>

// A card that the host acts, so that what the backend `cuda` does with one shows where there is none: the functions of NVIDIA's
// runtime and driver that src/backend/cuda calls, with a thread for each stream, and the block programs of cuda-host, put into
// those streams. Work is done later than it is put there, streams run beside each other, and waits are as on a card; the host
// cannot follow addresses of the card's memory. What it does not show: kernels that nvcc made, NVIDIA's libraries, times.
//
// The variable OUTSIZE_STAND_IN sets it up, as in "seed=3,fails_at=100":
//   cards=0            there is none; driver=11040: and the driver is of so old a kind that it cannot say; driver=0: nor a driver
//   memory=BYTES       of the card; others=BYTES of it are another program's
//   pinnable=BYTES     of the host's memory that may be pinned
//   fails_at=N         the card is gone from the Nth work on that is put into a stream
//   report=1           at its end the program says on standard error how much work that was
//   pitch=BYTES        between rows that one copy takes
//   seed=N             streams pause at random before their work, in another way for each N; 0: they do not
namespace outsize::stand_in {

// What the backend has asked for so far.
struct Counts {
  std::int64_t works = 0;                 // kernels, copies and fills that were put into streams
  std::int64_t waits = 0;                 // calls in which the host waited for the card
  std::int64_t made = 0;                  // streams and events
  std::int64_t unpinned_copies = 0;       // between the card and memory of the host that is not pinned
  std::vector<std::int64_t> allocations;  // bytes of each allocation of the card's memory that there was
  std::vector<std::int64_t> pinned;       // bytes of each range of the host's memory that was pinned
};
Counts counts();

// Puts work into a stream, or does it at once where that is null. Addresses in it must be real().
void put(void* stream, std::function<void()> work);
// The same as a call that returns when all that is in the stream is done.
void wait_for(void* stream);
// Where the host finds what lies at an address of the card's memory; any other address as it is.
template <class T>
T* real(T* address);

}  // namespace outsize::stand_in
