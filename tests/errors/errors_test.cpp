// One case a user error: what the command says on standard error, and its exit status.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "data/npz.h"
#include "data/safetensors.h"

namespace outsize {
namespace {

struct Case {
  std::string name;
  std::string arguments;  // of the command, run in a folder that holds the files below
  int status = 2;
  std::string message;  // a part of standard error
};

// A forward graph that is right; cases break one thing of it.
constexpr const char* kGoodGraph = R"(graph tiny
input x f32[2, 3, 8, 8]
input labels i32[2]
param conv.weight f32[4, 3, 3, 3] init=normal:0.1
conv: y = conv2d(x, conv.weight) padding=[1, 1, 1, 1]
pool: p = adaptive_avg_pool(y)
flatten: z = reshape(p) shape=[2, 4]
loss: loss = softmax_cross_entropy(z, labels)
output loss
)";

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), by);
}

class Errors : public testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::filesystem::temp_directory_path() / ("outsize_errors_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    const std::string good = kGoodGraph;
    write("good.graph", good);
    write("unknown_op.graph", replaced(good, "conv2d(", "conv2("));
    write("shape.graph", replaced(good, "f32[4, 3, 3, 3]", "f32[4, 5, 3, 3]"));
    write("attribute.graph", replaced(good, "padding=", "paddin="));
    write("undefined.graph", replaced(good, "conv2d(x,", "conv2d(xx,"));
    write("no_x.graph", replaced(replaced(good, "input x", "input image"), "conv2d(x,", "conv2d(image,"));
    write("not_a_loss.graph", replaced(good, "output loss", "output z"));
    write("two_outputs.graph", good + "output z\n");
    write("nothing_to_train.graph",
          replaced(good, "param conv.weight f32[4, 3, 3, 3] init=normal:0.1", "state conv.weight f32[4, 3, 3, 3]"));
    write("samples.graph", replaced(good, "input labels i32[2]", "input labels i32[3]"));
    write("unknown_op.plan", "plan tiny by hand\nrun conv9\n");
    write("unknown_value.plan", "plan tiny by hand\nrun conv\nout yy host\n");
    write("incomplete.plan", "plan tiny by hand\nrun conv\n");
    write("empty.plan", "");
    write("other_graph.plan", "plan other by hand\nrest\n");
    write("channels.plan", "plan tiny by hand\npass r.a driver=y grid=[1, 2, 1, 1] ops=[conv]\nrest\n");
    write("same_pass.plan",
          "plan tiny by hand\npass r.a driver=y grid=[1, 1, 2, 1] ops=[conv]\npass r.a driver=y grid=[1, 1, 2, 1] "
          "ops=[conv]\nrest\n");
    write("streamed.plan", "plan tiny by hand\nstream x host\nrest\n");
    write("garbage.bin", "neither zip nor safetensors, but long enough to be looked into\n");
    write_arrays();
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  static void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }

  static void write_arrays() {
    const auto path = [](const char* name) { return (folder_ / name).string(); };
    const auto zeros = [](const TensorEntry& entry) { return std::vector<std::byte>(static_cast<std::size_t>(entry.bytes())); };
    write_safetensors(path("good.safetensors"), {{"conv.weight", ElementType::f32, {4, 3, 3, 3}}}, zeros);
    write_safetensors(path("other.safetensors"), {{"fc.weight", ElementType::f32, {4, 3}}}, zeros);
    write_safetensors(path("shape.safetensors"), {{"conv.weight", ElementType::f32, {4, 3, 1, 1}}}, zeros);
    std::ifstream good(path("good.safetensors"), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(good), {}};
    write("truncated.safetensors", bytes.substr(0, bytes.size() - 8));

    const Array x = make_array(ElementType::f32, {4, 3, 8, 8}), y = make_array(ElementType::i64, {4});
    write_npz(path("good.npz"), {{"x", x}, {"y", y}});
    write_npz(path("no_y.npz"), {{"x", x}});
    write_npz(path("shape.npz"), {{"x", make_array(ElementType::f32, {4, 3, 8, 9})}, {"y", y}});
    write_npz(path("few.npz"), {{"x", make_array(ElementType::f32, {1, 3, 8, 8})}, {"y", make_array(ElementType::i64, {1})}});
    Array wild = y;
    wild.data[8] = std::byte{77};
    write_npz(path("labels.npz"), {{"x", x}, {"y", wild}});
    write_npz(path("float_labels.npz"), {{"x", x}, {"y", make_array(ElementType::f32, {4})}});
  }

  inline static std::filesystem::path folder_;
};

TEST_P(Errors, MessageAndStatus) {
  const Case& expected = GetParam();
  const std::string command = "cd '" + folder_.string() + "' && '" OUTSIZE_PROGRAM "' " + expected.arguments + " 2>&1 >stdout";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string message;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe)) message += buffer;
  const int status = ::pclose(pipe);
  ASSERT_TRUE(WIFEXITED(status)) << message;
  EXPECT_EQ(WEXITSTATUS(status), expected.status) << expected.arguments << "\n" << message;
  EXPECT_NE(message.find(expected.message), std::string::npos)
      << expected.arguments << "\nexpected: " << expected.message << "\nfound:    " << message;
  EXPECT_TRUE(message.starts_with("outsize: ") || expected.name == "no_command") << message;
  if (expected.name != "no_command") {
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 1) << "one message, one line: " << message;
  }
}

const Case kCases[]{
    {"no_command", "", 2, "Usage: outsize"},
    {"unknown_command", "trainn resnet18", 2, "unknown command 'trainn'; did you mean 'train'?"},
    {"unknown_flag", "train resnet18 --memry 2GiB", 2, "unknown flag '--memry'; did you mean '--memory'?"},
    {"flag_of_no_command", "--jsno", 2, "unknown flag '--jsno'"},
    {"extra_argument", "train resnet18 resnet34", 2, "unexpected argument 'resnet34'"},
    {"flag_without_value", "train resnet18 --memory", 2, "--memory"},
    {"flag_twice", "train resnet18 --batch 1 --batch 2", 2, "--batch"},
    {"no_model", "train", 2, "expected a MODEL"},
    {"unknown_model", "train resnet5O", 2, "unknown model 'resnet5O'; did you mean 'resnet50'?"},
    {"unknown_op_help", "ops conv2", 2, "unknown op 'conv2'; did you mean 'conv2d'?"},
    {"batch_of_zero", "train resnet18 --batch 0", 2, "--batch: '0' is not a whole number of at least 1"},
    {"batch_of_letters", "train resnet18 --batch abc", 2, "--batch: 'abc' is not a whole number"},
    {"bad_image", "train resnet18 --image 224x", 2, "--image: '224x' is not a size in pixels"},
    {"image_too_small", "train vgg16 --image 16", 2, "vgg16 with images of 16x16: "},
    {"bad_steps", "train resnet18 --steps -1", 2, "--steps: '-1' is not a whole number of at least 1"},
    {"bad_rate", "train resnet18 --lr fast", 2, "--lr: 'fast' is not a number"},
    {"bad_seed", "train resnet18 --seed -1", 2, "--seed: '-1' is not a whole number"},
    {"bad_threads", "train resnet18 --threads 0", 2, "--threads: '0' is not a whole number from 1 to 1024"},
    {"too_many_threads", "train resnet18 --threads 100000", 2, "--threads: '100000' is not a whole number from 1 to 1024"},
    {"empty_memory", "train good.graph --memory=", 2, "--memory"},
    {"save_to_a_device", "train good.graph --steps 1 --save /dev/null", 2,
     "/dev/null: cannot be written: it is not a regular file"},
    {"bad_memory", "train resnet18 --memory 12GB", 2, "--memory: '12GB' is not a size"},
    {"bad_host_memory", "train good.graph --host-memory 10%", 2, "--host-memory: a percentage has no meaning here"},
    {"no_memory", "train good.graph --memory 0", 2, "--memory: a budget of 0 bytes holds nothing"},
    {"bad_precision", "train resnet18 --precision f16", 2, "--precision: 'f16' is not one of f32, f64"},
    {"f64_on_cpu", "train resnet18 --precision f64 --backend cpu --image 32", 2, "--backend reference does"},
    {"bad_backend", "train good.graph --backend gpu", 2, "there is no backend 'gpu'"},
    {"bad_device", "plan good.graph --device rtx", 2, "there is no device 'rtx'"},
    {"bad_planner", "train good.graph --planner kepp", 2, "keep"},
    {"bad_optimizer", "train good.graph --optimizer adagrad", 2, "--optimizer: 'adagrad' is not one of sgd"},
    {"bad_dump", "train good.graph --dump everything", 2, "--dump: 'everything' is not one of forward, graph, plan, program"},
    {"steps_and_epochs", "train good.graph --steps 2 --epochs 2", 2, "give --steps or --epochs, not both"},
    {"epochs_without_end", "train good.graph --epochs 2", 2, "--epochs: synthetic data has no end"},
    {"plan_and_planner", "train good.graph --plan incomplete.plan --planner keep", 2, "give --plan or --planner, not both"},

    {"graph_not_there", "train absent.graph", 2, "absent.graph: cannot be opened"},
    {"graph_is_a_folder", "train ./", 2, "./: expected a file"},
    {"graph_unknown_op", "train unknown_op.graph", 2, "unknown_op.graph:5: "},
    {"graph_unknown_op_suggests", "train unknown_op.graph", 2, "did you mean 'conv2d'?"},
    {"graph_shape", "train shape.graph", 2, "shape.graph:5: "},
    {"graph_attribute", "train attribute.graph", 2, "unknown attribute 'paddin'; did you mean 'padding'?"},
    {"graph_undefined", "train undefined.graph", 2, "undefined.graph:5: "},
    {"graph_without_x", "train no_x.graph", 2, "input 'image' has no source"},
    {"graph_without_loss", "train not_a_loss.graph", 2, "the output 'z' must be a loss"},
    {"graph_with_two_outputs", "train two_outputs.graph", 2, "expected one output, the loss; found 2"},
    {"graph_without_parameters", "train nothing_to_train.graph", 2, "there is nothing to train"},
    {"graph_with_other_samples", "train samples.graph", 2, "samples.graph"},
    {"graph_with_batch", "train good.graph --batch 3", 2, "--batch: applies to models of the zoo"},

    {"plan_not_there", "train good.graph --plan absent.plan", 2, "absent.plan: cannot be opened"},
    {"plan_empty", "train good.graph --plan empty.plan", 2, "empty.plan: the plan is empty"},
    {"plan_unknown_op", "train good.graph --plan unknown_op.plan", 2, "unknown_op.plan:2: "},
    {"plan_unknown_value", "train good.graph --plan unknown_value.plan", 2, "unknown_value.plan:3: "},
    {"plan_other_graph", "train good.graph --plan other_graph.plan", 2,
     "other_graph.plan:1: this plan is for graph other, not for tiny"},
    {"plan_channels", "train good.graph --plan channels.plan", 2, "the channels of y cannot be cut into tiles"},
    {"plan_same_pass", "train good.graph --plan same_pass.plan", 2, "two passes have this name"},
    {"plan_streamed", "train good.graph --plan streamed.plan", 2, "which is streamed: only a pass may read it"},
    {"plan_incomplete", "train good.graph --plan incomplete.plan", 2, "incomplete.plan: "},

    {"weights_not_there", "train good.graph --weights absent.safetensors", 2, "absent.safetensors: cannot be opened"},
    {"weights_truncated", "train good.graph --weights truncated.safetensors", 2,
     "truncated.safetensors: truncated: tensor 'conv.weight'"},
    {"weights_garbage", "train good.graph --weights garbage.bin", 2, "garbage.bin: not a safetensors file"},
    {"weights_of_another_model", "train good.graph --weights other.safetensors", 2,
     "has no tensor 'conv.weight', which the model needs"},
    {"weights_of_another_shape", "train good.graph --weights shape.safetensors", 2,
     "tensor 'conv.weight' has shape [4, 3, 1, 1], but the model's is [4, 3, 3, 3]"},
    {"save_nowhere", "train good.graph --save absent/out.safetensors", 2, "absent/out.safetensors: cannot be written"},
    {"spill_nowhere", "train good.graph --spill absent", 2, "--spill: 'absent' is not a directory"},

    {"data_not_there", "train good.graph --data absent.npz", 2, "absent.npz: cannot be opened"},
    {"data_garbage", "train good.graph --data garbage.bin", 2, "garbage.bin: not a ZIP archive"},
    {"data_without_y", "train good.graph --data no_y.npz", 2, "no_y.npz: expected an array 'y', found only: x"},
    {"data_shape", "train good.graph --data shape.npz", 2, "expected shape [3, 8, 8] after the number of samples"},
    {"data_too_few", "train good.graph --data few.npz", 2, "has 1 samples, fewer than one batch of 2"},
    {"data_labels", "train good.graph --data labels.npz", 2, "label 77 of sample 1 is not below the model's 4 classes"},
    {"data_float_labels", "train good.graph --data float_labels.npz", 2, "expected whole numbers, found float32"},

    {"budget_train", "train good.graph --memory 1KiB", 1, "bytes) more than the 1.00 KiB given"},
    {"budget_plan", "plan good.graph --memory 1KiB", 1, "the peak is at"},
    {"budget_json", "plan good.graph --memory 1KiB --json", 1, "more than"},
};

INSTANTIATE_TEST_SUITE_P(Cli, Errors, testing::ValuesIn(kCases), [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace outsize
