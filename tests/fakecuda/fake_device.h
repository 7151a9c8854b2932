// SPDX-License-Identifier: Apache-2.0
// What devices the fake CUDA runtime shows to a run.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace commfuse::fake {

/// Shared memory that a block may ask for beyond the default.
inline constexpr int kSharedBytesOptin = 227 << 10;

struct FakeDevices {
  std::int32_t count = 1;
  int sm_count = 132;
  int compute_major = 9;
  int compute_minor = 0;
  std::size_t memory_bytes = std::size_t{1} << 30;  // of each device

  /// Ranks are threads of one process: those on one device share its context, peers are reached by
  /// cudaDeviceEnablePeerAccess, and nobody can open an IPC handle. Otherwise each rank stands for
  /// a process, which reaches others through IPC handles only.
  bool one_process = false;
  bool peer_access = true;
  /// Whether a process may open memory of another one.
  bool opens_handles = true;
  /// Each rank sees `count` devices that no other one sees, as under --gpu-bind=single.
  bool own_devices = false;
  bool can_flush_remote_writes = true;
  bool multicast = true;

  int driver_version = 13000;
  /// What cudaGetDeviceCount returns instead of a count, which it then leaves unwritten.
  std::optional<cudaError_t> device_count_error;
  /// Names that cudaGetDriverEntryPointByVersion does not find.
  std::vector<std::string> missing_driver_functions;

  /// End the run at calls that may synchronise the device while a wait for a value may be pending.
  bool find_implicit_synchronisation = true;
};

}  // namespace commfuse::fake
