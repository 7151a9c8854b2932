// SPDX-License-Identifier: Apache-2.0
#include "harness/host/mpi_transport.h"

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

#include "harness/host/kernels.h"
#include "harness/host/lane_cursor.h"
#include "harness/host/mpi_type.h"
#include "harness/world/clock.h"
#include "harness/world/mpi_world.h"

namespace commfuse {
namespace {

constexpr std::int64_t kIntMax = std::numeric_limits<int>::max();

/// MPI_Op: sums in fp32, rounded to the dtype at every step that MPI takes.
/// NOLINTNEXTLINE(readability-non-const-parameter): MPI's signature
template <DType dtype>
void add(void* in, void* inout, int* count, MPI_Datatype*) {
  auto* const target = static_cast<std::byte*>(inout);
  const std::array<const std::byte*, 2> terms{static_cast<const std::byte*>(in), target};
  reduce_blocks(dtype, target, terms, *count);
}

/// The sum of every dtype.
class Sums {
 public:
  Sums() {
    CFB_MPI(MPI_Op_create(&add<DType::bf16>, /*commute=*/1, &bf16_));
    CFB_MPI(MPI_Op_create(&add<DType::f16>, /*commute=*/1, &f16_));
  }
  ~Sums() {
    MPI_Op_free(&bf16_);
    MPI_Op_free(&f16_);
  }
  Sums(const Sums&) = delete;
  Sums& operator=(const Sums&) = delete;
  [[nodiscard]] MPI_Op of(DType dtype) const noexcept {
    switch (dtype) {
      case DType::f32:
        break;
      case DType::bf16:
        return bf16_;
      case DType::f16:
        return f16_;
    }
    return MPI_SUM;
  }

 private:
  MPI_Op bf16_ = MPI_OP_NULL;
  MPI_Op f16_ = MPI_OP_NULL;
};

MpiComm duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  CFB_MPI(MPI_Comm_dup(comm, &copy));
  return MpiComm(copy);
}

/// What a poll loop does between two polls: yields the core at first, and sleeps once it is clear
/// that the wait is a long one.
class Pause {
 public:
  void operator()() {
    if (++polls_ < kYields) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

 private:
  static constexpr int kYields = 100'000;
  int polls_ = 0;
};

/// Where MPI finds the data of an event.
struct Parcel {
  std::byte* send = nullptr;
  std::byte* receive = nullptr;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int count = 0;
};

class MpiChannel final : public Channel {
 public:
  MpiChannel(const std::array<MpiComm, kLanes>& comms, const Sums& sums, const Program& program,
             const Storage& storage)
      : sums_(sums),
        program_(program),
        completions_(std::make_unique<Completion[]>(program.events().size())),
        called_(program.events().size(), 0),
        parcels_(program.events().size()) {
    std::size_t transfers = 0;
    for (const Lane lane : {Lane::compute, Lane::gather, Lane::scatter}) {
      lanes_.push_back({LaneCursor(program, lane, EventKind::send),
                        LaneCursor(program, lane, EventKind::receive),
                        comms[static_cast<std::size_t>(lane)].get()});
      for (const EventId id : program.transfers(lane)) parcels_[id] = pack(id, storage);
      transfers += program.transfers(lane).size();
    }
    MPI_Comm_rank(lanes_.front().comm, &rank_);
    requests_.reserve(transfers);  // an event starts again only when it is complete
    owners_.reserve(transfers);
    finished_.resize(transfers);
  }

  void begin(const Run& run) override {
    run_ = run;
    for (LaneState& lane : lanes_) {
      lane.sends.begin(run);
      lane.receives.begin(run);
    }
    progress();
  }

  void completed(EventId id, Epoch epoch, std::int64_t begin_ns, std::int64_t end_ns) override {
    completions_[id].publish(epoch, begin_ns, end_ns);
    progress();
  }

  std::int64_t wait(EventId id, Epoch epoch) override {
    for (Pause pause; !completions_[id].reached(epoch); pause()) progress();
    return completions_[id].end_ns;
  }

  std::int64_t collective(EventId id, Epoch epoch, std::int64_t /*ready_ns*/) override {
    called_[id] = epoch;
    return wait(id, epoch);
  }

  void finish() override {
    const auto moved = [this] {
      return requests_.empty() &&
             std::all_of(lanes_.begin(), lanes_.end(), [](const LaneState& lane) {
               return lane.sends.finished() && lane.receives.finished();
             });
    };
    for (Pause pause; !moved(); pause()) progress();
  }

 private:
  struct LaneState {
    LaneCursor sends;
    LaneCursor receives;
    MPI_Comm comm = MPI_COMM_NULL;
    bool in_collective = false;
  };
  struct Owner {
    LaneState* lane = nullptr;
    EventId event = 0;
    Epoch epoch = 0;
    std::int64_t begin_ns = 0;
  };

  Parcel pack(EventId id, const Storage& storage) {
    const Event& event = program_.event(id);
    if (event.kind == EventKind::collective) return pack_collective(id, storage);
    const View& view = program_.message(id).view;
    std::byte* const data = storage.at(view);
    types_.push_back(make_view_type(view, storage.tensor(view.tensor)));
    return {data, data, types_.back().get(), 1};
  }

  Parcel pack_collective(EventId id, const Storage& storage) {
    const Collective& collective = program_.collective(id);
    const Tensor& tensor = storage.tensor(collective.send.tensor);
    const std::int64_t all = std::max(collective.send.elements(), collective.receive.elements());
    const bool whole = collective.kind == CollectiveKind::all_reduce;
    const std::int64_t counted = whole ? all : all / program_.plan().ranks;
    Parcel parcel{storage.at(collective.send), storage.at(collective.receive),
                  mpi_element(tensor.dtype), 0};
    if (all <= kIntMax) {
      parcel.count = static_cast<int>(counted);
    } else if (whole || collective.kind == CollectiveKind::reduce_scatter) {
      throw Unsupported(
          fmt::format("transport mpi reduces at most {} elements at once, {} has {} on {} ranks",
                      kIntMax, tensor.name, all, program_.plan().ranks));
    } else {
      types_.push_back(make_run_type(counted, tensor.dtype));
      parcel.type = types_.back().get();
      parcel.count = 1;
    }
    return parcel;
  }

  void progress() {
    for (bool moved = true; moved;) {
      moved = false;
      for (LaneState& lane : lanes_) moved |= start(lane);
      moved |= test();
    }
  }

  [[nodiscard]] bool dependencies_done(EventId id, Epoch epoch) const {
    const auto done = [this](std::span<const EventId> before, Epoch wanted) {
      return std::all_of(before.begin(), before.end(),
                         [&](EventId other) { return completions_[other].reached(wanted); });
    };
    return done(program_.dependencies(id), epoch) &&
           (epoch == run_.first || done(program_.earlier_iteration(id), epoch - 1));
  }

  /// Starts what may start: receives and sends each in lane order, without waiting for each other.
  bool start(LaneState& lane) {
    bool started = false;
    for (LaneCursor* cursor : {&lane.receives, &lane.sends}) {
      while (cursor->at_message() && dependencies_done(cursor->event(), cursor->epoch())) {
        start_message(lane, *cursor);
        cursor->advance();
        started = true;
      }
    }
    return start_collective(lane) || started;
  }

  void start_message(LaneState& lane, const LaneCursor& cursor) {
    const EventId id = cursor.event();
    const Parcel& parcel = parcels_[id];
    const std::int32_t peer = program_.message(id).peer;
    MPI_Request request = MPI_REQUEST_NULL;
    const std::int64_t begin_ns = monotonic_ns();
    if (program_.event(id).kind == EventKind::send) {
      CFB_MPI(MPI_Isend(parcel.send, parcel.count, parcel.type, peer, 0, lane.comm, &request));
    } else {
      CFB_MPI(MPI_Irecv(parcel.receive, parcel.count, parcel.type, peer, 0, lane.comm, &request));
    }
    follow(request, {&lane, id, cursor.epoch(), begin_ns});
  }

  bool start_collective(LaneState& lane) {
    if (lane.in_collective || !lane.sends.at_collective() || !lane.receives.at_collective()) {
      return false;
    }
    const EventId id = lane.sends.event();
    const Epoch epoch = lane.sends.epoch();
    if (id != lane.receives.event() || epoch != lane.receives.epoch()) return false;
    const bool ready = program_.event(id).lane == Lane::compute ? called_[id] >= epoch
                                                                : dependencies_done(id, epoch);
    if (!ready) return false;

    const std::int64_t begin_ns = monotonic_ns();
    follow(begin_collective(program_.collective(id), parcels_[id], lane.comm),
           {&lane, id, epoch, begin_ns});
    lane.in_collective = true;
    return true;
  }

  // Of an all-reduce MPI requires the same bits on every rank.
  [[nodiscard]] MPI_Request begin_collective(const Collective& what, const Parcel& parcel,
                                             MPI_Comm comm) const {
    const MPI_Op sum = sums_.of(program_.plan().tensors[what.send.tensor].dtype);
    const int count = parcel.count;
    MPI_Request request = MPI_REQUEST_NULL;
    switch (what.kind) {
      case CollectiveKind::all_gather:
        CFB_MPI(MPI_Iallgather(in_place(what, parcel) ? MPI_IN_PLACE : parcel.send, count,
                               parcel.type, parcel.receive, count, parcel.type, comm, &request));
        break;
      case CollectiveKind::reduce_scatter:
        CFB_MPI(MPI_Ireduce_scatter_block(parcel.send, parcel.receive, count, parcel.type, sum,
                                          comm, &request));
        break;
      case CollectiveKind::all_to_all:
        CFB_MPI(MPI_Ialltoall(parcel.send, count, parcel.type, parcel.receive, count, parcel.type,
                              comm, &request));
        break;
      case CollectiveKind::all_reduce:
        CFB_MPI(
            MPI_Iallreduce(parcel.send, parcel.receive, count, parcel.type, sum, comm, &request));
        break;
    }
    return request;
  }

  [[nodiscard]] bool in_place(const Collective& collective, const Parcel& parcel) const {
    const DType dtype = program_.plan().tensors[collective.send.tensor].dtype;
    return parcel.send == parcel.receive + rank_ * collective.send.elements() * bytes_of(dtype);
  }

  void follow(MPI_Request request, const Owner& owner) {
    requests_.push_back(request);
    owners_.push_back(owner);
  }

  /// Lets MPI move data, and notes what it has finished.
  bool test() {
    if (requests_.empty()) return false;
    int count = 0;
    CFB_MPI(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                         finished_.data(), MPI_STATUSES_IGNORE));
    if (count <= 0) return false;
    const std::int64_t end_ns = monotonic_ns();
    for (int i = 0; i < count; ++i)
      complete(owners_[static_cast<std::size_t>(finished_[i])], end_ns);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      owners_[kept++] = owners_[i];
    }
    requests_.resize(kept);
    owners_.resize(kept);
    return true;
  }

  void complete(const Owner& owner, std::int64_t end_ns) {
    const Event& event = program_.event(owner.event);
    Span& span = run_.span(owner.epoch, event);
    span.begin_ns = owner.begin_ns;
    span.end_ns = end_ns;
    completions_[owner.event].publish(owner.epoch, owner.begin_ns, end_ns);
    if (event.kind != EventKind::collective) return;
    owner.lane->in_collective = false;
    owner.lane->sends.advance();
    owner.lane->receives.advance();
  }

  const Sums& sums_;
  const Program& program_;
  int rank_ = 0;
  std::unique_ptr<Completion[]> completions_;  // by event
  std::vector<Epoch> called_;                  // by event: collectives of the compute lane
  std::vector<Parcel> parcels_;                // by event
  std::vector<MpiType> types_;
  std::vector<LaneState> lanes_;
  std::vector<MPI_Request> requests_;
  std::vector<Owner> owners_;  // by request
  std::vector<int> finished_;
  Run run_;
};

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(const MpiWorld& group)
      : rank_(group.rank()),
        comms_{duplicate(group.comm()), duplicate(group.comm()), duplicate(group.comm())} {}

  [[nodiscard]] bool shares_memory() const override { return false; }
  void set_link(const LinkSpeed& /*link*/) override {}  // it has a real one
  WireReport take_report() override { return {}; }
  std::unique_ptr<Channel> open(const Program& program,
                                std::span<const Storage> storages) override {
    return std::make_unique<MpiChannel>(comms_, sums_, program,
                                        storages[static_cast<std::size_t>(rank_)]);
  }

 private:
  std::int32_t rank_;
  std::array<MpiComm, kLanes> comms_;
  Sums sums_;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(World& group) {
  const auto* const processes = dynamic_cast<const MpiWorld*>(&group);
  if (processes == nullptr) {
    throw std::invalid_argument("transport mpi needs ranks that are MPI processes");
  }
  return std::make_unique<MpiTransport>(*processes);
}

}  // namespace commfuse
