// SPDX-License-Identifier: Apache-2.0
// The table of all twins. A test that links it defines no twins() of its own.
#include <array>

#include "tests/fakecuda/twins/matrix_twins.h"
#include "tests/fakecuda/twins/softmax_twin.h"

namespace commfuse::fake {

std::span<const TwinEntry> twins() {
  static constexpr std::array kTwins{
      TwinEntry{"commfuse::copy_words<uint4>", &copy_words_16},
      TwinEntry{"commfuse::copy_words<unsigned int>", &copy_words_4},
      TwinEntry{"commfuse::copy_words<unsigned short>", &copy_words_2},
      TwinEntry{"commfuse::sum_strips<float, 4>", &sum_strips<4>},
      TwinEntry{"commfuse::sum_strips<float, 1>", &sum_strips<1>},
      TwinEntry{"commfuse::sum_strips<__nv_bfloat16, 8>", &sum_strips<8>},
      TwinEntry{"commfuse::sum_strips<__nv_bfloat16, 1>", &sum_strips<1>},
      TwinEntry{"commfuse::sum_strips<__half, 8>", &sum_strips<8>},
      TwinEntry{"commfuse::sum_strips<__half, 1>", &sum_strips<1>},
      TwinEntry{"commfuse::apply_activation<float, 4>", &apply_activation<4>},
      TwinEntry{"commfuse::apply_activation<float, 1>", &apply_activation<1>},
      TwinEntry{"commfuse::apply_activation<__nv_bfloat16, 8>", &apply_activation<8>},
      TwinEntry{"commfuse::apply_activation<__nv_bfloat16, 1>", &apply_activation<1>},
      TwinEntry{"commfuse::apply_activation<__half, 8>", &apply_activation<8>},
      TwinEntry{"commfuse::apply_activation<__half, 1>", &apply_activation<1>},
      TwinEntry{"commfuse::round_elements<__nv_bfloat16, 4>", &round_elements<4>},
      TwinEntry{"commfuse::round_elements<__nv_bfloat16, 1>", &round_elements<1>},
      TwinEntry{"commfuse::round_elements<__half, 4>", &round_elements<4>},
      TwinEntry{"commfuse::round_elements<__half, 1>", &round_elements<1>},
      TwinEntry{"commfuse::softmax_rows<float>", &softmax_rows},
      TwinEntry{"commfuse::softmax_rows<__nv_bfloat16>", &softmax_rows},
      TwinEntry{"commfuse::softmax_rows<__half>", &softmax_rows},
      TwinEntry{"commfuse::sentinel", &sentinel},
  };
  return kTwins;
}

}  // namespace commfuse::fake
