// SPDX-License-Identifier: Apache-2.0
// Kernels that objects compiled by nvcc register before main(), by the address of their host stub.
#pragma once

#include <map>
#include <string>

namespace commfuse::fake {

/// "void commfuse::copy_rows<float>(float const*, long)", mangled -> "commfuse::copy_rows<float>".
/// Unnamed namespaces are "(anonymous namespace)", whatever number nvcc gave them. A name that is
/// not mangled stays as it is.
[[nodiscard]] std::string kernel_name(const char* mangled);

class KernelRegistry {
 public:
  /// Of the process. Static constructors call it in any order.
  static KernelRegistry& instance();

  void add(const void* stub, const char* mangled);
  /// The kernel's name; null if nobody registered it.
  [[nodiscard]] const std::string* find(const void* stub) const;

 private:
  KernelRegistry() = default;
  std::map<const void*, std::string> names_;
};

}  // namespace commfuse::fake
