#include "model/builder.h"

namespace outsize {

Graph build_mlp(std::string_view name, const ModelOptions& options) {
  ModelBuilder builder(name, options);
  ValueId x = builder.flatten("flatten", builder.image());
  // Numbered as in torch.nn.Sequential(Linear, ReLU, Linear, ReLU, Linear).
  x = builder.linear("0", x, options.channels(512));
  x = builder.relu("1", x);
  x = builder.linear("2", x, options.channels(512));
  x = builder.relu("3", x);
  return builder.classify(builder.linear("4", x, options.classes));
}

}  // namespace outsize
