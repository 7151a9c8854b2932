// SPDX-License-Identifier: Apache-2.0
#include "harness/mesh.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "suite/error.h"

namespace commfuse {
namespace {

Mesh parse_mesh(std::string_view axes, std::string_view on) {
  const std::vector<Mesh> meshes = parse_meshes(axes, on);
  EXPECT_EQ(meshes.size(), 1U);
  return meshes.front();
}

std::vector<std::int32_t> groups(const Mesh& mesh) {
  std::vector<std::int32_t> groups;
  for (std::int32_t rank = 0; rank < mesh.ranks(); ++rank) groups.push_back(mesh.group_of(rank));
  return groups;
}

TEST(Mesh, FirstAxisIsTheFastest) {
  EXPECT_EQ(groups(parse_mesh("tp=2,dp=2", "tp")), (std::vector<std::int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(groups(parse_mesh("tp=2,dp=2", "dp")), (std::vector<std::int32_t>{0, 1, 0, 1}));
  EXPECT_EQ(groups(parse_mesh("a=2,b=3,c=2", "b")),
            (std::vector<std::int32_t>{0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3}));
}

TEST(Mesh, EveryGroupHasTheSizeOfItsAxis) {
  const Mesh mesh = parse_mesh("tp=3,pp=2,dp=4", "pp");
  std::map<std::int32_t, int> sizes;
  for (const std::int32_t group : groups(mesh)) ++sizes[group];
  EXPECT_EQ(sizes.size(), 12U);
  for (const auto& [group, size] : sizes) EXPECT_EQ(size, mesh.group_ranks()) << group;
}

TEST(Mesh, SeveralAxesCommunicateOneAfterTheOther) {
  const auto texts = [](std::string_view axes, std::string_view on) {
    std::vector<std::string> found;
    for (const Mesh& mesh : parse_meshes(axes, on)) found.push_back(mesh.text());
    return found;
  };
  const std::vector<std::string> both{"tp=4,dp=2 on tp", "tp=4,dp=2 on dp"};
  EXPECT_EQ(texts("tp=4,dp=2", "both"), both);
  EXPECT_EQ(texts("tp=4,dp=2", "tp,dp"), both);
  EXPECT_EQ(texts("tp=2,both=2", "both"), (std::vector<std::string>{"tp=2,both=2 on both"}));
  EXPECT_THROW(parse_meshes("tp=2,pp=2,dp=2", "both"), UsageError);
  EXPECT_THROW(parse_meshes("tp=2,dp=2", "tp,pp"), UsageError);
}

TEST(Mesh, TextNamesTheAxis) { EXPECT_EQ(parse_mesh("tp=4,dp=2", "dp").text(), "tp=4,dp=2 on dp"); }

TEST(Mesh, RefusesNonsense) {
  EXPECT_THROW(parse_meshes("tp", "tp"), UsageError);
  EXPECT_THROW(parse_meshes("tp=0", "tp"), UsageError);
  EXPECT_THROW(parse_meshes("tp=2,tp=2", "tp"), UsageError);
  EXPECT_THROW(parse_meshes("tp=2,dp=2", "pp"), UsageError);
  EXPECT_THROW(parse_meshes("tp=1M,dp=1M", "tp"), UsageError);
}

TEST(Mesh, RanksByGroupKeepTheirOrderWithinEach) {
  EXPECT_EQ(ranks_by_group(parse_meshes("tp=2,dp=2", "dp").front()),
            (std::vector<std::int32_t>{0, 2, 1, 3}));
  EXPECT_EQ(ranks_by_group(single_group(3)), (std::vector<std::int32_t>{0, 1, 2}));
}

}  // namespace
}  // namespace commfuse
