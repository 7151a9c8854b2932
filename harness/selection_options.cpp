// SPDX-License-Identifier: Apache-2.0
#include "harness/selection_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "harness/option_parser.h"
#include "harness/option_values.h"
#include "impls/implementation.h"
#include "suite/error.h"
#include "suite/workload.h"

namespace commfuse {
namespace {

/// Patterns with every pass that --pass names, unless they name one themselves.
std::vector<std::string> selected_workloads(const SelectionTexts& texts) {
  std::vector<std::string> passes;
  if (!texts.pass.empty()) passes = split(texts.pass, ',');
  for (const std::string& pass : passes) {
    one_of<int>("--pass", pass, {{"forward", 0}, {"backward", 1}});
  }
  std::vector<std::string> patterns;
  for (const std::string& pattern : split(texts.workloads, ',')) {
    const std::size_t colon = pattern.find(':');
    if (colon != std::string::npos && !passes.empty() &&
        std::ranges::find(passes, pattern.substr(colon + 1)) == passes.end()) {
      throw UsageError(
          fmt::format("--workload {} and --pass {} contradict each other", pattern, texts.pass));
    }
    if (passes.empty() || colon != std::string::npos) {
      patterns.push_back(pattern);
      continue;
    }
    for (const std::string& pass : passes) patterns.push_back(pattern + ":" + pass);
  }
  return patterns;
}

}  // namespace

void declare_selection(CLI::App& app, SelectionTexts& texts, std::string_view usual_ranks) {
  const auto add = [&](const char* name, auto& value, const char* type, const std::string& text) {
    return app.add_option(name, value, text)->group("SELECT")->type_name(type);
  };
  add("--workload", texts.workloads, "NAMES", "Names or globs: tpsp/mlp,tpsp/*")
      ->capture_default_str();
  add("--impl", texts.impls, "NAMES",
      "Schedules with parameters; the bounds always run beside them")
      ->capture_default_str();
  add("--model", texts.models, "NAMES", "Presets, see --list [llama3-8b]");
  add("--shape", texts.shapes, "K=V,..",
      "Instead of --model: hidden, ffn, heads, kv_heads, head_dim, activation, causal, layers;\n"
      "repeatable")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add("--layers", texts.layers, "N", "Layers of --model that dp/* run [1]");
  add("--tokens", texts.tokens, "COUNTS", "Tokens of one replica: 512,1K:64K:*2")
      ->capture_default_str();
  add("--ranks", texts.ranks, "COUNTS", fmt::format("Group sizes: 2,4 [{}]", usual_ranks));
  add("--mesh", texts.mesh, "A=N,..", "Arrange the ranks: tp=4,dp=2; all groups run at once");
  add("--on", texts.on, "A,..",
      "Axes of --mesh that communicate, one after the other: tp; tp,dp; both");
  add("--dtype", texts.dtypes, "NAMES", "fp32,bf16,fp16")->capture_default_str();
  add("--grad-dtype", texts.gradient_dtypes, "NAMES", "Of weight gradients: fp32, or as --dtype")
      ->capture_default_str();
  add("--bucket-size", texts.buckets, "BYTES",
      "Weight gradients that dp/* reduce at once: 25M,100M [each weight alone]");
  add("--pass", texts.pass, "NAME,..", "forward, backward [a workload's first pass in --list]");
}

void fill_selection(const SelectionTexts& texts, const CLI::App& app, Selection& selection) {
  selection.workloads = selected_workloads(texts);
  for (const std::string& pattern : selection.workloads) find_workloads(pattern);
  selection.impls = split(texts.impls, ',');
  for (const std::string& spec : selection.impls) validate_implementation(spec);
  if (!texts.models.empty() && !texts.shapes.empty()) {
    throw UsageError("--model and --shape exclude each other");
  }
  if (!texts.layers.empty() && !texts.shapes.empty()) {
    throw UsageError("--layers belongs to --model; in --shape it is layers=N");
  }
  const std::int32_t layers = texts.layers.empty() ? 1 : parse_count(texts.layers, "--layers");
  for (const std::string& shape : texts.shapes) selection.shapes.push_back(parse_shape(shape));
  if (texts.shapes.empty()) {
    for (const std::string& model : split(texts.models.empty() ? "llama3-8b" : texts.models, ',')) {
      selection.shapes.push_back(preset(model));
      selection.shapes.back().layers = layers;
    }
  }
  selection.tokens = parse_counts(texts.tokens, "--tokens");
  for (const std::string& dtype : split(texts.dtypes, ','))
    selection.dtypes.push_back(parse_dtype(dtype));
  for (const std::string& dtype : split(texts.gradient_dtypes, ',')) {
    selection.gradient_dtypes.push_back(parse_dtype(dtype));
  }
  if (!texts.buckets.empty()) selection.buckets = parse_counts(texts.buckets, "--bucket-size");
  if (app.count("--mesh") != app.count("--on")) throw UsageError("--mesh and --on go together");
  if (!texts.mesh.empty()) selection.meshes = parse_meshes(texts.mesh, texts.on);
  if (!texts.ranks.empty()) selection.ranks = parse_counts(texts.ranks, "--ranks");
  if (!selection.meshes.empty() && !selection.ranks.empty())
    throw UsageError("--mesh and --ranks exclude each other");
}

}  // namespace commfuse
