#include "outsize/budget.h"

#include "base/bytes.h"
#include "base/error.h"

namespace outsize {
namespace {

struct Words {
  std::string_view flag, what, given;
};

Words words_of(const Refusal& refusal) {
  switch (refusal.tier) {
    case Tier::device: return {"--memory", "device memory", "given"};
    case Tier::host: return {"--host-memory", "host memory", "of --host-memory"};
    case Tier::disk: return {"--spill-limit", "disk", "of --spill-limit"};
    case Tier::source: break;
  }
  internal_error("a source lacks no bytes");
}

}  // namespace

std::string sentence_of(const Refusal& refusal) {
  const std::string who = refusal.planner.empty() ? "the plan" : "planner " + refusal.planner;
  if (!refusal.of_bytes()) return fmt::format("{} has no plan for {}: {}", who, refusal.program, refusal.reason);
  const std::string needed = fmt::format("{} ({} bytes)", format_bytes(refusal.needed), refusal.needed);
  if (refusal.tier != Tier::device && refusal.budget == 0)
    return fmt::format("{} lets {} of {} wait outside the device, and there is no tier where they could", who, needed,
                       refusal.program);
  const Words words = words_of(refusal);
  return fmt::format("{} needs {} of {} for {}, {} ({} bytes) more than the {} {}; the peak is at {}", who, needed, words.what,
                     refusal.program, format_bytes(refusal.missing()), refusal.missing(), format_bytes(refusal.budget), words.given,
                     refusal.at);
}

std::string advice_of(const Refusal& refusal) {
  if (!refusal.of_bytes()) return "Try another --planner";
  if (refusal.tier != Tier::device && refusal.budget == 0)
    return "Give --spill DIR, so that they wait on disk, or try another --planner; --host-memory SIZE stands in for a card's host "
           "memory, but on a cpu it is the same memory as the device's";
  // Where values wait on disk already, the host holds what is used at once.
  if (refusal.tier == Tier::host && !refusal.disk) return "Raise --host-memory, or give a --spill directory";
  return fmt::format("Raise {}, try another --planner, or make batch or image smaller", words_of(refusal).flag);
}

std::string message_of(const Refusal& refusal) { return fmt::format("{}. {}", sentence_of(refusal), advice_of(refusal)); }

}  // namespace outsize
