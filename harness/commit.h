// SPDX-License-Identifier: Apache-2.0
// Which source this program was built from.
#pragma once

#include <string_view>

namespace commfuse {

/// "1a2b3c4d5e6f", with "-dirty" where the tree had other changes; "unknown" outside a repository.
std::string_view built_commit();

}  // namespace commfuse
