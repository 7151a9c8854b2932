// SPDX-License-Identifier: Apache-2.0
// Options -> the cases to run. A group is what is measured interleaved: one workload, shape,
// arrangement of ranks and link, under every selected schedule and the two bounds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/options.h"
#include "impls/implementation.h"

namespace commfuse {

/// One record to be.
struct CaseRow {
  std::string
      impl;        // resolved name; as given where the case is skipped before it could be resolved
  std::string id;  // also the name of the Google Benchmark row
  std::string skip;    // reason; empty if it runs
  bool wanted = true;  // false: runs because others are measured against it, and leaves no record
};

struct CaseGroup {
  std::int32_t index = 0;  // among all groups of the launch, as selected
  const WorkloadEntry* workload = nullptr;
  Shape shape;
  Mesh mesh;  // one axis "ranks" without --mesh
  bool meshed = false;
  std::string backend;
  std::string settings;   // of a backend of devices, as names have them
  std::string transport;  // of the id and the record
  std::string carrier;    // the transport of the backend that moves the data
  std::string machine;    // that is modelled; empty for one that is there
  LinkRequest link;       // empty text on transports with a real link
  Mode mode = Mode::isolated;
  bool replay = false;        // simulated time with measured compute
  bool rotate = false;        // sets of buffers take turns
  bool resumed = false;       // other rows of it were finished before
  std::vector<CaseRow> rows;  // compute_only, comm_only, then as selected

  /// "tpsp/gemm_rs llama3-8b 1024 tokens, 2 ranks": for progress and messages.
  [[nodiscard]] std::string title() const;
};

/// What the groups of a launch share beside what was selected; as CaseGroup has it.
struct CaseSetting {
  std::string backend;
  std::string settings;
  std::string transport;
  std::string carrier;
  std::string machine;
  std::vector<LinkRequest> links{LinkRequest{}};  // one after the other
  Mode mode = Mode::isolated;
  bool replay = false;
  bool rotate = false;
  std::int32_t places = 0;  // for ranks, on that machine; 0: any number. More are skipped
  /// Instead of the selected schedules, those that it names for a workload.
  std::vector<std::string> (*schedules)(const Workload&) = nullptr;
};

/// Arrangements that are selected; a single group of so many ranks where none is.
std::vector<Mesh> selected_meshes(const Selection& selection, std::int32_t usual_ranks);
/// Every combination, in order. Rows that cannot be cut carry their reason.
std::vector<CaseGroup> expand_cases(const Selection& selection, std::span<const Mesh> meshes,
                                    const CaseSetting& setting);
/// Those of commfuse-bench. Rows that cannot be cut carry their reason. Throws UsageError where
/// a group needs more ranks than there are.
std::vector<CaseGroup> expand_cases(const Options& options, std::int32_t world_ranks,
                                    bool one_node);

/// Keeps what matches Google Benchmark's filter (a regular expression; a leading '-' negates).
/// The bounds and plain of a group in which something is left stay as unwanted rows. Throws
/// UsageError if nothing is left.
void filter_cases(std::vector<CaseGroup>& groups, const std::string& filter);
/// Ids of the wanted rows, and the same selection made from such a list.
std::vector<std::string> wanted_ids(const std::vector<CaseGroup>& groups);
void keep_cases(std::vector<CaseGroup>& groups, const std::vector<std::string>& ids);
/// The same for rows whose ids are finished already; leaves nothing without complaint.
void drop_finished(std::vector<CaseGroup>& groups, const std::vector<std::string>& finished);

}  // namespace commfuse
