// SPDX-License-Identifier: Apache-2.0
// An implementation lowers every stage of every workload into a plan. One implementation = one file
// = one lowering function.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "impls/plan.h"

namespace commfuse {

/// An implementation with all of its parameters resolved for one workload.
struct Implementation {
  std::string name;  // resolved: "commfuse:order=ring:m=2:accumulate=epilogue"; the same string is
                     // listed, recorded and parsed
  Portion portion = Portion::schedule;
  CollectiveVia via = CollectiveVia::standard;  // what its collectives ask of a transport
  std::function<void(const Stage&, PlanBuilder&)> lower;
  /// Why a stage cannot be cut this way: "needs rows per rank divisible by unit x m (2 x 4), got
  /// 12"; empty if it can.
  std::function<std::string(const Stage&)> unsupported;
};

using Parameters = std::map<std::string, std::string, std::less<>>;

/// One line of the table in implementation.cpp.
struct ImplementationEntry {
  std::string_view name;
  std::string_view description;  // one line for --list
  /// "n=<parts>:axis=tokens|features", for --list and messages; what is parsed is checked against
  /// it: <...> is a positive count, else one of the values.
  std::string_view parameters;
  /// Parameters have passed that check; those not given take the defaults that the workload's
  /// stages ask for. Throws UsageError where they contradict each other.
  Implementation (*make)(const Parameters&, const Workload&);
};

std::span<const ImplementationEntry> implementations();
/// "sliced:n=4". Throws UsageError listing the valid names, parameters or values.
Implementation make_implementation(std::string_view spec, const Workload& workload);
/// Throws UsageError if the name or a parameter is unknown; needs no workload.
void validate_implementation(std::string_view spec);

/// For make functions: a parameter's value, or `fallback` where it is not given.
std::string_view value_of(const Parameters& parameters, std::string_view key,
                          std::string_view fallback);
std::int32_t count_of(const Parameters& parameters, std::string_view key, std::int32_t fallback);
/// Whether a stage neither waits for peers nor serves them.
bool is_local(const Stage& stage);
/// Into how many parts such a stage is cut where others are cut into `parts`: into as many if it
/// works on the own slice of its axis and that divides, else 1.
std::int32_t local_parts(const Stage& stage, std::int32_t parts);
/// For Implementation::unsupported: why the peer slices of a stage that is not local cannot be cut
/// into so many parts; empty if they can, or if nothing of them moves.
std::string unsupported_rows(const Stage& stage, std::string_view parameter, std::int32_t parts);

/// First reason among the stages why this workload cannot be lowered; empty if it can.
std::string unsupported(const Implementation& implementation, const Workload& workload);
/// The plan of one rank. Requires unsupported() to be empty.
Plan build_plan(const Implementation& implementation, const Workload& workload, std::int32_t rank);
std::vector<Plan> build_plans(const Implementation& implementation, const Workload& workload);

}  // namespace commfuse
