// SPDX-License-Identifier: Apache-2.0
// Host twins of kernels: what a launch does to memory, in place of the device code.
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <span>
#include <string_view>

#include "tests/fakecuda/operation.h"

namespace commfuse::fake {

/// A launch as the host made it. The argument pointers are dead once the launch has returned: a
/// twin copies the values.
struct Launch {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  void* const* arguments = nullptr;
};

/// Called by the host thread at the launch. Returns the work, with the byte ranges that the kernel
/// reads and writes; throws Finding where the launch is wrong, for example a grid that does not
/// cover the output.
using Twin = Work (*)(const Launch& launch);

struct TwinEntry {
  /// Demangled, up to the list of parameters and without the return type:
  /// "commfuse::copy_rows<float>".
  std::string_view kernel;
  Twin twin = nullptr;
};

/// All twins there are. Defined by the test program; a launch of any other kernel ends the run.
[[nodiscard]] std::span<const TwinEntry> twins();

/// Argument `index` of the launch, which has type T.
template <class T>
[[nodiscard]] T argument(const Launch& launch, std::size_t index) {
  return *static_cast<const T*>(launch.arguments[index]);
}

}  // namespace commfuse::fake
