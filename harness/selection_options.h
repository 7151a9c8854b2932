// SPDX-License-Identifier: Apache-2.0
// SELECT of a command line: workloads, schedules, shapes and ranks. Declared once for all programs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/mesh.h"
#include "suite/shape.h"

namespace CLI {
class App;
}

namespace commfuse {

struct Selection {
  std::vector<std::string> workloads{"tpsp/gemm_rs"};
  std::vector<std::string> impls{"plain", "sliced:n=4", "commfuse"};
  std::vector<Shape> shapes;  // models or --shape, without tokens and dtype
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> ranks;  // empty: the program's own choice
  std::vector<Mesh> meshes;         // one for each axis that communicates
  std::vector<DType> dtypes;
  std::vector<DType> gradient_dtypes;    // of weights
  std::vector<std::int32_t> buckets{0};  // bytes of weight gradients; 0: one weight
};

/// The texts that CLI11 fills in; they become values afterwards, so that every complaint is ours.
struct SelectionTexts {
  std::string workloads = "tpsp/gemm_rs", impls = "plain,sliced:n=4,commfuse", models,
              tokens = "1K";
  std::vector<std::string> shapes;
  std::string layers, ranks, mesh, on, dtypes = "fp32", gradient_dtypes = "fp32", buckets, pass;
};

/// `usual_ranks`: how many there are without --ranks and --mesh, in words.
void declare_selection(CLI::App& app, SelectionTexts& texts, std::string_view usual_ranks);
/// Once the arguments were parsed. Throws UsageError.
void fill_selection(const SelectionTexts& texts, const CLI::App& app, Selection& selection);

}  // namespace commfuse
