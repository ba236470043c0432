// One case a user error: what the command says on standard error, and its exit status.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../write_npz.h"
#include "data/file.h"
#include "data/safetensors.h"

namespace outsize {
namespace {

struct Case {
  std::string name;
  std::string arguments;  // of the command, run in a folder that holds the files below
  int status = 2;
  std::string message;  // a part of standard error

  friend void PrintTo(const Case& that, std::ostream* stream) { *stream << that.arguments; }
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

// The same, of tokens.
constexpr const char* kTokenGraph = R"(graph tokens
input x i32[2, 3]
input labels i32[2, 3]
param words f32[9, 4] init=normal:0.1
embed: y = embedding(x, words)
loss: loss = softmax_cross_entropy(y, labels)
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
    write("tokens.graph", kTokenGraph);
    write("no_table.graph", replaced(replaced(kTokenGraph, "embedding(x,", "embedding(labels,"), "init=normal:0.1", "init=ones"));
    write("unknown_op.graph", replaced(good, "conv2d(", "conv2("));
    write("shape.graph", replaced(good, "f32[4, 3, 3, 3]", "f32[4, 5, 3, 3]"));
    write("attribute.graph", replaced(good, "padding=", "paddin="));
    write("undefined.graph", replaced(good, "conv2d(x,", "conv2d(xx,"));
    write("format.graph", replaced(good, "x f32[", "x f32.blocked["));
    write("planar.graph",
          replaced(replaced(good, "x f32[", "x f32.planar["), "conv: y = conv2d(x,", "act: a = relu(x)\nconv: y = conv2d(a,"));
    write("no_x.graph", replaced(replaced(good, "input x", "input image"), "conv2d(x,", "conv2d(image,"));
    write("not_a_loss.graph", replaced(good, "output loss", "output z"));
    write("two_outputs.graph", good + "output z\n");
    write("nothing_to_train.graph",
          replaced(good, "param conv.weight f32[4, 3, 3, 3] init=normal:0.1", "state conv.weight f32[4, 3, 3, 3]"));
    const std::string unused = replaced(good, "param conv", "param extra f32[4, 3, 1, 1]\nparam conv");
    write("unused_param.graph", unused);
    write("dead_param.graph", replaced(unused, "pool: p", "dead: d = conv2d(x, extra)\npool: p"));
    const std::string norm = replaced(good, "pool: p = adaptive_avg_pool(y)",
                                      "param g f32[4] init=ones\nparam b f32[4]\nstate mean f32[4]\nstate var f32[4] init=ones\n"
                                      "stats: s = batch_norm_stats(y)\nmoments: m = batch_norm_finalize(s)\n"
                                      "norm: n = batch_norm_apply(y, m, g, b)\npool: p = adaptive_avg_pool(n)");
    write("no_update.graph", norm);
    write("no_gradient.graph", replaced(replaced(replaced(norm, "stats: s = batch_norm_stats(y)\n", ""), "batch_norm_finalize(s)",
                                                 "batch_norm_running(mean, var)"),
                                        "state mean", "param mean"));
    std::filesystem::create_directories(folder_ / "photos/cats");
    for (const char* const name : {"photos/cats/a.png", "photos/cats/b.png"}) write(name, "no image");
    write("samples.graph", replaced(good, "input labels i32[2]", "input labels i32[3]"));
    write("random_key.graph", replaced(good, "input labels", "input random_key i32[3]\ninput labels"));
    write("unknown_op.plan", "plan tiny by hand\nrun conv9\n");
    write("unknown_value.plan", "plan tiny by hand\nrun conv\nout yy host\n");
    write("incomplete.plan", "plan tiny by hand\nrun conv\n");
    write("empty.plan", "");
    write("other_graph.plan", "plan other by hand\nrest\n");
    write("channels.plan", "plan tiny by hand\npass r.a driver=y grid=[1, 2, 1, 1] ops=[conv]\nrest\n");
    write("same_pass.plan",
          "plan tiny by hand\npass r.a driver=y grid=[1, 1, 2, 1] ops=[conv]\npass r.a driver=y grid=[1, 1, 2, 1] "
          "ops=[conv]\nrest\n");
    write("pass_after_update.plan", "plan tiny by hand\nrest\npass r.a driver=y grid=[1, 1, 2, 1] ops=[conv]\n");
    write("pass_of_another_driver.plan",
          "plan tiny by hand\nuntil loss.grad\npass r.a driver=labels grid=[2] ops=[loss.grad]\nrest\n");
    write("cuts_outside.plan", "plan tiny by hand\npass r.a driver=y cuts.2=[4, 8] ops=[conv]\nrest\n");
    write("cuts_twice.plan", "plan tiny by hand\npass r.a driver=y cuts.2=[4, 4] ops=[conv]\nrest\n");
    write("wide.graph", replaced(good, "f32[2, 3, 8, 8]", "f32[2, 3, 2000, 2000]"));
    write("kernel.plan", "plan tiny by hand\nkernel conv warp\nrest\n");
    write("kernel_twice.plan", "plan tiny by hand\nkernel conv a\nkernel conv b\nrest\n");
    write("kernel_word.plan", "plan tiny by hand\nkernel conv a always\nrest\n");
    write("rest.plan", "plan tiny by hand\nrest\n");
    write("many_tiles.plan", "plan tiny by hand\npass r.a driver=y grid=[1, 1, 2000, 2000] ops=[conv]\nrest\n");
    write("streamed.plan", "plan tiny by hand\nstream x host\nrest\n");
    write("empty.graph", "");
    write("comment.graph", "# nothing but this\n");
    write("not_json.safetensors", std::string("\x02\0\0\0\0\0\0\0{]", 10));
    std::filesystem::create_directories(folder_ / "not_json");
    write("not_json/checkpoint-000000003.json", "{\"format\": 1,");
    write("garbage.bin", "neither zip nor safetensors, but long enough to be looked into\n");
    write("garbage.npz", "neither zip nor safetensors, but long enough to be looked into\n");
    write_arrays();
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  static void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }

  static void write_arrays() {
    const auto path = [](const char* name) { return (folder_ / name).string(); };
    const auto zeros = [](const TensorEntry& entry, const TensorSink& sink) {
      sink(std::vector<std::byte>(static_cast<std::size_t>(entry.bytes())));
    };
    write_safetensors(path("good.safetensors"), {{"conv.weight", ElementType::f32, {4, 3, 3, 3}}}, zeros);
    write_safetensors(path("other.safetensors"), {{"fc.weight", ElementType::f32, {4, 3}}}, zeros);
    write_safetensors(path("shape.safetensors"), {{"conv.weight", ElementType::f32, {4, 3, 1, 1}}}, zeros);
    write_safetensors(path("nan.safetensors"), {{"conv.weight", ElementType::f32, {4, 3, 3, 3}}},
                      [](const TensorEntry& entry, const TensorSink& sink) {
                        sink(std::vector<std::byte>(static_cast<std::size_t>(entry.bytes()), std::byte{0xFF}));  // NaN
                      });
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
    Array tokens = make_array(ElementType::u8, {4, 3}), token_labels = make_array(ElementType::u8, {4, 3});
    token_labels.data[5] = std::byte{4};
    write_npz(path("token_labels.npz"), {{"x", tokens}, {"y", token_labels}});
    tokens.data[7] = std::byte{9};
    write_npz(path("tokens.npz"), {{"x", tokens}, {"y", make_array(ElementType::u8, {4, 3})}});
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

// Under --json there is one object on standard output, whatever happens.
TEST_P(Errors, AnObjectUnderJson) {
  const Case& expected = GetParam();
  if (expected.name == "no_command") return;  // without a command there is no --json
  // After the command, so that no flag takes it for its value.
  std::string arguments = expected.arguments;
  arguments.insert(std::min(arguments.find(' '), arguments.size()), " --json");
  const std::string command = "cd '" + folder_.string() + "' && '" OUTSIZE_PROGRAM "' " + arguments + " >stdout 2>stderr";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), expected.status);
  const std::string out = read_text((folder_ / "stdout").string()), error = read_text((folder_ / "stderr").string());
  const nlohmann::json object = nlohmann::json::parse(out, nullptr, false);
  ASSERT_TRUE(object.is_object()) << expected.arguments << "\n" << out;
  if (expected.status == 1) {
    EXPECT_EQ(object["fits"], false);
  } else {
    EXPECT_EQ(object["status"], expected.status);
    EXPECT_EQ("outsize: " + object["error"].get<std::string>() + "\n", error);
    EXPECT_NE(error.find(expected.message), std::string::npos) << error;
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
    {"image_of_four", "train unet3d --image 8x8x8x8", 2, "--image: '8x8x8x8' is not a size in pixels"},
    {"image_of_tokens", "train gpt2 --image 32", 2, "gpt2 takes tokens, not images; its size is --seq"},
    {"sequence_of_images", "train resnet18 --seq 32", 2, "resnet18 takes images; --seq does not apply"},
    {"volume_of_image", "train resnet18 --image 32x32x32", 2, "resnet18 takes images of two dimensions, found 32x32x32"},
    {"image_of_volume", "train unet3d --image 32x16", 2, "unet3d takes volumes: give all three extents (HxWxD), found 32x16"},
    {"unet_extent", "train unet2d --image 40", 2, "unet2d with images of 40x40: every extent must be a multiple of 16, found 40"},
    {"vit_extent", "train vit-b16 --image 40", 2, "vit-b16 with images of 40x40: both extents must be multiples of 16"},
    {"loss_not_finite", "train mlp --image 8 --width 0.1 --lr 1e30 --steps 9 --print-every 99", 2,
     "A smaller --lr, --warm-up or --clip-norm may help"},
    {"patience_alone", "train mlp --patience 2", 2, "--patience: counts evaluations; give --eval-every too"},
    {"patience_without_checkpoint", "train mlp --image 8 --eval-every 2 --patience 2", 2,
     "--patience: keeps the weights of the best evaluation in --checkpoint DIR; give that too"},
    {"no_image_can_be_read", "train mlp --image 8 --data photos --classes 1", 2,
     "photos: not one of its 2 samples can be read; the first: photos/cats/"},
    {"no_image_of_its_own_size_can_be_read", "train resnet18 --image own --data photos --classes 1", 2,
     "photos: not one of its 2 samples can be read; the first: photos/cats/a.png: "},
    {"own_sizes_in_batches", "train resnet18 --image own --batch 4 --data generated:slides:count=2", 2,
     "--image own: samples of different sizes make no batch of 4; give --accumulate instead"},
    {"own_sizes_of_tokens", "train gpt2 --image own", 2, "--image own: the model takes [1024], not images"},
    {"own_sizes_without_end", "train slide-s --image own --data generated:slides:size=64", 2, "have no end; give a count"},
    {"own_sizes_of_an_mlp",
     "train mlp --image own --data generated:slides:size=64x48,count=4,vary --classes 2 --steps 4 --print-every 99", 2,
     "is another; all samples must be of one size (--image)"},
    {"resume_without_checkpoint", "train mlp --resume", 2, "--resume: give --checkpoint DIR too"},
    {"resume_not_json", "train mlp --image 8 --resume --checkpoint not_json", 2,
     "not_json/checkpoint-000000003.json: is not the description of a checkpoint: not JSON: it ends too early, at byte 13 of the "
     "file"},
    {"eval_nothing", "train mlp --image 8 --eval-every 2", 2, "--eval-every: there is nothing to evaluate on"},
    {"augment_unknown", "train mlp --image 8 --augment rotate", 2, "--augment: 'rotate' is not one of flip, crop"},
    {"log_nowhere", "train mlp --image 8 --log no/such/file", 2, "no/such/file: cannot be written"},
    {"width_too_large", "train mlp --image 8 --width 1e20", 2, "a width of 1e+20 asks for"},
    {"same_file", "train mlp --image 8 --save w --save-gradients ./w", 2, "--save and --save-gradients name the same file, 'w'"},
    {"model_overwritten", "train good.graph --save ./good.graph", 2, "--save and MODEL name the same file, './good.graph'"},
    {"data_overwritten", "train good.graph --data good.npz --save ./good.npz", 2, "--save and --data name the same file"},
    {"eval_data_overwritten", "train good.graph --eval-data good.npz --save-gradients good.npz", 2,
     "--save-gradients and --eval-data name the same file"},
    {"trace_over_text", "train good.graph --trace garbage.bin", 2, "--trace: 'garbage.bin' is there and is no trace"},
    {"text_overwritten", "train good.graph --save garbage.bin", 2,
     "nothing but a safetensors file is written over: give another name, or remove this file first"},
    {"array_overwritten", "train good.graph --save-gradients no_y.npz", 2, "no_y.npz: not a safetensors file"},
    {"file_of_a_folder_overwritten", "train mlp --image 8 --data not_json --save not_json/checkpoint-000000003.json", 2,
     "not_json/checkpoint-000000003.json: not a safetensors file"},
    {"damaged_overwritten", "train good.graph --save truncated.safetensors", 2, "truncated.safetensors: truncated: "},
    {"plan_overwritten", "train mlp --image 8 --save p --plan p", 2, "--save and --plan name the same file, 'p'"},
    {"schedule_without_every", "train mlp --image 8 --schedule step", 2, "--schedule step: give --schedule-every too"},
    {"schedule_every_alone", "train mlp --image 8 --schedule-every 3", 2, "apply to --schedule step"},
    {"load_threads", "train mlp --image 8 --load-threads 100000", 2, "--load-threads: 100000 is more than 256"},
    {"dropout_rate", "train vgg11 --dropout 1", 2, "--dropout: '1' is not a number of at least 0 and below 1"},
    {"label_smoothing", "train vgg11 --label-smoothing 2", 2, "--label-smoothing: '2' is not a number of at least 0 and below 1"},
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
    {"bad_precision", "train resnet18 --precision f16", 2, "--precision: 'f16' is not one of f32, tf32, f64"},
    {"tf32_of_no_tensor_cores", "plan good.graph --precision tf32 --device titan-rtx", 2,
     "--precision tf32: titan-rtx-24 multiplies no faster in it; leave it out"},
    {"tf32_on_cpu", "train good.graph --precision tf32 --backend cpu", 2,
     "--precision tf32: is of NVIDIA cards; backend cpu computes in f32"},
    {"f64_on_cpu", "train resnet18 --precision f64 --backend cpu --image 32", 2, "--backend reference does"},
    {"bad_backend", "train good.graph --backend gpu", 2, "there is no backend 'gpu'"},
    {"bad_device", "plan good.graph --device rtx", 2, "there is no device 'rtx'"},
    {"profile_not_there", "plan good.graph --profile absent.txt", 2, "absent.txt: cannot be opened"},
    {"profile_of_no_device", "plan good.graph --profile empty.plan", 2, "empty.plan: expected a line 'device name="},
    {"profile_elsewhere", "plan good.graph --profile measured --device v100", 2,
     "--profile measured: is of a device itself; give it without --device v100"},
    {"bad_planner", "train good.graph --planner kepp", 2, "keep"},
    {"bad_optimizer", "train good.graph --optimizer adagrad", 2, "--optimizer: 'adagrad' is not one of sgd, adam, adamw"},
    {"nesterov_without_momentum", "train good.graph --nesterov --momentum 0", 2, "nesterov needs a momentum above 0"},
    {"nesterov_with_adam", "train good.graph --nesterov --optimizer adam", 2, "--nesterov: applies to --optimizer sgd only"},
    {"momentum_with_adamw", "train good.graph --momentum 0.5 --optimizer adamw", 2, "--momentum: applies to --optimizer sgd only"},
    {"beta_with_sgd", "train good.graph --beta1 0.5", 2, "--beta1: applies to --optimizer adam or adamw only"},
    {"eps_with_sgd", "plan good.graph --eps 1e-3 --optimizer sgd", 2, "--eps: applies to --optimizer adam or adamw only"},
    {"bad_beta", "train good.graph --optimizer adam --beta2 1", 2, "--beta2: '1' is not a number of at least 0 and below 1"},
    {"bad_clip", "train good.graph --clip-norm -1", 2, "--clip-norm: '-1' is not a number of at least 0"},
    {"random_key_of_another_type", "train random_key.graph", 2, "random_key must be i32[4], found i32[3]"},
    {"bad_dump", "train good.graph --dump everything", 2, "--dump: 'everything' is not one of forward, graph, plan, program"},
    {"steps_and_epochs", "train good.graph --steps 2 --epochs 2", 2, "give --steps or --epochs, not both"},
    {"epochs_without_end", "train good.graph --epochs 2", 2, "--epochs: synthetic data has no end"},
    {"tflms_bounds", "plan good.graph --planner tflms:lb=3,ub=2", 2,
     "planner tflms: lb=3 is more than ub=2; a value cannot come back both so early and so late"},
    {"capacity_of_nothing", "plan good.graph --planner sft:capacity=0", 2,
     "planner sft: capacity: '0' is not a number of at least 0.001"},
    {"no_split_of_keep", "plan good.graph --planner keep --no-split", 2,
     "--no-split: applies to planners tsplit, stream, blend only"},
    {"no_split_and_split", "plan good.graph --planner tsplit:split=true --no-split", 2,
     "give --no-split or tsplit:split=true, not both"},
    {"plan_and_planner", "train good.graph --plan incomplete.plan --planner keep", 2, "give --plan or --planner, not both"},

    {"graph_not_there", "train absent.graph", 2, "absent.graph: cannot be opened"},
    {"graph_is_a_folder", "train ./", 2, "./: expected a file"},
    {"graph_format", "train format.graph", 2, "format.graph:2: unknown format 'blocked'; expected plain, map or planar"},
    {"graph_planar", "train planar.graph", 2,
     "op act (relu): takes no planar map; write x without its format, found f32.planar[2, 3, 8, 8]"},
    {"graph_empty", "train empty.graph", 2, "outsize: empty.graph: is empty; expected a graph"},
    {"graph_of_comments", "train comment.graph", 2, "outsize: comment.graph: is empty; expected a graph"},
    {"graph_unknown_op", "train unknown_op.graph", 2, "unknown_op.graph:5: "},
    {"graph_unknown_op_suggests", "train unknown_op.graph", 2, "did you mean 'conv2d'?"},
    {"graph_shape", "train shape.graph", 2, "shape.graph:5: "},
    {"graph_attribute", "train attribute.graph", 2, "unknown attribute 'paddin'; did you mean 'padding'?"},
    {"graph_undefined", "train undefined.graph", 2, "undefined.graph:5: "},
    {"graph_without_x", "train no_x.graph", 2, "input 'image' has no source"},
    {"graph_without_loss", "train not_a_loss.graph", 2, "the output 'z' must be a loss"},
    {"graph_with_two_outputs", "train two_outputs.graph", 2, "expected one output, the loss; found 2"},
    {"graph_without_parameters", "train nothing_to_train.graph", 2, "there is nothing to train"},
    {"graph_with_an_unused_param", "train unused_param.graph", 2,
     "outsize: unused_param.graph:4: param 'extra': no op reads it, so that it would never be trained; use it, or remove the line"},
    {"graph_with_a_dead_param", "plan dead_param.graph", 2,
     "outsize: dead_param.graph:4: param 'extra': no output depends on it, so that it would never be trained; use it, or remove"},
    {"graph_with_a_norm_without_update", "train no_update.graph", 2,
     "outsize: no_update.graph:10: op stats (batch_norm_stats): no running statistics are kept of 's', by which the network would "
     "be evaluated; declare two states [4] and add 'NAME: MEAN.next, VAR.next = batch_norm_update(MEAN, VAR, s)'"},
    {"graph_without_a_gradient", "train no_gradient.graph", 2,
     "outsize: graph tiny: the loss has no gradient by parameter 'mean', so that it would never be trained; declare it as a state, "
     "or remove it"},
    {"graph_with_other_samples", "train samples.graph", 2, "samples.graph"},
    {"graph_with_batch", "train good.graph --batch 3", 2, "--batch: applies to models of the zoo"},

    {"plan_not_there", "train good.graph --plan absent.plan", 2, "absent.plan: cannot be opened"},
    {"plan_kernel", "train good.graph --backend cpu --plan kernel.plan", 2,
     "kernel.plan: op conv: backend cpu has no kernel 'warp' for it here; it has "},
    {"plan_kernel_twice", "train good.graph --plan kernel_twice.plan", 2, "kernel_twice.plan:3: op conv has a kernel already"},
    {"plan_kernel_word", "train good.graph --plan kernel_word.plan", 2,
     "kernel_word.plan:2: expected 'rounding' or nothing after the kernel's name, found 'always'"},
    {"plan_empty", "train good.graph --plan empty.plan", 2, "empty.plan: the plan is empty"},
    {"plan_unknown_op", "train good.graph --plan unknown_op.plan", 2, "unknown_op.plan:2: "},
    {"plan_unknown_value", "train good.graph --plan unknown_value.plan", 2, "unknown_value.plan:3: "},
    {"plan_other_graph", "train good.graph --plan other_graph.plan", 2,
     "other_graph.plan:1: this plan is for graph other, not for tiny"},
    {"plan_channels", "train good.graph --plan channels.plan", 2,
     "pass r.a: it would cut the channels of y at 2, but they are stored in blocks of"},
    {"plan_same_pass", "train good.graph --plan same_pass.plan", 2, "same_pass.plan:3: pass r.a: two passes have this name"},
    {"plan_pass_after_update", "train good.graph --plan pass_after_update.plan", 2,
     "outsize: pass_after_update.plan:3: pass r.a: op conv reads conv.weight after it was updated"},
    {"plan_pass_of_another_driver", "train good.graph --plan pass_of_another_driver.plan", 2,
     "pass r.a: op loss.grad takes its tiles from z, which the driver labels does not lead to; choose z as the driver"},
    {"plan_cuts_outside", "train good.graph --plan cuts_outside.plan", 2,
     "cuts_outside.plan:2: pass r.a: cuts.2 must ascend, each inside the 8 elements of dimension 2 of y; found [4, 8]"},
    {"plan_cuts_twice", "train good.graph --plan cuts_twice.plan", 2, "cuts.2 must ascend"},
    {"plan_many_tiles", "train wide.graph --plan many_tiles.plan", 2,
     "many_tiles.plan:2: pass r.a: its grid [1, 1, 2000, 2000] has more than 1048576 tiles"},
    {"plan_streamed", "train good.graph --plan streamed.plan", 2,
     "outsize: streamed.plan:3: op conv reads x, which is streamed: only a pass may read it"},
    {"plan_incomplete", "train good.graph --plan incomplete.plan", 2,
     "outsize: incomplete.plan: op conv.weight.sgd changes persistent values and must run exactly once; it runs 0 times"},

    {"weights_not_there", "train good.graph --weights absent.safetensors", 2, "absent.safetensors: cannot be opened"},
    {"weights_truncated", "train good.graph --weights truncated.safetensors", 2,
     "truncated.safetensors: truncated: tensor 'conv.weight'"},
    {"weights_garbage", "train good.graph --weights garbage.bin", 2, "garbage.bin: not a safetensors file"},
    {"weights_not_json", "train good.graph --weights not_json.safetensors", 2,
     "not_json.safetensors: the header: not JSON: it goes wrong at byte 9 of the file, the end of '{]'"},
    {"weights_of_another_model", "train good.graph --weights other.safetensors", 2,
     "other.safetensors: does not fit the model: it lacks conv.weight"},
    {"weights_of_another_shape", "train good.graph --weights shape.safetensors", 2,
     "does not fit the model: of another shape: conv.weight is [4, 3, 1, 1], the model's [4, 3, 3, 3]"},
    {"weights_not_finite", "train good.graph --weights nan.safetensors", 2,
     "nan.safetensors: tensor 'conv.weight' holds what is not a finite number of f32; expected weights to train with"},
    {"save_nowhere", "train good.graph --save absent/out.safetensors", 2, "absent/out.safetensors: cannot be written"},
    {"spill_nowhere", "train good.graph --spill absent", 2, "--spill: 'absent' is not a directory; make it"},
    {"spill_no_directory", "train good.graph --spill good.graph", 2, "--spill: 'good.graph' is not a directory"},
    {"spill_limit_of_nothing", "train good.graph --spill . --spill-limit 0", 2, "--spill-limit: 0 bytes hold nothing"},
    {"spill_limit",
     "train mlp --image 8 --batch 2 --classes 4 --width 0.05 --planner vdnn-all --host-memory 1536 --spill . --spill-limit 16", 1,
     "more than the 16 B of --spill-limit; the peak is at"},
    {"host_memory", "train mlp --image 8 --batch 2 --classes 4 --width 0.05 --planner vdnn-all --host-memory 256", 1,
     "more than the 256 B of --host-memory; the peak is at copy_out of 3. Raise --host-memory, or give a --spill directory"},

    {"data_not_there", "train good.graph --data absent.npz", 2, "absent.npz: cannot be opened"},
    {"data_form", "train good.graph --data garbage.bin", 2, "--data garbage.bin: expected a folder with"},
    {"data_garbage", "train good.graph --data garbage.npz", 2, "garbage.npz: not a ZIP archive"},
    {"data_without_y", "train good.graph --data no_y.npz", 2, "no_y.npz: expected an array 'y', found only: 'x'"},
    {"data_shape", "train good.graph --data shape.npz", 2, "expected shape [3, 8, 8] after the number of samples"},
    {"data_labels", "train good.graph --data labels.npz", 2, "label 77 of sample 1 is not one of the model's 4 classes"},
    {"data_tokens", "train tokens.graph --data tokens.npz", 2,
     "token 9 of sample 2 (element 1 of it) is not one of the model's 9 tokens of its vocabulary"},
    {"data_token_labels", "train tokens.graph --data token_labels.npz", 2,
     "label 4 of sample 1 (element 2 of it) is not one of the model's 4 classes"},
    {"data_without_table", "train no_table.graph", 2, "x holds tokens, but no op reads it beside a table"},
    {"data_float_labels", "train good.graph --data float_labels.npz", 2, "expected whole numbers, found float32"},

    {"budget_train", "train good.graph --memory 1KiB", 1, "bytes) more than the 1.00 KiB given"},
    {"budget_plan", "plan good.graph --memory 1KiB", 1, "the peak is at"},
    {"budget_json", "plan good.graph --memory 1KiB --json", 1, "more than"},

    {"flag_twice_says_so", "train resnet18 --batch 1 --image 32 --batch 2", 2, "--batch: given twice"},
    {"flag_thrice", "train resnet18 --data a --data b --data c", 2, "--data: given 3 times"},
    {"flag_without_value_says_of_what", "train resnet18 --memory", 2, "--memory: expected SIZE after it"},
    {"flag_of_another_command", "plan resnet18 --steps 3", 2, "--steps: `plan` has no such flag; it belongs to `train`"},
    {"flag_of_two_other_commands", "models --batch 3", 2, "--batch: `models` has no such flag; it belongs to `train` or `plan`"},
    {"flag_cut_short", "train resnet18 --mem 2GiB", 2, "unknown flag '--mem'; did you mean '--memory'?"},
    {"flag_of_nothing", "plan resnet18 --quantum", 2, "unknown flag '--quantum'; --help lists those there are"},
    {"command_letters_swapped", "trian resnet18", 2, "unknown command 'trian'; did you mean 'train'?"},
    {"command_cut_short", "dev", 2, "unknown command 'dev'; did you mean 'devices'?"},
    {"command_of_nothing", "quantum", 2, "unknown command 'quantum'; --help lists those there are"},
    {"model_cut_short", "train bert", 2, "unknown model 'bert'; did you mean 'bert-base'?"},
    {"model_of_nothing", "plan quantum", 2, "unknown model 'quantum'; `outsize models` lists those there are"},
    {"planner_near", "plan good.graph --planner recompute-chaep", 2,
     "there is no planner 'recompute-chaep'; did you mean 'recompute-cheap'?"},
    {"planner_option_near", "plan good.graph --planner dynprog:slot=3", 2,
     "planner dynprog has no option 'slot'; did you mean 'slots'?"},
    {"planner_option_of_nothing", "train good.graph --planner dynprog:quantum=3", 2,
     "planner dynprog has no option 'quantum'; it has slots"},
    {"planner_option_bad", "train good.graph --planner dynprog:slots=many", 2,
     "planner dynprog: slots: 'many' is not a whole number from 1 to 10000"},
    {"planner_option_word", "plan good.graph --planner superneurons:recompute=always", 2,
     "planner superneurons: recompute: 'always' is not one of speed, memory"},
    {"planner_option_without_value", "plan good.graph --planner dynprog:slots", 2,
     "planner dynprog: expected OPTION=VALUE, found 'slots'"},
    {"planner_option_twice", "plan good.graph --planner dynprog:slots=1,slots=2", 2, "planner dynprog: slots is given twice"},
    {"planner_options_missing", "plan good.graph --planner dynprog:", 2, "planner dynprog: expected OPTION=VALUE after the colon"},
    {"planner_without_options", "plan good.graph --planner keep:slots=3", 2,
     "planner keep has no options, so that it takes no 'slots=3'"},
    {"planner_scope", "plan good.graph --planner tflms:excl_scopes=layer9", 2,
     "planner tflms: excl_scopes: tiny has no op of scope 'layer9'"},
    {"compare_planner_option", "compare good.graph --planners keep,dynprog:slots=0", 2,
     "planner dynprog: slots: '0' is not a whole number from 1 to 10000"},
    {"fit_option_of_none", "fit good.graph --planners keep,slots=3", 2, "planner keep has no options"},
    {"device_near", "plan good.graph --device titan-rtx-42", 2, "there is no device 'titan-rtx-42'; did you mean 'titan-rtx-24'?"},
    {"device_several", "plan good.graph --device A100", 2,
     "there is no device 'A100'; there are several whose names begin so: a100-40, a100-80"},
    {"device_of_nothing", "plan good.graph --device abacus", 2, "there is no device 'abacus'; `outsize devices` lists"},

    {"momentum_of_two", "train good.graph --momentum 2", 2, "--momentum: '2' is not a number of at least 0 and below 1"},
    {"momentum_of_one", "train good.graph --momentum 1", 2, "--momentum: '1' is not a number of at least 0 and below 1"},
    {"momentum_negative", "train good.graph --momentum -0.1", 2, "--momentum: '-0.1' is not a number of at least 0 and below 1"},
    {"beta1_negative", "plan good.graph --optimizer adam --beta1 -1", 2, "--beta1: '-1' is not a number of at least 0 and below 1"},
    {"eps_of_zero", "plan good.graph --optimizer adamw --eps 0", 2, "--eps: '0' is not a number above 0"},
    {"decay_negative", "plan good.graph --weight-decay -1e-4", 2, "--weight-decay: '-1e-4' is not a number of at least 0"},
    {"rate_negative", "train good.graph --lr -1", 2, "--lr: '-1' is not a number of at least 0"},
    {"rate_not_finite", "train good.graph --lr nan", 2, "--lr: 'nan' is not a number of at least 0"},
    {"dropout_of_letters", "train vgg11 --dropout some", 2, "--dropout: 'some' is not a number of at least 0 and below 1"},

    {"dropout_of_none", "train mlp --image 8 --dropout 0.5", 2, "--dropout does not apply: mlp has no dropout"},
    {"smoothing_without_labels", "train vgg11-features --image 32 --label-smoothing 0.1", 2,
     "--label-smoothing does not apply: vgg11-features has no labels; its loss is the mean squared error"},
    {"classes_without_labels", "plan vgg11-features --image 32 --classes 7", 2,
     "--classes does not apply: vgg11-features has no labels"},
    {"empty_data", "train good.graph --data ''", 2, "--data: expected a value, found nothing"},
    {"empty_save", "train good.graph --save=", 2, "--save: expected FILE.safetensors after it"},
    {"flag_for_a_value", "train good.graph --steps 1 --save --strict", 2, "--save: expected a value, found the flag --strict"},
    {"flag_for_an_empty_value", "train good.graph --data= --strict", 2, "--data: expected a value, found the flag --strict"},
    {"empty_device", "plan good.graph --device ''", 2, "--device: expected a value, found nothing"},
    {"dump_as_json", "plan good.graph --dump plan --json", 2, "--dump plan prints text, not JSON; give it without --json"},

    {"explain_unknown", "plan good.graph --explain yy", 2, "--explain: tiny has no value 'yy'; --dump graph prints them all"},
    {"explain_near", "plan good.graph --explain conv.weigth", 2, "has no value 'conv.weigth'; did you mean 'conv.weight'?"},
    {"explain_an_op", "plan good.graph --explain pool", 2, "--explain: 'pool' is an op; the values it makes: p"},
    {"explain_and_dump", "plan good.graph --explain y --dump plan", 2, "give --dump or --explain, not both"},
    {"explain_elsewhere", "train good.graph --explain y", 2, "--explain: `train` has no such flag; it belongs to `plan`"},
    {"compare_planner", "compare good.graph --planners keep,kepp", 2, "there is no planner 'kepp'; did you mean 'keep'?"},
    {"compare_dump", "compare good.graph --dump graph", 2, "--dump: `compare` has no such flag"},
    {"compare_none_fits", "compare good.graph --memory 1KiB", 1, "more than the 1.00 KiB given"},
    {"compare_one_does_not_fit", "compare good.graph --planners keep --memory 1KiB", 1, "outsize: planner keep needs"},
    {"fit_percentage", "fit resnet18 --memory 40%", 2, "--memory: a percentage of what `keep` needs has no meaning while the size"},
    {"fit_given", "fit resnet18 --batch 3 --memory 1GiB", 2, "--batch: `fit --by batch` searches for it; leave it out"},
    {"fit_by_what", "fit resnet18 --by height", 2, "--by: 'height' is not one of batch, image, width, depth"},
    {"fit_image_of_tokens", "fit bert-base --by image --memory 1GiB", 2, "--by image: bert-base takes [128], not images"},
    {"fit_width_of_a_file", "fit good.graph --by width", 2, "--by width: applies to models of the zoo"},
    {"fit_depth_of_one", "fit mlp --by depth", 2, "--by depth: mlp is of no family whose names count their layers"},
    {"fit_own_sizes", "fit resnet18 --image own", 2, "--image own: a plan is for one size"},
    {"fit_nothing", "fit good.graph --memory 1KiB", 1, "outsize: no batch fits: "},
    {"budget_says_what_would_do", "plan good.graph --planner keep --memory 1KiB", 1, "would do with planner keep"},
    {"budget_of_a_plan", "plan wide.graph --plan rest.plan --memory 1KiB", 1, "would do with the plan"},
    {"budget_ends_with_a_command", "plan good.graph --planner keep --memory 1KiB", 1,
     ". This fits: outsize plan good.graph --planner keep --memory "},
    {"budget_without_a_command", "plan good.graph --planner keep --memory 1KiB --advice 0", 1,
     ". No command was found that fits\n"},
    {"nowhere_to_swap_to", "plan resnet18 --width 0.125 --image 32 --batch 32 --memory 4MiB --planner vdnn-all", 1,
     " wait outside the device, and there is no tier where they could. Give --spill DIR, so that they wait on disk, or "},
    {"more_rows_than_maps_have", "plan good.graph --planner overl:rows=1000", 1,
     "planner overl has no plan for tiny: rows=1000, but its tallest map has 8"},
    {"rows_of_no_maps", "plan tokens.graph --planner 2ps:rows=2", 1, "rows=2, but it has no maps that could be cut into rows"},
    {"tiles_of_nothing", "plan good.graph --planner sft:tiles=3", 1, "tiles=3, but each of its values fits and nothing is tiled"},
    {"tiles_of_no_maps", "plan tokens.graph --planner sft:tiles=3", 1, "tiles=3, but it has no maps that could be tiled"},
    {"selfcheck_of_nothing", "selfcheck --backend abacus", 2, "there is no backend 'abacus'; this build has"},
    {"selfcheck_of_a_model", "selfcheck resnet18", 2, "unexpected argument 'resnet18'; --help shows what 'selfcheck' takes"},
    {"selfcheck_of_a_budget", "selfcheck --memory 1GiB", 2, "--memory: `selfcheck` has no such flag; it belongs to"},
    {"measured_nowhere", "devices --spill absent", 2, "--spill: 'absent' is not a directory"},
};

INSTANTIATE_TEST_SUITE_P(Cli, Errors, testing::ValuesIn(kCases), [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace outsize
