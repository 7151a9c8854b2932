// SPDX-License-Identifier: Apache-2.0
// Text in lines that a terminal has room for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace commfuse {

/// Joins parts with `separator`; lines after the first begin with `indent`. Ends with a newline.
std::string wrapped(const std::vector<std::string>& parts, std::string_view separator,
                    std::string_view indent);
/// The words of a text.
std::string sentence(const std::string& text);

}  // namespace commfuse
