#pragma once

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/collectives/world.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/thread.hpp"
#include "lockstep/extra/elastic/formation.hpp"
#include "lockstep/extra/elastic/membership.hpp"
#include "lockstep/net/descriptor.hpp"
#include "lockstep/net/listener.hpp"
#include "lockstep/net/rare_log.hpp"
#include "lockstep/net/socket.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "lockstep/strategies/multi_worker_options.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// What is wrong with a claim that does not fit this process's place in the cluster.
template <class Claim, class Place>
[[nodiscard, gnu::cold]] std::string difference(const Claim& claim, const Place& own) {
  const auto text = [](const auto& place) {
    return concat({"worker ", place.slot, " of ", place.slots, ", with min_workers ",
                   place.min_workers, place.build.empty() ? "" : ", ", place.build});
  };
  return claims_to_be(text(claim), concat({"; this is ", text(own)}));
}

/// Names are looked up and ports are called without end, while the thread that talks goes on. All
/// calls from any thread.
class FormationCallers {
 public:
  using Clock = std::chrono::steady_clock;
  struct Reached {
    int slot;
    Descriptor socket;
  };

  /// `news` is woken for each that is reached.
  FormationCallers(std::vector<std::string> addresses, WakePipe& news)
      : addresses_(std::move(addresses)), news_(news), wanted_(addresses_.size()) {
    const SignalMask mask;
    thread_ = start_thread("calls to the other workers", [this] { call(); });
  }
  FormationCallers(const FormationCallers&) = delete;
  FormationCallers& operator=(const FormationCallers&) = delete;
  ~FormationCallers() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// Which slots to call, from now on.
  void want(std::vector<char> slots) {
    const std::lock_guard lock(mutex_);
    if (slots == wanted_) return;
    wanted_ = std::move(slots);
    changed_.notify_all();
  }
  [[nodiscard]] std::vector<Reached> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reached_, {});
  }

 private:
  static constexpr std::chrono::milliseconds patience{500}, interval{100};
  static constexpr std::chrono::seconds rest{3};  // after a call without an answer

  void call() {
    std::vector<Clock::time_point> next(addresses_.size());
    std::unique_lock lock(mutex_);
    while (!stops_) {
      for (std::size_t slot = 0; slot < addresses_.size() && !stops_; ++slot) {
        if (wanted_[slot] == 0 || Clock::now() < next[slot]) continue;
        lock.unlock();
        const auto begin = Clock::now();
        Descriptor socket = call(addresses_[slot]);
        const bool was_silent = !socket.is_open() && Clock::now() - begin >= patience;
        // (What is reached may be another program, which hangs up at once.)
        next[slot] = Clock::now() + (was_silent ? rest : interval);
        lock.lock();
        if (!socket.is_open() || wanted_[slot] == 0) continue;
        wanted_[slot] = 0;
        reached_.push_back({static_cast<int>(slot), std::move(socket)});
        news_.wake();
      }
      const bool is_idle = std::ranges::all_of(wanted_, [](char each) { return each == 0; });
      if (stops_) return;
      if (is_idle)
        changed_.wait(lock);
      else
        changed_.wait_for(lock, interval);
    }
  }

  [[nodiscard]] static Descriptor call(const std::string& text) {
    std::string why;
    const Address address = parse_address(text);
    return call_host(address.host, address.port, patience, Clock::time_point::max(), why);
  }

  const std::vector<std::string> addresses_;
  WakePipe& news_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<char> wanted_;  // by slot
  std::vector<Reached> reached_;
  bool stops_ = false;
  std::thread thread_;
};

/// Owns the sockets. The thread that talks holds the lock but while it waits.
class Membership final : public Worlds {
 public:
  using Clock = std::chrono::steady_clock;
  using Phase = Formation::Phase;

  Membership(int slot, const std::vector<std::string>& addresses, const ElasticOptions& elastic,
             const CommunicationOptions& options, const std::string& build)
      : slot_(slot),
        own_(addresses[static_cast<std::size_t>(slot)]),
        elastic_(elastic),
        options_(options),
        secret_(ClusterSecret::given_or_from_environment({})),
        settings_(TlsSettings::chosen(options, slot)),
        tls_(read_tls()),
        formation_({.slot = slot,
                    .slots = static_cast<int>(addresses.size()),
                    .min_workers = elastic.min_workers,
                    .wait = elastic.wait,
                    .patience = options.startup_timeout,
                    .build = build},
                   std::uint64_t{std::random_device{}()} << 32 | std::random_device{}()),
        guests_(ListeningSocket(listen(own_, options)), static_cast<int>(addresses.size())),
        by_slot_(addresses.size()),
        called_(addresses.size()),
        callers_(addresses, wake_) {
    const SignalMask mask;
    thread_ = start_thread("talks with the other workers", [this] { serve(); });
  }
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
  ~Membership() override {
    stops_ = true;
    wake_.wake();
    thread_.join();
  }

  /// Leaves the world, if there is one, and waits until the next one is formed, with this process
  /// in it. Opens a port for its members, kept in `port`. Throws CollectiveError, exit code 138,
  /// when too few come.
  void form(const std::shared_ptr<KeptPort>& port) override {
    auto tls = read_tls();  // certificates may have been renewed
    // Each world has its ports: a process that still calls members of an older one reaches none.
    const int own_port = open_free_port(parse_address(own_).host, options_.bind_address, *port);
    const std::string address = concat({own_.substr(0, own_.rfind(':') + 1), own_port});
    const auto begin = Clock::now();
    std::unique_lock lock(mutex_);
    tls_ = std::move(tls);
    formation_.begin(address, begin);
    newcomer_ = false;
    wake_.wake();
    differs_.clear();
    const auto is_over = [&] {
      return formation_.phase() != Phase::forming || !failure_.empty() || !differs_.empty();
    };
    while (!changed_.wait_for(lock, report_interval, is_over)) {
      const std::string text = formation_.waiting(Clock::now());
      lock.unlock();
      log_line(concat({"start-up: ", waits_for_others(slot_, own_, text)}));
      lock.lock();
    }
    if (!failure_.empty()) throw Error(concat({"the thread that talks with others: ", failure_}));
    if (!differs_.empty()) throw ConfigurationError(differs_);
    if (formation_.phase() == Phase::failed)
      throw CollectiveError({.operation = "start-up",
                             .seconds = std::chrono::duration<double>(Clock::now() - begin).count(),
                             .reason = forms_no_world + formation_.problem()});
    world_ = formation_.world();
    addresses_ = formation_.addresses();
  }

  /// All members of world() are connected.
  void works() override {
    const std::lock_guard lock(mutex_);
    formation_.works(Clock::now());
  }

  /// The last one that was formed, and its members' addresses by rank. Not while form() is under
  /// way.
  [[nodiscard]] const World& world() const noexcept override { return world_; }
  [[nodiscard]] const std::vector<std::string>& addresses() const noexcept override {
    return addresses_;
  }
  [[nodiscard]] std::string description() const override {
    return concat({"world ", world_.epoch, ": workers ", world_.members(), " (",
                   world_.slots.size(), " of ", called_.size(), ")"});
  }
  [[nodiscard]] int slot() const noexcept override { return slot_; }
  [[nodiscard]] std::chrono::milliseconds wait() const noexcept override { return elastic_.wait; }
  [[nodiscard]] bool has_newcomer() const noexcept override { return newcomer_; }
  [[nodiscard]] bool is_successor() const noexcept override { return world_.epoch > 1; }
  [[nodiscard]] int workers_of_batch() const noexcept override {
    return elastic_.global_batch == GlobalBatch::follows_world ? static_cast<int>(called_.size())
                                                               : 0;
  }
  [[nodiscard]] EncodeState encode_state() const noexcept override { return &encode_checkpoint; }
  [[nodiscard]] DecodeState decode_state() const noexcept override { return &decode_checkpoint; }

 private:
  /// The process that had this place may be about to end, and is waited for.
  static Descriptor listen(const std::string& address, const CommunicationOptions& options) {
    const Address own = parse_address(address);
    return listen_on_own({own.port, address}, own.host, options.bind_address,
                         options.startup_timeout);
  }

  using Talk = FormationTalk;
  using Guest = Guests<Talk>::Guest;
  using Message = FormationMessage;

  /// Within which a caller says which process it is.
  static constexpr std::chrono::seconds introduction{10};

  struct Called {
    std::unique_ptr<Talk> talk;
    Clock::time_point since;
    bool has_answered = false;
  };

  /// A certificate is for a place in the configured cluster: in a world, ranks are other numbers.
  [[nodiscard]] std::shared_ptr<const TlsContext> read_tls() const {
    return TlsContext::make(settings_, secret_, slot_);
  }
  /// The settings for a new call: certificates may have been renewed meanwhile. Null: no TLS.
  [[nodiscard]] std::shared_ptr<const TlsContext> renewed_tls() {
    if (settings_.tls != Tls::certificates || Clock::now() < next_reading_) return nullptr;
    next_reading_ = Clock::now() + std::chrono::seconds(1);
    try {
      return read_tls();
    } catch (const Error&) {  // they are just being written; or form() will say what is wrong
      return nullptr;
    }
  }

  // --- the thread --------------------------------------------------------------------------------

  void serve() {
    try {
      serve_until_stopped();
    } catch (const std::exception& error) {  // out of memory, for example
      const std::lock_guard lock(mutex_);
      failure_ = error.what();
      changed_.notify_all();
    }
  }

  void serve_until_stopped() {
    std::vector<pollfd> watched;
    std::unique_lock lock(mutex_);
    while (!stops_) {
      watched.assign({{wake_.descriptor(), POLLIN, 0}});
      guests_.watch(watched);
      for (const Called& called : called_)
        if (called.talk) watched.push_back({called.talk->descriptor(), called.talk->events(), 0});
      lock.unlock();
      ::poll(watched.data(), watched.size(), 100);
      wake_.drain();
      auto renewed = watched[1].revents != 0 ? renewed_tls() : nullptr;
      lock.lock();
      if (renewed != nullptr) tls_ = std::move(renewed);
      const bool at_work = formation_.phase() == Phase::at_work;
      const int accepted = guests_.accept(tls_, secret_, at_work ? 2 : 16);
      for (auto& [slot, socket] : callers_.take()) meet(slot, std::move(socket));
      const auto now = Clock::now();
      for (Guest& guest : guests_.all()) hear(guest, now);
      for (std::size_t slot = 0; slot < called_.size(); ++slot)
        if (called_[slot].talk) hear(static_cast<int>(slot), called_[slot], now);
      formation_.advance(now);
      deliver();
      guests_.all().remove_if([](const Guest& guest) { return guest.leaves; });
      call_or_hang_up();
      newcomer_ = formation_.has_newcomer(now);
      if (formation_.phase() != Phase::forming) changed_.notify_all();
      if (!at_work || accepted == 0) continue;
      lock.unlock();  // a hundred calls a second: each may cost a handshake, and work goes on
      ::poll(nullptr, 0, 20);
      lock.lock();
    }
  }

  [[nodiscard]] Guest*& guest_at(int slot) { return by_slot_[static_cast<std::size_t>(slot)]; }

  void deliver() {
    for (const auto& letter : formation_.take_letters()) {
      const auto slot = static_cast<std::size_t>(letter.to);
      if (!letter.is_answer && called_[slot].talk)
        called_[slot].talk->say(letter.message);
      else if (letter.is_answer && guest_at(letter.to) != nullptr)
        guest_at(letter.to)->talk.say(letter.message);
    }
  }

  void hear(Guest& guest, Clock::time_point now) {
    if (guest.leaves) return;
    for (const Message& message : guest.talk.hear()) {
      if (guest.place < 0) introduce(guest, message, now);
      if (guest.leaves) return;
      if (guest.place >= 0) formation_.hear_guest(guest.place, message, now);
    }
    if (!guest.talk.problem().empty())
      refusals_.turned_away("start-up: ", guest.ip, guest.talk.problem(), now);
    if (guest.talk.is_open() && (guest.place >= 0 || now - guest.since < introduction)) return;
    leave(guest, now);
  }
  void leave(Guest& guest, Clock::time_point now) {
    guest.leaves = true;
    if (guest.place < 0) return;
    guest_at(guest.place) = nullptr;
    formation_.lose_guest(std::exchange(guest.place, -1), now);
  }

  // A later process takes the place of the one before it, which has ended.
  void introduce(Guest& guest, const Message& message, Clock::time_point now) {
    const auto& own = formation_.place();
    const bool claims = message.kind == Message::Kind::claim;
    const std::string denial = claims ? guest.talk.denies(message.slot) : std::string();
    if (!denial.empty() || !claims || message.slot == own.slot || message.slot >= own.slots ||
        message.slots != own.slots || message.min_workers != own.min_workers ||
        message.build != own.build) {
      refusals_.turned_away("start-up: ", guest.ip,
                            denial.empty() ? difference(message, own) : denial, now);
      guest.leaves = true;
      return;
    }
    Guest*& known = guest_at(message.slot);
    if (known != nullptr) leave(*known, now);
    guest.place = message.slot;
    known = &guest;
  }

  void meet(int slot, Descriptor socket) {
    Called& called = called_[static_cast<std::size_t>(slot)];
    if (formation_.phase() != Phase::forming || called.talk) return;
    auto tls = TlsSession::call(tls_, socket.get(), slot);
    called = {.talk = std::make_unique<Talk>(std::move(socket), std::move(tls), secret_,
                                             Talk::Side::caller),
              .since = Clock::now()};
  }

  void hear(int slot, Called& called, Clock::time_point now) {
    for (const Message& message : called.talk->hear()) {
      if (!std::exchange(called.has_answered, true)) formation_.reached(slot, now);
      formation_.hear_called(slot, message, now);
    }
    if (!called.talk->problem().empty())
      complaints_.line(concat({"start-up: worker ", slot, " ", called.talk->problem()}),
                       LogLevel::info, now);
    if (called.talk->is_fixed() && !secret_.is_set()) {  // with a secret it would have to prove it
      differs_ = concat({"start-up: worker ", slot, " ", called.talk->problem(),
                         ": give all workers the same options"});
      changed_.notify_all();
    }
    if (called.talk->is_open() && (called.has_answered || now - called.since < introduction))
      return;
    hang_up(slot, called);
  }
  void hang_up(int slot, Called& called) {
    called = {};
    formation_.lose_called(slot);
  }

  // Only a process that is forming a world calls others.
  void call_or_hang_up() {
    const bool forms = formation_.phase() == Phase::forming;
    std::vector<char> wanted(called_.size());
    for (std::size_t slot = 0; slot < called_.size(); ++slot) {
      if (!forms && called_[slot].talk) hang_up(static_cast<int>(slot), called_[slot]);
      wanted[slot] = forms && static_cast<int>(slot) != slot_ && !called_[slot].talk;
    }
    callers_.want(std::move(wanted));
  }

  const int slot_;
  const std::string own_;  // address
  const ElasticOptions elastic_;
  const CommunicationOptions options_;
  const ClusterSecret secret_;
  const TlsSettings settings_;
  std::shared_ptr<const TlsContext> tls_;
  Clock::time_point next_reading_{};
  WakePipe wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Formation formation_;
  World world_;  // that was formed last
  std::vector<std::string> addresses_;
  Guests<Talk> guests_;
  std::vector<Guest*> by_slot_;  // that have claimed a slot; null: none has
  std::vector<Called> called_;   // by slot
  std::atomic<bool> newcomer_ = false;
  std::atomic<bool> stops_ = false;
  std::string failure_;  // of the thread
  std::string differs_;  // another worker has no elastic job
  RareLog complaints_, refusals_;
  FormationCallers callers_;
  std::thread thread_;
};

LOCKSTEP_INLINE std::unique_ptr<Worlds> join_worlds(int slot,
                                                    const std::vector<std::string>& addresses,
                                                    const ElasticOptions& elastic,
                                                    const CommunicationOptions& options,
                                                    const std::string& build) {
  elastic.validate(static_cast<int>(addresses.size()));
  options.validate();
  return std::make_unique<Membership>(slot, addresses, elastic, options, build);
}

class MembershipCode final : public ElasticCode {
 public:
  explicit MembershipCode(const ElasticOptions& options) : options_(options) {}

  void check(const Cluster& cluster) const override {
    if (cluster.meeting)
      throw ConfigurationError(
          concat({"MultiWorkerMirroredOptions::elastic needs the addresses of all workers, and ",
                  cluster.source, " names that of rank 0 alone: give them in TF_CONFIG"}));
    options_.validate(cluster.world_size());
  }
  [[nodiscard]] std::unique_ptr<Worlds> join(const Cluster& cluster,
                                             const CommunicationOptions& options,
                                             const std::string& build) const override {
    return join_worlds(cluster.rank(), cluster.addresses(), options_, options, build);
  }

 private:
  ElasticOptions options_;
};

}  // namespace detail

LOCKSTEP_INLINE Elastic::Elastic(const ElasticOptions& options)
    : code_(std::make_shared<const detail::MembershipCode>(options)) {}

}}  // namespace lockstep
