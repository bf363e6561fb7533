// What is said of workers that are lost, keep others waiting, do not come at start-up, or do not
// fit: one numbering, one wording. For a lost worker, VoteTally joins the parts, FailureWatch adds
// the address, CollectiveError the name.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/rare_log.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// How messages name the workers that are connected. A worker's number is its place in the
/// configured cluster: in an elastic world that is not its rank. `workers`: by rank; empty: the
/// ranks.
class WorkerNames {
 public:
  explicit WorkerNames(std::vector<std::string> addresses, std::vector<int> workers = {})
      : addresses_(std::move(addresses)), workers_(std::move(workers)) {}

  [[nodiscard]] int size() const noexcept { return static_cast<int>(addresses_.size()); }
  [[nodiscard]] const std::string& address(int rank) const {
    return addresses_[static_cast<std::size_t>(rank)];
  }
  /// For which its certificate is, too. A rank that a stranger has made up stays what it is.
  [[nodiscard]] int number(int rank) const {
    const auto place = static_cast<std::size_t>(rank);
    return place < workers_.size() ? workers_[place] : rank;
  }
  /// "worker 1"
  [[nodiscard]] std::string shortly(int rank) const { return concat({"worker ", number(rank)}); }
  /// "worker 1 (b:2222)"
  [[nodiscard]] std::string operator()(int rank) const {
    return concat({"worker ", number(rank), " (", address(rank), ")"});
  }

 private:
  std::vector<std::string> addresses_;
  std::vector<int> workers_;
};

/// "worker 1", or where workers have several replicas "worker 1, replica 0".
[[gnu::cold]] inline std::string replica_name(std::size_t rank, int local_size) {
  const auto replicas = static_cast<std::size_t>(local_size);
  return replicas == 1 ? concat({"worker ", rank})
                       : concat({"worker ", rank / replicas, ", replica ", rank % replicas});
}

// The ends of sentences that begin with a worker's or a replica's name.

[[gnu::cold]] inline std::string was_silent(std::chrono::milliseconds::rep limit) {
  return concat({"was silent for more than ", limit, " ms (CommunicationOptions::timeout)"});
}
/// `state`: "is alive and waits for worker 2: fit, epoch 1"
[[gnu::cold]] inline std::string made_no_progress(std::chrono::milliseconds limit,
                                                  std::string_view state) {
  return concat({"kept others waiting for more than ", limit.count(),
                 " ms (CommunicationOptions::progress_timeout), although it ", state});
}
[[gnu::cold]] inline std::string came_to_its_end(std::string_view waiter, std::string_view doing,
                                                 std::string_view call) {
  return concat({"came to its end while ", waiter, " ", doing,
                 " still waits for it; all workers must run the same number of steps",
                 call.empty() ? "" : "; ", call.empty() ? "" : waiter,
                 call.empty() ? "" : " is in ", call});
}
[[gnu::cold]] inline std::string lost_the_connection(std::string_view fault) {
  return concat({"lost the connection (", fault, ")"});
}
[[gnu::cold]] inline std::string replica_did_not_come(std::string_view operation,
                                                      std::chrono::milliseconds limit) {
  return concat({"this replica's thread did not come to ", operation, " within ", limit.count(),
                 " ms (CommunicationOptions::progress_timeout)"});
}
[[gnu::cold]] inline std::string replica_has_left(std::string_view operation) {
  return concat(
      {"this replica has left what the strategy's run() gave to all, and others wait for it in ",
       operation, ": all replicas make the same calls"});
}

// Lines of the log while workers wait for each other.

/// "worker 0 has waited 5 s for worker 1"; `waiter`: also "replica 0 in all_reduce".
[[gnu::cold]] inline std::string waits_since(std::string_view waiter,
                                             std::chrono::milliseconds since,
                                             std::string_view missing) {
  return concat({waiter, " has waited ", since.count() / 1000, " s for ", missing});
}
/// `option`: of CommunicationOptions
[[gnu::cold]] inline std::string counts_as_lost(std::chrono::milliseconds limit,
                                                std::string_view option) {
  return concat({"; it counts as lost after ", duration_text(limit),
                 " (CommunicationOptions::", option, ")"});
}
[[gnu::cold]] inline std::string is_alive(std::string_view waits_for, std::string_view doing) {
  return concat({"is alive", waits_for.empty() ? "" : " and waits for ", waits_for,
                 doing.empty() ? "" : ": ", doing});
}
[[gnu::cold]] inline std::string has_not_answered(std::chrono::seconds silence) {
  return concat({"has not answered for ", silence.count(), " s"});
}

// Calls that differ, or were changed on the way.

/// `what`: "workers", "replicas"; then two of them, and the calls that they are in
[[gnu::cold]] inline std::string are_out_of_step(std::string_view what, std::string_view first,
                                                 std::string_view call, std::string_view other,
                                                 std::string_view others_call) {
  return concat(
      {what, " are out of step: ", first, " is in ", call, ", ", other, " in ", others_call});
}
[[gnu::cold]] inline std::string bits_changed(std::string_view message, std::string_view receiver,
                                              std::string_view where) {
  return concat({"its ", message, ", came to ", receiver,
                 " with bits changed on the way (CRC-32C, ", where,
                 "): a network card, a switch, a proxy or the memory between the two changes data; "
                 "start again, and look for the cause if it comes again"});
}
inline constexpr const char* equal_calls =
    "; all workers must call the same operations with equal lengths";
[[gnu::cold]] inline std::string is_out_of_step(std::string_view receiver,
                                                std::string_view expected, std::string_view got) {
  return concat({"is out of step: ", receiver, " expected its ", expected, ", and got its ", got,
                 equal_calls});
}
[[gnu::cold]] inline std::string answering_thread_failed(std::string_view why) {
  return concat({"the thread that answers the other workers failed: ", why});
}
[[gnu::cold]] inline std::string did_not_come(std::string_view meeting, std::string_view limit,
                                              std::string_view missing, int first_port,
                                              int last_port) {
  return concat({"did not come to ", meeting, ", where worker 0 waits for all within ", limit,
                 "; missing: ", missing,
                 ". Are all started, and may they connect to this host's ports ", first_port,
                 " to ", last_port, "?"});
}

inline constexpr const char* hears_no_worker =
    "hears none of the other workers any more: its network is cut, or all of them hang";
inline constexpr const char* does_not_answer = "does not answer";
inline constexpr const char* closed_the_connection = "closed the connection";
inline constexpr const char* did_not_end = "did not end its work";
inline constexpr const char* did_not_leave = "did not leave";
inline constexpr const char* spoke_nonsense = "sent something that is no control frame";
inline constexpr const char* was_lost_at_the_beginning =
    "was lost just when all workers were connected and told to begin: its process has ended, or "
    "the connection to it broke";

// What is known of a lost worker's process.
inline constexpr const char* process_has_ended = "; its process has ended";
inline constexpr const char* port_refuses =
    "; its port refuses calls: its process has ended, or a firewall refuses them";
inline constexpr const char* process_lives = "; its process lives";
inline constexpr const char* port_closes = "; a process closes calls of its port";

// Where two workers have lost each other.

[[gnu::cold]] inline std::string network_between(std::string_view a, std::string_view b,
                                                 std::string_view what) {
  return concat({"the network between ", a, " and ", b, what});
}
[[gnu::cold]] inline std::string connection_broke(std::string_view a, std::string_view b,
                                                  std::string_view fault, std::string_view others) {
  return concat({"the connection between ", a, " and ", b, " broke: ", fault, others});
}
/// `other` has become silent, as `hearer` hears it.
[[gnu::cold]] inline std::string is_cut(std::string_view other, std::string_view silence,
                                        std::string_view hearer, std::string_view others) {
  return concat({" is cut: ", other, " ", silence, ", as ", hearer, " hears it", others});
}
inline constexpr const char* loses_large_packets =
    " loses large packets, though small ones pass: the MTU of an interface, a tunnel or a switch "
    "on the way is lower than the hosts believe (ping -M do -s 1472 HOST tells); lower the hosts' "
    "MTU, or let ICMP's \"fragmentation needed\" pass";
inline constexpr const char* others_hear_both = "; other workers hear both";
inline constexpr const char* both_live = "; both processes live";
inline constexpr const char* one_or_successor =
    "; a process closes calls of the other one's port, that one or a successor";
inline constexpr const char* was_closed = "it was closed";
inline constexpr const char* tls_refuses =
    "TLS refuses what has come: it was changed on the way, or not sent by the peer";
inline constexpr const char* lost_as_well = "; lost as well: ";

// What the launcher says of a process that others have lost.

[[gnu::cold]] inline std::string lost_to(std::string_view worker, std::string_view why) {
  return concat({"lost to ", worker, " (", why, ")"});
}
[[gnu::cold]] inline std::string was_stopped(std::chrono::milliseconds time) {
  return concat({"stopped (SIGSTOP) for ", duration_text(time)});
}
/// `how`: lost_to(), was_stopped()
[[gnu::cold]] inline std::string is_killed_for(std::string_view worker, std::string_view how) {
  return concat({worker, " was ", how, ", but its process still exists: it is killed"});
}
[[gnu::cold]] inline std::string started_again(int restarts_left) {
  return concat({" started again; ", restarts_left, " restarts left"});
}
inline constexpr const char* ssh_has_failed =
    "exit code 255 of ssh: it could not connect, or lost the connection";
inline constexpr const char* delays_the_stop =
    " was told to stop and keeps the others waiting: it is killed";
/// Behind "ended (...".
inline constexpr const char* go_on_without_it =
    "); the others go on without it, and take it in when it is started again: ";
inline constexpr const char* are_too_few_without_it =
    "); the others are no more than half of those that were at work: they wait for it, and end if "
    "it is not started again: ";

// Behind a call's name: failures of a library that moves the data and cannot ask whether a worker
// lives.

/// `option`: of CommunicationOptions
[[gnu::cold]] inline std::string has_not_ended(std::chrono::milliseconds limit,
                                               std::string_view option) {
  return concat(
      {"has not ended within ", duration_text(limit), " (CommunicationOptions::", option, ")"});
}
[[gnu::cold]] inline std::string has_not_returned(std::chrono::milliseconds limit) {
  return concat({": has not returned within ", duration_text(limit),
                 " (half of CommunicationOptions::progress_timeout)"});
}
[[gnu::cold]] inline std::string has_no_progress(std::chrono::milliseconds limit) {
  return concat(
      {": no progress for ", limit.count(),
       " ms; another worker hangs, or is busy for longer than CommunicationOptions allow"});
}
[[gnu::cold]] inline std::string not_all_ended(std::chrono::milliseconds limit) {
  return concat({"not all workers came to their end within ", limit.count(), " ms"});
}

// What fit adds to a CollectiveError about a lost worker: what this worker does now.

inline constexpr const char* waits_and_restores =
    "; this worker waits for the others, and goes on from the last backup";
inline constexpr const char* keeps_its_state =
    "; this worker keeps its state, and waits for the others";
inline constexpr const char* waits_for_all =
    "; this worker keeps its state and waits until all are together again";
/// `lost`: "its share of the update"; `updates`: "3", "2 to 3"
[[gnu::cold]] inline std::string took_along(std::string_view training, std::string_view lost,
                                            std::string_view updates) {
  return concat({"fit: with ", training, ", a worker that was lost has taken ", lost,
                 " along, and there is no backup to go on from (workers have made ", updates,
                 " updates): start all workers again; a BackupAndRestore with a smaller save_freq "
                 "has a backup sooner"});
}

// Workers that are missing at start-up, and why: ends of sentences, too.

[[gnu::cold]] inline std::string is_silent_since(std::chrono::seconds silence) {
  return concat({"is connected, but has been silent for ", silence.count(), " s"});
}
[[gnu::cold]] inline std::string nothing_comes_from(std::string_view address) {
  return concat({"does not answer (nothing comes back from ", address, ")"});
}
[[gnu::cold]] inline std::string name_does_not_resolve(std::string_view why) {
  return concat({"its name does not resolve: ", why});
}
[[gnu::cold]] inline std::string cannot_reach_it(std::string_view other, std::string_view why) {
  return concat({"; ", other, " cannot reach it: ", why});
}
[[gnu::cold]] inline std::string cannot_reach_this(std::string_view other, std::string_view why) {
  return concat({"; ", other, " cannot reach this worker: ", why});
}
[[gnu::cold]] inline std::string own_address_fails(std::string_view address, std::string_view why) {
  return concat({"; of this worker's own address, ", address, ": ", why});
}
/// `complaint`: why `waiter` cannot reach it; may be empty
[[gnu::cold]] inline std::string other_waits_for_it(std::string_view waiter,
                                                    std::string_view complaint) {
  return concat(
      {waiter, " waits for it", complaint.empty() ? "" : ", which it cannot reach: ", complaint});
}
[[gnu::cold]] inline std::string all_must_come(std::chrono::milliseconds limit) {
  return concat({"; the workers must all be there within ", limit.count(),
                 " ms (CommunicationOptions::startup_timeout)"});
}
[[gnu::cold]] inline std::string claims_to_be(std::string_view worker, std::string_view why) {
  return concat({"claims to be ", worker, why});
}
[[gnu::cold]] inline std::string has_more_connections(std::size_t here) {
  return concat({", with more connections for data than this worker, which has ", here});
}
[[gnu::cold]] inline std::string answers_as(int worker) {
  return concat({"answers as worker ", worker});
}
[[gnu::cold]] inline std::string was_turned_away(std::string_view host, std::string_view why) {
  return concat({"was turned away: ", host, why});
}
[[gnu::cold]] inline std::string is_there_twice(std::string_view worker, std::string_view host,
                                                std::string_view other_host) {
  return concat({worker, " is there twice: two processes, on ", host, " and ", other_host,
                 ", have one place in the cluster; give each worker its own task index in "
                 "TF_CONFIG"});
}
inline constexpr const char* all_need_the_same =
    "; all workers need the same program, the same cluster in TF_CONFIG and, if any, the same "
    "LOCKSTEP_CLUSTER_SECRET";
inline constexpr const char* speaks_otherwise = "does not speak this protocol";
inline constexpr const char* is_another_program =
    "is another program, which does not speak this protocol";
inline constexpr const char* has_this_name = ", which this worker calls itself";
inline constexpr const char* is_no_contact = ", with which this worker has no connections";
inline constexpr const char* tries_again = "; this worker tries again until the start-up times out";
inline constexpr const char* asks_again =
    "; this worker asks again, whether another one has the place";
inline constexpr const char* no_answer_so_far = "no answer so far";
inline constexpr const char* has_not_connected = "has not connected yet";
inline constexpr const char* lacks_connections = "is here, but not yet connected to all others";
inline constexpr const char* cannot_be_called = "cannot be called from here: ";
inline constexpr const char* accepts_in_silence = "accepts connections, but is silent";
inline constexpr const char* did_not_shake_hands = "connected, but did not complete the handshake";
inline constexpr const char* closes_at_once = "closes the connection at once";
inline constexpr const char* closes_in_handshake = "closes the connection during the handshake";
inline constexpr const char* closes_in_tls_handshake =
    "closes the connection during the TLS handshake; LOCKSTEP_TLS (or CommunicationOptions::tls) "
    "must be the same on all workers";
inline constexpr const char* closed_again = "closed the connection again";
inline constexpr const char* gave_up = "gave up";
inline constexpr const char* has_not_missed_its_worker =
    "is at work with the others, and has not noticed yet that it lost the one that had this place";

// Processes that differ, as a handshake finds them: ends of sentences about the other one. `own` is
// what this process is: "worker", "parameter server".

/// `what`: the name of a property. Quotes only the beginning of what the other one has sent.
[[gnu::cold]] inline std::string has_other(const TextPiece& what, const TextPiece& theirs,
                                           const TextPiece& ours) {
  constexpr std::size_t most = 200;
  return concat({"has ", printable(what.view(), most), " ", printable(theirs.view(), most),
                 ", this worker has ", ours.view()});
}
[[gnu::cold]] inline std::string has_another(std::string_view what) {
  return concat(
      {"has another ", what, " than this worker (which does not tell its own to strangers)"});
}
[[gnu::cold]] inline std::string takes_this_for(int worker, int own) {
  return concat({"takes this worker for worker ", worker, ", but it is worker ", own});
}
[[gnu::cold]] inline std::string has_this_place(int worker) {
  return concat(
      {"is worker ", worker, ", as this process is: two processes with one place in the cluster"});
}
[[gnu::cold]] inline std::string has_other_secret(std::string_view own) {
  return concat({"has another cluster secret (LOCKSTEP_CLUSTER_SECRET) than this ", own});
}
inline constexpr const char* no_secret =
    "has no cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has one";
inline constexpr const char* secret_missing =
    "has a cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has none";
inline constexpr const char* cannot_prove =
    "cannot prove that it knows the cluster secret (LOCKSTEP_CLUSTER_SECRET)";
inline constexpr const char* has_not_proved =
    "has not proved that it knows the cluster secret (LOCKSTEP_CLUSTER_SECRET)";
inline constexpr const char* comes_too_late = "comes while the cluster is at work";
inline constexpr const char* is_elastic =
    "trains with ElasticOptions (MultiWorkerMirroredOptions::elastic), and this worker without";
inline constexpr const char* is_fixed =
    "trains without ElasticOptions (MultiWorkerMirroredOptions::elastic), and this worker with "
    "them";
inline constexpr const char* did_not_say_who = "has not shown in time who it is";

// The same for TLS. `remedy` is TlsSettings::remedy().

inline constexpr const char* speaks_tls_only =
    "speaks TLS only, and this worker does without; LOCKSTEP_TLS (or CommunicationOptions::tls) "
    "must be the same on all workers";
inline constexpr const char* closes_tls_handshake = "closed the connection in the TLS handshake";
[[gnu::cold]] inline std::string process_speaks_tls_only(std::string_view remedy) {
  return concat({"speaks TLS only, and this process does without", remedy});
}
[[gnu::cold]] inline std::string speaks_without_tls(std::string_view own, std::string_view remedy) {
  return concat({"speaks without TLS, and this ", own, " only with it", remedy});
}
[[gnu::cold]] inline std::string speaks_other_tls(std::string_view own) {
  return concat({"does not speak TLS 1.3, and this ", own, " speaks no other version"});
}
[[gnu::cold]] inline std::string fails_in_tls_handshake(std::string_view why) {
  return concat({"fails in the TLS handshake: ", why});
}
[[gnu::cold]] inline std::string has_no_proof_in_common(std::string_view own,
                                                        std::string_view remedy) {
  return concat({"and this ", own,
                 " have no proof for TLS in common: one may have a pre-shared key and the other a "
                 "certificate",
                 remedy});
}
[[gnu::cold]] inline std::string shows_no_certificate(std::string_view remedy) {
  return concat({"shows no certificate for TLS", remedy});
}
[[gnu::cold]] inline std::string shows_certificate(std::string_view own, std::string_view remedy) {
  return concat({"shows a certificate for TLS, and this ", own, " has a pre-shared key", remedy});
}
[[gnu::cold]] inline std::string shows_bad_certificate(std::string_view fault) {
  return concat({"shows a certificate that ", fault});
}
/// `names`: the names in the certificate; `expected`: the name of the process that was called.
[[gnu::cold]] inline std::string shows_certificate_of_another(bool is_server,
                                                              std::string_view names,
                                                              std::string_view expected) {
  return concat({"shows the certificate of another ", is_server ? "task" : "worker", ": it is for ",
                 names, ", not for ", expected,
                 "; LOCKSTEP_TLS_CERTIFICATE must name the one of the ",
                 is_server ? "server's own task" : "worker itself"});
}
[[gnu::cold]] inline std::string claims_with_certificate(int worker, std::string_view names,
                                                         std::string_view expected) {
  return concat({"claims to be worker ", worker, ", with a certificate for ", names,
                 ", and not for ", expected});
}
/// `why` begins with a comma or a colon.
[[gnu::cold]] inline std::string refuses_certificate(std::string_view own, std::string_view why) {
  return concat({"refuses this ", own, "'s certificate", why});
}

// Where workers meet at one address, or form a world.

[[gnu::cold]] inline std::string waits_for_it(int worker, std::string_view other,
                                              std::string_view why) {
  return concat({"worker ", worker, " waits for ", other, ": ", why});
}
[[gnu::cold]] inline std::string waits_at(std::string_view meeting, int port,
                                          std::string_view missing, int workers) {
  return concat(
      {"worker 0 waits at ", meeting, " (port ", port, ") for ", missing, " of ", workers});
}
/// `why` may be empty.
[[gnu::cold]] inline std::string did_not_tell(int worker, std::string_view why) {
  return concat({"did not tell worker ", worker, " the other workers' addresses: ",
                 why.empty() ? "it " : "", why.empty() ? does_not_answer : why,
                 "; is it started, on that host, and may this one connect to it?"});
}
[[gnu::cold]] inline std::string another_has_port(bool with_tls) {
  return concat({"another program has the port",
                 with_tls ? ", or LOCKSTEP_TLS (or CommunicationOptions::tls) is not the same on "
                            "all workers"
                          : ""});
}
inline constexpr const char* another_job_meets = "another job meets there";
inline constexpr const char* ended_too_early = "ended the conversation before all had come";
inline constexpr const char* answers_nonsense = "gives no valid answer";
[[gnu::cold]] inline std::string turns_this_away(std::string_view meeting, std::string_view why) {
  return concat({"start-up: rank 0 at ", meeting, " turns this worker away: it ", why});
}
[[gnu::cold]] inline std::string expects_other_size(int theirs, int ours) {
  return concat({"expects ", theirs, " workers, and rank 0 expects ", ours,
                 ": start all with the same number"});
}
[[gnu::cold]] inline std::string has_no_such_rank(int rank, int size) {
  return concat({"claims to be rank ", rank, " of ", size, ", as rank 0 is here"});
}
[[gnu::cold]] inline std::string has_rank_of_other(int rank, std::string_view address) {
  return concat({"claims to be rank ", rank, ", and so does the worker at ", address,
                 ": each needs another rank"});
}
/// `here` and `missing`: " 0 2"
[[gnu::cold]] inline std::string roll_call(int workers, std::string_view here,
                                           std::string_view missing) {
  return concat({"of the cluster's ", workers, " workers, there are here:", here,
                 "; missing:", missing.empty() ? " none" : missing});
}
[[gnu::cold]] inline std::string waits_for_others(int worker, std::string_view address,
                                                  std::string_view roll) {
  return concat({"worker ", worker, " at ", address, " waits for others: ", roll});
}
inline constexpr const char* forms_no_world = "no world can be formed: ";
/// Behind a roll call. `last`: the members of the last world, if there was one.
[[gnu::cold]] inline std::string what_it_takes(int min_workers, std::string_view last) {
  return concat({last.empty()
                     ? "; to begin takes all of them, or, after a while, more than half, at least "
                     : "; to go on takes at least ",
                 min_workers,
                 last.empty() ? " (min_workers)"
                              : " (min_workers), and more than half of the last world, workers ",
                 last, last.empty() ? "" : ", or all of the cluster",
                 ". Start those that are missing again, or all workers"});
}
[[gnu::cold]] inline std::string no_world_comes_to_work(const std::vector<std::string>& addresses) {
  std::string text = "; no world comes to work. The workers of the last one listen at";
  for (const std::string& address : addresses) text += " " + address;
  return text + ", ports that the system chooses: they must reach each other there";
}

// Between workers and parameter servers: ends of sentences, too.

inline constexpr const char* claims_nonsense = "makes no valid claim";
[[gnu::cold]] inline std::string breaks_protocol(std::string_view how) {
  return concat({"breaks the protocol: ", how});
}
[[gnu::cold]] inline std::string sends_other_size(std::uint64_t bytes, const TextPiece& expected) {
  return concat({"sends ", bytes, " bytes where ", expected.view(),
                 " are expected: do all run the same program?"});
}
[[gnu::cold]] inline std::string gave_nothing(bool was_asked, std::chrono::milliseconds time) {
  return concat({was_asked ? "has been silent for " : "took no bytes for ", duration_text(time)});
}
[[gnu::cold]] inline std::string made_no_step(std::chrono::milliseconds limit) {
  return concat({"lives, but has made no step for ", duration_text(limit), " while others wait"});
}
inline constexpr const char* is_left_out = ": it is left out";
/// `option`: in parentheses, or empty
[[gnu::cold]] inline std::string waits_for_silent(int worker, std::string_view server,
                                                  std::chrono::seconds silence,
                                                  std::chrono::milliseconds limit,
                                                  std::string_view option) {
  return concat({"worker ", worker, " waits for ", server, ", which has been silent for ",
                 silence.count(), " s; after ", duration_text(limit), option,
                 " its connection counts as lost"});
}
[[gnu::cold]] inline std::string waits_in_vain(std::string_view missing) {
  return concat({"waits in vain for ", missing, "; are they started, with this cluster?"});
}
[[gnu::cold]] inline std::string has_not_come_back(std::string_view why,
                                                   std::chrono::milliseconds limit) {
  return concat({why, ", and it has not come back for ", duration_text(limit),
                 "; start it (again), with the backup_dir that it had"});
}
[[gnu::cold]] inline std::string no_worker_came(std::chrono::milliseconds limit) {
  return concat({"no worker has been connected for ", duration_text(limit),
                 "; are they started, with this server in their TF_CONFIG?"});
}
[[gnu::cold]] inline std::string takes_place(int worker) {
  return concat({"another process takes the place of worker ", worker});
}
[[gnu::cold]] inline std::string place_was_taken(int worker) {
  return concat({"another process has taken the place of worker ", worker,
                 ", and this one had it before: start one process only for each task"});
}
[[gnu::cold]] inline std::string is_turned_away(int worker, std::string_view why) {
  return concat({"worker ", worker, " is turned away: ", why,
                 "; the server waits for those that it can serve"});
}
[[gnu::cold]] inline std::string is_lost(int worker, std::string_view why) {
  return concat({"worker ", worker, " is lost: ", why, "; the others go on, and it may come back"});
}

}}}  // namespace lockstep::detail
