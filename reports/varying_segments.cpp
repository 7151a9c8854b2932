// SPDX-License-Identifier: Apache-2.0
#include "reports/varying_segments.h"

#include <algorithm>
#include <vector>

namespace commfuse {
namespace {

/// An id begins with family and operation ("tpsp/gemm_rs"), which are one segment here.
std::vector<std::string> segments_of(std::string_view id) {
  std::vector<std::string> segments;
  for (std::size_t begin = 0; begin <= id.size();) {
    const std::size_t end = std::min(id.find('/', begin), id.size());
    const std::string segment(id.substr(begin, end - begin));
    if (segments.size() == 1 && segment.find(':') == std::string::npos) {
      segments.front() += "/" + segment;
    } else {
      segments.push_back(segment);
    }
    begin = end + 1;
  }
  return segments;
}

std::string joined(const std::vector<std::string>& segments) {
  std::string text;
  for (const std::string& segment : segments) text += (text.empty() ? "" : "/") + segment;
  return text;
}

}  // namespace

VaryingSegments::VaryingSegments(std::span<const std::string> ids) {
  if (ids.empty()) return;
  std::vector<std::string> constant;
  for (const std::string& segment : segments_of(ids.front())) {
    const bool everywhere = std::ranges::all_of(ids, [&](const std::string& id) {
      return std::ranges::count(segments_of(id), segment) > 0;
    });
    if (!everywhere || segment.starts_with("impl:")) continue;
    shared_.insert(segment);
    constant.push_back(segment);
  }
  constant_ = joined(constant);
}

std::string VaryingSegments::brief(std::string_view id) const {
  std::vector<std::string> segments = segments_of(id);
  std::erase_if(segments, [&](const std::string& segment) { return shared_.contains(segment); });
  return joined(segments);
}

}  // namespace commfuse
