#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/dataset.h"

namespace outsize {

enum class Part : std::uint8_t { train, test };

// How an image of another size becomes one of the model's.
enum class Fit : std::uint8_t {
  resize,  // scaled, aspect kept, until it just covers the model's rows and columns; what stands out is cropped
  crop,    // not scaled; cropped, or laid into zeros
};

struct DataOptions {
  BatchSpec spec;                 // what the model takes
  std::uint64_t seed = 0;         // of synthetic and generated samples
  Part part = Part::train;        // which set, where there are two
  Fit fit = Fit::resize;          // of PNG and JPEG images; slides are always cropped
  std::vector<double> mean;       // of each channel, of images in [0, 1]; one for all; none: ImageNet's
  std::vector<double> deviation;  // the same
  int slide_level = 0;            // of slides: 0 has the most pixels
};

// The set of samples that `what` names:
//   "" or "synthetic"              a task that can be learnt, for any model
//   "generated:slides[:OPTIONS]"   seeded images of any size; options size=H[xW], count=N, vary
//   FILE.npz                       arrays x and y, samples first
//   FILE.npy                       x, and y in a file beside it: y.npy beside x.npy, train_y.npy beside train_x.npy or train.npy
//   FILE.csv                       lines file,label of images or slides, beside the list or by their path
//   FOLDER                         a sub-folder of images or slides for each class; images/ and masks/ with equal names;
//                                  slides.csv; or train/ and test/, each of these
//   a slide or tiled TIFF          one sample of class 0
// Throws UserError when there is no such thing, or it does not suit the model.
std::shared_ptr<const Dataset> make_dataset(const std::string& what, const DataOptions& options);

// How many classes the samples of a folder, list or array file have, so that a model can be made for them: of arrays, one more than
// the highest label. Nothing where there are no labels, or they are of tokens: a vocabulary is more than what a text has of it.
std::optional<std::int64_t> classes_of(const std::string& what);
// Whether `what` has a test set of its own.
bool has_test_part(const std::string& what);

// A task that can be learnt, drawn from `seed`: each class is a pattern of low frequency, each sample a pattern plus noise. Targets
// are a second pattern of the sample's class; labels of every position say how high its pattern is there. Where x holds tokens, a
// class is a cycle of a few tokens, of which some are replaced by noise, and labels of every position are the cycle's next token.
std::shared_ptr<const Dataset> make_synthetic_dataset(const DataOptions& options);
// Arrays x (float32, float64, or uint8 that is scaled to [0, 1]; whole numbers of any type where it holds tokens) and y.
std::shared_ptr<const Dataset> make_npz_dataset(const std::string& path, const DataOptions& options);
std::shared_ptr<const Dataset> make_npy_dataset(const std::string& path, const DataOptions& options);
// What classes_of() says of them.
std::optional<std::int64_t> npz_classes(const std::string& path);
std::optional<std::int64_t> npy_classes(const std::string& path);
// Slides as a microscope might give them: tissue of uneven colour, full of dark spots. A few spots, far apart, are striped; the
// stripes' direction and width are the class, and are gone once a slide is scaled down. Labels of every position are 0 but for the
// stripes, 1 + class there. `text` holds the options: "size=4096x8192,count=100,vary".
std::shared_ptr<const Dataset> make_generated_slides(const std::string& text, const DataOptions& options);

}  // namespace outsize
