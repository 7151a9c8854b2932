// SPDX-License-Identifier: Apache-2.0
// Items are made on several threads and taken one after the other: what comes of it does not depend
// on how many threads there are.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace commfuse {

/// take(i, make(i)) for i = 0 .. count - 1, in that order on this thread; make() on `threads` of
/// its own, or here if that is below 2. At most twice as many items as threads wait to be taken.
/// Throws what make(i) threw once all before i are taken.
template <class Make, class Take>
void make_in_order(std::size_t count, std::size_t threads, const Make& make, const Take& take) {
  using Item = decltype(make(std::size_t{}));
  if (threads < 2 || count < 2) {
    for (std::size_t i = 0; i < count; ++i) take(i, make(i));
    return;
  }
  struct Made {
    std::optional<Item> item;
    std::exception_ptr error;
  };
  std::mutex mutex;
  std::condition_variable made_one, took_one;
  std::map<std::size_t, Made> made;
  std::size_t next = 0;
  std::size_t taken = 0;
  bool stop = false;

  const auto work = [&] {
    std::unique_lock lock(mutex);
    for (;;) {
      took_one.wait(lock, [&] { return stop || next == count || next < taken + 2 * threads; });
      if (stop || next == count) return;
      const std::size_t index = next++;
      lock.unlock();
      Made result;
      try {
        result.item.emplace(make(index));
      } catch (...) {
        result.error = std::current_exception();
      }
      lock.lock();
      made.emplace(index, std::move(result));
      made_one.notify_one();
    }
  };
  /// Whatever happens, no thread outlives what it works on.
  struct Crew {
    std::vector<std::jthread> threads;
    std::mutex& mutex;
    std::condition_variable& wake;
    bool& stop;
    ~Crew() {
      {
        const std::lock_guard lock(mutex);
        stop = true;
      }
      wake.notify_all();
    }
  } crew{{}, mutex, took_one, stop};
  for (std::size_t i = 0; i < threads; ++i) crew.threads.emplace_back(work);

  for (std::size_t i = 0; i < count; ++i) {
    std::unique_lock lock(mutex);
    made_one.wait(lock, [&] { return made.contains(i); });
    Made result = std::move(made.extract(i).mapped());
    ++taken;
    lock.unlock();
    took_one.notify_all();
    if (result.error) std::rethrow_exception(result.error);
    take(i, std::move(*result.item));
  }
}

}  // namespace commfuse
