// SPDX-License-Identifier: Apache-2.0
// One binary for every CPU of an architecture: a function marked COMMFUSE_SIMD is compiled for
// several instruction sets and the loader picks one. Everything it calls must be inlined into it.
// Floating-point contraction is off (ISO mode), so every version gives the same bits, but for sums
// marked as reductions, whose order follows the width of the vectors.
#pragma once

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__)
// (The thread sanitizer instruments the loader's choice, which runs before its runtime is up.)
#define COMMFUSE_SIMD __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define COMMFUSE_SIMD
#endif
#define COMMFUSE_INLINE inline __attribute__((always_inline))
