// Writes every case that names PyTorch's expression, with its inputs and what the reference kernels make of them in f64, to one
// safetensors file and prints what is in it as JSON: tests/torch/ops.py computes the same in PyTorch.
#include <cstring>
#include <nlohmann/json.hpp>

#include "all_cases.h"
#include "data/safetensors.h"
#include "subject.h"

namespace outsize::test {
namespace {

std::vector<std::byte> bytes_of(const Tensor& tensor) {
  const auto bytes = std::as_bytes(std::span(tensor.numbers));
  return {bytes.begin(), bytes.end()};
}

// The tensors of one case, "<case>/<value>", and its description.
class CaseExport {
 public:
  CaseExport(const std::string& op, const OpCase& op_case, std::vector<std::pair<TensorEntry, Tensor>>& tensors)
      : key_(op + "/" + op_case.name), graph_(op_case, DType::f64), tensors_(tensors) {
    Values values = random_leaves(graph_, op_case);
    evaluate(exact_backend(), graph_, graph_.ops(), values);
    const auto put = [&](const std::string& name, ValueId id) { add(name, values[static_cast<std::size_t>(id.index)]); };
    nlohmann::ordered_json inputs = nlohmann::ordered_json::array();
    for (std::int64_t i = 0; i < graph_.graph.value_count(); ++i) {
      const Value& value = graph_.graph.value(ValueId(i));
      if (value.producer || value.name.starts_with("grad.")) continue;
      put(value.name, ValueId(i));
      inputs.push_back({{"name", value.name}, {"float", is_float(value.type.dtype)}});
    }
    put("output", graph_.graph.outputs()[0]);
    if (op_case.differentiate) put("seed", graph_.autodiff.seeds[0]);
    for (const auto& [subject, gradient] : graph_.autodiff.gradients) put("grad." + graph_.graph.value(subject).name, gradient);
    description_ = {{"case", key_}, {"torch", op_case.torch}, {"inputs", inputs}, {"differentiate", op_case.differentiate}};
  }

  const nlohmann::ordered_json& description() const { return description_; }

 private:
  void add(const std::string& name, const Tensor& tensor) {
    tensors_.emplace_back(TensorEntry{key_ + "/" + name, ElementType::f64, tensor.type.shape, 0}, tensor);
  }

  std::string key_;
  CaseGraph graph_;
  std::vector<std::pair<TensorEntry, Tensor>>& tensors_;
  nlohmann::ordered_json description_;
};

void export_all(const std::string& path) {
  std::vector<std::pair<TensorEntry, Tensor>> tensors;
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  for (const auto& [op, list] : all_cases())
    for (const OpCase& op_case : list)
      if (!op_case.torch.empty() && !op_case.bench) cases.push_back(CaseExport(op, op_case, tensors).description());
  std::vector<TensorEntry> entries;
  for (const auto& [entry, tensor] : tensors) entries.push_back(entry);
  std::map<std::string, const Tensor*> by_name;
  for (const auto& [entry, tensor] : tensors) by_name[entry.name] = &tensor;
  write_safetensors(path, std::move(entries),
                    [&](const TensorEntry& entry, const TensorSink& sink) { sink(bytes_of(*by_name.at(entry.name))); });
  fmt::print("{}\n", cases.dump());
}

}  // namespace
}  // namespace outsize::test

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: export_ops FILE.safetensors\n");
    return 2;
  }
  outsize::test::export_all(argv[1]);
  return 0;
}
