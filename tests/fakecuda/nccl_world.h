// SPDX-License-Identifier: Apache-2.0
// What the fake NCCL knows in one run: communicators, and the room that their operations need.
//
// All kernels of NCCL on one rank's device run in the order of the host calls, one at a time, as
// they do with NCCL_LAUNCH_ORDER_IMPLICIT where nothing else fits beside them. Operations of one
// communicator are ordered by that; those of two communicators are not, for the race detector.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/fakecuda/machine.h"
#include "tests/fakecuda/nccl_call.h"
#include "tests/fakecuda/nccl_registry.h"

namespace commfuse::fake {

/// What the members of a communicator share.
struct NcclClique {
  std::int32_t number = 0;  // in the order of creation
  std::int32_t ranks = 0;
  std::int32_t members = 0;  // that came so far
  std::string name;          // "communicator 2 (p2p)"
};

/// The part of a configuration that the fake keeps.
struct NcclSettings {
  std::int32_t split_share = 0;
  std::int32_t max_ctas = NCCL_CONFIG_UNDEF_INT;
  std::int32_t cta_policy = NCCL_CTA_POLICY_DEFAULT;
  std::string name;
};

}  // namespace commfuse::fake

/// A rank's side of a communicator.
struct ncclComm {
  std::shared_ptr<commfuse::fake::NcclClique> clique;
  std::int32_t rank = 0;
  std::int32_t host = 0;  // the rank of the machine that owns it
  commfuse::fake::NcclSettings settings;
  commfuse::fake::StreamId stream{};  // internal; its operations run there
  commfuse::fake::EventId ready{};    // what the latest operation waits for
  commfuse::fake::EventId done{};     // of the latest operation
  std::int64_t collectives = 0;       // numbers of the next ones
  std::int64_t splits = 0;
  std::int64_t windows = 0;
  std::map<std::int32_t, std::int64_t> sent;         // by peer
  std::map<std::int32_t, std::int64_t> received;     // by peer
  std::vector<commfuse::fake::NcclBuffer*> buffers;  // all that were ever registered
  bool destroyed = false;
};

namespace commfuse::fake {

/// A rank's own state.
struct NcclRank {
  bool started = false;
  StreamId bootstrap{};   // where host threads meet
  std::size_t queue = 0;  // of all internal streams
  std::int32_t group_depth = 0;
  ncclResult_t group_error = ncclSuccess;
  std::vector<NcclCall> calls;  // of the open group
  std::string last_error;
};

class NcclWorld {
 public:
  /// Of the run of the calling host thread.
  static NcclWorld& current() { return Machine::current().kept<NcclWorld>(); }

  ncclUniqueId new_id();
  /// Both wait for all members.
  ncclComm* init(const ncclUniqueId& id, std::int32_t ranks, std::int32_t rank,
                 const NcclSettings& settings);
  /// Null for NCCL_SPLIT_NOCOLOR.
  ncclComm* split(ncclComm& parent, std::int32_t color, std::int32_t key,
                  const NcclSettings& settings);
  /// Waits until the host threads of all members have called it, on the same terms.
  void meet(const NcclClique& clique, std::int32_t rank, const std::string& what,
            const std::string& terms = "");

  NcclRank& rank();
  /// The buffers of a joint operation, shared by those who take part in it.
  std::shared_ptr<NcclJoint> joint(const std::string& id, std::int32_t parties);
  /// Keeps the text for ncclGetLastError.
  ncclResult_t refuse(ncclResult_t result, std::string text);

  std::map<void*, std::size_t> memory;  // of ncclMemAlloc: its bytes
  std::deque<NcclBuffer> buffers;       // registered, or once registered
  /// For tests: this rank is refused its registrations, or its communicators by split.
  std::optional<std::int32_t> refused_rank;
  std::optional<std::int32_t> refused_split;
  /// For tests: on this rank NCCL is 2.27.3.
  std::optional<std::int32_t> older_rank;
  /// Registrations succeed and do nothing, as where NCCL has no use for them.
  bool registers_nothing = false;

 private:
  struct Choice {
    std::int32_t rank = 0;
    std::int32_t color = 0;
    std::int32_t key = 0;
  };
  std::shared_ptr<NcclClique> clique(const std::string& id, std::int32_t ranks,
                                     const std::string& name);
  ncclComm* add(std::shared_ptr<NcclClique> clique, std::int32_t rank,
                const NcclSettings& settings);

  std::int32_t ids_ = 0;
  std::map<std::int32_t, NcclRank> ranks_;
  std::map<std::string, std::shared_ptr<NcclClique>> cliques_;
  std::map<std::string, std::vector<Choice>> choices_;  // by split
  std::map<std::string, std::shared_ptr<NcclJoint>> joints_;
  std::deque<ncclComm> communicators_;
};

}  // namespace commfuse::fake
