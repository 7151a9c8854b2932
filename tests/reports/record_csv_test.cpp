// SPDX-License-Identifier: Apache-2.0
#include "reports/record_csv.h"

#include <gtest/gtest.h>

#include <vector>

namespace commfuse {
namespace {

TEST(RecordCsv, HasALineForEveryRecordAndAColumnForEveryMetric) {
  Record plain;
  plain.id = "tpsp/mlp/impl:plain";
  plain.workload = "tpsp/mlp";
  plain.impl = "plain";
  plain.shape = {{"model", "llama3-8b"}, {"tokens", 512}};
  plain.dtype = "fp32";
  plain.mode = "isolated";
  plain.metrics["time"] = {1500, "ns"};
  plain.metrics["skew"] = {1.25, "ratio"};
  Record skipped = plain;
  skipped.id = "tpsp/mlp/impl:sliced";
  skipped.outcome = Outcome::skipped;
  skipped.reason = "needs \"tokens\", divisible by 3";
  skipped.metrics.clear();
  EXPECT_EQ(
      record_csv(std::vector{plain, skipped}),
      "schema,id,workload,impl,model,tokens,ranks,mesh,dtype,pass,backend,transport,link,mode,"
      "clock,outcome,reason,started,skew [ratio],time [ns]\n"
      "1,tpsp/mlp/impl:plain,tpsp/mlp,plain,llama3-8b,512,1,,fp32,forward,,,,isolated,wall,ok,,"
      ",1.25,1500\n"
      "1,tpsp/mlp/impl:sliced,tpsp/mlp,plain,llama3-8b,512,1,,fp32,forward,,,,isolated,wall,"
      "skipped,\"needs \"\"tokens\"\", divisible by 3\",,,\n");
}

}  // namespace
}  // namespace commfuse
