// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/device_view.h"

#include <gtest/gtest.h>

#include "tests/cuda/plan_runner.h"

namespace commfuse {
namespace {

DeviceView view_at(std::uintptr_t address, DType dtype = DType::f32) {
  return {.data = reinterpret_cast<void*>(address),
          .pitch = 64,
          .strip_step = 512,
          .rows = 4,
          .cols = 16,
          .strips = 2,
          .dtype = dtype};
}

TEST(DeviceViews, StripsAreElementsApart) {
  PlanTensors tensors;
  const View view{.tensor = tensors.add(20, 10),
                  .row = 3,
                  .rows = 2,
                  .col = 4,
                  .cols = 5,
                  .strips = 3,
                  .row_step = 6,
                  .col_step = -1};
  const DeviceStorage storage = tensors.storage();
  const DeviceView seen = device_view(view, storage);
  EXPECT_EQ(static_cast<std::byte*>(seen.data) - storage.data(view.tensor), 34 * 4);
  EXPECT_EQ(seen.pitch, 10);
  EXPECT_EQ(seen.strip_step, 59);
  EXPECT_EQ(seen.elements(), 30);
}

TEST(DeviceViews, VectorsNeedEveryRowAligned) {
  EXPECT_TRUE(vectors_fit({view_at(4096), view_at(4096 + 16, DType::bf16)}));
  EXPECT_FALSE(vectors_fit({view_at(4096), view_at(4096 + 8)}));
  DeviceView narrow = view_at(4096);
  narrow.cols = 15;
  EXPECT_FALSE(vectors_fit({narrow}));
  DeviceView slanted = view_at(4096);
  slanted.pitch = 66;
  EXPECT_FALSE(vectors_fit({slanted}));
  slanted.rows = 1;  // the pitch is then never used
  EXPECT_TRUE(vectors_fit({slanted}));
  DeviceView stepped = view_at(4096);
  stepped.strip_step = 513;
  EXPECT_FALSE(vectors_fit({stepped}));
  stepped.strips = 1;
  EXPECT_TRUE(vectors_fit({stepped}));
  // 4 columns are 16 bytes of fp32 and 8 of bf16
  DeviceView four = view_at(4096, DType::bf16);
  four.cols = 4;
  EXPECT_FALSE(vectors_fit({four}));
}

TEST(DeviceViews, InWordsOfAnySize) {
  const DeviceView words = in_words(view_at(4096, DType::bf16), 16);
  EXPECT_EQ(words.pitch, 8);
  EXPECT_EQ(words.strip_step, 64);
  EXPECT_EQ(words.cols, 2);
  EXPECT_EQ(words.total_rows(), 8);
}

}  // namespace
}  // namespace commfuse
