// SPDX-License-Identifier: Apache-2.0
// What commfuse-report ends with; the same numbers mean the same in all our programs.
#pragma once

namespace commfuse {

constexpr int kReportOk = 0;
constexpr int kReportInternal = 1;
constexpr int kReportUsage = 6;  // also a file that cannot be read or is no record file
constexpr int kReportWrong = 7;
constexpr int kReportRegression = 8;
constexpr int kReportIncomparable = 9;
constexpr int kReportUnclear = 10;  // with --strict

}  // namespace commfuse
