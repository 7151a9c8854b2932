// SPDX-License-Identifier: Apache-2.0
#include "harness/host/storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "harness/host/float_conversion.h"
#include "harness/host/runs.h"

namespace commfuse {
namespace {

void require_elements(const View& view, const Tensor& tensor, std::size_t packed) {
  if (static_cast<std::int64_t>(packed) != view.elements()) {
    throw std::invalid_argument(fmt::format("view {} has {} elements, the packed array {}",
                                            describe(view, tensor), view.elements(), packed));
  }
}

std::byte* run_address(std::byte* block, const Runs& runs, std::int64_t run,
                       std::int64_t element_bytes) {
  return block + runs.offset(run) * element_bytes;
}

}  // namespace

Storage::Storage(std::vector<Tensor> tensors, std::vector<std::byte*> blocks)
    : tensors_(std::move(tensors)), blocks_(std::move(blocks)) {
  if (tensors_.size() != blocks_.size()) {
    throw std::invalid_argument(
        fmt::format("storage of {} tensors got {} blocks", tensors_.size(), blocks_.size()));
  }
}

std::byte* Storage::at(const View& view) const {
  const Tensor& shape = tensors_[view.tensor];
  const std::int64_t element = std::int64_t{view.row} * shape.cols + view.col;
  return blocks_[view.tensor] + element * bytes_of(shape.dtype);
}

void Storage::write(const View& view, std::span<const float> packed) const {
  const Tensor& shape = tensors_[view.tensor];
  require_elements(view, shape, packed.size());
  const Runs runs(view, shape);
  const float* from = packed.data();
  for (std::int64_t i = 0; i < runs.count(); ++i, from += runs.length()) {
    std::byte* to = run_address(blocks_[view.tensor], runs, i, bytes_of(shape.dtype));
    store_floats(shape.dtype, from, to, runs.length());
  }
}

void Storage::read(const View& view, std::span<float> packed) const {
  const Tensor& shape = tensors_[view.tensor];
  require_elements(view, shape, packed.size());
  const Runs runs(view, shape);
  float* to = packed.data();
  for (std::int64_t i = 0; i < runs.count(); ++i, to += runs.length()) {
    const std::byte* from = run_address(blocks_[view.tensor], runs, i, bytes_of(shape.dtype));
    load_floats(shape.dtype, from, to, runs.length());
  }
}

void Storage::poison(TensorId id) const {
  // All bits set is a NaN in every dtype.
  std::memset(blocks_[id], 0xff, static_cast<std::size_t>(tensors_[id].bytes()));
}

void require_copyable(const Storage& target_storage, const View& target,
                      const Storage& source_storage, const View& source) {
  const Tensor& to = target_storage.tensor(target.tensor);
  const Tensor& from = source_storage.tensor(source.tensor);
  if (to.dtype != from.dtype || target.elements() != source.elements()) {
    throw std::invalid_argument(fmt::format("cannot copy {} {} to {} {}", name_of(from.dtype),
                                            describe(source, from), name_of(to.dtype),
                                            describe(target, to)));
  }
}

void copy_view(const Storage& target_storage, const View& target, const Storage& source_storage,
               const View& source) {
  require_copyable(target_storage, target, source_storage, source);
  const Tensor& to = target_storage.tensor(target.tensor);
  const Tensor& from = source_storage.tensor(source.tensor);
  const Runs to_runs(target, to);
  const Runs from_runs(source, from);
  const std::int64_t element_bytes = bytes_of(to.dtype);
  // The two views may be cut differently: each memcpy ends where the nearer of the two runs does.
  const std::int64_t elements = target.elements();
  std::int64_t step = 0;
  for (std::int64_t done = 0; done < elements; done += step) {
    const std::int64_t to_rest = to_runs.length() - done % to_runs.length();
    const std::int64_t from_rest = from_runs.length() - done % from_runs.length();
    step = std::min(to_rest, from_rest);
    std::byte* to_address = run_address(target_storage.data(target.tensor), to_runs,
                                        done / to_runs.length(), element_bytes) +
                            done % to_runs.length() * element_bytes;
    const std::byte* from_address = run_address(source_storage.data(source.tensor), from_runs,
                                                done / from_runs.length(), element_bytes) +
                                    done % from_runs.length() * element_bytes;
    std::memmove(to_address, from_address, static_cast<std::size_t>(step * element_bytes));
  }
}

}  // namespace commfuse
