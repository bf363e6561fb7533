// Who is there in a start-up, and how all agree that all are; apart from any socket.
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/partners.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What a worker knows of the others while they find each other, and the words for it. It is
/// connected to some of them, its **contacts** (see meet_at_startup); rank 0 to all.
class StartupRoster {
 public:
  using Clock = std::chrono::steady_clock;

  /// How often a rank asks each contact whether it is there. With many ranks less often: rank 0
  /// asks all and is asked by all, and they may share a machine. (With a startup_timeout below
  /// ten of these intervals, a rank that hangs may not be told from one that is missing.)
  [[nodiscard]] std::chrono::seconds ask_interval() const noexcept {
    return std::chrono::seconds(1 + world() / 16);
  }

  struct Peer {
    bool connected = false;         ///< all connections to it stand
    std::uint64_t incarnation = 0;  ///< of its process, since it was connected last
    bool ready = false;             ///< it is connected to all its contacts
    std::string problem{};          ///< why it is not connected
    std::string turned_away{};      ///< what was wrong with a process that claimed to be it
    std::int32_t questions = 0;     ///< the number of the last one
    std::int32_t matters = 0;       ///< the number of the last question whose answer is needed
    bool answered = false;          ///< has answered that question, or a later one
    Clock::time_point heard{};      ///< when it last answered
    int waits_for = -1;             ///< what it answered
    std::string complaint{};        ///< why another rank cannot reach it
    int complainant = -1;           ///< the rank that cannot reach it
    int told_by = -1;               ///< the rank that passed the complaint on
  };

  /// Why a rank is missing.
  struct Reason {
    int rank;
    std::string why;
  };

  StartupRoster(WorkerNames names, int rank)
      : names_(std::move(names)), rank_(rank), peers_(static_cast<std::size_t>(names_.size())) {}

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int world() const noexcept { return static_cast<int>(peers_.size()); }
  [[nodiscard]] const WorkerNames& names() const noexcept { return names_; }
  [[nodiscard]] Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }

  [[nodiscard]] bool is_contact(int other) const noexcept {
    return meet_at_startup(rank_, other, world());
  }

  /// Tells apart which processes have the places of a rank and its contacts. Rank 0 knows it of
  /// each rank.
  [[nodiscard]] std::uint64_t processes_around(int rank) const noexcept {
    RandomKey key(peers_.size());
    for (int other = 0; other < world(); ++other)
      if (other == rank || meet_at_startup(rank, other, world()))
        key = key.fold_in(peer(other).incarnation);
    return key.value();
  }
  [[nodiscard]] std::uint64_t processes() const noexcept { return processes_around(rank_); }

  [[nodiscard]] bool all_connected() const noexcept {
    return all_contacts([](const Peer& p) { return p.connected; });
  }
  [[nodiscard]] bool all_ready() const noexcept {
    return all_contacts([](const Peer& p) { return p.ready; });
  }

  /// Ranks that are not there yet, or silent; once all are there, ranks that are not connected to
  /// all others. Rank 0 hears this from each rank, and the others hear it from rank 0.
  [[nodiscard]] std::vector<Reason> missing(Clock::time_point now) const {
    using std::chrono::duration_cast, std::chrono::seconds;
    std::vector<Reason> result;
    for (int other = 0; other < world(); ++other) {
      const Peer& p = peer(other);
      if (!is_contact(other)) continue;
      if (p.connected) {
        if (is_silent(p, now))
          result.push_back({other, is_silent_since(duration_cast<seconds>(now - p.heard))});
        continue;
      }
      std::string why = !p.problem.empty() ? p.problem
                        : other < rank_    ? no_answer_so_far
                                           : has_not_connected;
      if (p.complainant >= 0) why += cannot_reach_it(names_(p.complainant), p.complaint);
      if (!p.turned_away.empty() && p.turned_away != p.problem)
        why += concat({"; before that it ", p.turned_away});
      result.push_back({other, std::move(why)});
    }
    if (!result.empty()) return result;
    for (int other = rank_ == 0 ? 1 : 0; other < (rank_ == 0 ? world() : 1); ++other) {
      const Peer& p = peer(other);
      if (p.ready) continue;
      if (waits_for_third(other))
        result.push_back(
            {p.waits_for, other_waits_for_it(names_(other), complaint_of(other, p.waits_for))});
      else
        result.push_back({other, lacks_connections});
    }
    return result;
  }

  /// The rank that this one waits for, for a peer that asks, or -1.
  [[nodiscard]] int first_missing(Clock::time_point now) const {
    // The first one of missing(), whose texts take long where there are many ranks.
    for (int other = 0; other < world(); ++other)
      if (is_contact(other) && (!peer(other).connected || is_silent(peer(other), now)))
        return other;
    for (int other = rank_ == 0 ? 1 : 0; other < (rank_ == 0 ? world() : 1); ++other)
      if (!peer(other).ready) return waits_for_third(other) ? peer(other).waits_for : other;
    return -1;
  }

  /// "worker 1 (b:2222): connection refused; worker 2 (c:2222): has not connected yet"
  [[nodiscard]] std::string describe_missing(Clock::time_point now) const {
    std::string text;
    for (const auto& [other, why] : missing(now))
      text += concat({text.empty() ? "" : "; ", names_(other), ": ", why});
    return text + complaint_of_this();
  }

  /// What this rank knows of ranks that cannot be reached, for the others: a line "rank complainant
  /// reason" for each. Rank 0, which is connected to all others sooner or later, passes on what it
  /// has heard.
  [[nodiscard]] std::string complaints(int to) const {
    std::string text;
    for (int other = 0; other < world() && text.size() < most_of_complaints; ++other) {
      const Peer& p = peer(other);
      if (other < rank_ && !p.connected && !p.problem.empty())
        text += concat({other, " ", rank_, " ", p.problem.substr(0, longest_complaint), "\n"});
      else if (rank_ == 0 && other != rank_ && p.complainant >= 0 && p.told_by != to)
        text += concat({other, " ", p.complainant, " ", p.complaint, "\n"});
    }
    return text;
  }

  /// Takes the complaints() of rank `from`, in place of its earlier ones.
  void hear_complaints(int from, std::string_view text) {
    for (Peer& p : peers_)
      if (p.told_by == from) p.told_by = p.complainant = -1;
    while (!text.empty()) {
      std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      const int rank = take_rank(line), complainant = take_rank(line);
      if (rank < 0 || complainant < 0 || complainant == rank_ || peer(rank).complainant >= 0)
        continue;
      peer(rank).complaint = printable(line, longest_complaint);
      peer(rank).complainant = complainant;
      peer(rank).told_by = from;
    }
  }

  [[nodiscard]] CollectiveFailure failed(int rank, std::string reason) const {
    return {.failed_rank = rank,
            .worker = names_.number(rank),
            .address = names_.address(rank),
            .reason = std::move(reason)};
  }
  [[nodiscard]] CollectiveFailure timed_out(Clock::time_point now,
                                            std::chrono::milliseconds timeout) const {
    CollectiveFailure failure;
    std::string others;
    for (const auto& [other, why] : missing(now)) {
      if (failure.failed_rank < 0) {
        failure = failed(other, why);
      } else {
        others += concat({"; ", names_(other), ": ", why});
      }
    }
    failure.reason += others + complaint_of_this() + all_must_come(timeout);
    return failure;
  }

 private:
  static constexpr std::size_t longest_complaint = 200;
  static constexpr std::size_t most_of_complaints = 1500;

  // It has let three questions pass: it hangs.
  [[nodiscard]] bool is_silent(const Peer& p, Clock::time_point now) const noexcept {
    return now - p.heard >= 3 * ask_interval();
  }
  // Neither for this rank nor for itself.
  [[nodiscard]] bool waits_for_third(int other) const noexcept {
    const int third = peer(other).waits_for;
    return third >= 0 && third < world() && third != rank_ && third != other;
  }

  // Takes a rank from the front of a line; -1 when there is none.
  [[nodiscard]] int take_rank(std::string_view& line) const noexcept {
    int rank = -1;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), rank);
    if (error != std::errc() || rank < 0 || rank >= world()) return -1;
    line.remove_prefix(std::min(line.size(), static_cast<std::size_t>(end - line.data()) + 1));
    return rank;
  }

  [[nodiscard]] std::string_view complaint_of(int complainant, int rank) const {
    const Peer& p = peer(rank);
    return p.complainant == complainant ? p.complaint : std::string_view();
  }

  [[nodiscard]] std::string complaint_of_this() const {
    const Peer& own = peer(rank_);
    if (own.complainant == rank_) return own_address_fails(names_.address(rank_), own.complaint);
    if (own.complainant < 0) return {};
    return cannot_reach_this(names_(own.complainant), own.complaint);
  }

  template <class Condition>
  [[nodiscard]] bool all_contacts(Condition condition) const noexcept {
    for (int other = 0; other < world(); ++other)
      if (is_contact(other) && !condition(peer(other))) return false;
    return true;
  }

  WorkerNames names_;
  int rank_;
  std::vector<Peer> peers_;
};

/// Any process may say once that it is rank r of this cluster, with a different configuration of
/// it. A place is **contested** while the same process keeps saying so and none comes that fits.
/// Only a lasting contest ends a start-up: workers that are configured differently keep claiming,
/// while a stranger goes away, or the true worker comes.
class StartupClaims {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr Clock::duration longest_grace = std::chrono::seconds(2);
  /// A process whose place is contested asks again after this time.
  static constexpr auto interval = std::chrono::milliseconds(200);

  StartupClaims(std::size_t ranks, std::chrono::milliseconds startup_timeout)
      : grace_(std::min<Clock::duration>(longest_grace, startup_timeout / 4)), claims_(ranks) {}

  /// A caller claims the place of `rank`. Returns whether the place has been contested for long
  /// enough to end the start-up.
  [[nodiscard]] bool ends_for_callee(int rank, std::uint64_t incarnation, Clock::time_point now) {
    return contested(rank, incarnation, now) >= grace_;
  }

  /// The process at the address of `rank` has refused this worker; with `verdict` it says that it
  /// ends for that reason, which counts only if that process has been there for a while. Returns
  /// whether that ends the start-up.
  [[nodiscard]] bool ends_for_caller(int rank, std::uint64_t incarnation, bool verdict,
                                     Clock::time_point now) {
    const auto time = contested(rank, incarnation, now);
    return time >= 2 * grace_ || (verdict && time >= grace_ / 2);
  }

  /// A process that fits has the place.
  void settle(int rank) noexcept { claims_[static_cast<std::size_t>(rank)].reset(); }

 private:
  struct Claim {
    std::uint64_t incarnation;
    Clock::time_point since;
    Clock::time_point last;
  };

  Clock::duration contested(int rank, std::uint64_t incarnation, Clock::time_point now) {
    std::optional<Claim>& claim = claims_[static_cast<std::size_t>(rank)];
    if (!claim || claim->incarnation != incarnation || now - claim->last > longest_grace)
      claim = Claim{incarnation, now, now};
    claim->last = now;
    return now - claim->since;
  }

  Clock::duration grace_;
  std::vector<std::optional<Claim>> claims_;  // by rank
};

/// Where the connections to a peer have their place once they stand. They have numbers: the one for
/// control, and those for data. All of them lead to one process of the peer, the one whose
/// connection for control stands. `Connection` is a pointer to something with the `incarnation` of
/// the process on the other side.
template <class Connection>
struct StartupPlace {
  static constexpr std::size_t control_link = 0;
  static constexpr std::size_t first_data_link = 1;

  /// How long two processes may contend for a place, and how often one asks.
  static constexpr auto contest_interval = std::chrono::milliseconds(200);
  static constexpr auto contest_timeout = std::chrono::seconds(2);

  enum class Contest {
    goes_on,   ///< the older process has not answered yet
    prevails,  ///< the guest has the place: the older process is gone, or silent
    twins,     ///< both are there
  };

  explicit StartupPlace(std::size_t count) : links(count) {}

  [[nodiscard]] const Connection& control() const noexcept { return links[control_link]; }
  [[nodiscard]] bool is_complete() const noexcept {
    return std::find(links.begin(), links.end(), nullptr) == links.end();
  }
  /// Whether another process than this one has it.
  [[nodiscard]] bool is_anothers(std::uint64_t incarnation) const noexcept {
    return control() != nullptr && control()->incarnation != incarnation;
  }

  /// A guest has contended for the place for so long; the process that has it has been asked, and
  /// has answered since or not.
  [[nodiscard]] Contest contest(std::uint64_t guest, bool has_answered,
                                std::chrono::steady_clock::duration time) const noexcept {
    if (!is_anothers(guest)) return Contest::prevails;
    if (has_answered) return Contest::twins;
    return time >= contest_timeout ? Contest::prevails : Contest::goes_on;
  }

  /// The connection gets its place. Calls drop(link, connection) for the one that had it, and for
  /// all of another process.
  template <class Drop>
  void put(std::size_t link, const Connection& connection, Drop drop) {
    if (const Connection former = std::exchange(links[link], connection)) drop(link, former);
    for (std::size_t other = 0; other < links.size(); ++other)
      if (links[other] != nullptr && links[other]->incarnation != connection->incarnation)
        drop(other, std::exchange(links[other], nullptr));
  }

  std::vector<Connection> links;  ///< null while it does not stand
};

/// What is said on the control connections during start-up: rank 0 hears from all others when they
/// are **ready**, connected to all their contacts, and then tells them to **go**. In the meantime
/// each rank is asked whether it is there, and for which rank it waits.
///
/// A process may be started again at any moment, and connects anew to some ranks sooner than to
/// others. So both words say which processes are meant (StartupRoster::processes): rank 0 waits
/// until all others are connected to the same ones as itself, and a rank that hears go is not done
/// while it is connected to others than rank 0 was.
///
/// Rank 0 is at work when it has said go, and of many ranks it has a connection with few. So a rank
/// that hears go when it has lost a contact may be the only one that knows: it gives the contact
/// some time to connect again, if only their connection broke, and then gives up and tells all.
class StartupAgreement {
 public:
  using Clock = StartupRoster::Clock;
  /// Does nothing when there is no connection.
  using Send = std::function<void(int to, const ControlFrame& frame, std::string_view text)>;

  enum class Taken {
    all,      ///< all of it was taken, and more is welcome
    enough,   ///< what follows is for later, as the start-up ends
    garbage,  ///< the peer has sent something that is no control frame
  };

  StartupAgreement(StartupRoster& roster, Send send)
      : roster_(roster),
        send_(std::move(send)),
        inboxes_(static_cast<std::size_t>(roster.world())) {}

  /// Whether rank 0's go has been said and heard: all ranks go.
  [[nodiscard]] bool is_reached() const noexcept { return reached_; }
  /// Why this rank gives up: by a peer's report, or as it has lost a peer for good.
  [[nodiscard]] const std::optional<CollectiveFailure>& aborted() const noexcept {
    return aborted_;
  }
  /// Whether a contact may not have heard that: all but the one that told it, which may not be
  /// connected to the others yet. A rank that hears it twice ignores it.
  [[nodiscard]] bool is_news_for(int other) const noexcept {
    return aborted_ && roster_.is_contact(other) && other != told_by_;
  }
  /// What has come from a peer; at the end, what is for later.
  [[nodiscard]] ControlInbox& inbox(int peer) { return inboxes_[static_cast<std::size_t>(peer)]; }

  /// There is a new control connection to a peer.
  void begin(int other, Clock::time_point now) {
    inbox(other) = {};
    later_[static_cast<std::size_t>(other)].clear();
    if (other == 0) forget_rank_0();
    StartupRoster::Peer& peer = roster_.peer(other);
    auto& met = met_[static_cast<std::size_t>(other)];
    if (met && *met != peer.incarnation) replaced_ = other;
    met = peer.incarnation;
    peer.ready = false;
    said_ready_[static_cast<std::size_t>(other)].reset();
    peer.heard = now;
    peer.waits_for = -1;
  }
  /// The control connection to a peer is closed.
  void lose(int other) {
    roster_.peer(other).ready = false;
    said_ready_[static_cast<std::size_t>(other)].reset();
    if (other == 0) forget_rank_0();
  }

  [[nodiscard]] Taken take(int from, std::string_view bytes, Clock::time_point now) {
    inbox(from).append(bytes);
    for (auto message = inbox(from).front(); message; message = inbox(from).front()) {
      if (!handle(from, *message, now)) {
        if (aborted_) return Taken::enough;
        // A report may come after it.
        const FrameBytes frame = message->frame.encode();
        std::string& later = later_[static_cast<std::size_t>(from)];
        later.append(reinterpret_cast<const char*>(frame.data()), frame.size());
        later += message->text;
      }
      inbox(from).pop();
      if (may_go()) return Taken::enough;  // else rank 0 may still give up
    }
    return inbox(from).is_broken() ? Taken::garbage : Taken::all;
  }

  /// To be called when something has changed, and while no guest contends for a place.
  void consider() {
    if (reached_ || !roster_.all_connected()) return;
    if (roster_.rank() != 0) {
      const std::uint64_t processes = roster_.processes();
      if (ready_sent_ != processes) say(0, ControlFrame::Type::ready, processes);
      ready_sent_ = processes;
      if (may_go()) reach();
      return;
    }
    for (int other = 1; other < roster_.world(); ++other) {
      const auto& said = said_ready_[static_cast<std::size_t>(other)];
      roster_.peer(other).ready = said && *said == roster_.processes_around(other);
    }
    if (!roster_.all_ready()) return;
    for (int other = 1; other < roster_.world(); ++other)
      say(other, ControlFrame::Type::go, roster_.processes_around(other));
    reach();
  }

  /// When to look whether a contact is lost for good.
  [[nodiscard]] Clock::time_point due() const noexcept { return due_; }
  /// To be called then: gives up if so.
  void look_for_lost(Clock::time_point now) {
    if (reached_ || aborted_ || now < due_) return;
    due_ = now + patience;  // a guest contends for a place, perhaps
    const int lost = lost_after_go();
    if (lost < 0) return;
    aborted_ = roster_.failed(lost, was_lost_at_the_beginning);
  }

  void ask(int other) {
    send_(other, {.type = ControlFrame::Type::probe, .extra = ++roster_.peer(other).questions}, {});
  }
  /// Asks, and the answer matters: an earlier one may still be on its way from a process that has
  /// ended since.
  void ask_whether_it_lives(int other) {
    StartupRoster::Peer& peer = roster_.peer(other);
    ask(other);
    peer.matters = peer.questions;
    peer.answered = false;
  }

  /// Ready or go, and of which processes that is said: 64 bits in two numbers.
  [[nodiscard]] static ControlFrame about(ControlFrame::Type type, std::uint64_t processes) {
    return {.type = type,
            .value = static_cast<std::int32_t>(static_cast<std::uint32_t>(processes)),
            .extra = static_cast<std::int32_t>(static_cast<std::uint32_t>(processes >> 32))};
  }
  [[nodiscard]] static std::uint64_t processes_of(const ControlFrame& frame) {
    return static_cast<std::uint32_t>(frame.value) |
           std::uint64_t{static_cast<std::uint32_t>(frame.extra)} << 32;
  }

  /// What to tell the others of the failure that ends this rank's start-up; its text follows.
  [[nodiscard]] ControlFrame report(const Error& error, std::string_view text) const {
    const auto* lost = dynamic_cast<const CollectiveError*>(&error);
    return {.type = ControlFrame::Type::abort,
            .value = lost != nullptr ? lost->failed_rank() : roster_.rank(),
            .extra = static_cast<std::int32_t>(error.exit_code()),
            .length = static_cast<std::uint32_t>(text.size())};
  }

 private:
  // Enough to connect again, and for a contest (see StartupPlace).
  static constexpr auto patience = std::chrono::seconds(3);

  void say(int to, ControlFrame::Type type, std::uint64_t processes) {
    send_(to, about(type, processes), {});
  }

  void reach() {
    reached_ = true;
    for (std::size_t other = 0; other < inboxes_.size(); ++other)
      inboxes_[other].prepend(std::exchange(later_[other], {}));
  }

  void forget_rank_0() {
    ready_sent_.reset();
    go_.reset();
    due_ = Clock::time_point::max();
  }
  // Rank 0 has said so, of those that this rank is connected to.
  [[nodiscard]] bool may_go() const {
    return go_ && roster_.all_connected() && *go_ == roster_.processes();
  }
  // The contact without which rank 0's go cannot be followed; -1 if there is none. Rank 0 has said
  // it of processes that this rank was connected to: where they are others now, the one that was
  // replaced last is among those that are gone.
  [[nodiscard]] int lost_after_go() const {
    if (!go_) return -1;
    for (int other = 0; other < roster_.world(); ++other)
      if (roster_.is_contact(other) && !roster_.peer(other).connected) return other;
    return *go_ == roster_.processes() ? -1 : replaced_;
  }

  // Returns false when the message belongs to the time after the start-up, or ends that.
  [[nodiscard]] bool handle(int from, const ControlInbox::Message& message, Clock::time_point now) {
    StartupRoster::Peer& peer = roster_.peer(from);
    switch (message.frame.type) {
      case ControlFrame::Type::ready:
        if (roster_.rank() != 0) return false;
        said_ready_[static_cast<std::size_t>(from)] = processes_of(message.frame);
        peer.ready = true;
        return true;
      case ControlFrame::Type::go:
        if (from != 0) return false;
        go_ = processes_of(message.frame);
        due_ = now + patience;
        return true;
      case ControlFrame::Type::probe:
        answer(from, message.frame.extra, now);
        return true;
      case ControlFrame::Type::waiting:
        peer.answered = peer.answered || message.frame.extra >= peer.matters;
        peer.heard = now;
        peer.waits_for = message.frame.value;
        roster_.hear_complaints(from, message.text);
        return true;
      case ControlFrame::Type::abort:
        give_up(from, message);
        return false;
      case ControlFrame::Type::goodbye:
      case ControlFrame::Type::farewell:
      case ControlFrame::Type::doubt:
      case ControlFrame::Type::vote:
      case ControlFrame::Type::relayed:
        break;
    }
    return false;
  }

  void answer(int to, std::int32_t question, Clock::time_point now) {
    const std::string text = roster_.complaints(to);
    send_(to,
          {.type = ControlFrame::Type::waiting,
           .value = roster_.first_missing(now),
           .extra = question,
           .length = static_cast<std::uint32_t>(text.size())},
          text);
  }

  void give_up(int from, const ControlInbox::Message& message) {
    if (aborted_) return;
    const int value = message.frame.value;
    told_by_ = from;
    aborted_ = roster_.failed(
        value >= 0 && value < roster_.world() ? value : from,
        message.text.empty() ? gave_up : printable(message.text, ControlFrame::longest));
    aborted_->code = failure_code(message.frame.extra);
  }

  StartupRoster& roster_;
  Send send_;
  std::vector<ControlInbox> inboxes_;  // by rank
  // Messages for later, by rank, from ranks whose start-up is over.
  std::vector<std::string> later_ = std::vector<std::string>(inboxes_.size());
  std::optional<CollectiveFailure> aborted_;
  int told_by_ = -1;
  // Of which processes: what each rank has said to rank 0, this rank to rank 0, and rank 0.
  std::vector<std::optional<std::uint64_t>> said_ready_ =
      std::vector<std::optional<std::uint64_t>>(inboxes_.size());
  std::optional<std::uint64_t> ready_sent_;
  std::optional<std::uint64_t> go_;
  Clock::time_point due_ = Clock::time_point::max();
  // The process that each rank had last, and the rank that had another before, most recently.
  std::vector<std::optional<std::uint64_t>> met_ =
      std::vector<std::optional<std::uint64_t>>(inboxes_.size());
  int replaced_ = -1;
  bool reached_ = false;
};

}}}  // namespace lockstep::detail
