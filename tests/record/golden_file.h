// SPDX-License-Identifier: Apache-2.0
// Text kept in tests/golden. With COMMFUSE_UPDATE_GOLDEN=1 in the environment the files are written
// instead of compared; the diff is then the reviewer's summary of the change.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace commfuse::test {

std::filesystem::path golden_path(std::string_view name);
/// A GoogleTest failure unless the file holds exactly `actual`.
void expect_golden(std::string_view name, const std::string& actual);

}  // namespace commfuse::test
