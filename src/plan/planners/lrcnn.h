#pragma once

#include <functional>
#include <span>

#include "base/table.h"
#include "plan/analysis/groups.h"
#include "plan/tiling/tiled_search.h"

namespace outsize {

// LR-CNN's formulas, as corrected. Layers are counted from 1 to L; z⁰ is what the first reads, zˡ what layer l makes. A row is a
// band of rows of all z.

// zˡ, and the layer that makes it; the sliding window of z⁰ means nothing.
struct RowLayer {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};

struct RowStack {
  std::int64_t batch = 1;
  Table<RowLayer> layers;  // z⁰ … z^L

  std::int64_t depth() const { return layers.size() - 1; }  // L
};

// (3): ϱˡ, the elements of zˡ.
std::int64_t elements_of(const RowStack& stack, std::int64_t l);

// (11), (13), (14): where the rows of 2PS end in every zˡ, when they end in z^L at `ends` (ascending, the last its height). By l,
// then row: so far zˡ is computed when the row is done.
Table<std::vector<std::int64_t>> shared_row_ends(const RowStack& stack, std::vector<std::int64_t> ends);
// `rows` of z^L as even as can be.
std::vector<std::int64_t> even_row_ends(std::int64_t height, std::int64_t rows);

// (15): the rows of every zˡ that two neighbouring rows of OverL both compute, by l.
Table<std::int64_t> overlapped_rows(const RowStack& stack);
// Of these, those above the boundary and those below, where it lies in zˡ when scaled by the strides.
Table<std::int64_t> overlapped_above(const RowStack& stack);
Table<std::int64_t> overlapped_below(const RowStack& stack);

// Elements on the device with `rows` rows: (7) forward, which holds what one layer reads and makes; (8) backward, which holds a row
// of all layers; (12) the same of 2PS with all shared rows; the same of OverL with the rows that overlap.
double forward_elements(const RowStack& stack, std::int64_t rows);
double backward_elements(const RowStack& stack, std::int64_t rows);
double shared_elements(const RowStack& stack, std::int64_t rows);
double overlapped_elements(const RowStack& stack, std::int64_t rows);

// (9), (10) and their like: the fewest rows, at most `most`, for which elements(rows) · 4 bytes are less than `bytes`; 0 where none
// are.
std::int64_t fewest_rows(const std::function<double(std::int64_t)>& elements, std::int64_t most, std::int64_t bytes);

// More rows than this do not serve: of 2PS, since from there on more shared rows are held than a row has; of OverL, since a row
// would be smaller than what it overlaps with.
std::int64_t most_shared_rows(const RowStack& stack);
std::int64_t most_overlapped_rows(const RowStack& stack);

// The stack of these groups: a group that has branches counts as one layer with the window of all of them. Groups whose maps have
// no rows, or are no function of a window, end it.
RowStack row_stack(const Graph& graph, std::span<const Group> groups);

inline constexpr PlannerOption kLrcnnRows{"rows", PlannerOption::Kind::integer, "",
                                          "rows that maps are cut into, forward and backward; else as few as fit", 1};
inline constexpr PlannerOption kLrcnnLayers{"layers", PlannerOption::Kind::integer, "",
                                            "layers from the first that run in rows; else as many as are fastest", 1};

inline constexpr PlannerOption kLrcnnCut{"cut",
                                         PlannerOption::Kind::word,
                                         "samples",
                                         "samples: before rows and columns; rows: nothing else, of the whole batch",
                                         0,
                                         0,
                                         "samples|rows"};
inline constexpr PlannerOption kLrcnnStream{
    "stream",
    PlannerOption::Kind::word,
    "",
    "maps between passes that wait in host memory (none: nor do weights); else what is fastest",
    0,
    0,
    "none|inputs|all"};

inline std::vector<PlannerOption> lrcnn_options() { return {kLrcnnRows, kLrcnnLayers, kLrcnnCut, kLrcnnStream, kRemake}; }

// The fastest plan of LR-CNN's that way: with rows that overlap or are shared, with or without checkpoints.
Planned<Plan> plan_lrcnn(const PlanRequest& request, std::string_view planner, TiledChoice::Halo halo, bool checkpoints);

}  // namespace outsize
