// SPDX-License-Identifier: Apache-2.0
#include "harness/sim/op_key.h"

#include <algorithm>
#include <vector>

#include "suite/shape.h"

namespace commfuse {
namespace {

constexpr std::array<std::string_view, 3> kGemmSizes{"m", "n", "k"};
constexpr std::array<std::string_view, 3> kAttentionSizes{"queries", "keys", "heads"};
constexpr std::array<std::string_view, 3> kAccumulateSizes{"rows", "cols", "terms"};
constexpr std::array<std::string_view, 2> kCollectiveSizes{"ranks", "bytes"};
constexpr std::array<std::string_view, 2> kOtherSizes{"rows", "cols"};
// In the order of Compute.
constexpr std::array<std::string_view, std::variant_size_v<Compute>> kKinds{
    "gemm",       "attention",     "attention_gradient", "activation", "activation_gradient",
    "norm",       "norm_gradient", "gamma_gradient",     "residual",   "adam",
    "accumulate", "copy"};

/// Views in two groups: "fp32 <- bf16 fp32".
template <class Word>
std::string listed(std::span<const View> written, std::span<const View> read, Word word) {
  std::string text;
  for (const View& view : written) text.append(word(view)).append(" ");
  text += "<-";
  for (const View& view : read) text.append(" ").append(word(view));
  return text;
}

std::string storage_of(const Compute& op, std::span<const Tensor> tensors) {
  const std::vector<View> written = writes(op), read = reads(op);
  const auto dtype = [&](const View& view) { return tensors[view.tensor].dtype; };
  const DType first = dtype(written.front());
  const auto agrees = [&](const View& view) { return dtype(view) == first; };
  const auto single = [](const View& view) { return view.strips == 1; };
  std::string text =
      std::ranges::all_of(written, agrees) && std::ranges::all_of(read, agrees)
          ? std::string(name_of(first))
          : listed(written, read, [&](const View& view) { return name_of(dtype(view)); });
  if (!std::ranges::all_of(written, single) || !std::ranges::all_of(read, single)) {
    text += " strips ";
    text += listed(written, read, [](const View& view) { return std::to_string(view.strips); });
  }
  return text;
}

/// The sizes of an op, and what is special to its kind.
struct Described {
  std::array<std::int64_t, 3> sizes{};
  std::string special;
};

Described described(const Gemm& op) {
  Described result;
  // Strips of D lie below each other, unless they are those of B.
  const bool over_n = op.b.strips > 1;
  result.sizes = {over_n ? op.d.rows : op.d.total_rows(),
                  std::int64_t{op.d.cols} * (over_n ? op.d.strips : 1),
                  op.transpose_a ? op.a.rows : op.a.cols};
  result.special = op.transpose_a ? " T" : " N";
  result.special += op.transpose_b ? "T" : "N";
  if (op.c) result.special += *op.c == op.d ? " + D" : " + C";
  return result;
}

template <class Attending>
Described described_attention(const Attending& op) {
  return {{op.q.total_rows(), op.k.total_rows(), op.heads},
          " kv_heads=" + std::to_string(op.kv_heads) + " head=" + std::to_string(op.head_dim) +
              (op.mask == Mask::causal ? " causal" : "")};
}
Described described(const Attention& op) { return described_attention(op); }
Described described(const AttentionGradient& op) {
  Described result = described_attention(op);
  if (op.adds) result.special += " adds";
  return result;
}

Described of_view(const View& view, std::string special = {}) {
  return {{view.total_rows(), view.cols, 0}, std::move(special)};
}
Described described(const Elementwise& op) {
  return of_view(op.y, " " + std::string(name_of(op.kind)));
}
Described described(const ActivationGradient& op) {
  return of_view(op.dy, " " + std::string(name_of(op.kind)));
}
Described described(const Norm& op) { return of_view(op.y); }
Described described(const NormGradient& op) { return of_view(op.dx); }
Described described(const GammaGradient& op) { return of_view(op.x, op.adds ? " adds" : ""); }
Described described(const Residual& op) { return of_view(op.y); }
Described described(const Adam& op) { return of_view(op.new_w, op.copy ? " copy" : ""); }
Described described(const Accumulate& op) {
  Described result = of_view(op.d);
  result.sizes[2] = op.terms.strips;
  return result;
}
Described described(const Copy& op) { return of_view(op.d); }

/// The strips of an Accumulate's terms are what it adds: a size.
std::string storage_of_op(const Compute& op, std::span<const Tensor> tensors) {
  const auto* accumulate = std::get_if<Accumulate>(&op);
  if (accumulate == nullptr) return storage_of(op, tensors);
  Accumulate single = *accumulate;
  single.terms.strips = 1;
  return storage_of(single, tensors);
}

}  // namespace

std::span<const std::string_view> size_names(std::string_view kind) {
  const auto is_kind = [&](CollectiveKind collective) { return name_of(collective) == kind; };
  if (std::ranges::any_of(kCollectiveKinds, is_kind)) return kCollectiveSizes;
  const auto found = std::ranges::find(kKinds, kind);
  if (found == kKinds.end()) return {};
  if (kind == "gemm") return kGemmSizes;
  if (kind == "accumulate") return kAccumulateSizes;
  if (kind.starts_with("attention")) return kAttentionSizes;
  return kOtherSizes;
}

OpKey key_of(const Compute& op, std::span<const Tensor> tensors) {
  Described parts = std::visit([](const auto& work) { return described(work); }, op);
  return {std::string(kKinds[op.index()]), storage_of_op(op, tensors) + parts.special, parts.sizes};
}

OpKey key_of(const Collective& collective, std::int32_t ranks, std::span<const Tensor> tensors,
             std::string_view transport) {
  return {std::string(name_of(collective.kind)),
          std::string(transport),
          {ranks, least_bytes_sent(collective, ranks, tensors), 0}};
}

std::string describe(const OpKey& key) {
  std::string text = key.kind + " ";
  for (std::size_t i = 0; i < size_names(key.kind).size(); ++i) {
    text += (i > 0 ? "x" : "") + std::to_string(key.sizes[i]);
  }
  return text + " " + key.how;
}

}  // namespace commfuse
