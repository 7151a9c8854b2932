// SPDX-License-Identifier: Apache-2.0
// Memory for arrays that are walked in a thousand places at once: of large pages where the system
// has some, because a processor keeps few small ones in mind.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace commfuse {

template <class Value>
struct LargePages {
  using value_type = Value;
  static constexpr std::size_t kPage = std::size_t{2} << 20;

  LargePages() = default;
  template <class Other>
  LargePages(const LargePages<Other>& /*other*/) {}

  Value* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(Value);
    if (bytes < kPage) return static_cast<Value*>(::operator new(bytes));
    const std::size_t whole = (bytes + kPage - 1) / kPage * kPage;
    void* const memory = std::aligned_alloc(kPage, whole);
    if (memory == nullptr) throw std::bad_alloc();
    madvise(memory, whole, MADV_HUGEPAGE);  // a wish
    return static_cast<Value*>(memory);
  }
  void deallocate(Value* memory, std::size_t count) {
    if (count * sizeof(Value) < kPage) return ::operator delete(memory);
    std::free(memory);
  }
  template <class Other>
  bool operator==(const LargePages<Other>& /*other*/) const {
    return true;
  }
};

template <class Value>
using LargeVector = std::vector<Value, LargePages<Value>>;

}  // namespace commfuse
