// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/host_threads.h"

namespace commfuse::fake {

HostThreads::HostThreads(std::int32_t ranks, const std::function<void(std::int32_t)>& body) {
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    batons_.push_back(std::make_unique<std::binary_semaphore>(0));
  }
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    std::binary_semaphore& baton = *batons_[static_cast<std::size_t>(rank)];
    threads_.emplace_back([body, rank, &baton] {
      baton.acquire();
      body(rank);
    });
  }
}

void HostThreads::pass_to(std::int32_t rank) { batons_[static_cast<std::size_t>(rank)]->release(); }

void HostThreads::hand_over(std::int32_t self, std::int32_t rank) {
  pass_to(rank);
  batons_[static_cast<std::size_t>(self)]->acquire();
}

void HostThreads::join() {
  for (std::jthread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace commfuse::fake
