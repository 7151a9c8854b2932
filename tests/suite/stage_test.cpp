// SPDX-License-Identifier: Apache-2.0
#include "suite/stage.h"

#include <gtest/gtest.h>

#include <vector>

namespace commfuse {
namespace {

void mark(const View& view, std::vector<int>& rows) {
  for (std::int32_t s = 0; s < view.strips; ++s) {
    const View strip = view.strip(s);
    for (std::int32_t i = 0; i < strip.rows; ++i)
      ++rows.at(static_cast<std::size_t>(strip.row + i));
  }
}

TEST(Tiles, OfEveryPeerPartitionTheAxis) {
  const Tensor buffer{"X", 60, 7, DType::f32};
  for (const std::int32_t ranks : {1, 3, 5}) {
    const Axis axis{.ranks = ranks, .rows = 60 / ranks};
    for (const std::int32_t parts : {1, 2, 3, 4}) {
      if (!axis.divides(parts)) continue;
      std::vector<int> by_peer(60, 0);
      std::vector<int> by_strips(60, 0);
      for (std::int32_t part = 0; part < parts; ++part) {
        mark(tile_rows(0, buffer, axis, {.part = part, .parts = parts}), by_strips);
        for (std::int32_t peer = 0; peer < ranks; ++peer) {
          mark(tile_rows(0, buffer, axis, {.peer = peer, .part = part, .parts = parts}), by_peer);
        }
      }
      EXPECT_EQ(by_peer, std::vector<int>(60, 1));
      EXPECT_EQ(by_strips, std::vector<int>(60, 1));
    }
  }
}

TEST(Tiles, OfOnePeerLieInItsSlice) {
  const Tensor buffer{"X", 24, 5, DType::f32};
  const Axis axis{.ranks = 3, .rows = 8};
  EXPECT_EQ(tile_rows(4, buffer, axis, {.peer = 2, .part = 1, .parts = 4}),
            rows_of(4, buffer, 18, 2));
}

TEST(Tiles, EverythingIsOneRectangle) {
  const Tensor buffer{"X", 24, 5, DType::f32};
  EXPECT_EQ(tile_rows(4, buffer, {.ranks = 3, .rows = 8}, {}), whole(4, buffer));
}

TEST(Tiles, StripsHoldOnePartOfEverySlice) {
  const Tensor buffer{"X", 24, 5, DType::f32};
  const View strips = tile_rows(4, buffer, {.ranks = 3, .rows = 8}, {.part = 1, .parts = 2});
  EXPECT_EQ(strips,
            (View{.tensor = 4, .row = 4, .rows = 4, .cols = 5, .strips = 3, .row_step = 8}));
}

TEST(Tiles, OfColumnsAreThoseOfRowsTurned) {
  const Tensor buffer{"Y", 5, 24, DType::f32};
  const Axis axis{.ranks = 3, .rows = 8};
  EXPECT_EQ(tile_columns(4, buffer, axis, {}), whole(4, buffer));
  EXPECT_EQ(tile_columns(4, buffer, axis, {.peer = 2, .part = 1, .parts = 4}),
            (View{.tensor = 4, .rows = 5, .col = 18, .cols = 2}));
  EXPECT_EQ(tile_columns(4, buffer, axis, {.part = 1, .parts = 2}),
            (View{.tensor = 4, .rows = 5, .col = 4, .cols = 4, .strips = 3, .col_step = 8}));
}

TEST(Axis, PartsHoldWholeUnits) {
  const Axis pairs{.ranks = 2, .rows = 12, .unit = 2};
  EXPECT_TRUE(pairs.divides(1));
  EXPECT_TRUE(pairs.divides(2));
  EXPECT_TRUE(pairs.divides(3));
  EXPECT_FALSE(pairs.divides(4));
  EXPECT_FALSE(pairs.divides(0));
  EXPECT_FALSE(pairs.divides(5));
  EXPECT_FALSE(pairs.divides(std::int64_t{1} << 31));
  EXPECT_FALSE(pairs.divides(std::int64_t{1} << 32));
}

TEST(Stage, FlopsSumOverPhases) {
  const auto gemm = [](const Tile&, const Target&) -> std::vector<Compute> {
    return {Gemm{{.rows = 2, .cols = 3}, {.rows = 2, .cols = 5}, {.rows = 3, .cols = 5}, {}}};
  };
  const Stage stage{
      .name = "two", .axis = {}, .phases = {gemm, gemm}, .gather = {}, .reduce_scatter = {}};
  EXPECT_EQ(flops(stage), 2 * 60);
}

TEST(Stage, OfTheOwnSliceIsThatSlice) {
  const auto gemm = [](const Tile& tile, const Target&) -> std::vector<Compute> {
    const std::int32_t slices = tile.peer == kEveryPeer ? 4 : 1;
    return {Gemm{{.rows = 2 * slices, .cols = 3},
                 {.rows = 2 * slices, .cols = 5},
                 {.rows = 3, .cols = 5},
                 {}}};
  };
  Stage stage{.name = "own", .axis = {.ranks = 4, .rows = 2}, .phases = {gemm}};
  EXPECT_EQ(tile_of(stage, 2, 1, 3).peer, kEveryPeer);
  EXPECT_EQ(flops(stage), 4 * 60);
  stage.own_slice = true;
  const Tile tile = tile_of(stage, 2, 1, 3);
  EXPECT_EQ(tile.peer, 2);
  EXPECT_EQ(tile.part, 1);
  EXPECT_EQ(tile.parts, 3);
  EXPECT_EQ(flops(stage), 60);
}

}  // namespace
}  // namespace commfuse
