// SPDX-License-Identifier: Apache-2.0
#include "tests/suite/plain_run.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/suite/rounded_to.h"

namespace commfuse {
namespace {

constexpr std::int32_t kParts = 2;

std::int32_t parts_of(const Stage& stage) {
  if (stage.own_slice && outgoing(stage)) return 1;  // what it sends is made of the whole slice
  return stage.axis.divides(kParts) ? kParts : 1;
}

float activated(Activation kind, float x) {
  if (kind == Activation::relu) return std::max(x, 0.0F);
  return x * 0.5F * (1.0F + std::erf(x * 0.70710678F));
}

}  // namespace

PlainRun::PlainRun(const Workload& workload, const Source& source, Portion portion)
    : workload_(workload),
      moves_(portion != Portion::compute_only),
      memories_(static_cast<std::size_t>(workload.ranks)) {
  for (std::int32_t rank = 0; rank < workload.ranks; ++rank) {
    memory_ = &memories_[static_cast<std::size_t>(rank)];
    for (const Tensor& tensor : workload.tensors) {
      memory_->emplace_back(static_cast<std::size_t>(tensor.elements()), Element{NAN, NAN});
    }
    for (const Fill& fill : initial_data(workload, rank, portion)) {
      std::vector<float> row(static_cast<std::size_t>(fill.view.cols));
      for (std::int32_t i = 0; i < fill.view.rows; ++i) {
        fill_row(fill, source, i, row);
        for (std::int32_t j = 0; j < fill.view.cols; ++j) {
          const float value = row[static_cast<std::size_t>(j)];
          for (const DType dtype : kDTypes) {
            if (rounded_to(dtype, value) != value) throw std::logic_error("input is rounded");
          }
          at(fill.view, i, j) = {value, std::abs(value)};
        }
      }
    }
  }
}

float PlainRun::value(std::int32_t rank, TensorId tensor, std::int32_t row,
                      std::int32_t col) const {
  const auto index =
      static_cast<std::size_t>(row) * static_cast<std::size_t>(workload_.tensors[tensor].cols) +
      static_cast<std::size_t>(col);
  return memories_[static_cast<std::size_t>(rank)][tensor][index].value;
}

PlainRun::Element& PlainRun::at(const View& view, std::int64_t packed_row, std::int32_t col) {
  const View strip = view.strip(static_cast<std::int32_t>(packed_row / view.rows));
  const std::int64_t row = strip.row + packed_row % view.rows;
  const std::int64_t index = row * workload_.tensors[view.tensor].cols + strip.col + col;
  return (*memory_)[view.tensor].at(static_cast<std::size_t>(index));
}

/// Element (row, k) of op(A): strips of A lie over M, whether they are transposed or not. Strips of
/// B lie over N, in D too, which has `row` in one of them.
PlainRun::Element& PlainRun::factor_a(const Gemm& op, std::int64_t row, std::int32_t k) {
  if (op.b.strips > 1) row %= op.d.rows;
  if (!op.transpose_a) return at(op.a, row, k);
  const auto strip = static_cast<std::int32_t>(row / op.a.cols);
  return at(op.a.strip(strip), k, static_cast<std::int32_t>(row % op.a.cols));
}

PlainRun::Element& PlainRun::factor_b(const Gemm& op, std::int64_t row, std::int32_t col,
                                      std::int32_t k) {
  const View strip =
      op.b.strips > 1 ? op.b.strip(static_cast<std::int32_t>(row / op.d.rows)) : op.b;
  return op.transpose_b ? at(strip, col, k) : at(strip, k, col);
}

void PlainRun::store(Element& element, TensorId tensor, double value, double magnitude) {
  const auto computed = static_cast<float>(value);
  element.value = static_cast<float>(rounded_to(workload_.tensors[tensor].dtype, computed));
  element.magnitude = magnitude;
  if (element.value != computed) ++changed_by_rounding_;
  largest_magnitude_ = std::max(largest_magnitude_, magnitude);
}

void PlainRun::run(Cut cut) {
  for (const Stage& stage : workload_.stages) run_stage(stage, cut);
}

void PlainRun::move() {
  for (const Stage& stage : workload_.stages) {
    gather(stage);
    send(stage);
  }
}

void PlainRun::run_stage(const Stage& stage, Cut cut) {
  if (moves_) gather(stage);
  if (cut == Cut::targeted && stage.reduce_scatter) {
    run_targeted(stage);
    return;
  }
  for (std::int32_t rank = 0; rank < workload_.ranks; ++rank) compute_tiles(stage, cut, rank);
  if (moves_) send(stage);
}

void PlainRun::send(const Stage& stage) {
  if (stage.reduce_scatter) {
    for (std::int32_t slice = 0; slice < workload_.ranks; ++slice) reduce(stage, slice, true);
  }
  if (stage.all_reduce) sum_everywhere(*stage.all_reduce);
  if (stage.all_to_all) exchange(stage);
}

void PlainRun::sum_everywhere(const AllReduce& reduction) {
  for (std::size_t i = 0; i < memories_[0][reduction.partial].size(); ++i) {
    float sum = 0;
    double magnitude = 0;
    for (const Memory& memory : memories_) {
      sum += memory[reduction.partial][i].value;
      magnitude += memory[reduction.partial][i].magnitude;
    }
    for (Memory& memory : memories_) {
      store(memory[reduction.result][i], reduction.result, sum, magnitude);
    }
  }
}

/// Block j of a rank goes to rank j, where it lies at the place of the sender.
void PlainRun::exchange(const Stage& stage) {
  const auto [send, receive] = *stage.all_to_all;
  const std::int64_t block = std::int64_t{stage.axis.rows} * workload_.tensors[receive].cols;
  for (std::size_t from = 0; from < memories_.size(); ++from) {
    for (std::size_t to = 0; to < memories_.size(); ++to) {
      std::copy_n(memories_[from][send].begin() + static_cast<std::int64_t>(to) * block, block,
                  memories_[to][receive].begin() + static_cast<std::int64_t>(from) * block);
    }
  }
}

void PlainRun::gather(const Stage& stage) {
  if (!stage.gather) return;
  const TensorId buffer = stage.gather->buffer;
  const std::size_t slice = memories_[0][buffer].size() / memories_.size();
  for (std::size_t source = 0; source < memories_.size(); ++source) {
    const auto first =
        memories_[source][buffer].begin() + static_cast<std::ptrdiff_t>(source * slice);
    for (Memory& memory : memories_) {
      std::copy_n(first, slice,
                  memory[buffer].begin() + static_cast<std::ptrdiff_t>(source * slice));
    }
  }
}

void PlainRun::compute(const Stage& stage, const Tile& tile, const Target& target,
                       std::int32_t rank) {
  for (const Phase& phase : stage.phases) {
    const bool last = &phase == &stage.phases.back();
    for (const Compute& op : phase(tile, last ? target : Target{})) apply(op, rank);
  }
}

void PlainRun::compute_features(const Stage& stage, std::int32_t rank) {
  if (stage.phases.empty()) return;
  for (std::size_t i = 0; i + 1 < stage.phases.size(); ++i) {
    for (const Compute& op : stage.phases[i](tile_of(stage, rank), Target{})) apply(op, rank);
  }
  for (std::int32_t feature = 0; feature < kParts; ++feature) {
    Tile tile = tile_of(stage, rank);
    tile.feature = feature;
    tile.features = kParts;
    for (const Compute& op : stage.phases.back()(tile, Target{})) apply(op, rank);
  }
}

void PlainRun::compute_tiles(const Stage& stage, Cut cut, std::int32_t rank) {
  const std::int32_t parts = cut == Cut::whole ? 1 : parts_of(stage);
  if (cut == Cut::features) {
    compute_features(stage, rank);
    return;
  }
  if (stage.own_slice) {
    for (std::int32_t part = 0; part < parts; ++part) {
      compute(stage, tile_of(stage, rank, part, parts), {}, rank);
    }
    return;
  }
  const bool by_peer = cut == Cut::slices || cut == Cut::targeted;
  const std::int32_t first = by_peer ? 0 : kEveryPeer;
  for (std::int32_t peer = first; peer < (by_peer ? stage.axis.ranks : 0); ++peer) {
    for (std::int32_t part = 0; part < parts; ++part) {
      compute(stage, {.peer = peer, .part = part, .parts = parts}, {}, rank);
    }
  }
}

/// The sum over ranks of a slice of the partial: into the slice owner's result, or without the own
/// share into its partial.
void PlainRun::reduce(const Stage& stage, std::int32_t slice, bool own) {
  const auto [partial, result] = *stage.reduce_scatter;
  const auto start = static_cast<std::size_t>(slice) * memories_[0][result].size();
  const auto owner = static_cast<std::size_t>(slice);
  for (std::size_t i = 0; i < memories_[0][result].size(); ++i) {
    float sum = 0;
    double magnitude = 0;
    for (std::size_t rank = 0; rank < memories_.size(); ++rank) {
      if (rank == owner && !own) continue;
      sum += memories_[rank][partial][start + i].value;
      magnitude += memories_[rank][partial][start + i].magnitude;
    }
    Element& target = own ? memories_[owner][result][i] : memories_[owner][partial][start + i];
    store(target, result, sum, magnitude);
  }
}

void PlainRun::run_targeted(const Stage& stage) {
  const auto [partial, result] = *stage.reduce_scatter;
  const std::int32_t parts = parts_of(stage);
  for (std::int32_t owner = 0; owner < workload_.ranks; ++owner) {
    const auto compute_slice = [&](std::int32_t rank) {
      for (std::int32_t part = 0; part < parts; ++part) {
        const Tile tile{.peer = owner, .part = part, .parts = parts};
        Target target;
        if (rank == owner) {
          const std::int32_t rows = stage.axis.rows / parts;
          target.d = rows_of(result, workload_.tensors[result], part * rows, rows);
          target.c = tile_rows(partial, workload_.tensors[partial], stage.axis, tile);
        }
        compute(stage, tile, target, rank);
      }
    };
    for (std::int32_t rank = 0; rank < workload_.ranks; ++rank) {
      if (rank != owner) compute_slice(rank);
    }
    reduce(stage, owner, false);
    compute_slice(owner);
  }
}

void PlainRun::apply(const Compute& op, std::int32_t rank) {
  memory_ = &memories_[static_cast<std::size_t>(rank)];
  if (const auto* gemm = std::get_if<Gemm>(&op)) return apply(*gemm);
  if (const auto* attention = std::get_if<Attention>(&op)) return apply(*attention);
  if (const auto* gradient = std::get_if<AttentionGradient>(&op)) return apply(*gradient);
  if (const auto* elementwise = std::get_if<Elementwise>(&op)) return apply(*elementwise);
  if (const auto* gradient = std::get_if<ActivationGradient>(&op)) return apply(*gradient);
  if (const auto* norm = std::get_if<Norm>(&op)) return apply(*norm);
  if (const auto* gradient = std::get_if<NormGradient>(&op)) return apply(*gradient);
  if (const auto* gradient = std::get_if<GammaGradient>(&op)) return apply(*gradient);
  if (const auto* residual = std::get_if<Residual>(&op)) return apply(*residual);
  if (const auto* adam = std::get_if<Adam>(&op)) return apply(*adam);
  if (const auto* copy = std::get_if<Copy>(&op)) return apply(*copy);
  throw std::logic_error("a phase returned an op of a schedule");
}

void PlainRun::apply(const Gemm& op) {
  const std::int32_t terms = op.transpose_a ? op.a.rows : op.a.cols;
  // A sum over tiles: the first of them finds poison.
  const bool adds = op.c && !(op.c == op.d && std::isnan(at(op.d, 0, 0).value));
  for (std::int64_t i = 0; i < op.d.total_rows(); ++i) {
    for (std::int32_t j = 0; j < op.d.cols; ++j) {
      const Element added = adds ? at(*op.c, i, j) : Element{};
      float sum = 0;
      double magnitude = added.magnitude;
      for (std::int32_t k = 0; k < terms; ++k) {
        const Element& a = factor_a(op, i, k);
        const Element& b = factor_b(op, i, j, k);
        sum += a.value * b.value;
        magnitude += a.magnitude * b.magnitude;
      }
      store(at(op.d, i, j), op.d.tensor, sum + added.value, magnitude);
    }
  }
}

void PlainRun::apply(const Copy& op) {
  for (std::int64_t i = 0; i < op.d.total_rows(); ++i) {
    for (std::int32_t j = 0; j < op.d.cols; ++j) {
      const Element source = at(op.s, i, j);
      store(at(op.d, i, j), op.d.tensor, source.value, source.magnitude);
    }
  }
}

void PlainRun::apply(const Attention& op) {
  const auto tokens = static_cast<std::int32_t>(op.k.total_rows());
  const std::int32_t group = op.heads / op.kv_heads;
  const float scale = 1 / std::sqrt(static_cast<float>(op.head_dim));
  for (std::int64_t i = 0; i < op.q.total_rows(); ++i) {
    const View strip = op.q.strip(static_cast<std::int32_t>(i / op.q.rows));
    const auto query_row = static_cast<std::int32_t>(strip.row + i % op.q.rows);
    for (std::int32_t head = 0; head < op.heads; ++head) {
      const std::int32_t col = head * op.head_dim;
      const std::int32_t kv_col = head / group * op.head_dim;
      std::vector<float> scores(static_cast<std::size_t>(tokens), -INFINITY);
      for (std::int32_t t = 0; t < tokens; ++t) {
        const bool hidden = op.mask == Mask::causal &&
                            zigzag_position(t, tokens) > zigzag_position(query_row, tokens);
        if (hidden) continue;
        const Element* q = &at(op.q, i, col);
        const Element* k = &at(op.k, t, kv_col);
        float sum = 0;
        for (std::int32_t c = 0; c < op.head_dim; ++c) sum += q[c].value * k[c].value;
        scores[static_cast<std::size_t>(t)] = sum * scale;
      }
      const float largest = *std::max_element(scores.begin(), scores.end());
      float total = 0;
      for (float& score : scores) total += score = std::exp(score - largest);
      for (std::int32_t c = 0; c < op.head_dim; ++c) {
        float sum = 0;
        double magnitude = 0;
        for (std::int32_t t = 0; t < tokens; ++t) {
          const float weight = scores[static_cast<std::size_t>(t)];
          sum += weight * at(op.v, t, kv_col + c).value;
          magnitude += double{weight} * at(op.v, t, kv_col + c).magnitude;
        }
        store(at(op.o, i, col + c), op.o.tensor, sum / total, magnitude / double{total});
      }
    }
  }
}

void PlainRun::apply(const Elementwise& op) {
  for (std::int64_t i = 0; i < op.y.total_rows(); ++i) {
    for (std::int32_t j = 0; j < op.y.cols; ++j) {
      const Element x = at(op.x, i, j);
      if (op.kind == Activation::swiglu) {
        const float up = at(op.x, i, op.y.cols + j).value;
        const float silu = x.value / (1 + std::exp(-x.value));
        store(at(op.y, i, j), op.y.tensor, silu * up, std::abs(silu * up));
      } else {
        store(at(op.y, i, j), op.y.tensor, activated(op.kind, x.value), x.magnitude);
      }
    }
  }
}

void PlainRun::apply(const Residual& op) {
  for (std::int64_t i = 0; i < op.y.total_rows(); ++i) {
    for (std::int32_t j = 0; j < op.y.cols; ++j) {
      const Element x = at(op.x, i, j);
      const Element r = at(op.r, i, j);
      store(at(op.y, i, j), op.y.tensor, x.value + r.value, x.magnitude + r.magnitude);
    }
  }
}

}  // namespace commfuse
