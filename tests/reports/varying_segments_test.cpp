// SPDX-License-Identifier: Apache-2.0
#include "reports/varying_segments.h"

#include <gtest/gtest.h>

#include <vector>

namespace commfuse {
namespace {

TEST(VaryingSegments, AreWhatIdsDoNotShare) {
  const std::vector<std::string> ids{"tpsp/mlp/impl:plain/tokens:512/ranks:2",
                                     "tpsp/qkv/impl:plain/tokens:512/ranks:2/mode:steady",
                                     "tpsp/mlp/impl:commfuse:m=2/tokens:512/ranks:4"};
  const VaryingSegments names(ids);
  EXPECT_EQ(names.constant(), "tokens:512");
  EXPECT_EQ(names.brief(ids[0]), "tpsp/mlp/impl:plain/ranks:2");
  EXPECT_EQ(names.brief(ids[1]), "tpsp/qkv/impl:plain/ranks:2/mode:steady");
}

TEST(VaryingSegments, OfOneIdAreItsImplementation) {
  const std::vector<std::string> ids{"tpsp/mlp/impl:plain/ranks:2"};
  EXPECT_EQ(VaryingSegments(ids).brief(ids[0]), "impl:plain");
  EXPECT_EQ(VaryingSegments(ids).constant(), "tpsp/mlp/ranks:2");
  EXPECT_EQ(VaryingSegments({}).constant(), "");
}

}  // namespace
}  // namespace commfuse
