#include "cost/profile.h"

#include <gtest/gtest.h>

#include "cost/devices.h"
#include "graph/text.h"
#include "ops/registry.h"

namespace outsize {
namespace {

Graph small_graph() {
  register_ops();
  return parse_graph(R"(graph small
input x f32[1, 2, 6, 6]
param w f32[4, 2, 3, 3]
conv: y = conv2d(x, w) padding=[1, 1, 1, 1]
relu: z = relu(y)
output z
)",
                     "test.graph");
}

Call call_on(const Graph& graph, std::string_view op, const Box& output) {
  const OpSite site{graph, graph.op(graph.find_op(op))};
  return {site, site.op.def->gather(site, output), {}};
}

std::string error_of(std::string_view text) {
  try {
    parse_profile(text, "p.profile");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Profile, SignatureIsOfExtentsNotPositions) {
  const Graph graph = small_graph();
  const auto relu = [&](std::int64_t lo, std::int64_t hi) {
    return signature(call_on(graph, "relu", Box({0, 0, lo, 0}, {1, 4, hi, 6})));
  };
  EXPECT_EQ(relu(0, 2), "relu : f32[1, 4, 2, 6] -> f32[1, 4, 2, 6]");
  EXPECT_EQ(relu(3, 5), relu(0, 2));
  EXPECT_NE(relu(3, 6), relu(0, 2));
  // Attributes that were not given count as their defaults; a plain value of rank 4 is told from a map.
  const std::string conv = signature(call_on(graph, "conv", Box::whole({1, 4, 6, 6})));
  EXPECT_EQ(conv,
            "conv2d stride=[1, 1] padding=[1, 1, 1, 1] dilation=[1, 1] groups=1 activation=none : f32[1, 2, 6, 6] "
            "f32.plain[4, 2, 3, 3] -> f32[1, 4, 6, 6]");
}

TEST(Profile, MeasuredOrRoofline) {
  const Graph graph = small_graph();
  const Call call = call_on(graph, "relu", Box({0, 0, 0, 0}, {1, 4, 1, 1}));  // 4 operations, 32 bytes
  Profile profile;
  profile.device.flops = 2;
  profile.device.bandwidth = 8;
  profile.device.launch_seconds = 0.5;
  EXPECT_DOUBLE_EQ(profile.seconds_of(call), 4.5);  // max(4 / 2, 32 / 8) + 0.5
  profile.device.flops = 0.5;
  EXPECT_DOUBLE_EQ(roofline_seconds(profile.device, call), 8.5);  // max(4 / 0.5, 32 / 8) + 0.5
  profile.scale["relu"] = {3, 5};
  EXPECT_DOUBLE_EQ(profile.seconds_of(call), 25.5);  // 3 × 8.5
  profile.scale["add"] = {7, 5};
  EXPECT_DOUBLE_EQ(profile.seconds_of(call), 25.5);
  profile.seconds[signature(call)] = 0.125;
  EXPECT_DOUBLE_EQ(profile.seconds_of(call), 0.125);
}

// The convolution has 2 · 18 · 144 = 5184 operations, its gradient of the weights as many.
TEST(Profile, ProductsTakeTheRateOfTensorCores) {
  register_ops();
  const Graph graph = parse_graph(R"(graph passes
input x f32[1, 2, 6, 6]
input dy f32[1, 4, 6, 6]
param w f32[4, 2, 3, 3]
conv: y = conv2d(x, w) padding=[1, 1, 1, 1]
back: dx = conv2d_grad_data(dy, w) padding=[1, 1, 1, 1] input=[6, 6]
weight: dw = conv2d_grad_weight(dy, x) padding=[1, 1, 1, 1] kernel=[3, 3]
output y, dx, dw
)",
                                  "test.graph");
  Device device;
  device.flops = 10;
  device.bandwidth = 1e9;
  device.launch_seconds = 0;
  const auto seconds = [&](std::string_view op) {
    const OpSite site{graph, graph.op(graph.find_op(op))};
    return roofline_seconds(device, {site, site.op.def->gather(site, Box::whole(site.out(0).shape)), {}});
  };
  EXPECT_DOUBLE_EQ(seconds("conv"), 518.4);
  EXPECT_DOUBLE_EQ(seconds("weight"), 518.4);
  device.tf32_flops = 100;
  EXPECT_DOUBLE_EQ(seconds("conv"), 5184 / (100 * kProductShare));
  EXPECT_DOUBLE_EQ(seconds("back"), 5184 / (100 * kProductShare));
  EXPECT_DOUBLE_EQ(seconds("weight"), 5184 / (100 * kSummedShare));
  // 64 channels of 512 rows on an H200, padding included: cuDNN reached 243, 237 and 101 TFLOP/s there.
  device = find_device("h200");
  const Call call = call_on(graph, "conv", Box::whole({1, 4, 6, 6}));
  EXPECT_GT(flops_of(device, call), 2.3e14);
  EXPECT_LT(flops_of(device, call), 4.1e14);
}

TEST(Profile, TextRoundTrips) {
  Profile profile;
  profile.device = find_device("cpu");
  profile.device.launch_seconds = 1.0 / 3;
  profile.device.kernel_overlap = 1.75;
  profile.device.link_overlap = 1.125;
  profile.device.tf32_flops = 4e14;
  profile.scale["relu"] = {4.0 / 3, 12};
  profile.seconds["relu : f32[4] -> f32[4]"] = 1e-7 / 3;
  profile.seconds["add : f32[4] f32[4] -> f32[4]"] = 0.25;
  profile.disturbed.insert("add : f32[4] f32[4] -> f32[4]");
  const std::string text = print_profile(profile);
  const Profile back = parse_profile(text, "p.profile");
  EXPECT_EQ(print_profile(back), text);
  EXPECT_EQ(back.seconds, profile.seconds);
  EXPECT_EQ(back.scale, profile.scale);
  EXPECT_EQ(back.disturbed, profile.disturbed);
  EXPECT_EQ(back.device.kernel_overlap, 1.75);
  EXPECT_EQ(back.device.link_overlap, 1.125);
  EXPECT_EQ(back.device.tf32_flops, 4e14);
  EXPECT_EQ(back.device.name, "cpu");
  EXPECT_EQ(back.device.memory_bytes, profile.device.memory_bytes);
  EXPECT_EQ(back.device.launch_seconds, profile.device.launch_seconds);
  EXPECT_FALSE(back.device.full_duplex);
}

// As cards call themselves.
TEST(Profile, ADeviceMayHaveANameOfSeveralWords) {
  Profile profile;
  profile.device = find_device("cpu");
  profile.device.name = "NVIDIA GeForce RTX 3090";
  const Profile back = parse_profile(print_profile(profile), "p.profile");
  EXPECT_EQ(back.device.name, "NVIDIA GeForce RTX 3090");
  EXPECT_EQ(back.device.memory_bytes, profile.device.memory_bytes);
  EXPECT_EQ(error_of("device name=a flops=1 word\n"), "p.profile:1: expected key=value, found 'word'");
}

TEST(Profile, AScaleRestsOnOpsThatAreLargeEnough) {
  // Median of 2, 3 and 7; a fourth is 1000 times its roofline of 99 µs.
  const std::vector<MeasuredOp> ops{{2e-4, 1e-4}, {3e-3, 1e-3}, {7e-2, 1e-2}, {9.9e-2, 9.9e-5}};
  const std::optional<Scale> scale = scale_of(ops);
  ASSERT_TRUE(scale);
  EXPECT_DOUBLE_EQ(scale->ratio, 3);
  EXPECT_EQ(scale->ops, 3);
  EXPECT_FALSE(scale_of(std::span(ops).subspan(1)));  // two that count
  EXPECT_FALSE(scale_of({}));
}

TEST(Profile, AScaleIsTheMedianOfAnEvenNumberToo) {
  const std::vector<MeasuredOp> ops{{1e-3, 1e-3}, {2e-3, 1e-3}, {4e-3, 1e-3}, {8e-1, 1e-3}};
  EXPECT_DOUBLE_EQ(scale_of(ops)->ratio, 3);
}

TEST(Profile, AScaleIsBounded) {
  EXPECT_DOUBLE_EQ(scale_of(std::vector<MeasuredOp>(3, {0.279, 1e-3}))->ratio, 16);
  EXPECT_DOUBLE_EQ(scale_of(std::vector<MeasuredOp>(3, {0, 1e-3}))->ratio, 1.0 / 16);
}

TEST(Profile, TheScaleOfMoreOpsIsKept) {
  Scale kept;
  keep_better(kept, {2, 3});
  EXPECT_EQ(kept, (Scale{2, 3}));
  keep_better(kept, {4, 3});  // the newer
  EXPECT_EQ(kept, (Scale{4, 3}));
  keep_better(kept, {5, 7});
  keep_better(kept, {6, 3});
  EXPECT_EQ(kept, (Scale{5, 7}));
}

// Earlier versions did not write how many ops a scale rests on, and took it from one that was over in a microsecond.
TEST(Profile, ScalesOfEarlierVersionsAreLeftOut) {
  const Profile profile = parse_profile("device name=cpu\nscale 279 linear\nscale 2 4 relu\nop 0.5 s\n", "p.profile");
  EXPECT_EQ(profile.scale, (std::unordered_map<std::string, Scale>{{"relu", {2, 4}}}));
  EXPECT_EQ(profile.seconds.at("s"), 0.5);
}

TEST(Profile, TextByHand) {
  const Profile profile = parse_profile(R"(# measured by hand
device name=slow flops=10 bandwidth=20 full_duplex=0

op 0.5 relu : f32[4] -> f32[4]
)",
                                        "p.profile");
  EXPECT_EQ(profile.device.name, "slow");
  EXPECT_EQ(profile.device.flops, 10);
  EXPECT_EQ(profile.device.link_in, Device{}.link_in);
  EXPECT_EQ(profile.seconds.at("relu : f32[4] -> f32[4]"), 0.5);
}

TEST(Profile, TextErrorsNameTheLine) {
  EXPECT_EQ(error_of("device name=a\nop x relu\n"), "p.profile:2: expected seconds after 'op', found 'x'");
  EXPECT_EQ(error_of("device name=a\nop 1\n"), "p.profile:2: expected a signature after the seconds");
  EXPECT_EQ(error_of("device speed=1\n"), "p.profile:1: a device has no 'speed'");
  EXPECT_EQ(error_of("device flops=0\n"), "p.profile:1: flops must be above 0, found '0'");
  EXPECT_EQ(error_of("device flops=fast\n"), "p.profile:1: flops must be above 0, found 'fast'");
  EXPECT_EQ(error_of("device memory_bytes=-1\n"), "p.profile:1: memory_bytes must be a whole number of at least 0, found '-1'");
  EXPECT_EQ(error_of("device full_duplex=yes\n"), "p.profile:1: full_duplex must be 0 or 1, found 'yes'");
  EXPECT_EQ(error_of("device flops\n"), "p.profile:1: expected key=value, found 'flops'");
  EXPECT_EQ(error_of("\nwhat 1\n"), "p.profile:2: expected 'device', 'scale', 'op' or 'disturbed', found 'what'");
  EXPECT_EQ(error_of("device link_overlap=0.5\n"), "p.profile:1: link_overlap must be at least 1, found '0.5'");
  EXPECT_EQ(error_of("device tf32_flops=-1\n"), "p.profile:1: tf32_flops must be at least 0, found '-1'");
  EXPECT_EQ(error_of("device kernel_overlap=0.5\n"), "p.profile:1: kernel_overlap must be at least 1, found '0.5'");
  EXPECT_EQ(error_of("device name=a\nscale 0 relu\n"), "p.profile:2: expected ratio after 'scale', found '0'");
  EXPECT_EQ(error_of("device name=a\nscale 2\n"), "p.profile:2: expected a kind of op after the ratio");
  EXPECT_EQ(error_of("device name=a\nscale 2 3\n"), "p.profile:2: expected a kind of op after the ratio");
  EXPECT_EQ(error_of("device name=a\nscale 2 3 s\nscale 2 s\n"), "p.profile:3: a second entry for 's'");
  EXPECT_EQ(error_of("device name=a\ndisturbed\n"), "p.profile:2: expected a signature after 'disturbed'");
  EXPECT_EQ(error_of(""), "p.profile: expected a line 'device name=…'");
  EXPECT_EQ(error_of("device name=a\ndevice name=b\n"), "p.profile:2: a second 'device' line; a profile describes one device");
  EXPECT_EQ(error_of("device name=a\nop 1 s\nop 2 s\n"), "p.profile:3: a second entry for 's'");
}

TEST(Profile, Devices) {
  EXPECT_EQ(find_device("cpu").name, "cpu");
  EXPECT_THROW(find_device("abacus"), UserError);
}

}  // namespace
}  // namespace outsize
