// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/simulated_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "tests/fakecuda/verdict.h"

namespace commfuse::fake {
namespace {

constexpr std::size_t kRedZone = 256;  // an access just behind the end still names its allocation

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

[[noreturn]] void report(Verdict::Kind kind, const std::string& message) {
  throw Finding(kind, message);
}

std::string extent(const Allocation& allocation, const Range& range) {
  const std::size_t begin = allocation.offset(range.data);
  return fmt::format("bytes [{}, {}) of rank {} {}", begin, begin + range.bytes, allocation.rank,
                     allocation.name);
}

}  // namespace

void Allocation::Release::operator()(std::byte* storage) const noexcept {
  ::operator delete (storage, std::align_val_t{alignment});
}

bool overlap(const Range& a, const Range& b) {
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.data);
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b.data);
  return a.bytes > 0 && b.bytes > 0 && a_begin < b_begin + b.bytes && b_begin < a_begin + a.bytes;
}

std::byte* SimulatedMemory::allocate(std::int32_t rank, std::size_t bytes, std::string name,
                                     std::size_t alignment) {
  auto allocation = std::make_unique<Allocation>();
  allocation->rank = rank;
  allocation->name = std::move(name);
  allocation->bytes = bytes;
  allocation->storage = {
      static_cast<std::byte*>(::operator new (bytes + kRedZone, std::align_val_t{alignment})),
      Allocation::Release{alignment}};
  allocation->written.assign(bytes, false);
  std::byte* base = allocation->storage.get();
  std::memset(base, kPoison, bytes + kRedZone);
  allocations_.emplace(number(base), std::move(allocation));
  return base;
}

Range SimulatedMemory::whole(const void* base) const {
  const auto found = allocations_.find(number(base));
  if (found == allocations_.end()) {
    report(Verdict::Kind::out_of_bounds, describe(base) + " is not the base of an allocation");
  }
  const Allocation& allocation = *found->second;
  if (allocation.freed) {
    report(Verdict::Kind::use_after_free,
           fmt::format("rank {} {} was freed before", allocation.rank, allocation.name));
  }
  return {base, allocation.bytes};
}

void SimulatedMemory::release(const void* base) { allocations_.at(number(base))->freed = true; }

const Allocation* SimulatedMemory::containing(const void* address) const {
  auto after = allocations_.upper_bound(number(address));
  if (after == allocations_.begin()) return nullptr;
  const Allocation& allocation = *std::prev(after)->second;
  return allocation.offset(address) < allocation.bytes + kRedZone ? &allocation : nullptr;
}

bool SimulatedMemory::is_backed(const Range& range) const {
  const Allocation* allocation = containing(range.data);
  return allocation != nullptr && range.bytes <= allocation->bytes &&
         allocation->offset(range.data) <= allocation->bytes - range.bytes;
}

bool SimulatedMemory::is_poison(const Range& range) const {
  const Allocation* allocation = containing(range.data);
  return !allocation->written[allocation->offset(range.data)];
}

Allocation& SimulatedMemory::find(const Range& range) const {
  const Allocation* allocation = containing(range.data);
  if (allocation == nullptr) {
    report(Verdict::Kind::out_of_bounds,
           fmt::format("{} bytes outside every allocation", range.bytes));
  }
  if (!is_backed(range)) {
    report(Verdict::Kind::out_of_bounds,
           fmt::format("{}, which has {} bytes", extent(*allocation, range), allocation->bytes));
  }
  if (allocation->freed) {
    report(Verdict::Kind::use_after_free, extent(*allocation, range) + ", freed before");
  }
  return *allocations_.at(number(allocation->storage.get()));
}

void SimulatedMemory::check_written(const Allocation& allocation, const Range& range) {
  if (range.bytes == 0) return;
  const std::size_t begin = allocation.offset(range.data);
  const auto first = allocation.written.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last = first + static_cast<std::ptrdiff_t>(range.bytes);
  const auto poison = std::find(first, last, false);
  if (poison == last) return;
  report(Verdict::Kind::poison,
         fmt::format("reads {}; nobody wrote byte {}", extent(allocation, range),
                     begin + static_cast<std::size_t>(poison - first)));
}

void SimulatedMemory::mark_written(Allocation& allocation, const Range& range) {
  if (range.bytes == 0) return;
  const auto first =
      allocation.written.begin() + static_cast<std::ptrdiff_t>(allocation.offset(range.data));
  std::fill(first, first + static_cast<std::ptrdiff_t>(range.bytes), true);
}

void SimulatedMemory::name_address(const void* address, std::string name) {
  names_[address] = std::move(name);
}

std::string SimulatedMemory::describe(const void* address) const {
  const Allocation* allocation = containing(address);
  if (allocation == nullptr) return "an address outside every allocation";
  if (const auto found = names_.find(address); found != names_.end()) {
    return fmt::format("rank {} {}", allocation->rank, found->second);
  }
  return fmt::format("rank {} {} + {}", allocation->rank, allocation->name,
                     allocation->offset(address));
}

}  // namespace commfuse::fake
