// SPDX-License-Identifier: Apache-2.0
// A priority queue for what often gets the new smallest element and gives it away at once.
#pragma once

#include <functional>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

namespace commfuse {

/// The same order as std::priority_queue with std::greater; the smallest element is kept beside the
/// heap where that saves a way through it.
template <class Value>
class EarliestFirst {
 public:
  [[nodiscard]] bool empty() const { return !first_ && rest_.empty(); }
  [[nodiscard]] const Value& top() const { return first_ ? *first_ : rest_.top(); }
  void push(Value value) {
    if (!empty() && !(top() > value)) return rest_.push(value);
    if (first_) rest_.push(*first_);
    first_ = value;
  }
  void pop() {
    if (first_) {
      first_.reset();
    } else {
      rest_.pop();
    }
  }

 private:
  std::optional<Value> first_;  // no later than the rest
  std::priority_queue<Value, std::vector<Value>, std::greater<>> rest_;
};

}  // namespace commfuse
