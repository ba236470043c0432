#include <bit>

#include "subject.h"

// Updates that a plan has beside a card, on the host, leave the bits that they would leave on the card.
namespace outsize::test {
namespace {

TEST(Updates, OfTheHostHaveTheBitsOfTheCards) {
  const auto find = [](std::string_view name) {
    const auto found = std::ranges::find_if(backends(), [&](const Backend& backend) { return backend.name.starts_with(name); });
    return found == backends().end() ? nullptr : &*found;
  };
  const Backend* const host = find("cpu_block");
  const Backend* const card = find("cuda_host");
  if (host == nullptr || card == nullptr) GTEST_SKIP() << "is of processors' kernels and a card's";
  int updates = 0;
  for (const Subject& subject : all_subjects(false)) {
    if (subject.backend != card || (subject.op != "adam" && subject.op != "sgd")) continue;
    const Bench bench(subject.op_case, *card);
    for (const OpId id : bench.ops()) {
      const OpSite site = bench.graph().site(id);
      const std::vector<Tensor> inputs = bench.inputs(id), on_card = run_op(*card, site, inputs, whole(site)),
                                on_host = run_op(*host, site, inputs, whole(site));
      for (std::size_t i = 0; i < on_card.size(); ++i)
        EXPECT_TRUE(std::ranges::equal(
            on_card[i].numbers, on_host[i].numbers,
            [](double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }))
            << subject.op << " " << subject.op_case.name << ", output " << i;
      ++updates;
    }
  }
  EXPECT_GT(updates, 5);
}

}  // namespace
}  // namespace outsize::test
