// SPDX-License-Identifier: Apache-2.0
#include "tests/record/golden_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace commfuse::test {

std::filesystem::path golden_path(std::string_view name) {
  return std::filesystem::path(COMMFUSE_GOLDEN_DIR) / name;
}

void expect_golden(std::string_view name, const std::string& actual) {
  const std::filesystem::path path = golden_path(name);
  if (std::getenv("COMMFUSE_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << actual;
    return;
  }
  std::ifstream stream(path, std::ios::binary);
  ASSERT_TRUE(stream) << path << " is missing; COMMFUSE_UPDATE_GOLDEN=1 writes it";
  const std::string expected{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_EQ(actual, expected) << "differs from " << path
                              << "; COMMFUSE_UPDATE_GOLDEN=1 writes it anew";
}

}  // namespace commfuse::test
