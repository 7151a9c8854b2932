// SPDX-License-Identifier: Apache-2.0
// The table of all twins. A test that links it defines no twins() of its own.
#include <array>

#include "tests/fakecuda/twins/matrix_twins.h"
#include "tests/fakecuda/twins/norm_twins.h"
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
      TwinEntry{"commfuse::add_rows<float, 4>", &add_rows<4>},
      TwinEntry{"commfuse::add_rows<float, 1>", &add_rows<1>},
      TwinEntry{"commfuse::add_rows<__nv_bfloat16, 8>", &add_rows<8>},
      TwinEntry{"commfuse::add_rows<__nv_bfloat16, 1>", &add_rows<1>},
      TwinEntry{"commfuse::add_rows<__half, 8>", &add_rows<8>},
      TwinEntry{"commfuse::add_rows<__half, 1>", &add_rows<1>},
      TwinEntry{"commfuse::apply_activation<float, 4>", &apply_activation<4>},
      TwinEntry{"commfuse::apply_activation<float, 1>", &apply_activation<1>},
      TwinEntry{"commfuse::apply_activation<__nv_bfloat16, 8>", &apply_activation<8>},
      TwinEntry{"commfuse::apply_activation<__nv_bfloat16, 1>", &apply_activation<1>},
      TwinEntry{"commfuse::apply_activation<__half, 8>", &apply_activation<8>},
      TwinEntry{"commfuse::apply_activation<__half, 1>", &apply_activation<1>},
      TwinEntry{"commfuse::apply_activation_gradient<float, 4>", &apply_activation_gradient<4>},
      TwinEntry{"commfuse::apply_activation_gradient<float, 1>", &apply_activation_gradient<1>},
      TwinEntry{"commfuse::apply_activation_gradient<__nv_bfloat16, 8>",
                &apply_activation_gradient<8>},
      TwinEntry{"commfuse::apply_activation_gradient<__nv_bfloat16, 1>",
                &apply_activation_gradient<1>},
      TwinEntry{"commfuse::apply_activation_gradient<__half, 8>", &apply_activation_gradient<8>},
      TwinEntry{"commfuse::apply_activation_gradient<__half, 1>", &apply_activation_gradient<1>},
      TwinEntry{"commfuse::norm_rows<float, 4>", &norm_rows<4>},
      TwinEntry{"commfuse::norm_rows<float, 1>", &norm_rows<1>},
      TwinEntry{"commfuse::norm_rows<__nv_bfloat16, 8>", &norm_rows<8>},
      TwinEntry{"commfuse::norm_rows<__nv_bfloat16, 1>", &norm_rows<1>},
      TwinEntry{"commfuse::norm_rows<__half, 8>", &norm_rows<8>},
      TwinEntry{"commfuse::norm_rows<__half, 1>", &norm_rows<1>},
      TwinEntry{"commfuse::norm_gradient_rows<float, 4>", &norm_gradient_rows<4>},
      TwinEntry{"commfuse::norm_gradient_rows<float, 1>", &norm_gradient_rows<1>},
      TwinEntry{"commfuse::norm_gradient_rows<__nv_bfloat16, 8>", &norm_gradient_rows<8>},
      TwinEntry{"commfuse::norm_gradient_rows<__nv_bfloat16, 1>", &norm_gradient_rows<1>},
      TwinEntry{"commfuse::norm_gradient_rows<__half, 8>", &norm_gradient_rows<8>},
      TwinEntry{"commfuse::norm_gradient_rows<__half, 1>", &norm_gradient_rows<1>},
      TwinEntry{"commfuse::inverse_rms_rows<float, 4>", &inverse_rms_rows<4>},
      TwinEntry{"commfuse::inverse_rms_rows<float, 1>", &inverse_rms_rows<1>},
      TwinEntry{"commfuse::inverse_rms_rows<__nv_bfloat16, 8>", &inverse_rms_rows<8>},
      TwinEntry{"commfuse::inverse_rms_rows<__nv_bfloat16, 1>", &inverse_rms_rows<1>},
      TwinEntry{"commfuse::inverse_rms_rows<__half, 8>", &inverse_rms_rows<8>},
      TwinEntry{"commfuse::inverse_rms_rows<__half, 1>", &inverse_rms_rows<1>},
      TwinEntry{"commfuse::gamma_sums<float, 4>", &gamma_sums<4>},
      TwinEntry{"commfuse::gamma_sums<float, 1>", &gamma_sums<1>},
      TwinEntry{"commfuse::gamma_sums<__nv_bfloat16, 8>", &gamma_sums<8>},
      TwinEntry{"commfuse::gamma_sums<__nv_bfloat16, 1>", &gamma_sums<1>},
      TwinEntry{"commfuse::gamma_sums<__half, 8>", &gamma_sums<8>},
      TwinEntry{"commfuse::gamma_sums<__half, 1>", &gamma_sums<1>},
      TwinEntry{"commfuse::gamma_total<float, 4>", &gamma_total<4>},
      TwinEntry{"commfuse::gamma_total<float, 1>", &gamma_total<1>},
      TwinEntry{"commfuse::gamma_total<__nv_bfloat16, 8>", &gamma_total<8>},
      TwinEntry{"commfuse::gamma_total<__nv_bfloat16, 1>", &gamma_total<1>},
      TwinEntry{"commfuse::gamma_total<__half, 8>", &gamma_total<8>},
      TwinEntry{"commfuse::gamma_total<__half, 1>", &gamma_total<1>},
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
