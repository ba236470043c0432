// Weight gradients of the layers of three models: our loops over rows beside the library, in turn, the fastest of several rounds.
//
//   ninja -C build/release weight_gradient && OMP_NUM_THREADS=2 build/release/weight_gradient [ROUNDS [processor]]
//
// With `processor` it is the time of all threads on processors that counts: for one thread on a machine that others use.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "ops/conv/cpu_weights.h"

namespace outsize {
namespace {

struct Layer {
  const char* model;
  int dims;
  std::int64_t inputs, outputs, extent, samples;
  std::int64_t rows = 3;  // of the kernel, which is 3 wide and, in three dimensions, 3 deep
};

constexpr Layer kLayers[] = {
    {"unet3d 64^3", 3, 32, 64, 64, 1},
    {"unet3d 64^3", 3, 192, 64, 64, 1},
    {"unet3d 64^3", 3, 64, 64, 64, 1},
    {"unet3d 64^3", 3, 64, 64, 32, 1},
    {"unet3d 64^3", 3, 64, 128, 32, 1},
    {"unet3d 64^3", 3, 384, 128, 32, 1},
    {"unet3d 64^3", 3, 128, 128, 32, 1},
    {"unet3d 64^3", 3, 128, 128, 16, 1},
    {"unet3d 64^3", 3, 128, 256, 16, 1},
    {"unet3d 64^3", 3, 768, 256, 16, 1},
    {"unet3d 64^3", 3, 256, 256, 16, 1},
    {"unet3d 64^3", 3, 256, 256, 8, 1},
    {"unet3d 64^3", 3, 256, 512, 8, 1},
    {"vgg16 512^2", 2, 64, 64, 512, 1},
    {"vgg16 512^2", 2, 64, 128, 256, 1},
    {"vgg16 512^2", 2, 128, 128, 256, 1},
    {"vgg16 512^2", 2, 128, 256, 128, 1},
    {"vgg16 512^2", 2, 256, 256, 128, 1},
    {"vgg16 512^2", 2, 256, 512, 64, 1},
    {"vgg16 512^2", 2, 512, 512, 64, 1},
    {"vgg16 512^2", 2, 512, 512, 32, 1},
    {"resnet50 224^2", 2, 64, 64, 56, 8},
    {"resnet50 224^2", 2, 128, 128, 28, 8},
    {"resnet50 224^2", 2, 256, 256, 14, 8},
    {"resnet50 224^2", 2, 512, 512, 7, 8},
    {"densenet121 224^2", 2, 128, 32, 56, 8},
    {"densenet121 224^2", 2, 128, 32, 14, 8},
    {"inception_v3 299^2", 2, 32, 64, 147, 8},
    {"inception_v3 299^2", 2, 96, 96, 35, 8},
    {"inception_v3 299^2", 2, 384, 384, 8, 8, 1},
    {"1x3", 2, 64, 64, 512, 1, 1},
    {"wide rows", 2, 32, 32, 2048, 1},
    {"few channels", 2, 16, 16, 64, 1},
    {"few channels", 3, 8, 8, 32, 1},
    {"few positions", 2, 64, 64, 8, 1},
    {"few positions", 2, 512, 512, 4, 8},
    {"few positions", 3, 256, 256, 4, 1},
    {"few positions", 2, 512, 512, 2, 8},
};

ConvGeometry geometry_of(const Layer& layer) {
  ConvGeometry geometry;
  geometry.windows.rank = layer.dims;
  Dims x{layer.samples, layer.inputs}, y{layer.samples, layer.outputs};
  for (int i = 0; i < layer.dims; ++i) {
    const std::int64_t kernel = i == layer.dims - 2 ? layer.rows : 3;
    geometry.windows[i] = {kernel, 1, kernel / 2, kernel / 2, layer.extent};
    x.push_back(layer.extent);
    y.push_back(layer.extent);
  }
  geometry.channels = {1, layer.inputs, layer.outputs};
  geometry.x = Box::whole(x);
  geometry.y = Box::whole(y);
  return geometry;
}

// Zeros, in whole cache lines.
std::vector<float> floats(std::int64_t bytes) { return std::vector<float>(static_cast<std::size_t>(bytes / 4 + 16)); }
std::byte* bytes(std::vector<float>& numbers) {
  return reinterpret_cast<std::byte*>(align_up(reinterpret_cast<std::intptr_t>(numbers.data()), 64));
}

double now(bool processor) {
  if (processor) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Work>
double seconds_of(bool processor, const Work& work) {
  const double begin = now(processor);
  work();
  return now(processor) - begin;
}

void measure(const Layer& layer, int rounds, bool processor) {
  const StorageRule storage = cpu_storage();
  const ConvGeometry geometry = geometry_of(layer);
  Dims shape{layer.outputs, layer.inputs};
  for (int i = 0; i < layer.dims; ++i) shape.push_back(geometry.windows[i].kernel);
  const Box weight = Box::whole(shape);
  const ConvProblem problem{ConvPass::weights, storage};
  const auto library = Convolution::find(problem, geometry, {geometry.channels, weight, geometry.x[1]}, "weight_gradient");
  const std::unique_ptr<Kernel> loops = make_row_weights(problem, geometry);
  std::vector<float> x = floats(MapPiece(storage, geometry.x).elements() * 4),
                     dy = floats(MapPiece(storage, geometry.y).elements() * 4);
  for (std::vector<float>* filled : {&x, &dy})
    for (std::size_t i = 0; i < filled->size(); ++i) (*filled)[i] = static_cast<float>(i % 7) - 3;
  std::vector<float> out = floats(weight.elements() * 4);
  std::vector<float> workspace = floats(std::max(library->workspace_bytes(), loops->workspace_bytes()));
  const std::byte* const in[] = {bytes(dy), bytes(x)};
  std::byte* const result[] = {bytes(out)};
  const Box in_boxes[] = {geometry.y, geometry.x};
  double library_time = 1e9, loops_time = 1e9;
  for (int i = 0; i < rounds; ++i) {
    library_time =
        std::min(library_time, seconds_of(processor, [&] {
                   library->weights(bytes(workspace), {geometry.x, geometry.y}, f32(in[1]), f32(in[0]), f32(result[0]), nullptr);
                 }));
    loops_time = std::min(loops_time, seconds_of(processor, [&] {
                            loops->run({in, result, bytes(workspace), in_boxes, {&weight, 1}, geometry.y});
                          }));
  }
  const double gflop = 2e-9 * static_cast<double>(weight.elements() * MapPiece(storage, geometry.y).positions() * layer.samples);
  std::printf("%-18s %d-D %3lld>%-3lld extent %4lld samples %lld  %-16s %8.2f ms %6.1f GFLOP/s  %s %8.2f ms %6.1f GFLOP/s  %.3f\n",
              layer.model, layer.dims, static_cast<long long>(layer.inputs), static_cast<long long>(layer.outputs),
              static_cast<long long>(layer.extent), static_cast<long long>(layer.samples), library->name().c_str(),
              1000 * library_time, gflop / library_time, loops->name().c_str(), 1000 * loops_time, gflop / loops_time,
              loops_time / library_time);
  std::fflush(stdout);
}

}  // namespace
}  // namespace outsize

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 5;
  const bool processor = count > 2 && std::string_view(arguments[2]) == "processor";
  if (!outsize::has_row_weights(outsize::cpu_storage(), outsize::geometry_of(outsize::kLayers[0]))) {
    std::puts("the loops need AVX-512");
    return 1;
  }
  for (const outsize::Layer& layer : outsize::kLayers) outsize::measure(layer, rounds, processor);
  return 0;
}
