#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needed_libraries.sh FILE PATTERN: no library that the file needs at its start matches the pattern. A program that needs
# libcuda does not start where there is no driver.
set -euo pipefail
file=$1 pattern=$2
command -v readelf >/dev/null || exit 77
needed=$(LC_ALL=C readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
[[ -n $needed ]] || { echo "$file: readelf shows no library that it needs" >&2; exit 1; }
if forbidden=$(grep -E "$pattern" <<<"$needed"); then
  echo "$file needs $forbidden" >&2
  exit 1
fi
