// SPDX-License-Identifier: Apache-2.0
#include "harness/host/copy_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "harness/host/float_chunks.h"
#include "harness/host/runs.h"

namespace commfuse {
namespace {

bool changes_dtype(const Copy& op, const Storage& storage) {
  return storage.tensor(op.d.tensor).dtype != storage.tensor(op.s.tensor).dtype;
}

/// Elements [d, d + elements) of one tensor from [s, s + elements) of another.
void convert(const Copy& op, const Storage& storage, std::int64_t d, std::int64_t s,
             std::int64_t elements) {
  alignas(64) Chunk d_space;
  alignas(64) Chunk s_space;
  const ChunkTarget target(storage, op.d.tensor, d, d_space);
  std::copy_n(floats_at(storage, op.s.tensor, s, elements, s_space), elements, target.floats());
  target.store(elements);
}

}  // namespace

void check_shapes(const Copy& op, const Storage& storage) {
  if (!changes_dtype(op, storage)) {
    require_copyable(storage, op.d, storage, op.s);
  } else if (op.d.total_rows() != op.s.total_rows() || op.d.cols != op.s.cols) {
    throw std::invalid_argument(fmt::format("cannot round {} to {}",
                                            describe(op.s, storage.tensor(op.s.tensor)),
                                            describe(op.d, storage.tensor(op.d.tensor))));
  }
}

void run(const Copy& op, const Storage& storage) {
  if (!changes_dtype(op, storage)) {
    copy_view(storage, op.d, storage, op.s);
    return;
  }
  for (std::int64_t row = 0; row < op.d.total_rows(); ++row) {
    const std::int64_t d = packed_row_offset(op.d, storage.tensor(op.d.tensor), row);
    const std::int64_t s = packed_row_offset(op.s, storage.tensor(op.s.tensor), row);
    for_chunks(op.d.cols, [&](std::int64_t col, std::int64_t elements) {
      convert(op, storage, d + col, s + col, elements);
    });
  }
}

}  // namespace commfuse
