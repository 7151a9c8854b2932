// SPDX-License-Identifier: Apache-2.0
#include "harness/case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "suite/error.h"

namespace commfuse {
namespace {

using ::testing::HasSubstr;

Options options(std::vector<std::string> more) {
  std::vector<std::string> arguments{"--shape", "hidden=64,ffn=128,heads=8,kv_heads=4", "--tokens",
                                     "64"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return parse_options(arguments);
}

std::vector<std::string> impls(const CaseGroup& group) {
  std::vector<std::string> names;
  for (const CaseRow& row : group.rows) names.push_back(row.impl);
  return names;
}

TEST(Cases, BoundsComeFirstAndNamesAreResolved) {
  const auto groups = expand_cases(options({"--impl", "plain,sliced:n=2,commfuse"}), 2, true);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(impls(groups[0]), (std::vector<std::string>{
                                  "compute_only", "comm_only", "plain", "sliced:n=2:axis=tokens",
                                  "commfuse:order=ring:m=2:accumulate=epilogue"}));
  EXPECT_EQ(groups[0].transport, "paced");
}

TEST(Cases, EveryCombination) {
  const auto groups = expand_cases(
      options({"--workload", "tpsp/gemm_rs,tpsp/ag_gemm,*", "--tokens", "32,64", "--dtype",
               "fp32,bf16", "--ranks", "2,4", "--link", "auto:0.4", "--link", "1GB/s,1us"}),
      4, true);
  // the glob adds the other workloads; none comes twice
  EXPECT_EQ(groups.size(), find_workloads("*").size() * 2 * 2 * 2 * 2);
  std::set<std::string> ids;
  std::size_t rows = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    EXPECT_EQ(groups[i].index, static_cast<std::int32_t>(i));
    for (const CaseRow& row : groups[i].rows) ids.insert(row.id);
    rows += groups[i].rows.size();
  }
  EXPECT_EQ(ids.size(), rows);
}

TEST(Cases, IdsAreStable) {
  // An id is the identity of a series in every tracker: a change here loses people's history.
  const auto groups = expand_cases(options({"--impl", "commfuse"}), 2, true);
  EXPECT_EQ(
      groups[0].rows[2].id,
      "tpsp/gemm_rs/impl:commfuse:order=ring:m=2:accumulate=epilogue/model:custom/hidden:64/"
      "ffn:128/heads:8/kv_heads:4"
      "/head_dim:8/activation:swiglu/causal:yes/layers:1/tokens:64/dtype:fp32/pass:forward/ranks:2/"
      "backend:host/transport:paced"
      "/link:auto:0.4/mode:isolated");
}

TEST(Cases, AReplayHasATransportAndAClockOfItsOwn) {
  const CaseGroup replayed = expand_cases(options({"--replay"}), 2, true).front();
  EXPECT_EQ(replayed.transport, "put");
  EXPECT_EQ(replayed.carrier, "paced");
  EXPECT_EQ(replayed.link.text, "auto:0.4");
  EXPECT_THAT(replayed.rows.front().id,
              HasSubstr("/backend:host/transport:put/link:auto:0.4/mode:isolated/clock:replayed"));
  EXPECT_THAT(replayed.title(), HasSubstr("2 ranks, replayed"));
  // Over several nodes MPI carries the data, and a link can be stated all the same.
  const CaseGroup apart =
      expand_cases(options({"--replay", "--link", "1GB/s,2us"}), 2, false).front();
  EXPECT_EQ(apart.transport, "put");
  EXPECT_EQ(apart.carrier, "mpi");
  // On devices what ranks of one node can share.
  const std::vector<std::string> cuda{"--replay", "--backend", "cuda"};
  EXPECT_EQ(expand_cases(options(cuda), 2, true).front().transport, "put");
  EXPECT_EQ(expand_cases(options(cuda), 2, true).front().carrier, "ce");
  EXPECT_EQ(expand_cases(options(cuda), 2, false).front().carrier, "nccl");
}

std::vector<std::string> gradient_parts_of_ids(std::vector<std::string> more) {
  more.insert(more.end(), {"--dtype", "bf16", "--impl", "plain"});
  std::vector<std::string> parts;
  for (const CaseGroup& group : expand_cases(options(std::move(more)), 2, true)) {
    const std::string& id = group.rows.back().id;
    const std::size_t begin = id.find("dtype:bf16") + 10;
    parts.push_back(id.substr(begin, id.find("/pass:") - begin));
  }
  return parts;
}

TEST(Cases, IdsNameGradientsWhereTheyMatterAndAreNotUsual) {
  using Parts = std::vector<std::string>;
  const auto with = [](const char* workload) {
    return gradient_parts_of_ids(
        {"--workload", workload, "--grad-dtype", "fp32,bf16", "--bucket-size", "25M"});
  };
  EXPECT_EQ(with("dp/zero2"), (Parts{"/bucket:26214400", "/grad_dtype:bf16/bucket:26214400"}));
  EXPECT_EQ(with("tpsp/mlp:backward"), (Parts{"", "/grad_dtype:bf16"}));
  EXPECT_EQ(with("tpsp/mlp"), Parts{""});  // the same case, so it runs once
  EXPECT_EQ(gradient_parts_of_ids({"--workload", "dp/zero2"}), Parts{""});
}

TEST(Cases, CaseC5UnevenHeadsAndTokensAreSkippedWithConstraintAndValue) {
  const auto heads = expand_cases(parse_options({"--workload", "tpsp/attention", "--shape",
                                                 "hidden=56,ffn=64,heads=7", "--tokens", "64"}),
                                  4, true);
  for (const CaseRow& row : heads[0].rows)
    EXPECT_THAT(row.skip, ::testing::AllOf(HasSubstr("heads"), HasSubstr("7"), HasSubstr("4")));
  const auto tokens = expand_cases(
      parse_options({"--shape", "hidden=64,ffn=64,heads=8", "--tokens", "9"}), 2, true);
  for (const CaseRow& row : tokens[0].rows)
    EXPECT_THAT(row.skip, ::testing::AllOf(HasSubstr("tokens"), HasSubstr("9"), HasSubstr("2")));
}

TEST(Cases, OnlyTheScheduleThatDoesNotFitIsSkipped) {
  const auto groups = expand_cases(options({"--impl", "plain,commfuse:m=64"}), 2, true);
  EXPECT_EQ(groups[0].rows[2].skip, "");
  EXPECT_THAT(groups[0].rows[3].skip, HasSubstr("64"));
}

TEST(Cases, MoreRanksThanThereAreIsAUsageError) {
  EXPECT_THROW(expand_cases(options({"--ranks", "8"}), 4, true), UsageError);
  EXPECT_THROW(expand_cases(options({"--mesh", "tp=4,dp=2", "--on", "tp"}), 4, true), UsageError);
}

TEST(Cases, AcrossNodesTheTransportIsMpi) {
  const auto groups = expand_cases(options({}), 2, false);
  EXPECT_EQ(groups[0].transport, "mpi");
  EXPECT_EQ(groups[0].link.text, "");
  EXPECT_THROW(expand_cases(options({"--link", "auto:0.4"}), 2, false), UsageError);
  EXPECT_EQ(expand_cases(options({}), 2, true)[0].link.text, "auto:0.4");
}

TEST(Cases, WhatIsAskedForTwiceRunsOnce) {
  EXPECT_EQ(expand_cases(
                options({"--dtype", "fp32,fp32", "--shape", "hidden=64,ffn=128,heads=8,kv_heads=4",
                         "--link", "1GB/s,1us", "--link", "1GB/s,1us"}),
                2, true)
                .size(),
            1U);
}

TEST(Filter, KeepsBoundsAsReferences) {
  auto groups = expand_cases(options({"--impl", "plain,sliced:n=2,commfuse"}), 2, true);
  filter_cases(groups, "impl:commfuse");
  EXPECT_EQ(impls(groups[0]),
            (std::vector<std::string>{"compute_only", "comm_only", "plain",
                                      "commfuse:order=ring:m=2:accumulate=epilogue"}));
  for (const CaseRow& row : groups[0].rows)
    EXPECT_EQ(row.wanted, row.impl.starts_with("commfuse")) << row.impl;
}

TEST(Filter, ALeadingMinusNegates) {
  auto groups = expand_cases(options({"--workload", "tpsp/gemm_rs,tpsp/ag_gemm"}), 2, true);
  filter_cases(groups, "-gemm_rs");
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].workload->name, "tpsp/ag_gemm");
}

TEST(Filter, CaseA6NothingLeftIsAUsageError) {
  auto groups = expand_cases(options({}), 2, true);
  EXPECT_THROW(filter_cases(groups, "nothing-like-this"), UsageError);
  groups = expand_cases(options({}), 2, true);
  EXPECT_THROW(filter_cases(groups, "("), UsageError);
}

TEST(DropFinished, LeavesTheRest) {
  auto groups = expand_cases(options({"--workload", "tpsp/gemm_rs,tpsp/ag_gemm"}), 2, true);
  std::vector<std::string> finished;
  for (const CaseRow& row : groups[0].rows) finished.push_back(row.id);
  finished.push_back(groups[1].rows[3].id);
  const std::string gone = groups[1].rows[3].id;
  drop_finished(groups, finished);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].index, 1);
  for (const CaseRow& row : groups[0].rows) EXPECT_NE(row.id, gone);
}

}  // namespace
}  // namespace commfuse
