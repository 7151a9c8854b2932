// SPDX-License-Identifier: Apache-2.0
// Whole layers: the oracle's bound is passed on from operation to operation, and still notices what
// was dropped in the first of them.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "suite/oracle.h"
#include "tests/suite/plain_run.h"
#include "tests/suite/small_cases.h"

namespace commfuse {
namespace {

/// The operation without half of what it adds up, or with another factor or addend.
Compute damaged(Compute op) {
  if (auto* gemm = std::get_if<Gemm>(&op)) {
    (gemm->transpose_a ? gemm->a.rows : gemm->a.cols) /= 2;
    (gemm->transpose_b ? gemm->b.cols : gemm->b.rows) /= 2;
  } else if (auto* attention = std::get_if<Attention>(&op)) {
    attention->k.rows /= 2;
    attention->v.rows /= 2;
  } else if (auto* slopes = std::get_if<AttentionGradient>(&op)) {
    slopes->v = slopes->k;
  } else if (auto* norm = std::get_if<Norm>(&op)) {
    norm->gamma = norm->x;
    norm->gamma.rows = 1;
  } else if (auto* gradient = std::get_if<NormGradient>(&op)) {
    gradient->gamma = gradient->x;
    gradient->gamma.rows = 1;
  } else if (auto* gamma = std::get_if<GammaGradient>(&op)) {
    gamma->x = gamma->dy;
  } else if (auto* residual = std::get_if<Residual>(&op)) {
    residual->r = residual->x;
  }
  return op;
}

/// The workload with one phase of one stage damaged.
Workload damaged(const Workload& workload, std::size_t stage, std::size_t phase) {
  Workload broken = workload;
  broken.stages[stage].phases[phase] = [sound = workload.stages[stage].phases[phase]](
                                           const Tile& tile, const Target& target) {
    std::vector<Compute> ops = sound(tile, target);
    for (Compute& op : ops) op = damaged(op);
    return ops;
  };
  return broken;
}

/// What a portion of the workload should leave, and how much of what a run leaves is something
/// else.
class Expected {
 public:
  Expected(const Workload& workload, const Source& source, Portion portion)
      : source_(source), portion_(portion) {
    const Oracle oracle(workload, source);
    for (std::int32_t rank = 0; rank < workload.ranks; ++rank) {
      for (const View& output : required_outputs(workload, portion)) {
        std::vector<std::int32_t> numbers(static_cast<std::size_t>(output.rows));
        std::iota(numbers.begin(), numbers.end(), 0);
        outputs_.push_back({rank, output, oracle.rows(portion, rank, output, numbers)});
      }
    }
  }

  /// The share of the elements of all outputs that lie outside of the bound.
  [[nodiscard]] double wrong_share(const Workload& workload) const {
    PlainRun run(workload, source_, portion_);
    run.run(Cut::whole);
    double wrong = 0;
    double all = 0;
    for (const Output& output : outputs_) {
      for (std::int32_t i = 0; i < output.view.rows; ++i) {
        const ExpectedRow& row = output.rows[static_cast<std::size_t>(i)];
        for (std::int32_t j = 0; j < output.view.cols; ++j, ++all) {
          const auto col = static_cast<std::size_t>(j);
          const double got = run.value(output.rank, output.view.tensor, i, j);
          if (!(std::abs(got - row.value[col]) <= row.bound[col])) ++wrong;
        }
      }
    }
    return wrong / all;
  }

 private:
  struct Output {
    std::int32_t rank;
    View view;
    std::vector<ExpectedRow> rows;
  };

  Source source_;
  Portion portion_;
  std::vector<Output> outputs_;
};

struct LayerCase {
  const char* workload;
  DType dtype;
  DataMode mode;
};

class LayerOracle : public testing::TestWithParam<LayerCase> {};

TEST_P(LayerOracle, SeesWhatIsDropped) {
  const auto& [name, dtype, mode] = GetParam();
  Shape shape = parse_shape("hidden=32,ffn=48,heads=4,kv_heads=2,activation=swiglu,causal=false");
  shape.tokens = 32;
  shape.dtype = dtype;
  const Workload workload = SmallCase{name, shape, 2}.build();
  const Expected whole(workload, {7, mode}, Portion::schedule);
  const Expected parts(workload, {7, mode}, Portion::compute_only);
  EXPECT_EQ(whole.wrong_share(workload), 0);
  EXPECT_EQ(parts.wrong_share(workload), 0);
  const bool backward = workload.layer == Pass::backward;
  bool after_attention = false;
  for (std::size_t i = 0; i < workload.stages.size(); ++i) {
    const Stage& stage = workload.stages[i];
    after_attention |= stage.name == "add_norm";
    for (std::size_t phase = 0; phase < stage.phases.size(); ++phase) {
      const Compute op = stage.phases[phase](tile_of(stage, 0), {}).front();
      if (std::holds_alternative<Elementwise>(op) || std::holds_alternative<Copy>(op) ||
          std::holds_alternative<ActivationGradient>(op)) {
        continue;
      }
      SCOPED_TRACE(testing::Message() << stage.name << ", phase " << phase);
      const Workload broken = damaged(workload, i, phase);
      EXPECT_GT(parts.wrong_share(broken), 0);
      // In bf16 Z may be off by as much as half of what goes into attention makes. Backward, exact
      // data make gradients grow from gemm to gemm, and with them what narrow ones are off by.
      const bool blurred = backward ? is_narrow(dtype) && mode == DataMode::exact
                                    : dtype == DType::bf16 && !after_attention;
      // dX has so little of dQ and dK alone that half of it is less than what it may be off by in
      // bf16.
      const bool faint =
          dtype == DType::bf16 && phase == 0 && (stage.name == "dx_q" || stage.name == "dx_k");
      if (!blurred && !faint) {
        EXPECT_GT(whole.wrong_share(broken), 0);
      }
    }
  }
}

std::vector<LayerCase> layer_cases() {
  std::vector<LayerCase> cases;
  for (const char* name :
       {"tpsp/layer", "tpsp/layer:backward", "ulysses/layer", "ulysses/layer:backward"}) {
    for (const DType dtype : kDTypes) {
      for (const DataMode mode : {DataMode::exact, DataMode::random}) {
        cases.push_back({name, dtype, mode});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, LayerOracle, testing::ValuesIn(layer_cases()), [](const auto& group) {
  const LayerCase& layer = group.param;
  std::string name(layer.workload);
  name = name.substr(0, name.find('/')) + (name.ends_with(":backward") ? "_backward" : "");
  return name + "_" + std::string(name_of(layer.dtype)) +
         (layer.mode == DataMode::exact ? "_exact" : "_random");
});

}  // namespace
}  // namespace commfuse
