// SPDX-License-Identifier: Apache-2.0
#include "harness/provenance.h"

#include <fmt/chrono.h>

#include <ctime>

#include "harness/build_info.h"
#include "harness/commit.h"

namespace commfuse {

nlohmann::ordered_json build_facts() {
  return {{"version", build_info::kVersion},
          {"commit", built_commit()},
          {"compiler", build_info::kCompiler},
          {"build_type", build_info::kBuildType}};
}

std::string now_iso8601() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace commfuse
