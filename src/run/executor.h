#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/interface.h"
#include "data/window.h"
#include "program/program.h"
#include "program/trace.h"
#include "run/memory.h"

namespace outsize {

struct ExecutorOptions {
  std::string spill_directory;  // for the disk tier; empty: the system's temporary directory
  bool check_spill = false;     // compare what comes back from lower tiers with what went there
  bool trace = false;
  bool debug_memory = false;      // poison what a piece leaves behind; check the canaries around every piece after each instruction
  std::int64_t canary_bytes = 0;  // as the program was lowered with
};

// Memory that the program fits into.
std::shared_ptr<Memory> make_memory(const Program& program, Backend& backend, const ExecutorOptions& options);

// Interprets a program: no allocation, no shape logic, no decision in a step.
class Executor {
 public:
  // Prepares every kernel and memory of the program's peaks. Keeps references to graph, program and backend.
  Executor(const Graph& graph, const Program& program, Backend& backend, ExecutorOptions options = {});
  // The same in the memory of a run, which must be large enough: persistent values are there already.
  Executor(const Graph& graph, const Program& program, Backend& backend, std::shared_ptr<Memory> memory,
           ExecutorOptions options = {});
  ~Executor();

  // Writes an input or persistent value before a step; `data` is dense row-major in the value's dtype. Throws UserError when the
  // size is wrong or the value is not an input.
  void write(ValueId value, std::span<const std::byte> data);
  // The same from a reader of windows, without the value ever being whole outside the memory of the run.
  void write(ValueId value, const WindowReader& reader);
  // The same part by part, in order: fill(first, part) writes the elements from `first` on. Of a persistent value a part is small,
  // whatever the size of the value.
  void write_parts(ValueId value, const std::function<void(std::int64_t first, std::span<std::byte> part)>& fill);
  // Whether the program takes this input window by window from its source.
  bool takes_windows(ValueId value) const;
  // The source of such an input, from the next step on; a step calls it from as many threads as the backend may use, where it is
  // for several, otherwise from one. Throws UserError when the value is no input that takes_windows().
  void source(ValueId value, WindowReader reader);
  // Reads an output or persistent value after a step into dense row-major `data`.
  void read(ValueId value, std::span<std::byte> data) const;
  // The same part by part, in order.
  void read_parts(ValueId value, const std::function<void(std::span<const std::byte> part)>& sink) const;

  // Runs the program once. Errors of any lane are rethrown here: of a spill file that cannot be read or written as UserError, of a
  // value that was changed in a lower tier, where that is checked, as InternalError, of a source whatever it throws.
  void step();

  const Trace& trace() const;
  // The highest byte of a tier that was touched so far: arenas start filled with a pattern, and what differs was touched. The
  // workspace of a kernel that ran counts whole.
  std::int64_t measured_peak_bytes(Tier tier = Tier::device) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace outsize
