// SPDX-License-Identifier: Apache-2.0
#include "harness/fault.h"

#include <gtest/gtest.h>

#include "suite/error.h"

namespace commfuse {
namespace {

TEST(Fault, Parses) {
  EXPECT_EQ(parse_fault("").kind, FaultKind::none);
  const Fault fault = parse_fault("hang:rank=3:group=2");
  EXPECT_EQ(fault.kind, FaultKind::hang);
  EXPECT_EQ(fault.rank, 3);
  EXPECT_EQ(fault.group, 2);
  for (const char* text : {"nothing", "kill:rank", "kill:rank=x", "kill:size=2", "kill:rank=1=2"}) {
    EXPECT_THROW(parse_fault(text), UsageError) << text;
  }
}

TEST(Fault, StrikesOnlyItsRankAndGroup) {
  const Fault fault = parse_fault("fail:rank=1:group=2");
  strike(fault, 0, 2);
  strike(fault, 1, 1);
  EXPECT_THROW(strike(fault, 1, 2), std::runtime_error);
}

}  // namespace
}  // namespace commfuse
