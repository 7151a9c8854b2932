#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every C++ source as clang-format 14 leaves it; other versions format differently. Exits 77 ("skipped") without it.
#
#   scripts/ci/check_format.sh          names the files that differ
#   scripts/ci/check_format.sh --fix    formats them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

format=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -z $format ]] || [[ $("$format" --version) != *"version 14."* ]]; then
  echo "check_format: skipped, there is no clang-format 14 here"
  exit 77
fi
mapfile -d '' -t sources < <(find suite impls harness reports tests \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) -print0 | sort -z)
if [[ ${1:-} == --fix ]]; then
  "$format" -i "${sources[@]}"
elif ! findings=$("$format" --dry-run --Werror "${sources[@]}" 2>&1); then
  grep -o '^[^ :]*\.\(h\|cpp\|cu\):' <<<"$findings" | tr -d : | sort -u
  echo "check_format: the files above differ from clang-format 14; scripts/ci/check_format.sh --fix formats them"
  exit 1
fi
echo "check_format: ${#sources[@]} sources are formatted"
