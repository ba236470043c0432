#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "graph/opdef.h"

namespace outsize {

// Checks for OpDef::infer: each throws UserError saying what was expected and what was found; the caller names the op.

// The declared name of input i, without its marks.
inline std::string_view input_name(const OpSite& site, int i) {
  const std::vector<std::string_view> names = site.op.def->input_names();
  std::string_view name = names[std::min(static_cast<std::size_t>(i), names.size() - 1)];
  if (name.ends_with('?') || name.ends_with('*')) name.remove_suffix(1);
  return name;
}

// Input i must be f32 or f64.
inline void expect_float(const OpSite& site, int i) {
  if (!is_float(site.in(i).dtype)) user_error("input {} must be f32 or f64, found {}", input_name(site, i), to_string(site.in(i)));
}

// Input i must be a map [N, C, H, W] or [N, C, D, H, W] of f32 or f64.
inline void expect_any_map(const OpSite& site, int i) {
  expect_float(site, i);
  if (site.in(i).format != Format::map)
    user_error("input {} must be a map [N, C, H, W] or [N, C, D, H, W], found {}", input_name(site, i), to_string(site.in(i)));
}

// Input i must be a plain value of that rank, f32 or f64; `shape` says it in letters, "[N, I]".
inline void expect_plain(const OpSite& site, int i, int rank, std::string_view shape) {
  expect_float(site, i);
  if (site.in(i).format != Format::plain || site.in(i).shape.rank() != rank)
    user_error("input {} must be plain {}, found {}", input_name(site, i), shape, to_string(site.in(i)));
}

// Input i must have exactly this type; `why` says where it comes from.
inline void expect_type(const OpSite& site, int i, const ValueType& expected, std::string_view why) {
  if (site.in(i) != expected)
    user_error("input {} must be {} ({}), found {}", input_name(site, i), to_string(expected), why, to_string(site.in(i)));
}

// The attribute's list, which must have `count` numbers of at least `minimum`.
inline const std::vector<std::int64_t>& expect_list(const OpSite& site, std::string_view attribute, std::size_t count,
                                                    std::int64_t minimum) {
  const std::vector<std::int64_t>& list = site.integers(attribute);
  if (list.size() != count || std::any_of(list.begin(), list.end(), [&](std::int64_t n) { return n < minimum; }))
    user_error("attribute {} must be a list of {} numbers of at least {}, found {}", attribute, count, minimum,
               to_string(Attribute(list)));
  return list;
}

// The attribute's word, which must be "none" or "relu"; true for "relu".
inline bool expect_activation(const OpSite& site) {
  const std::string& word = site.word("activation");
  if (word != "none" && word != "relu") user_error("attribute activation must be none or relu, found {}", word);
  return word == "relu";
}

}  // namespace outsize
