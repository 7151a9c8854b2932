// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/kernel_registry.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <regex>
#include <string_view>

namespace commfuse::fake {
namespace {

std::string demangled(const char* mangled) {
  struct Free {
    void operator()(char* text) const { std::free(text); }
  };
  int status = 0;
  const std::unique_ptr<char, Free> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status));
  return status == 0 ? text.get() : mangled;
}

/// Where the list of parameters at the end begins, npos if there is none: arguments of templates
/// may have parentheses too.
std::size_t parameters_begin(const std::string& name) {
  if (name.empty() || name.back() != ')') return std::string::npos;
  int depth = 0;
  for (std::size_t at = name.size(); at-- > 0;) {
    if (name[at] == ')') ++depth;
    if (name[at] == '(' && --depth == 0) return at;
  }
  return std::string::npos;
}

}  // namespace

std::string kernel_name(const char* mangled) {
  std::string name = demangled(mangled);
  if (const std::size_t end = parameters_begin(name); end != std::string::npos) name.resize(end);
  constexpr std::string_view kReturn = "void ";  // of templates; a kernel returns nothing else
  if (name.starts_with(kReturn)) name.erase(0, kReturn.size());
  static const std::regex unnamed("_GLOBAL__N__\\w+");
  return std::regex_replace(name, unnamed, "(anonymous namespace)");
}

KernelRegistry& KernelRegistry::instance() {
  static KernelRegistry registry;
  return registry;
}

void KernelRegistry::add(const void* stub, const char* mangled) {
  names_[stub] = kernel_name(mangled);
}

const std::string* KernelRegistry::find(const void* stub) const {
  const auto found = names_.find(stub);
  return found != names_.end() ? &found->second : nullptr;
}

}  // namespace commfuse::fake
