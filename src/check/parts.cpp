#include "check/parts.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "all_cases.h"
#include "base/bytes.h"
#include "check/case_graph.h"

namespace outsize::checks {
namespace {

// Cases that have not begun by then are left out, and counted as wrong: the whole check promises to be over in two minutes.
constexpr double kOpSeconds = 45;

// One op of a case: its outputs from the same inputs as the reference kernels in f64, and what it did that it may not do. Returns
// the largest relative error of an output of floats.
double check_op(Part& part, const std::string& name, const Bench& bench, OpId op, const Kernels& kernels, const Kernels& exact,
                const Fault& fault) {
  const OpSite site = bench.graph().site(op), exact_site = bench.exact_graph().site(op);
  const auto results = run_op(kernels, site, bench.inputs(op), whole(site), fault);
  const auto expected = run_op(exact, exact_site, bench.exact_inputs(op), whole(exact_site), fault);
  double worst = 0;
  for (int i = 0; i < site.outputs(); ++i) {
    const auto index = static_cast<std::size_t>(i);
    const bool floats = is_float(site.out(i).dtype);
    const double allowed = floats ? kernels.tolerance : 0;
    const double error = relative_error(results[index], expected[index]);
    if (!(error <= allowed))
      note(part, fmt::format("{}, op {} ({}): output {} is {:.1e} from the reference, {:.0e} allowed", name, site.op.name,
                             site.op.def->kind(), i, error, allowed));
    if (floats) worst = std::max(worst, error);
  }
  return worst;
}

// Memory of a tier, as an arena has it.
class Memory {
 public:
  Memory(Backend& backend, Tier tier, std::int64_t bytes)
      : backend_(backend), tier_(tier), bytes_(bytes), data_(backend.allocate(tier, bytes)) {}
  ~Memory() { backend_.deallocate(tier_, data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return data_; }

 private:
  Backend& backend_;
  Tier tier_;
  std::int64_t bytes_;
  std::byte* data_;
};

}  // namespace

Part check_ops(Backend& backend, const std::string& precision, double tolerance, const Observer& observer) {
  Part part{.name = "ops in " + precision};
  const double begin = now();
  const KernelTable reference = reference_kernels();
  const Kernels exact{"reference", &reference, DType::f64, {1}, 1e-12};
  Kernels kernels{std::string(backend.name()), nullptr, DType::f32, backend.storage()};
  kernels.device = &backend;
  kernels.tolerance = tolerance;
  const Fault fault = [&](const std::string& what) { note(part, what); };

  std::set<std::string_view> kinds;
  std::int64_t cases = 0, left = 0, ops = 0;
  double worst = 0;
  for (const auto& [folder, of_folder] : all_cases()) {
    observer.show(fmt::format("checking ops in {}: {}", precision, folder));
    for (const OpCase& op_case : of_folder) {
      if (op_case.bench) continue;
      if (now() - begin > kOpSeconds || part.wrong.size() == kMostWrong) {
        ++left;
        continue;
      }
      ++cases;
      const std::string name = fmt::format("{}/{}", folder, op_case.name);
      try {
        const Bench bench(op_case, kernels, exact, fault);
        for (const OpId op : bench.ops()) {
          ++ops;
          kinds.insert(bench.graph().graph.op(op).def->kind());
          worst = std::max(worst, check_op(part, name, bench, op, kernels, exact, fault));
        }
      } catch (const std::exception& error) {
        note(part, fmt::format("{}: {}", name, error.what()));
      }
      backend.release_kernels();
    }
  }
  if (left > 0)
    note(part, fmt::format("{} cases were left out: {}", left, now() - begin > kOpSeconds ? "time was over" : "enough is wrong"));
  part.found = fmt::format("{} cases of {} kinds, {} ops, at most {:.1e} from the reference ({:.0e} allowed)", cases, kinds.size(),
                           ops, worst, tolerance);
  part.seconds = now() - begin;
  return part;
}

Part check_link(Backend& backend, const Observer& observer) {
  constexpr std::int64_t kBytes = std::int64_t{128} << 20;
  constexpr int kRepetitions = 5;
  constexpr double kLeastOfACard = 2e9;
  Part part{.name = "link"};
  const double begin = now();
  observer.show("checking copies");
  const Memory device(backend, Tier::device, kBytes), second(backend, Tier::device, kBytes);
  const Memory host(backend, Tier::host, kBytes), other(backend, Tier::host, kBytes);
  CopyPlan plan;
  plan.length = kBytes / 4;
  Queues* const queues = backend.queues();
  // The best of several times, of which a copy that something else disturbs is none.
  const auto rate = [&](auto&& copy, std::int64_t bytes) {
    double seconds = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kRepetitions; ++i) {
      const double from = now();
      copy();
      if (queues) queues->finish();
      seconds = std::min(seconds, now() - from);
    }
    return static_cast<double>(bytes) / seconds;
  };

  // Numbers that no two places share.
  std::vector<std::uint32_t> sent(static_cast<std::size_t>(plan.length)), back(sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::uint32_t>(i) * 2654435761U;
  backend.upload(Tier::host, std::as_bytes(std::span(sent)), host.data());
  const auto in = [&] { backend.copy(Lane::copy_in, plan, 4, host.data(), device.data()); };
  const auto out = [&] { backend.copy(Lane::copy_out, plan, 4, device.data(), other.data()); };
  const double rate_in = rate(in, kBytes), rate_out = rate(out, kBytes);
  backend.download(Tier::host, other.data(), std::as_writable_bytes(std::span(back)));
  if (sent != back) {
    const auto at = std::ranges::mismatch(sent, back).in1 - sent.begin();
    note(part, fmt::format("what went to the device and came back differs, first at byte {} of {}", 4 * at, kBytes));
  }
  part.found = fmt::format("{:.1f} GB/s in, {:.1f} GB/s out", rate_in / 1e9, rate_out / 1e9);
  if (queues) {
    const double both = rate(
        [&] {
          backend.copy(Lane::copy_in, plan, 4, host.data(), second.data());
          out();
        },
        2 * kBytes);
    part.found += fmt::format(", {:.1f} GB/s with both at once", both / 1e9);
    backend.download(Tier::host, other.data(), std::as_writable_bytes(std::span(back)));
    if (sent != back) note(part, "what came back while other bytes went there differs");
    for (const auto& [name, found] : {std::pair("to", rate_in), std::pair("from", rate_out)})
      if (!(found >= kLeastOfACard))
        note(part, fmt::format("copies {} the card run at {:.2f} GB/s: the slot has few lanes, or the system refuses to pin memory",
                               name, found / 1e9));
  }
  part.seconds = now() - begin;
  return part;
}

namespace {

double loss_error(const std::vector<double>& found, const std::vector<double>& expected) {
  if (found.size() != expected.size() || found.empty()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error = std::abs(found[i] - expected[i]) / std::abs(expected[i]);
    worst = std::isfinite(error) ? std::max(worst, error) : std::numeric_limits<double>::infinity();
  }
  return worst;
}

}  // namespace

void check_peak(Part& part, const TrainingReport& report) {
  const std::int64_t measured = report.measured_peaks.device, predicted = report.predicted_peaks.device;
  if (measured != predicted)
    note(part, fmt::format("took {} bytes of the device's memory where {} were predicted", measured, predicted));
  part.found = fmt::format("{} of memory", format_bytes(measured));
}

void compare_losses(Part& part, const TrainingReport& report, const TrainingReport& expected, const std::string& whose) {
  constexpr double kTolerance = 1e-4;
  const double error = loss_error(report.losses, expected.losses);
  part.found += fmt::format(", losses {:.0e} from those of {}", error, whose);
  if (!(error <= kTolerance))
    note(part, fmt::format("losses are {:.1e} from those of {}, {:.0e} allowed", error, whose, kTolerance));
}

void compare_bits(Part& part, const TrainingReport& report, const TrainingReport& keep) {
  if (report.parameters_sha256 == keep.parameters_sha256)
    part.found += ", parameters as keep's to the bit";
  else
    note(part, "its steps leave other parameters than keep's");
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool note(Part& part, std::string what) {
  if (part.wrong.size() < kMostWrong) part.wrong.push_back(std::move(what));
  return part.wrong.size() < kMostWrong;
}

}  // namespace outsize::checks
