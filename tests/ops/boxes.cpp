#include <functional>

#include "subject.h"

// What tiling rests on: an op computed box by box, by gather or by push, is the op computed whole; a kernel prepared for one box
// serves a shifted one; an output may overwrite the input that its op names.
namespace outsize::test {
namespace {

constexpr int kTries = 8;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::string describe(const OpSite& site, int output, const Box& box) {
  return fmt::format("{} ({}), output {}, from box {}", site.op.name, site.op.def->kind(), output, to_string(box));
}

// Ops that compute a box of output 0 by itself.
bool gathers(const OpSite& site) { return site.op.def->can_gather(site) || site.op.def->gathers_sums(site); }

// Ops of which results for boxes of the driver are combined: reductions and everything in backward.
bool pushes(const OpSite& site) {
  const OpDef& def = *site.op.def;
  if (!def.can_gather(site) || site.op.phase == Phase::backward) return true;
  for (int i = 0; i < site.outputs(); ++i)
    if (def.combine(site, i) != Combine::none) return true;
  return false;
}

// The dimensions of the driver along which the op can be pushed box by box: where it cannot, it answers with more.
std::vector<int> push_dimensions(const OpSite& site) {
  const int driver = site.op.def->push_driver(site);
  const ValueType& type = site.in(driver);
  std::vector<int> dimensions = all_dimensions(type);
  std::erase_if(dimensions, [&](int dim) {
    Box box = Box::whole(type.shape);
    box.set(dim, {0, 1});
    return type.shape[dim] == 1 || site.op.def->push(site, box).in[at(driver)] != box;
  });
  return dimensions;
}

void expect_boxes_inside(const OpSite& site, const CallBoxes& boxes) {
  ASSERT_EQ(boxes.in.size(), at(site.inputs())) << site.op.name;
  ASSERT_EQ(boxes.out.size(), at(site.outputs())) << site.op.name;
  for (int i = 0; i < site.inputs(); ++i)
    ASSERT_TRUE(Box::whole(site.in(i).shape).contains(boxes.in[at(i)])) << site.op.name << " input " << to_string(boxes.in[at(i)]);
  for (int i = 0; i < site.outputs(); ++i)
    ASSERT_TRUE(Box::whole(site.out(i).shape).contains(boxes.out[at(i)]))
        << site.op.name << " output " << to_string(boxes.out[at(i)]);
}

class Boxes : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override { bench_.emplace(GetParam().op_case, backend()); }

  const Backend& backend() const { return *GetParam().backend; }
  const Bench& bench() const { return *bench_; }
  // Calls `check(site, inputs, whole results)` for every op that the backend offers.
  void for_each_op(const std::function<void(const OpSite&, const std::vector<Tensor>&, const std::vector<Tensor>&)>& check) const {
    for (OpId id : bench().ops()) {
      const OpSite site = bench().graph().site(id);
      const std::vector<Tensor> inputs = bench().inputs(id);
      check(site, inputs, run_op(backend(), site, inputs, whole(site)));
    }
  }
  void expect_slice(const Tensor& result, const Tensor& expected, const std::string& what) const {
    const double tolerance = is_float(expected.type.dtype) ? backend().box_tolerance : 0;
    EXPECT_LE(relative_error(result, crop(expected, result.box), &expected), tolerance) << what;
  }
  void expect_whole(const std::vector<Tensor>& results, const std::vector<Tensor>& expected, const OpSite& site) const {
    for (int i = 0; i < site.outputs(); ++i) expect_slice(results[at(i)], expected[at(i)], describe(site, i, expected[at(i)].box));
  }

  std::optional<Bench> bench_;
  Random random_{11};
};

TEST_P(Boxes, GatheredBoxIsSliceOfWhole) {
  for_each_op([&](const OpSite& site, const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected) {
    if (!gathers(site)) return;
    for (int i = 0; i < kTries; ++i) {
      const Box box = i == 0 ? Box::whole(site.out(0).shape) : random_box(random_, site.out(0));
      const Invocation call = invocation(site, site.op.def->gather(site, box));
      ASSERT_NO_FATAL_FAILURE(expect_boxes_inside(site, call.boxes));
      ASSERT_TRUE(call.boxes.out[0].contains(box)) << describe(site, 0, box);
      const std::vector<Tensor> results = run_cropped(backend(), site, inputs, call);
      for (int j = 0; j < site.outputs(); ++j) expect_slice(results[at(j)], expected[at(j)], describe(site, j, box));
    }
  });
}

// Updates row by row give the bits of whole ones: plans that have no other passes are not to rounding.
TEST_P(Boxes, UpdatesKeepTheirBits) {
  for_each_op([&](const OpSite& site, const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected) {
    if (site.op.updates.empty() || !site.op.def->can_gather(site)) return;
    for (int i = 0; i < kTries; ++i) {
      const Box box = random_box(random_, site.out(0));
      const Invocation call = invocation(site, site.op.def->gather(site, box));
      const std::vector<Tensor> results = run_cropped(backend(), site, inputs, call);
      for (int j = 0; j < site.outputs(); ++j)
        EXPECT_EQ(results[at(j)].numbers, crop(expected[at(j)], results[at(j)].box).numbers) << describe(site, j, box);
    }
  });
}

// What calls over boxes of the driver give together.
class Accumulator {
 public:
  explicit Accumulator(const OpSite& site) : site_(site) {
    for (int i = 0; i < site.outputs(); ++i) {
      const Box whole_output = Box::whole(site.out(i).shape);
      totals_.push_back(Tensor::zeros(site.out(i), whole_output));
      written_.push_back(Tensor::zeros({DType::i32, site.out(i).shape, Format::plain}, whole_output));
    }
  }

  void add(const std::vector<Tensor>& results) {
    for (int i = 0; i < site_.outputs(); ++i) {
      const Tensor& result = results[at(i)];
      Tensor ones = crop(written_[at(i)], result.box);
      for (double& count : ones.numbers) ++count;
      paste(written_[at(i)], ones);
      const Combine rule = site_.op.def->combine(site_, i);
      if (rule == Combine::none)
        paste(totals_[at(i)], result);
      else
        combine(rule, totals_[at(i)], result);
    }
  }

  // The outputs; those that do not combine must have been written everywhere exactly once.
  const std::vector<Tensor>& totals() const {
    for (int i = 0; i < site_.outputs(); ++i) {
      if (site_.op.def->combine(site_, i) != Combine::none) continue;
      for (double count : written_[at(i)].numbers)
        if (count != 1) {
          ADD_FAILURE() << describe(site_, i, totals_[at(i)].box) << ": an element written " << count << " times, not once";
          break;
        }
    }
    return totals_;
  }

 private:
  const OpSite& site_;
  std::vector<Tensor> totals_;
  std::vector<Tensor> written_;
};

TEST_P(Boxes, PushedPartsCombineToWhole) {
  for_each_op([&](const OpSite& site, const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected) {
    if (!pushes(site)) return;
    const int driver = site.op.def->push_driver(site);
    const std::vector<int> dimensions = push_dimensions(site);
    for (int i = 0; i < kTries; ++i) {
      Accumulator accumulator(site);
      for (const Box& box : random_partition(random_, site.in(driver).shape, some_of(random_, dimensions))) {
        const Invocation call = invocation(site, site.op.def->push(site, box));
        ASSERT_NO_FATAL_FAILURE(expect_boxes_inside(site, call.boxes));
        ASSERT_EQ(to_string(call.boxes.in[at(driver)]), to_string(box)) << describe(site, 0, box);
        accumulator.add(run_cropped(backend(), site, inputs, call));
      }
      expect_whole(accumulator.totals(), expected, site);
    }
  });
}

struct Tile {
  Box owned;
  Box box;
};

// Tiles that overlap each bring a share of the driver (what flows into a tile's halo from that tile alone), and own
// disjoint boxes, one of them nothing.
TEST_P(Boxes, OwnedTermsCountOnce) {
  for_each_op([&](const OpSite& site, const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected) {
    if (!site.op.def->has_owned_terms(site)) return;
    const int driver = site.op.def->push_driver(site);
    const ValueType& type = site.in(driver);
    for (int i = 0; i < kTries; ++i) {
      std::vector<Tile> tiles{{Box::none(type.shape.rank()), random_box(random_, type)}};
      for (const Box& owned : random_partition(random_, type.shape, some_of(random_, all_dimensions(type)))) {
        Box box = owned;
        for (int dim : all_dimensions(type)) {
          const auto before = static_cast<std::int64_t>(random_() % 3), after = static_cast<std::int64_t>(random_() % 3);
          box.set(dim, intersect({owned.lo[dim] - before, owned.hi[dim] + after}, {0, type.shape[dim]}));
        }
        tiles.push_back({owned, box});
      }
      Accumulator accumulator(site);
      // Every tile takes a random share of what is left; the owner of an element gets the rest of it too.
      Tensor left = inputs[at(driver)];
      std::vector<Tensor> shares;
      for (const Tile& tile : tiles) {
        Tensor share = crop(left, tile.box);
        for (double& number : share.numbers) number *= static_cast<double>(random_() % 4) / 4;
        Tensor rest = crop(left, tile.box);
        for (std::size_t j = 0; j < rest.numbers.size(); ++j) rest.numbers[j] -= share.numbers[j];
        paste(left, rest);
        shares.push_back(std::move(share));
      }
      for (std::size_t t = 0; t < tiles.size(); ++t) {
        Tensor& share = shares[t];
        const Tensor rest = crop(left, tiles[t].owned);
        Tensor owned_share = crop(share, tiles[t].owned);
        for (std::size_t j = 0; j < rest.numbers.size(); ++j) owned_share.numbers[j] += rest.numbers[j];
        paste(share, owned_share);

        Invocation call = invocation(site, site.op.def->push(site, tiles[t].box));
        call.owned = tiles[t].owned;
        std::vector<Tensor> parts;
        for (std::size_t j = 0; j < inputs.size(); ++j)
          parts.push_back(j == at(driver) ? share : crop(inputs[j], call.boxes.in[j]));
        accumulator.add(run_op(backend(), site, parts, call));
      }
      expect_whole(accumulator.totals(), expected, site);
    }
  });
}

bool same_shapes(const std::vector<Box>& a, const std::vector<Box>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].shape() != b[i].shape()) return false;
  return true;
}

// Whether the calls differ by the same shift from one to the next, as iterations of a loop do.
bool evenly_shifted(const std::vector<CallBoxes>& calls) {
  const auto even = [&](auto member) {
    const std::vector<Box>& first = calls[0].*member;
    for (std::size_t step = 1; step < calls.size(); ++step) {
      if (!same_shapes(first, calls[step].*member)) return false;
      for (std::size_t i = 0; i < first.size(); ++i)
        for (int dim = 0; dim < first[i].rank(); ++dim)
          if ((calls[step].*member)[i].lo[dim] - (calls[step - 1].*member)[i].lo[dim] !=
              (calls[1].*member)[i].lo[dim] - (calls[0].*member)[i].lo[dim])
            return false;
    }
    return true;
  };
  return even(&CallBoxes::in) && even(&CallBoxes::out);
}

TEST_P(Boxes, PreparedKernelServesShiftedBox) {
  using Relation = CallBoxes (OpDef::*)(const OpSite&, const Box&) const;
  const auto check = [&](const OpSite& site, const std::vector<Tensor>& inputs, const ValueType& type, Relation relation, int dim,
                         std::int64_t shift) {
    constexpr int iterations = 2;
    const std::int64_t room = type.shape[dim] - shift * (iterations - 1);
    if (room < 1) return;
    Box box = random_box(random_, type);
    const std::int64_t size = std::uniform_int_distribution<std::int64_t>(1, room)(random_);
    const std::int64_t lo = std::uniform_int_distribution<std::int64_t>(0, room - size)(random_);
    box.set(dim, {lo, lo + size});
    Dims delta = Dims::filled(box.rank(), 0);
    delta[dim] = shift;
    std::vector<CallBoxes> calls;
    for (int i = 0; i < iterations; ++i) calls.push_back((site.op.def->*relation)(site, box.shifted(delta, i)));
    if (!evenly_shifted(calls) || !site.op.def->moves_alike(site, calls[0], calls[1])) return;

    const Invocation first = invocation(site, calls[0]);
    const Invocation fresh = invocation(site, calls[1]);
    Invocation shifted = fresh;
    shifted.prepared = &first.boxes;
    shifted.prepared_owned = first.owned;
    const std::vector<Tensor> expected = run_cropped(backend(), site, inputs, fresh);
    const std::vector<Tensor> results = run_cropped(backend(), site, inputs, shifted);
    for (int i = 0; i < site.outputs(); ++i)
      EXPECT_EQ(results[at(i)].numbers, expected[at(i)].numbers)
          << describe(site, i, box) << " shifted by " << shift << " in dimension " << dim;
  };
  for_each_op([&](const OpSite& site, const std::vector<Tensor>& inputs, const std::vector<Tensor>&) {
    const auto check_relation = [&](const ValueType& type, Relation relation) {
      for (int dim : all_dimensions(type))
        for (std::int64_t shift = 1; shift <= 3; ++shift)
          for (int i = 0; i < kTries / 2; ++i) check(site, inputs, type, relation, dim, shift);
    };
    if (gathers(site)) check_relation(site.out(0), &OpDef::gather);
    if (pushes(site)) check_relation(site.in(site.op.def->push_driver(site)), &OpDef::push);
  });
}

TEST_P(Boxes, InPlaceGivesSameBits) {
  for_each_op([&](const OpSite& site, const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected) {
    std::vector<InPlacePairs> choices;
    for (const InPlacePair& pair : site.op.def->in_place(site)) choices.push_back({pair});
    if (const InPlacePairs updates = site.op.def->updates(site); !updates.empty()) choices.push_back(updates);
    for (const InPlacePairs& aliases : choices) {
      Invocation call = whole(site);
      call.aliases = aliases;
      const std::vector<Tensor> results = run_op(backend(), site, inputs, call);
      for (int i = 0; i < site.outputs(); ++i)
        EXPECT_EQ(results[at(i)].numbers, expected[at(i)].numbers)
            << describe(site, i, expected[at(i)].box) << ", output " << aliases[0].output << " over input " << aliases[0].input;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ops, Boxes, ::testing::ValuesIn(all_subjects(true)), name_of);

}  // namespace
}  // namespace outsize::test
