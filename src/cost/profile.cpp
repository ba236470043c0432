#include "cost/profile.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <variant>
#include <vector>

namespace outsize {
namespace {

// The fields of the `device` line, in the order they are printed.
using Field = std::variant<std::int64_t Device::*, double Device::*, bool Device::*>;
enum class Least : std::uint8_t { above_zero, zero, one };  // of a double
struct NamedField {
  std::string_view key;
  Field field;
  Least least = Least::above_zero;
};
constexpr NamedField kFields[] = {
    {"memory_bytes", &Device::memory_bytes},
    {"host_bytes", &Device::host_bytes},
    {"flops", &Device::flops},
    {"tf32_flops", &Device::tf32_flops, Least::zero},
    {"bandwidth", &Device::bandwidth},
    {"link_out", &Device::link_out},
    {"link_in", &Device::link_in},
    {"full_duplex", &Device::full_duplex},
    {"disk_out", &Device::disk_out},
    {"disk_in", &Device::disk_in},
    {"host_bandwidth", &Device::host_bandwidth, Least::zero},
    {"launch_seconds", &Device::launch_seconds, Least::zero},
    {"kernel_overlap", &Device::kernel_overlap, Least::one},
    {"copy_overlap", &Device::copy_overlap, Least::one},
    {"link_overlap", &Device::link_overlap, Least::one},
};

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Takes the text up to the next space, and the spaces, off the front of `rest`.
std::string_view take_word(std::string_view& rest) {
  const std::size_t end = std::min(rest.find(' '), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(std::min(rest.find_first_not_of(' ', end), rest.size()));
  return word;
}

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  void read_line(std::string_view line) {
    ++line_;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty() || line.front() == '#') return;
    const std::string_view word = take_word(line);
    if (word == "device")
      read_device(line);
    else if (word == "op")
      read_op(line);
    else if (word == "scale")
      read_scale(line);
    else if (word == "disturbed")
      read_disturbed(line);
    else
      fail(fmt::format("expected 'device', 'scale', 'op' or 'disturbed', found '{}'", word));
  }

  Profile finish() {
    if (!has_device_) user_error("{}: expected a line 'device name=…'", file_);
    return std::move(profile_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { user_error("{}:{}: {}", file_, line_, message); }

  void read_device(std::string_view rest) {
    if (has_device_) fail("a second 'device' line; a profile describes one device");
    has_device_ = true;
    bool in_name = false;  // the words behind name=… that are no key=value are the name's: "name=NVIDIA H200"
    while (!rest.empty()) {
      const std::string_view pair = take_word(rest);
      const std::size_t equals = pair.find('=');
      if (equals != std::string_view::npos) {
        set(pair.substr(0, equals), pair.substr(equals + 1));
        in_name = pair.substr(0, equals) == "name";
      } else if (in_name) {
        profile_.device.name.append(1, ' ').append(pair);
      } else {
        fail(fmt::format("expected key=value, found '{}'", pair));
      }
    }
  }

  void set(std::string_view key, std::string_view text) {
    Device& device = profile_.device;
    if (key == "name") {
      device.name = text;
      return;
    }
    const auto found = std::ranges::find(kFields, key, &NamedField::key);
    if (found == std::end(kFields)) fail(fmt::format("a device has no '{}'", key));
    const auto expected = std::visit([&](auto field) { return assign(device.*field, text, found->least); }, found->field);
    if (expected) fail(fmt::format("{} must be {}, found '{}'", key, *expected, text));
  }

  // What the text should have been, where it was not.
  using Expected = std::optional<std::string_view>;

  static Expected assign(double& target, std::string_view text, Least least) {
    const auto number = parse_number<double>(text);
    const double bound = least == Least::one ? 1 : 0;
    if (!number || !std::isfinite(*number) || *number < bound || (*number == 0 && least == Least::above_zero))
      return least == Least::above_zero ? "above 0" : least == Least::zero ? "at least 0" : "at least 1";
    target = *number;
    return std::nullopt;
  }
  static Expected assign(std::int64_t& target, std::string_view text, Least) {
    const auto number = parse_number<std::int64_t>(text);
    if (!number || *number < 0) return "a whole number of at least 0";
    target = *number;
    return std::nullopt;
  }
  static Expected assign(bool& target, std::string_view text, Least) {
    if (text != "0" && text != "1") return "0 or 1";
    target = text == "1";
    return std::nullopt;
  }

  void read_op(std::string_view rest) {
    const double seconds = take_number(rest, "seconds after 'op'", Least::zero);
    if (rest.empty()) fail("expected a signature after the seconds");
    if (!profile_.seconds.emplace(rest, seconds).second) fail(fmt::format("a second entry for '{}'", rest));
  }

  void read_scale(std::string_view rest) {
    Scale scale{take_number(rest, "ratio after 'scale'", Least::above_zero)};
    std::string_view kind = rest;
    const bool counted = !assign(scale.ops, take_word(kind), Least::zero);
    if (!counted) kind = rest;
    if (kind.empty()) fail("expected a kind of op after the ratio");
    if (!kinds_.emplace(kind).second) fail(fmt::format("a second entry for '{}'", kind));
    if (counted) profile_.scale.emplace(kind, scale);
  }

  double take_number(std::string_view& rest, std::string_view what, Least least) const {
    const std::string_view text = take_word(rest);
    double number = 0;
    if (assign(number, text, least)) fail(fmt::format("expected {}, found '{}'", what, text));
    return number;
  }

  void read_disturbed(std::string_view rest) {
    if (rest.empty()) fail("expected a signature after 'disturbed'");
    profile_.disturbed.emplace(rest);
  }

  std::string_view file_;
  std::int64_t line_ = 0;
  bool has_device_ = false;
  std::set<std::string, std::less<>> kinds_;  // that a scale is given of
  Profile profile_;
};

}  // namespace

std::string signature(const Call& call) {
  std::string text(call.site.op.def->kind());
  for (const AttributeSpec& spec : call.site.op.def->attribute_specs()) {
    const auto given = call.site.op.attributes.find(spec.name);
    text += fmt::format(" {}={}", spec.name, to_string(given == call.site.op.attributes.end() ? spec.fallback : given->second));
  }
  const auto extents = [](ValueType type, const Box& box) {
    type.shape = box.shape();
    return to_string(type);
  };
  text += " :";
  for (int i = 0; i < call.site.inputs(); ++i) text += ' ' + extents(call.site.in(i), call.boxes.in[i]);
  text += " ->";
  for (int i = 0; i < call.site.outputs(); ++i) text += ' ' + extents(call.site.out(i), call.boxes.out[i]);
  return text;
}

std::string signature(const Call& call, std::string_view kernel) {
  return kernel.empty() ? signature(call) : fmt::format("{} by {}", signature(call), kernel);
}

double flops_of(const Device& device, const Call& call) {
  if (device.tf32_flops == 0) return device.flops;
  bool reads = false, writes = false;
  for (int i = 0; i < call.site.inputs(); ++i) reads = reads || is_map(call.site.in(i).format);
  for (int i = 0; i < call.site.outputs(); ++i) writes = writes || is_map(call.site.out(i).format);
  return device.tf32_flops * (reads && !writes ? kSummedShare : kProductShare);
}

double roofline_seconds(const Device& device, const Call& call) {
  const Cost cost = call.site.op.def->cost(call.site, call.boxes);
  return std::max(cost.flops / flops_of(device, call), cost.bytes / device.bandwidth) + device.launch_seconds;
}

double Profile::seconds_of(const Call& call) const {
  if (!seconds.empty())
    if (const auto found = seconds.find(signature(call)); found != seconds.end()) return found->second;
  const double roofline = roofline_seconds(device, call);
  if (scale.empty()) return roofline;
  const auto found = scale.find(std::string(call.site.op.def->kind()));
  return found == scale.end() ? roofline : roofline * found->second.ratio;
}

double Profile::seconds_of(const Call& call, std::string_view kernel) const {
  if (!kernel.empty())
    if (const auto found = seconds.find(signature(call, kernel)); found != seconds.end()) return found->second;
  return seconds_of(call);
}

std::optional<Scale> scale_of(std::span<const MeasuredOp> ops) {
  std::vector<double> ratios;
  for (const MeasuredOp& op : ops)
    if (op.roofline_seconds >= kLeastScaledSeconds) ratios.push_back(op.seconds / op.roofline_seconds);
  const auto count = static_cast<std::int64_t>(ratios.size());
  if (count < kLeastScaledOps) return std::nullopt;
  std::ranges::sort(ratios);
  const double median = (ratios[(ratios.size() - 1) / 2] + ratios[ratios.size() / 2]) / 2;
  return Scale{std::clamp(median, 1 / kMostScale, kMostScale), count};
}

void keep_better(Scale& kept, const Scale& known) {
  if (known.ops >= kept.ops) kept = known;
}

std::string print_profile(const Profile& profile) {
  std::string text = fmt::format("device name={}", profile.device.name);
  for (const NamedField& entry : kFields)
    std::visit(
        [&](auto field) {
          // Numbers in their shortest exact form; a bool as 0 or 1.
          if constexpr (std::is_same_v<decltype(field), bool Device::*>)
            text += fmt::format(" {}={}", entry.key, profile.device.*field ? 1 : 0);
          else
            text += fmt::format(" {}={}", entry.key, profile.device.*field);
        },
        entry.field);
  text += '\n';
  for (const auto& [kind, scale] : std::map<std::string_view, Scale>(profile.scale.begin(), profile.scale.end()))
    text += fmt::format("scale {} {} {}\n", scale.ratio, scale.ops, kind);
  for (const auto& [key, seconds] : std::map<std::string_view, double>(profile.seconds.begin(), profile.seconds.end()))
    text += fmt::format("op {} {}\n", seconds, key);
  for (const std::string_view key : std::set<std::string_view>(profile.disturbed.begin(), profile.disturbed.end()))
    text += fmt::format("disturbed {}\n", key);
  return text;
}

Profile parse_profile(std::string_view text, std::string_view file) {
  Reader reader(file);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    reader.read_line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.finish();
}

}  // namespace outsize
