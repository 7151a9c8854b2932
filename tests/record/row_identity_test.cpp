// SPDX-License-Identifier: Apache-2.0
#include "harness/record/row_identity.h"

#include <gtest/gtest.h>

#include "tests/record/sample_records.h"

namespace commfuse {
namespace {

using Words = std::vector<std::string>;

Record row(const std::string& impl) { return test::unmeasured_record(impl, Outcome::ok, ""); }

TEST(RowIdentity, SaysOnceWhatDoesNotVary) {
  const std::vector<Record> records{row("plain"), row("commfuse")};
  const RowIdentity identity = identify(records);
  EXPECT_EQ(identity.constant,
            (Words{"workload tpsp/gemm_rs", "model llama3-8b", "1024 tokens", "2 ranks", "fp32",
                   "pass forward", "link auto:0.4", "backend host", "transport paced",
                   "mode isolated", "clock wall"}));
  ASSERT_EQ(identity.groups.size(), 1U);
  EXPECT_EQ(identity.groups[0].heading, "");
  EXPECT_EQ(identity.groups[0].rows, (std::vector<const Record*>{&records[0], &records[1]}));
  EXPECT_TRUE(identity.groups[0].controls_differ.empty());
}

TEST(RowIdentity, GroupsByWhatIsComparedUnderTheSameConditions) {
  std::vector<Record> records{row("plain"), row("plain"), row("commfuse"), row("commfuse")};
  records[1].shape["tokens"] = 2048;
  records[3].shape["tokens"] = 2048;
  records[1].mesh = records[3].mesh = "tp=2,dp=2 on tp";
  const RowIdentity identity = identify(records);
  ASSERT_EQ(identity.groups.size(), 2U);
  EXPECT_EQ(identity.groups[0].heading, "1024 tokens, no mesh");
  EXPECT_EQ(identity.groups[1].heading, "2048 tokens, mesh tp=2,dp=2 on tp");
  EXPECT_EQ(identity.groups[1].rows, (std::vector<const Record*>{&records[1], &records[3]}));
}

TEST(RowIdentity, EveryConditionMakesAGroup) {
  const std::vector<void (*)(Record&)> changes{[](Record& r) { r.workload = "tpsp/mlp"; },
                                               [](Record& r) { r.ranks = 1; },
                                               [](Record& r) { r.dtype = "bf16"; },
                                               [](Record& r) { r.pass = "backward"; },
                                               [](Record& r) { r.link = "auto:0.7"; },
                                               [](Record& r) { r.mesh = "tp=2"; },
                                               [](Record& r) { r.shape["model"] = "custom"; },
                                               [](Record& r) { r.shape["ffn"] = 8; }};
  for (const auto change : changes) {
    std::vector<Record> records{row("plain"), row("plain")};
    change(records[1]);
    EXPECT_EQ(identify(records).groups.size(), 2U);
  }
}

TEST(RowIdentity, CaseB10TheCacheModeIsAControl) {
  std::vector<Record> records{row("plain"), row("plain")};
  records[0].details["cache"] = {{"mode", "hot"}, {"sets", 1}};
  EXPECT_TRUE(identify(records).groups[0].controls_differ.empty());
  records[1].details["cache"] = {{"mode", "rotate"}, {"sets", 3}};
  EXPECT_EQ(identify(records).groups[0].controls_differ, Words{"cache (hot, rotate)"});
  records[0].details = records[1].details;
  EXPECT_EQ(identify(records).constant.back(), "cache rotate");
}

TEST(RowIdentity, AModelStandsForItsSizesUnlessTheyDiffer) {
  std::vector<Record> records{row("plain"), row("plain")};
  records[1].shape["ffn"] = 512;
  const RowIdentity identity = identify(records);
  EXPECT_EQ(identity.groups[0].heading, "ffn 14336");
  EXPECT_EQ(identity.groups[1].heading, "ffn 512");

  std::vector<Record> custom{row("plain")};
  custom[0].shape["model"] = "custom";
  const Words constant = identify(custom).constant;
  EXPECT_EQ(constant[2], "hidden 4096");
  EXPECT_EQ(constant[3], "ffn 14336");

  custom[0].shape["layers"] = 1;
  custom[0].ranks = 1;
  const Words single = identify(custom).constant;
  EXPECT_EQ(single[5], "1 layer");
  EXPECT_EQ(single[6], "1 rank");
}

TEST(RowIdentity, NamesControlsThatDifferWithinAGroup) {
  std::vector<Record> records{row("plain"), row("commfuse"), row("sliced")};
  records[1].transport = "mpi";
  records[2].clock = Clock::replayed;
  const RowIdentity identity = identify(records);
  ASSERT_EQ(identity.groups.size(), 1U);
  EXPECT_EQ(identity.groups[0].controls_differ,
            (Words{"transport (paced, mpi)", "clock (wall, replayed)"}));
}

TEST(RowIdentity, OfNoRecords) {
  EXPECT_TRUE(identify({}).constant.empty());
  EXPECT_TRUE(identify({}).groups.empty());
}

TEST(ImplementationNames, MovesWhatAgreesOutOfTheRows) {
  const std::vector<Record> records{row("plain"), row("sliced:n=4:axis=tokens"),
                                    row("commfuse:order=ring:m=2:accumulate=epilogue"),
                                    row("commfuse:order=ring:m=4:accumulate=epilogue")};
  const ImplementationNames names(records);
  EXPECT_EQ(names.brief("plain"), "plain");
  EXPECT_EQ(names.brief("sliced:n=4:axis=tokens"), "sliced:n=4");
  EXPECT_EQ(names.brief("commfuse:order=ring:m=4:accumulate=epilogue"), "commfuse:m=4");
  EXPECT_EQ(names.constant_parameters(),
            (Words{"commfuse: order=ring, accumulate=epilogue", "sliced: axis=tokens"}));
}

TEST(ImplementationNames, WordsThatVaryStayInTheRows) {
  const std::vector<Record> records{row("sliced:n=4:axis=tokens"), row("sliced:n=4:axis=features")};
  const ImplementationNames names(records);
  EXPECT_EQ(names.brief("sliced:n=4:axis=features"), "sliced:n=4:axis=features");
  EXPECT_TRUE(names.constant_parameters().empty());
}

TEST(ImplementationNames, RowsThatNameNoParametersStayAsTheyAre) {
  const std::vector<Record> records{row("commfuse"), row("commfuse:order=ring:m=2")};
  const ImplementationNames names(records);
  EXPECT_EQ(names.brief("commfuse"), "commfuse");
  EXPECT_EQ(names.brief("commfuse:order=ring:m=2"), "commfuse:m=2");
}

TEST(ImplementationNames, NoTwoRowsGetOneName) {
  const std::vector<Record> records{row("plain"), row("plain:collective=symmetric")};
  const ImplementationNames names(records);
  EXPECT_EQ(names.brief("plain"), "plain");
  EXPECT_EQ(names.brief("plain:collective=symmetric"), "plain:collective=symmetric");
  EXPECT_TRUE(names.constant_parameters().empty());
}

}  // namespace
}  // namespace commfuse
