// SPDX-License-Identifier: Apache-2.0
#include "harness/record/running_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace commfuse {
namespace {

constexpr std::size_t kWidth = 110;

}  // namespace

std::string wrapped(const std::vector<std::string>& parts, std::string_view separator,
                    std::string_view indent) {
  std::string text;
  std::size_t line = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const std::size_t length = parts[i].size() + (last ? 0 : separator.size());
    if (line > 0 && line + length > kWidth) {
      text.erase(text.find_last_not_of(' ') + 1);
      text += fmt::format("\n{}", indent);
      line = indent.size();
    }
    text += parts[i];
    if (!last) text += separator;
    line += length;
  }
  return text + '\n';
}

std::string sentence(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return wrapped(words, " ", "  ");
}

}  // namespace commfuse
