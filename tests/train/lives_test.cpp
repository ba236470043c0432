// What planners reckon with is what lowering makes of it.
#include "plan/reckon/lives.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "cost/devices.h"
#include "model/zoo.h"
#include "ops/registry.h"
#include "plan/analysis/order.h"
#include "program/lower.h"
#include "run/trainer.h"

namespace outsize {
namespace {

TEST(Lives, BytesOfEachRunAreThoseOfTheProgram) {
  register_ops();
  const std::unique_ptr<Backend> backend = make_backend("cpu", 2);
  const Profile profile{find_device("cpu"), {}};
  const auto workspace = [&](const Call& call) { return backend->kernel(call)->workspace_bytes(); };
  for (const char* name : {"vgg16-features", "resnet18", "densenet121", "unet2d", "bert-base", "gpt2", "mlp"}) {
    ModelOptions options{.batch = 2, .width = 0.125};
    if (std::string(name) != "bert-base" && std::string(name) != "gpt2") options.image_height = options.image_width = 64;
    const StepGraph step = make_training_graph(build_model(name, options), {.accuracy = true});
    const PlanRequest request{.graph = step.graph, .profile = profile, .storage = backend->storage(), .workspace = workspace};
    const Runs runs = eager_order(step.graph);
    const std::vector<std::int64_t> expected = lives_of(request, costs_of(request), runs).bytes();
    LowerOptions lowering;
    lowering.storage = backend->storage();
    lowering.workspace = workspace;
    const Program program = lower(step.graph, find_planner("keep").make(request).take(), lowering).take();
    // The sum of all pieces that are live during each instruction, which is a run here.
    std::vector<std::int64_t> change(program.instructions.size() + 1, 0);
    std::vector<std::int32_t> last(program.pieces.size(), -1);
    for (std::size_t p = program.pieces.size(); p-- > 0;) {
      last[p] = std::max(last[p], program.pieces[p].last);
      if (const PieceId parent = program.pieces[p].shares)
        last[static_cast<std::size_t>(parent.index)] = std::max(last[static_cast<std::size_t>(parent.index)], last[p]);
    }
    for (std::size_t p = 0; p < program.pieces.size(); ++p) {
      const Piece& piece = program.pieces[p];
      if (piece.shares || piece.first < 0) continue;
      const std::int64_t bytes = align_up(piece.bytes, kAlignment);
      change[static_cast<std::size_t>(piece.first)] += bytes;
      change[static_cast<std::size_t>(last[p]) + 1] -= bytes;
    }
    ASSERT_EQ(program.instructions.size(), expected.size());
    std::int64_t live = 0;
    int shown = 0;
    for (std::size_t i = 0; i < expected.size() && shown < 5; ++i) {
      live += change[i];
      if (live == expected[i]) continue;
      ++shown;
      ADD_FAILURE() << name << ", run " << i << " (" << step.graph.op(runs[i]).name << "): " << expected[i] << " reckoned, " << live
                    << " in the program";
    }
  }
}

}  // namespace
}  // namespace outsize
