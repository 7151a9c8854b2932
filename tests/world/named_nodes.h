// SPDX-License-Identifier: Apache-2.0
// A world whose ranks say that they run on nodes of these names.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/world/world.h"

namespace commfuse {

class NamedNodes final : public World {
 public:
  /// `world` outlives this.
  NamedNodes(World& world, std::string host) : world_(world), host_(std::move(host)) {}

  [[nodiscard]] std::int32_t rank() const override { return world_.rank(); }
  [[nodiscard]] std::int32_t ranks() const override { return world_.ranks(); }
  [[nodiscard]] std::string host() const override { return host_; }
  [[nodiscard]] bool one_node() const override { return false; }
  void barrier() override { world_.barrier(); }
  void idle_barrier() override { world_.idle_barrier(); }
  double max(double value) override { return world_.max(value); }
  std::int64_t sum(std::int64_t value) override { return world_.sum(value); }
  std::vector<std::byte> broadcast(std::span<const std::byte> bytes, std::int32_t root) override {
    return world_.broadcast(bytes, root);
  }
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes,
                                             std::int32_t root) override {
    return world_.gather(bytes, root);
  }
  std::unique_ptr<World> split(std::int32_t color) override { return world_.split(color); }
  std::unique_ptr<SharedSegment> shared(std::size_t bytes) override { return world_.shared(bytes); }
  [[noreturn]] void abort(int exit_code) override {
    world_.abort(exit_code);
    std::abort();  // the call above does not return, which its declaration here cannot say
  }

 private:
  World& world_;
  std::string host_;
};

}  // namespace commfuse
