#include <zlib.h>

#include <cstring>
#include <limits>

#include "../write_npz.h"
#include "cli.h"
#include "data/safetensors.h"

// What is not a finite number, in the data or in weights that are read: the run stops and says where.
namespace outsize {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Convolutions that a relu joins, and a maximum: none may make a number of a NaN.
constexpr const char* kGraph = R"(graph small
input x f32[2, 3, 8, 8]
input labels i32[2]
param a.weight f32[4, 3, 3, 3] init=normal:0.1
param a.bias f32[4] init=zeros
param b.weight f32[4, 4, 3, 3] init=normal:0.1
a: u = conv2d(x, a.weight, a.bias) padding=[1, 1, 1, 1]
a.relu: v = relu(u)
pool: w, where = max_pool(v) kernel=[2, 2] stride=[2, 2]
b: p = conv2d(w, b.weight) padding=[1, 1, 1, 1]
b.relu: q = relu(p)
mean: r = adaptive_avg_pool(q)
flatten: z = reshape(r) shape=[2, 4]
loss: loss = softmax_cross_entropy(z, labels)
output loss
)";

class NotFinite : public Cli {
 protected:
  NotFinite() {
    write("small.graph", kGraph);
    EXPECT_EQ(run("train small.graph --steps 1 --save good.safetensors").status, 0);
  }
  // good.safetensors with this number at the end of one tensor.
  void write_weights(const std::string& name, const std::string& tensor, float number) const {
    const SafetensorsFile good(path("good.safetensors"));
    write_safetensors(path(name), good.entries(), [&](const TensorEntry& entry, const TensorSink& sink) {
      std::vector<std::byte> bytes = good.read(entry).data;
      if (entry.name == tensor) std::memcpy(bytes.data() + bytes.size() - sizeof number, &number, sizeof number);
      sink(bytes);
    });
  }
};

TEST_F(NotFinite, PixelStopsTheRunOnEveryBackend) {
  for (const float number : {kNan, kInfinity}) {
    Array x = make_array(ElementType::f32, {2, 3, 8, 8});
    std::memcpy(x.data.data() + 100 * sizeof number, &number, sizeof number);
    write_npz(path("d.npz"), {{"x", x}, {"y", make_array(ElementType::i64, {2})}});
    for (const std::string backend : {"cpu", "reference"}) {
      const Result result = run("train small.graph --data d.npz --steps 3 --backend " + backend);
      EXPECT_EQ(result.status, 2) << backend;
      EXPECT_NE(result.err.find("the loss is not a number at step 1"), std::string::npos) << backend << ": " << result.err;
    }
  }
}

TEST_F(NotFinite, WeightsAreRefusedByName) {
  write_weights("nan.safetensors", "a.bias", kNan);
  write_weights("infinite.safetensors", "b.weight", -kInfinity);
  for (const std::string more : {"", " --partial"}) {
    const Result nan = run("train small.graph --steps 1 --weights nan.safetensors" + more);
    EXPECT_EQ(nan.status, 2);
    EXPECT_NE(nan.err.find("outsize: nan.safetensors: tensor 'a.bias' holds what is not a finite number of f32"), std::string::npos)
        << nan.err;
    const Result infinite = run("train small.graph --steps 1 --weights infinite.safetensors" + more);
    EXPECT_EQ(infinite.status, 2);
    EXPECT_NE(infinite.err.find("outsize: infinite.safetensors: tensor 'b.weight' holds what is not a finite number of f32"),
              std::string::npos)
        << infinite.err;
  }
}

// A checkpoint of another program, whole but with a momentum that is not a number.
TEST_F(NotFinite, CheckpointIsRefusedByName) {
  ASSERT_EQ(run("train small.graph --steps 1 --checkpoint run").status, 0);
  std::filesystem::copy_file(path("run/checkpoint-000000001.safetensors"), path("good.safetensors"),
                             std::filesystem::copy_options::overwrite_existing);
  const SafetensorsFile good(path("good.safetensors"));
  std::string momentum;
  for (const TensorEntry& entry : good.entries())
    if (entry.name.starts_with("b.weight.")) momentum = entry.name;
  ASSERT_NE(momentum, "");
  write_weights("run/checkpoint-000000001.safetensors", momentum, kNan);
  const std::string bytes = text("run/checkpoint-000000001.safetensors");
  Json description = Json::parse(text("run/checkpoint-000000001.json"));
  description["weights_crc32"] = ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
  write("run/checkpoint-000000001.json", description.dump());
  const Result result = run("train small.graph --steps 2 --checkpoint run --resume");
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("checkpoint-000000001.safetensors: tensor '" + momentum + "' holds what is not a finite number of f32"),
            std::string::npos)
      << result.err;
}

}  // namespace
}  // namespace outsize
