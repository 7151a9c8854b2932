#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy over every source of the programs, by the rules of .clang-tidy.
#
#   scripts/ci/run_clang_tidy.sh BUILD_DIR      a configured and built tree, for its compile_commands.json
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=${1:?usage: scripts/ci/run_clang_tidy.sh BUILD_DIR}
find suite impls harness -name '*.cpp' -print0 | sort -z |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet --extra-arg=-Wno-unknown-pragmas -p "$build"
echo "run_clang_tidy: no findings"
