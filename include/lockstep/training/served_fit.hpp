// fit with parameter servers: what a worker and a server do besides the steps.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/parameter_server/parameter_servers.hpp"
#include "lockstep/training/position.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
class Trainer;

/// A place as the servers keep it for a rank.
void encode_place(const TrainingPosition& place, std::vector<std::byte>& bytes);
/// Throws Error when the bytes are those of another program.
[[nodiscard]] TrainingPosition decode_place(std::span<const std::byte> bytes,
                                            std::size_t metric_state);

/// A worker begins a fit: the chief's variables go to the servers, unless they go on with theirs,
/// and the servers' to this worker. Returns where this rank goes on; nothing where it stays at
/// `mine`. `given`: what distinguishes this fit, its data and options, which are those of all
/// workers. Throws ConfigurationError when they are not.
template <class T>
[[nodiscard]] std::optional<TrainingPosition> join_servers(Trainer<T>& trainer,
                                                           ParameterServers& servers,
                                                           const TrainingPosition& mine,
                                                           std::string_view given);
/// It has made its steps: waits for the others, and takes the variables of all.
template <class T>
void leave_servers(Trainer<T>& trainer, ParameterServers& servers);

/// An exception has ended the fit of this worker, and the others go on without it.
void abandon_servers(ParameterServers& servers) noexcept;

/// The servers' variables, with slots and counters, become the worker's.
template <class T>
void pull_from_servers(Trainer<T>& trainer, ParameterServers& servers);

/// What fit is on a server. Throws Served at the end.
template <class T>
[[noreturn]] void serve_fits(Trainer<T>& trainer, ParameterServers& servers);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#include "lockstep/training/served_fit.ipp"
