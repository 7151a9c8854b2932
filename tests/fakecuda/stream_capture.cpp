// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/stream_capture.h"

#include <utility>

namespace commfuse::fake {

StreamCapture::StreamCapture(StreamRef origin, cudaStreamCaptureMode mode)
    : origin_(origin.id), mode_(mode) {
  lane_of(origin);
}

std::size_t StreamCapture::lane_of(StreamRef stream) {
  const auto [entry, fresh] = lanes_.try_emplace(stream.id, graph_.lanes.size());
  if (fresh) {
    graph_.lanes.push_back(stream.context);
    clocks_.emplace_back();
  }
  return entry->second;
}

void StreamCapture::add(StreamId stream, Enqueue enqueue) {
  const std::size_t lane = lanes_.at(stream);
  clocks_[lane].advance(static_cast<Actor>(lane));
  works_.advance(static_cast<Actor>(lane));
  graph_.ops.push_back({lane, std::move(enqueue), {}, {}});
}

std::size_t StreamCapture::record(StreamId stream) {
  const std::size_t lane = lanes_.at(stream);
  point_clocks_.push_back(clocks_[lane]);
  graph_.ops.push_back({lane, {}, graph_.points, {}});
  return graph_.points++;
}

void StreamCapture::wait(StreamRef stream, std::size_t point) {
  const std::size_t lane = lane_of(stream);
  clocks_[lane].join(point_clocks_[point]);
  graph_.ops.push_back({lane, {}, {}, point});
}

bool StreamCapture::joined() const {
  for (std::size_t lane = 0; lane < graph_.lanes.size(); ++lane) {
    const auto actor = static_cast<Actor>(lane);
    if (!clocks_.front().covers({actor, works_.at(actor)})) return false;
  }
  return true;
}

}  // namespace commfuse::fake
