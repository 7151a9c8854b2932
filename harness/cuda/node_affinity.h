// SPDX-License-Identifier: Apache-2.0
// Which memory node devices, network cards and processors belong to, as the kernel's files say.
// `root` is the folder that holds sys and proc: "/", or a made-up tree.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace commfuse {

constexpr int kNoNode = -1;  // not known, or the machine has no such nodes

/// "0-3,8" -> 0, 1, 2, 3, 8. Stops at what is no list.
std::vector<int> parse_cpu_list(std::string_view text);

/// Of the device at an address of the PCI bus, in either case of letters.
int memory_node_of(const std::filesystem::path& root, const std::string& pci);

/// The processors of each memory node.
std::map<int, std::vector<int>> processors_of_nodes(const std::filesystem::path& root);

struct NetworkCard {
  std::string name;  // "mlx5_0"
  int node = kNoNode;
};
/// Those that InfiniBand or RoCE know, by name.
std::vector<NetworkCard> network_cards(const std::filesystem::path& root);

/// On which processors the calling thread may run.
std::vector<int> allowed_processors();

/// Whether the driver gives counters of devices to administrators only; absent without its file.
std::optional<bool> profiling_for_administrators(const std::filesystem::path& root);

}  // namespace commfuse
