// SPDX-License-Identifier: Apache-2.0
// Messages to people, on standard error.
#pragma once

#include <string_view>

namespace commfuse {

/// "commfuse-bench", or the name of another program of ours that this process runs.
std::string_view program_name() noexcept;

/// "commfuse-bench: TEXT", with the name of the program, one line by one write(2), so that lines of
/// several ranks do not mix. A standard error that cannot be written is nobody's failure. Any
/// thread.
void say(std::string_view text) noexcept;

}  // namespace commfuse
