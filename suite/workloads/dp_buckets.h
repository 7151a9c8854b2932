// SPDX-License-Identifier: Apache-2.0
// Buckets of weight gradients: those of consecutive layers are laid one below the other and reduced
// together, as PyTorch's DDP (bucket_cap_mb) and Megatron-LM (--ddp-bucket-size) have them. Rows of
// one tensor are of equal length, so a bucket holds gradients of up maps or of down maps alone, and
// with several layers in it there are two buckets at a time. Rank j's slice is the j-th share of
// the bucket's rows, whichever maps they belong to, as in Megatron-LM's distributed optimizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "suite/shape.h"
#include "suite/stage.h"
#include "suite/workloads/workload_builder.h"

namespace commfuse {

struct Bucket {
  std::string name;               // that of its one map, or "down3_to_down2"
  std::vector<std::size_t> maps;  // as the backward pass comes to them: from the last
  std::int32_t rows_of_map = 0;
  std::int32_t cols = 0;

  [[nodiscard]] std::int32_t rows() const {
    return rows_of_map * static_cast<std::int32_t>(maps.size());
  }
};

/// As many whole gradients in each as `shape.bucket` bytes hold, at least one; in the order in
/// which they become full.
std::vector<Bucket> dp_buckets(const Shape& shape);

/// One map's part of a bucket, dy^T x.
struct WeightGradient {
  Operand dy, x;
};

/// The last phase of a stage along the rows of a bucket `dw`: the gradients of all its maps, which
/// lie below each other. Pieces of features are columns.
Phase last_weight_gradients(const Axis& axis, const Operand& dw,
                            const std::vector<WeightGradient>& maps);

}  // namespace commfuse
