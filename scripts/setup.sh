#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a Debian or Ubuntu machine needs before it can build and run CommFuse Bench.
#
#   scripts/setup.sh [build] [test] [lint]   installs the missing packages of these groups (default: build test)
#   source scripts/setup.sh; setup build        the same from another script, plus the environment for mpirun
#
# Packages that are there already cost one dpkg-query and no network. Without root and without
# password-free sudo nothing is installed: it names what is missing, and the caller goes on with what is there.

setup_packages() {  # GROUP: prints its packages, one a line
  case "$1" in
    build)
      printf '%s\n' g++ cmake ninja-build git ca-certificates pkg-config libopenmpi-dev openmpi-bin \
        libopenblas-pthread-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libfmt-dev libbenchmark-dev ;;
    test)  # python3 with numpy and scipy: Google Benchmark's compare.py, and the repository's own checks; SimGrid: a second engine
      printf '%s\n' libgtest-dev libgmock-dev libbenchmark-tools libsimgrid-dev python3 python3-numpy python3-scipy valgrind ;;
    lint)
      printf '%s\n' clang-tidy clang-format ;;
    *)
      echo "setup: unknown group '$1'; there are: build test lint" >&2
      return 6 ;;
  esac
}

setup() {  # GROUP...: installs what is missing of the groups
  local group packages wanted=() missing=()
  for group in "$@"; do
    packages=$(setup_packages "$group") || return
    mapfile -t -O "${#wanted[@]}" wanted <<<"$packages"
  done
  if ! command -v dpkg-query >/dev/null; then
    echo "setup: no dpkg here, so nothing is installed; CMake names what it does not find" >&2
    return 0
  fi
  mapfile -t missing < <(setup_missing "${wanted[@]}")
  if ((${#missing[@]} == 0)); then
    echo "setup: all ${#wanted[@]} packages are there"
    return 0
  fi

  local as_root=()
  if ((EUID != 0)); then
    if ! sudo -n true 2>/dev/null; then
      echo "setup: missing, and no root to install it; going on with what is there. To install:" >&2
      echo "  sudo apt-get update && sudo apt-get install --no-install-recommends ${missing[*]}" >&2
      return 0
    fi
    as_root=(sudo -n)
  fi
  echo "setup: installing ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120)
  "${apt[@]}" update >/dev/null || echo "setup: apt-get update failed; trying with the lists that are there" >&2
  "${apt[@]}" install --no-install-recommends -y "${missing[@]}" >/dev/null || {
    echo "setup: apt-get could not install: ${missing[*]}" >&2
    return 1
  }
}

setup_missing() {  # PACKAGE...: prints those that dpkg does not have
  local installed package
  # dpkg-query fails where it does not know one of them.
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qxF -- "installed $package" <<<"$installed" || printf '%s\n' "$package"
  done
}

# Open MPI refuses root and more ranks than cores unless told otherwise. Exported, so that it holds for the
# calling script and its children, and ends with them. The second pair of names is that of Open MPI 5.
setup_environment() {
  if ((EUID == 0)); then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  export OMPI_MCA_rmaps_base_oversubscribe=1
  export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  if [[ -z ${CMAKE_CXX_COMPILER_LAUNCHER:-} ]] && command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER=ccache
  fi
}

# PRESET [TARGET...]: configures and builds a preset, or these targets of it. Prints CMake's closing table and, on a
# terminal, Ninja's progress; all of a step's output where it fails.
build_preset() {
  local preset=$1 output targets=() quiet=()
  shift
  output=$(cmake --preset "$preset" 2>&1) || {
    printf '%s\n' "$output" >&2
    return 1
  }
  sed -n '/^-- CommFuse Bench/,/^-- Configuring done/{/Configuring done/d; s/^-- //p}' <<<"$output"
  (($#)) && targets=(--target "$@")
  [[ -t 1 ]] || quiet=(-- --quiet)
  cmake --build --preset "$preset" "${targets[@]}" "${quiet[@]}"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  set -euo pipefail
  (($#)) || set -- build test
  setup "$@"
else
  setup_environment
fi
