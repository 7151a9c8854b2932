// SPDX-License-Identifier: Apache-2.0
// Values and texts as the bytes that World carries.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "harness/world/world.h"

namespace commfuse {

template <class Value>
std::vector<Value> values_of(std::span<const std::byte> bytes) {
  static_assert(std::is_trivially_copyable_v<Value>);
  std::vector<Value> values(bytes.size() / sizeof(Value));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Value));
  return values;
}

template <class Value>
std::vector<Value> broadcast_values(World& world, std::span<const Value> values,
                                    std::int32_t root) {
  return values_of<Value>(world.broadcast(std::as_bytes(values), root));
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Collective: the text of the lowest rank whose text is not empty, on every rank; empty if all
/// are.
inline std::string first_text(World& world, std::string_view text) {
  std::string first;
  for (const auto& bytes : world.gather(bytes_of(text), 0)) {
    if (first.empty()) first = text_of(bytes);
  }
  return text_of(world.broadcast(bytes_of(first), 0));
}

}  // namespace commfuse
