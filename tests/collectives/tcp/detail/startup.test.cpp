// Who may join, and who cannot keep the workers from finding each other. (More of the start-up:
// tcp.test.cpp.)
//
// (One file of more than 800 lines: all cases call a start-up through the same guests, which may
// send anything, and local clusters.)
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "collectives/harness.hpp"
#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/handshake.hpp"
#include "lockstep/net/listener.hpp"
#include "support/call_port.hpp"
#include "support/messages.hpp"
#include "support/process.hpp"
#include "support/sanitizer.hpp"
#include "support/skip.hpp"

using namespace lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void join(const Rendezvous& place, const CommunicationOptions& options = patient_options()) {
  auto ring = Ring<Tcp>::connect(place, options);
  std::vector<float> values{1};
  ring.all_reduce(std::span(values));
  CHECK(values[0] == static_cast<float>(ring.size()));
  ring.close();
}

/// A connection to a worker's port.
class Guest {
 public:
  /// Tries again while no process listens there, for 10 s unless told otherwise.
  explicit Guest(std::uint16_t port, int attempts = 1000) {
    for (int attempt = 0; attempt < attempts; ++attempt) {
      socket_ = call_port(port);
      if (socket_.is_open()) break;
      std::this_thread::sleep_for(10ms);
    }
    limit_time();
  }
  /// The next one that comes to a port.
  [[nodiscard]] static Guest of(const Listener& port) {
    return Guest(Accepted{::accept4(port.descriptor(), nullptr, nullptr, SOCK_CLOEXEC)});
  }

  /// Returns whether the worker still takes it.
  bool say(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t n = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  /// At most `most` bytes; nothing when the worker has closed the connection.
  [[nodiscard]] std::string hear(std::size_t most = 4096) const {
    std::string bytes(most, '\0');
    const ssize_t n = ::recv(socket_.get(), bytes.data(), most, 0);
    bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return bytes;
  }
  /// Closes this side's direction.
  void end() const { ::shutdown(socket_.get(), SHUT_WR); }
  /// All until the worker closes the connection.
  [[nodiscard]] std::string hear_all() const {
    std::string all;
    for (std::string piece; !(piece = hear()).empty();) all += piece;
    return all;
  }

  /// What the worker says next, and the text after it.
  [[nodiscard]] detail::ControlFrame hear_frame(std::string& text) const {
    const std::string head = hear_exactly(detail::frame_bytes);
    detail::FrameBytes bytes{};
    std::copy_n(reinterpret_cast<const std::byte*>(head.data()),
                std::min(head.size(), bytes.size()), bytes.begin());
    detail::ControlFrame frame;
    REQUIRE(detail::ControlFrame::decode(bytes, frame));
    text = hear_exactly(frame.length);
    return frame;
  }
  /// The next frame of a type.
  [[nodiscard]] detail::ControlFrame hear_frame(detail::ControlFrame::Type type) const {
    std::string text;
    for (;;)
      if (const auto frame = hear_frame(text); frame.type == type) return frame;
  }
  void say_frame(const detail::ControlFrame& frame) const {
    const detail::FrameBytes bytes = frame.encode();
    say({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

 private:
  struct Accepted {
    int socket;
  };
  explicit Guest(Accepted accepted) : socket_(accepted.socket) { limit_time(); }

  void limit_time() const {
    const timeval limit{10, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }
  [[nodiscard]] std::string hear_exactly(std::size_t count) const {
    std::string bytes;
    while (bytes.size() < count) {
      const std::string more = hear(count - bytes.size());
      if (more.empty()) break;
      bytes += more;
    }
    return bytes;
  }

  detail::Descriptor socket_;
};

/// How a handshake with a worker ends.
detail::Handshake::Outcome agree(const Guest& guest, detail::Handshake handshake) {
  for (;;) {
    const std::string bytes(handshake.out());
    if (!bytes.empty()) guest.say(bytes);
    handshake.sent(bytes.size());
    if (handshake.outcome() != detail::Handshake::Outcome::open) return handshake.outcome();
    const std::string heard = guest.hear(handshake.wanted());
    if (heard.empty()) return detail::Handshake::Outcome::open;
    handshake.take(heard);
  }
}

/// Calls rank 0, for control.
detail::Handshake::Outcome introduce(const Guest& guest, const detail::Hello& mine,
                                     const std::string& secret, std::string& said) {
  auto handshake = detail::Handshake::caller(mine, detail::ClusterSecret(secret), 0,
                                             detail::Hello::Channel::control);
  while (handshake.outcome() == detail::Handshake::Outcome::open) {
    const std::string bytes(handshake.out());
    guest.say(bytes);
    said += bytes;
    handshake.sent(bytes.size());
    const std::string heard = guest.hear(handshake.wanted());
    if (heard.empty()) break;
    handshake.take(heard);
  }
  return handshake.outcome();
}

/// Has the port of `listener` for a while: accepts this many connections, hears what comes first on
/// each, sends `answer`, and closes it.
void answer_guests(int listener, int count, const std::string& answer) {
  while (count > 0) {
    pollfd ready{listener, POLLIN, 0};
    REQUIRE(::poll(&ready, 1, 10'000) == 1);
    const int guest = ::accept(listener, nullptr, nullptr);
    if (guest < 0) continue;
    char heard[4096];
    CHECK(::recv(guest, heard, sizeof heard, 0) > 0);
    (void)!::send(guest, answer.data(), answer.size(), MSG_NOSIGNAL);
    ::close(guest);
    --count;
  }
}

std::uint16_t port_of(const std::string& address) { return parse_address(address).port; }

struct Times {
  std::chrono::milliseconds startup = 60s;
  std::chrono::milliseconds timeout = 60s;
};

std::unique_ptr<Process> start_rank(int rank, const std::vector<std::string>& addresses,
                                    const char* mode, Times times = {},
                                    const Environment& environment = {}) {
  std::vector<std::string> command{test_program("collectives_rank"), std::to_string(rank),
                                   std::to_string(times.startup.count()),
                                   std::to_string(times.timeout.count()), mode};
  command.insert(command.end(), addresses.begin(), addresses.end());
  return std::make_unique<Process>(command, environment);
}

/// "address:port", in hexadecimal as the kernel shows them, of the sockets on which a process
/// listens.
std::vector<std::string> listening_sockets(pid_t process) {
  const std::filesystem::path folder = "/proc/" + std::to_string(process);
  std::set<std::string> own;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "fd", ignored))
    own.insert(std::filesystem::read_symlink(entry, ignored).string());
  std::vector<std::string> result;
  for (const char* table : {"net/tcp", "net/tcp6"}) {
    std::ifstream lines(folder / table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::array<std::string, 10> word;
      for (std::string& w : word) words >> w;
      if (word[3] == "0A" && own.contains("socket:[" + word[9] + "]")) result.push_back(word[1]);
    }
  }
  return result;
}

/// As a worker with usual options introduces itself.
detail::Hello hello_of_rank_1(const LocalCluster& cluster) {
  Rendezvous like_others;
  add_properties(like_others, patient_options(), "Ring");
  detail::Hello hello;
  hello.from = 1;
  hello.incarnation = 1;
  hello.addresses = cluster.addresses;
  hello.properties = like_others.properties;
  return hello;
}

}  // namespace

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL

TEST_SUITE("tcp start-up, with a secret") {
  const std::string secret = "correct horse battery staple";

  std::vector<Rendezvous> places_with(LocalCluster & cluster,
                                      const std::vector<std::string>& secrets) {
    std::vector<Rendezvous> places;
    for (std::size_t rank = 0; rank < secrets.size(); ++rank) {
      places.push_back(cluster.place(static_cast<int>(rank)));
      places.back().secret = secrets[rank];
    }
    return places;
  }

  TEST_CASE("workers that share it find each other") {
    LocalCluster cluster(3);
    const auto places = places_with(cluster, {secret, secret, secret});
    rethrow_first(run_threads(3, [&](int rank) { join(places[static_cast<std::size_t>(rank)]); }));
  }

  TEST_CASE("another one, or none on one side, is named on both sides") {
    LocalCluster cluster(2);
    std::vector<std::string> secrets;
    std::string in_0, in_1;
    SUBCASE("another one") {
      secrets = {secret, "wrong horse battery"};
      in_0 = in_1 = "has another cluster secret (LOCKSTEP_CLUSTER_SECRET) than this worker";
    }
    SUBCASE("rank 1 has none") {
      secrets = {secret, ""};
      in_0 = "has no cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has one";
      in_1 = "has a cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has none";
    }
    SUBCASE("rank 0 has none") {
      secrets = {"", secret};
      in_0 = "has a cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has none";
      in_1 = "has no cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has one";
    }
    const auto places = places_with(cluster, secrets);
    std::array<double, 2> seconds{};
    const auto begin = Clock::now();
    const auto thrown = run_threads(2, [&](int rank) {
      const auto i = static_cast<std::size_t>(rank);
      try {
        join(places[i], {.startup_timeout = 1s});
      } catch (...) {
        seconds[i] = seconds_since(begin);
        throw;
      }
    });
    CHECK(contains(message_of(thrown[0]), in_0));
    CHECK(contains(message_of(thrown[0]), "worker 1 (" + cluster.addresses[1] + ")"));
    CHECK(contains(message_of(thrown[1]), in_1));
    CHECK(contains(message_of(thrown[1]), "worker 0 (" + cluster.addresses[0] + ")"));
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK_FALSE(contains(message_of(thrown[i]), "horse"));
      // A worker with a secret is not stopped by a process that cannot prove that it knows it.
      CHECK(code_of(thrown[i]) == (secrets[i].empty() ? ExitCode::usage : ExitCode::lost_peer));
      CHECK(seconds[i] < 10);
    }
  }

  TEST_CASE("a worker that was refused may come again with the right one") {
    LocalCluster cluster(2);
    auto places = places_with(cluster, {secret, "wrong horse battery"});
    rethrow_first(run_threads(2, [&](int rank) {
      if (rank == 0) return join(places[0]);
      const int listener = ::dup(places[1].listen_socket);
      CHECK_THROWS_AS(join(places[1], {.startup_timeout = 500ms}), CollectiveError);
      places[1].listen_socket = listener;
      places[1].secret = secret;
      join(places[1]);
    }));
  }

  TEST_CASE("a recorded handshake opens nothing, and neither stops nor replaces a worker") {
    LocalCluster cluster(2);
    const std::uint16_t port = cluster.listeners[0].port();
    const detail::Hello mine = hello_of_rank_1(cluster);

    // A real one, which rank 0 accepts.
    std::string recorded;
    const auto call = [&](const std::string& known) {
      const Guest guest(port);
      return introduce(guest, mine, known, recorded);
    };
    const auto places = places_with(cluster, {secret, secret});
    const auto thrown = run_threads(2, [&](int rank) {
      if (rank == 0) return join(places[0]);
      CHECK(call("wrong horse battery") == detail::Handshake::Outcome::refused);
      recorded.clear();
      REQUIRE(call(secret) == detail::Handshake::Outcome::agreed);
      Guest replay(port);
      replay.say(recorded);
      const std::string heard = replay.hear_all();
      // A challenge, and the refusal: no address, no property.
      CHECK(heard.size() == 2 * (detail::Hello::prefix_bytes + 4 + detail::nonce_bytes));
      CHECK_FALSE(contains(heard, cluster.addresses[0]));
      join(places[1]);
    });
    rethrow_first(thrown);
  }

  TEST_CASE(
      "a process that cannot prove that it is rank 0 delays no worker, and learns no proof of "
      "use") {
    LocalCluster cluster(2);
    Rendezvous place = places_with(cluster, {secret, secret})[1];
    // An impostor has rank 0's port. It sends each caller's own nonce back to it, and then its own
    // proof; or it skips the proofs, and answers at once with a hello in which nothing is wrong.
    bool challenges = true;
    SUBCASE("one that returns the caller's proof") {}
    SUBCASE("one that skips the proofs") { challenges = false; }
    detail::Hello hello;
    hello.to = 1;
    hello.incarnation = 5;
    hello.authentication = detail::Hello::Authentication::hmac_sha256;
    Listener& listener = cluster.listeners[0];
    REQUIRE(listener.descriptor() == -1);  // place(0) has it
    Listener impostor;
    place.addresses[0] = impostor.address();
    hello.addresses = place.addresses;
    std::atomic<bool> over = false;
    const auto thrown = run_threads(2, [&](int rank) {
      if (rank == 1) {
        try {
          join(place, {.startup_timeout = 1s});
        } catch (...) {
          over = true;
          throw;
        }
        return;
      }
      while (!over) {
        pollfd ready{impostor.descriptor(), POLLIN, 0};
        if (::poll(&ready, 1, 50) <= 0) continue;
        const int guest = ::accept(impostor.descriptor(), nullptr, nullptr);
        std::string heard(4096, '\0');
        const auto read = [&] {
          const ssize_t n = ::recv(guest, heard.data(), heard.size(), 0);
          return heard.substr(0, n > 0 ? static_cast<std::size_t>(n) : 0);
        };
        detail::Hello theirs;
        if (detail::Hello::decode(read(), theirs)) {
          detail::Hello challenge;
          challenge.to = 1;
          challenge.channel = hello.channel = theirs.channel;
          challenge.authentication = hello.authentication;
          challenge.nonce = hello.nonce = theirs.nonce;
          hello.properties = theirs.properties;
          const std::string bytes = challenge.encode();
          if (challenges) (void)!::send(guest, bytes.data(), bytes.size(), MSG_NOSIGNAL);
          const std::string answer = hello.encode() + (challenges ? read() : "");
          (void)!::send(guest, answer.data(), answer.size(), MSG_NOSIGNAL);
        }
        ::close(guest);
      }
    });
    CHECK(contains(message_of(thrown[1]), "cannot prove that it knows the cluster secret"));
    CHECK(code_of(thrown[1]) == ExitCode::lost_peer);  // the true one may still come
  }

  TEST_CASE(
      "a process that has rank 0's port before rank 0, and answers what it likes, ends no worker") {
    detail::Hello answer;
    answer.to = 1;
    answer.authentication = detail::Hello::Authentication::none;
    SUBCASE("without a secret") { answer.addresses = {"a:1", "b:2"}; }
    SUBCASE("bare, without a secret") {}
    SUBCASE("a refusal") { answer.authentication = detail::Hello::Authentication::refused; }
    SUBCASE("another version") { answer.version = 9; }
    const std::string bytes = answer.encode();
    LocalCluster cluster(2);
    const auto places = places_with(cluster, {secret, secret});
    rethrow_first(run_threads(2, [&](int rank) {
      if (rank == 0) answer_guests(places[0].listen_socket, 4, bytes);
      join(places[static_cast<std::size_t>(rank)]);
    }));
  }

  TEST_CASE("processes take it from the environment") {
    const auto addresses = free_addresses(2);
    auto first = start_rank(0, addresses, "join", {}, {{"LOCKSTEP_CLUSTER_SECRET", secret}});
    auto wrong = start_rank(1, addresses, "join", {.startup = 1s},
                            {{"LOCKSTEP_CLUSTER_SECRET", "wrong horse battery"}});
    const Finished refused = wrong->wait(30s);
    CAPTURE(refused.output);
    CHECK(refused.exit_code == static_cast<int>(ExitCode::lost_peer));
    CHECK(contains(refused.output, "worker 0 (" + addresses[0] + ") has another cluster secret"));
    auto second = start_rank(1, addresses, "join", {}, {{"LOCKSTEP_CLUSTER_SECRET", secret}});
    CHECK(second->wait(30s).exit_code == 0);
    const Finished finished = first->wait(30s);
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 0);
    CHECK(contains(finished.output, "worker 1 (" + addresses[1] +
                                        ") was turned away: 127.0.0.1, which claims to be it, has "
                                        "another cluster secret"));
    CHECK_FALSE(contains(finished.output + refused.output, "horse"));
  }
}

#else

TEST_SUITE("tcp start-up, with a secret") {
  TEST_CASE("a program without OpenSSL refuses to start") {
    const Finished finished =
        start_rank(0, free_addresses(2), "join", {},
                   {{"LOCKSTEP_CLUSTER_SECRET", "a secret of 26 characters."}})
            ->wait(30s);
    CHECK(finished.exit_code == 2);
    CHECK(contains(finished.output, "was built without OpenSSL"));
  }
}

#endif

TEST_SUITE("tcp start-up, two processes with one place") {
  TEST_CASE("they are found in seconds, and named on all sides") {
    LocalCluster cluster(4);
    std::vector<Rendezvous> places{cluster.place(0), cluster.place(1), cluster.place(2)};
    places.push_back(places[2]);  // rank 3 is not there, and rank 2 is there twice
    places[3].listen_socket = ::dup(places[2].listen_socket);
    const auto begin = Clock::now();
    const auto thrown = run_threads(4, [&](int i) {
      if (i == 3) std::this_thread::sleep_for(300ms);
      join(places[static_cast<std::size_t>(i)]);
    });
    CHECK(seconds_since(begin) < 10);
    for (const auto& exception : thrown) {
      CAPTURE(message_of(exception));
      CHECK(contains(message_of(exception),
                     "worker 2 (" + cluster.addresses[2] + ") is there twice"));
      CHECK(code_of(exception) == ExitCode::usage);
    }
  }

  TEST_CASE("a process that claims this worker's own rank is named once, however often it comes") {
    const auto addresses = free_addresses(2);
    const auto worker = start_rank(0, addresses, "join", {.startup = 1s});
    detail::Hello twin;
    twin.incarnation = 5;
    twin.addresses = addresses;
    for (int visit = 0; visit < 5; ++visit) {
      const Guest guest(port_of(addresses[0]));
      guest.say(twin.encode());
      CHECK_FALSE(guest.hear_all().empty());
    }
    const std::string output = worker->wait(30s).output;
    const std::size_t first = output.find("is worker 0, as this process is");
    REQUIRE(first != std::string::npos);
    CHECK(output.find("lockstep: 127.0.0.1 is worker 0", first) == std::string::npos);
  }

  TEST_CASE("a second chief, on another host, finds the first one, and leaves it alone") {
    LocalCluster cluster(2);
    Rendezvous first = cluster.place(0), second = first, third = cluster.place(1);
    // The same port of another address.
    second.listen_socket = detail::listen_at("127.0.0.2", port_of(cluster.addresses[0])).release();
    REQUIRE(second.listen_socket >= 0);
    std::atomic<bool> found = false;
    const auto begin = Clock::now();
    const auto thrown = run_threads(3, [&](int i) {
      if (i == 0) return join(first);
      if (i == 1) {
        try {
          join(second);
        } catch (...) {
          found = true;
          throw;
        }
      }
      while (!found) std::this_thread::sleep_for(5ms);
      join(third);
    });
    CHECK(seconds_since(begin) < 10);
    CHECK(!thrown[0]);
    CHECK(!thrown[2]);
    CHECK(contains(message_of(thrown[1]), "worker 0 (" + cluster.addresses[0] +
                                              ") is worker 0, as this process is: two processes "
                                              "with one place in the cluster"));
    CHECK(code_of(thrown[1]) == ExitCode::usage);
  }

  TEST_CASE("a worker that hangs gives way to one that is started in its place") {
    LocalCluster cluster(3);
    const std::vector<Rendezvous> places = cluster.places();
    const pid_t stopped = ::fork();
    REQUIRE(stopped >= 0);
    if (stopped == 0) {
      try {
        join(places[2]);
      } catch (...) {
      }
      ::_exit(0);
    }
    const auto begin = Clock::now();
    const auto thrown = run_threads(3, [&](int rank) {
      if (rank == 1) std::this_thread::sleep_for(1500ms);  // so that the start-up goes on
      if (rank == 2) {
        std::this_thread::sleep_for(500ms);
        ::kill(stopped, SIGSTOP);
      }
      join(places[static_cast<std::size_t>(rank)]);
    });
    ::kill(stopped, SIGKILL);
    ::waitpid(stopped, nullptr, 0);
    rethrow_first(thrown);
    CHECK(seconds_since(begin) < 15);
  }

  TEST_CASE(
      "a process that goes while it contends for a place is no second process to those that come "
      "after it") {
    LocalCluster cluster(3);
    const std::vector<Rendezvous> places = cluster.places();
    std::atomic<bool> they_are_gone = false;
    const auto thrown = run_threads(4, [&](int i) {
      if (i < 3) {
        while (i == 1 && !they_are_gone) std::this_thread::sleep_for(5ms);
        if (i == 2) std::this_thread::sleep_for(3s);  // so that the start-up goes on
        return join(places[static_cast<std::size_t>(i)]);
      }
      const std::unique_ptr<std::atomic<bool>, void (*)(std::atomic<bool>*)> in_any_case(
          &they_are_gone, [](std::atomic<bool>* flag) { *flag = true; });
      detail::Hello hello = hello_of_rank_1(cluster);
      std::vector<Guest> guests;  // which go first
      for (hello.incarnation = 1; hello.incarnation <= 2; ++hello.incarnation) {
        std::string said;
        CHECK(introduce(guests.emplace_back(port_of(cluster.addresses[0])), hello, "", said) ==
              detail::Handshake::Outcome::agreed);
      }
    });
    rethrow_first(thrown);
  }
}

TEST_SUITE("tcp start-up, strangers") {
  /// Whether rank 0, while `disturb` goes on, takes in rank 1 as soon as it comes, and without
  /// using much memory.
  template <class F>
  void check_undisturbed(F disturb, const Environment& environment = {}) {
    const auto addresses = free_addresses(2);
    auto first = start_rank(0, addresses, "join", {}, environment);
    std::atomic<bool> over = false;
    { Guest arrives(port_of(addresses[0])); }  // then it listens
    std::thread stranger([&] { disturb(port_of(addresses[0]), over); });
    std::this_thread::sleep_for(500ms);
    const auto begin = Clock::now();
    const Finished second = start_rank(1, addresses, "join", {}, environment)->wait(60s);
    const double seconds = seconds_since(begin);
    over = true;
    stranger.join();
    const Finished finished = first->wait(60s);
    CAPTURE(finished.output);
    CAPTURE(second.output);
    CHECK(second.exit_code == 0);
    CHECK(finished.exit_code == 0);
    CHECK(seconds < 10);
    const std::string label = "peak memory: ";
    const std::size_t at = finished.output.find(label);
    REQUIRE(at != std::string::npos);
    if (!has_sanitizer) CHECK(std::atol(finished.output.c_str() + at + label.size()) < 32 * 1024);
  }

  TEST_CASE("2,000 connections that say nothing, and more of them all the time") {
    check_undisturbed([](std::uint16_t port, std::atomic<bool>& over) {
      std::vector<Guest> guests;
      for (int i = 0; !over; ++i) {
        guests.emplace_back(port, 1);
        if (guests.size() > 500) guests.erase(guests.begin());  // descriptors are few
        if (i > 2000) std::this_thread::sleep_for(1ms);
      }
    });
  }

  TEST_CASE("1 GiB of zeros, at once and after a good begin") {
    check_undisturbed([](std::uint16_t port, std::atomic<bool>& over) {
      const std::string zeros(1 << 20, '\0');
      std::string begin(detail::Hello::magic);
      begin += std::string("\3\0\0\0\0\0\0\x40", 8);  // announces a payload of 1 GiB
      for (bool good = false; !over; good = !good) {
        const Guest guest(port, 1);
        if (good && !guest.say(begin)) continue;
        for (int i = 0; i < 1024 && !over && guest.say(zeros); ++i) {
        }
      }
    });
  }

  TEST_CASE("one who sends a byte at a time, garbage, and what another cluster's worker has sent") {
    check_undisturbed([](std::uint16_t port, std::atomic<bool>& over) {
      detail::Hello hello;
      hello.from = 1;
      hello.addresses = {"127.0.0.1:1", "127.0.0.1:2"};
      const std::string recorded = hello.encode();
      const Guest slow(port, 1);
      RandomStream random(RandomKey(3));
      for (std::size_t i = 0; !over; ++i) {
        slow.say(recorded.substr(i % recorded.size(), 1));
        std::string garbage(1 + random.below(300), '\0');
        for (char& c : garbage) c = static_cast<char>(random());
        const Guest loud(port, 1);
        loud.say(garbage);
        const Guest broken(port, 1);
        std::string changed = recorded;
        changed[random.below(changed.size())] = static_cast<char>(random());
        broken.say(changed);
        const Guest lost(port, 1);
        lost.say(recorded);
        std::this_thread::sleep_for(20ms);
      }
    });
  }

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
  TEST_CASE("callers that begin to prove who they are, and never end") {
    const auto disturb = [](std::uint16_t port, std::atomic<bool>& over) {
      detail::Hello hello;
      hello.from = 1;
      hello.authentication = detail::Hello::Authentication::hmac_sha256;
      hello.addresses.resize(4000);  // many times as large in memory as on the wire
      const std::string bytes = hello.encode();
      std::vector<Guest> guests;
      while (!over) {
        guests.emplace_back(port, 1);
        guests.back().say(bytes);
        if (guests.size() > 500) guests.erase(guests.begin());
      }
    };
    check_undisturbed(disturb, {{"LOCKSTEP_CLUSTER_SECRET", "correct horse battery staple"}});
  }
#endif
}

TEST_SUITE("tcp start-up, slow strangers [full]") {
  TEST_CASE("one who sends a byte now and then is turned away after a while") {
    const auto addresses = free_addresses(2);
    auto first = start_rank(0, addresses, "join");
    Guest slow(port_of(addresses[0]));
    const auto begin = Clock::now();
    detail::Hello hello;
    hello.addresses = addresses;
    const std::string bytes = hello.encode();
    std::size_t said = 0;
    while (said < bytes.size() && slow.say(bytes.substr(said, 1))) {
      ++said;
      std::this_thread::sleep_for(500ms);
    }
    CHECK(said < bytes.size());
    CHECK(seconds_since(begin) > 5);
    CHECK(seconds_since(begin) < 20);
  }
}

TEST_SUITE("tcp start-up, strangers that claim a place") {
  TEST_CASE(
      "one hello is turned away and named, whatever is wrong with it, and the start-up goes on") {
    const auto addresses = free_addresses(2);
    auto first = start_rank(0, addresses, "join");
    detail::Hello hello;
    hello.from = 1;
    hello.incarnation = 7;
    hello.addresses = addresses;
    std::string what;
    bool is_told = true;
    SUBCASE("another version") {
      hello.version = 9;
      what = "has protocol version 9, this worker has 1";
      is_told = false;
    }
    SUBCASE("another list of addresses") {
      hello.addresses.push_back("10.0.0.3:1");
      what = "has world size 3, this worker has 2";
      is_told = false;
    }
    SUBCASE("properties of its own, with a control character") {
      hello.properties = {{"colour\x1b", "red\n"}};
      what = "has collective none, this worker has Ring";
    }
    {
      const Guest guest(port_of(addresses[0]));
      REQUIRE(guest.say(hello.encode()));
      const std::string answer = guest.hear_all();
      CHECK_FALSE(answer.empty());
      CHECK(contains(answer, addresses[1]) == is_told);
      CHECK(contains(answer, "CommunicationOptions") == is_told);
    }
    const Finished second = start_rank(1, addresses, "join")->wait(30s);
    const Finished finished = first->wait(30s);
    CAPTURE(finished.output);
    CHECK(second.exit_code == 0);
    CHECK(finished.exit_code == 0);
    CHECK(contains(finished.output, "worker 1 (" + addresses[1] +
                                        ") was turned away: 127.0.0.1, which claims to be it, " +
                                        what));
  }

  TEST_CASE("one that waits in the backlog before the worker looks ends nothing") {
    LocalCluster cluster(2);
    detail::Hello hello;
    hello.from = 1;
    hello.incarnation = 7;
    hello.addresses = cluster.addresses;
    std::vector<Guest> guests;
    for (const std::uint32_t version : {detail::Hello::this_version, 9U}) {
      hello.version = version;
      REQUIRE(guests.emplace_back(cluster.listeners[0].port()).say(hello.encode()));
    }
    const std::vector<Rendezvous> places = cluster.places();
    rethrow_first(run_threads(2, [&](int rank) { join(places[static_cast<std::size_t>(rank)]); }));
  }

  TEST_CASE(
      "one that keeps coming back, while no other fits the place, ends the start-up in "
      "seconds") {
    LocalCluster cluster(2);
    const std::uint16_t port = cluster.listeners[0].port();
    const Rendezvous place = cluster.place(0);
    detail::Hello hello;
    hello.from = 1;
    hello.incarnation = 7;
    hello.version = 9;
    hello.addresses = cluster.addresses;
    std::atomic<bool> over = false;
    const auto begin = Clock::now();
    const auto thrown = run_threads(2, [&](int rank) {
      const std::unique_ptr<std::atomic<bool>, void (*)(std::atomic<bool>*)> in_any_case(
          &over, [](std::atomic<bool>* flag) { *flag = true; });
      if (rank == 0) return join(place, {.startup_timeout = 20s});
      while (!over && seconds_since(begin) < 15) {
        const Guest guest(port, 1);
        if (guest.say(hello.encode())) (void)guest.hear_all();
        std::this_thread::sleep_for(100ms);
      }
    });
    CHECK(code_of(thrown[0]) == ExitCode::usage);
    CHECK(contains(message_of(thrown[0]),
                   "worker 1 (" + cluster.addresses[1] + ") has protocol version 9"));
    CHECK(seconds_since(begin) > 1.9);
    CHECK(seconds_since(begin) < 15);
  }

  TEST_CASE("one that keeps coming back, when the right one comes in the meantime, ends nothing") {
    LocalCluster cluster(3);
    const std::uint16_t port = cluster.listeners[0].port();
    const std::vector<Rendezvous> places = cluster.places();
    detail::Hello hello;
    hello.from = 1;
    hello.incarnation = 7;
    hello.addresses = cluster.addresses;
    std::atomic<bool> over = false;
    rethrow_first(run_threads(4, [&](int i) {
      if (i == 3) {
        while (!over) {
          const Guest guest(port, 1);
          if (guest.say(hello.encode())) (void)guest.hear_all();
          std::this_thread::sleep_for(50ms);
        }
        return;
      }
      const std::unique_ptr<std::atomic<bool>, void (*)(std::atomic<bool>*)> in_any_case(
          &over, [](std::atomic<bool>* flag) { *flag = true; });
      if (i == 1) std::this_thread::sleep_for(700ms);
      if (i == 2) std::this_thread::sleep_for(4s);  // so that the start-up outlasts a stranger
      join(places[static_cast<std::size_t>(i)]);
    }));
  }

  TEST_CASE(
      "a process that has rank 0's port before rank 0, and answers what it likes, ends no worker") {
    detail::Hello answer;
    answer.to = 1;
    answer.incarnation = 7;
    SUBCASE("another cluster") { answer.addresses = {"a:1", "b:2"}; }
    SUBCASE("bare") {}
    SUBCASE("a refusal") { answer.authentication = detail::Hello::Authentication::refused; }
    SUBCASE("another version") { answer.version = 9; }
    LocalCluster cluster(2);
    const std::vector<Rendezvous> places = cluster.places();
    // It may also say that it ends because of this worker.
    const detail::FrameBytes abort =
        detail::ControlFrame{.type = detail::ControlFrame::Type::abort}.encode();
    const std::string bytes =
        answer.encode() + std::string(reinterpret_cast<const char*>(abort.data()), abort.size());
    rethrow_first(run_threads(2, [&](int rank) {
      if (rank == 0) answer_guests(places[0].listen_socket, 3, bytes);
      join(places[static_cast<std::size_t>(rank)]);
    }));
  }

  TEST_CASE("Ring<Tcp> on one worker and Auto on another name each other") {
    LocalCluster cluster(2);
    const std::vector<Rendezvous> places = cluster.places();
    const auto begin = Clock::now();
    const auto thrown = run_threads(2, [&](int rank) {
      if (rank == 0)
        (void)Ring<Tcp>::connect(places[0], patient_options());
      else
        (void)Auto::connect(places[1], patient_options());
    });
    CHECK(contains(message_of(thrown[0]), "worker 1 (" + cluster.addresses[1] +
                                              ") has collective Auto, this worker has "
                                              "Ring"));
    CHECK(contains(message_of(thrown[1]), "worker 0 (" + cluster.addresses[0] +
                                              ") has collective Ring, this worker has "
                                              "Auto"));
    for (const auto& exception : thrown) CHECK(code_of(exception) == ExitCode::usage);
    CHECK(seconds_since(begin) < 15);
  }
}

TEST_SUITE("tcp start-up, names") {
  TEST_CASE("a peer whose name does not resolve is named on every rank") {
    LocalCluster cluster(4);
    std::vector<Rendezvous> places = cluster.places();
    // Longer than a label of a name may be: no server is asked.
    const std::string nowhere =
        std::string(70, 'x') + ":" + std::to_string(cluster.listeners[1].port());
    for (Rendezvous& place : places) place.addresses[1] = nowhere;
    const auto thrown = run_threads(4, [&](int rank) {
      // Rank 1 connects only to rank 0; the higher ranks look for rank 1.
      join(places[static_cast<std::size_t>(rank)], {.startup_timeout = 4s});
    });
    for (const auto& exception : thrown) {
      CAPTURE(message_of(exception));
      CHECK(contains(message_of(exception), "its name does not resolve"));
      CHECK(code_of(exception) == ExitCode::lost_peer);
    }
  }
}

TEST_SUITE("tcp start-up, ports") {
  TEST_CASE(
      "a port that another socket has for a while is waited for, and not for longer than the "
      "start-up") {
    Listener taken, other;
    Rendezvous place;
    place.addresses = {taken.address(), other.address()};
    SUBCASE("for a while") {
      Rendezvous second = place;
      second.rank = 1;
      second.listen_socket = other.release();
      rethrow_first(run_threads(3, [&](int i) {
        if (i == 0) return join(place);
        if (i == 1) return join(second);
        std::this_thread::sleep_for(700ms);
        ::close(taken.release());
      }));
    }
    SUBCASE("all the time, at the first start") {
      const auto thrown = run_threads(1, [&](int) { join(place, {.startup_timeout = 500ms}); });
      CHECK(code_of(thrown[0]) == ExitCode::usage);
      CHECK(
          contains(message_of(thrown[0]), "cannot listen on port " + std::to_string(taken.port())));
    }
    SUBCASE("all the time, when the workers meet again") {
      place.was_connected = true;
      const auto thrown = run_threads(1, [&](int) { join(place, {.startup_timeout = 500ms}); });
      CHECK(failure_of(thrown[0]).failed_rank == 0);
      CHECK(code_of(thrown[0]) == ExitCode::lost_peer);
      CHECK(
          contains(message_of(thrown[0]), "cannot listen on port " + std::to_string(taken.port())));
    }
  }

  TEST_CASE("a worker listens on the address that it is told") {
    const auto addresses = free_addresses(2);
    Rendezvous place;
    place.addresses = addresses;
    const auto thrown_with = [&](const std::string& bind_address) {
      return run_threads(1, [&](int) {
        join(place, {.startup_timeout = 300ms, .bind_address = bind_address});
      })[0];
    };
    std::vector<std::string> seen;
    std::thread watching([&] {
      for (int i = 0; i < 1000 && seen.empty(); ++i) {
        for (const std::string& socket : listening_sockets(::getpid()))
          if (socket.starts_with("0200007F:")) seen.push_back(socket);
        std::this_thread::sleep_for(5ms);
      }
    });
    const auto nobody_came = thrown_with("127.0.0.2");
    watching.join();
    CHECK(seen.size() == 1);
    CHECK(code_of(nobody_came) == ExitCode::lost_peer);
    for (const char* wrong : {"eth0", "203.0.113.7"}) {
      const auto thrown = thrown_with(wrong);
      CHECK(code_of(thrown) == ExitCode::usage);
      CHECK(contains(message_of(thrown), "CommunicationOptions::bind_address"));
      CHECK(contains(message_of(thrown), wrong));
    }
  }

  TEST_CASE(
      "a worker listens on its own port of TF_CONFIG alone, during the start-up and after it") {
    const auto addresses = free_addresses(2);
    const auto port_of_rank = [&](std::size_t rank) {
      char text[16];
      std::snprintf(text, sizeof text, "0100007F:%04X", port_of(addresses[rank]));
      return std::vector<std::string>{text};
    };
    auto first = start_rank(0, addresses, "reduce");
    { Guest arrives(port_of(addresses[0])); }  // then it listens
    CHECK(listening_sockets(first->pid()) == port_of_rank(0));
    auto second = start_rank(1, addresses, "reduce", {.startup = 60s, .timeout = 2s});
    REQUIRE(first->wait_for("connected", 30s));
    REQUIRE(second->wait_for("connected", 30s));
    CHECK(listening_sockets(first->pid()) == port_of_rank(0));
    CHECK(listening_sockets(second->pid()) == port_of_rank(1));
  }

  detail::Handshake::Outcome ask(std::uint16_t port, const detail::Hello& mine,
                                 const std::string& secret, detail::Hello::Channel channel,
                                 std::uint64_t& incarnation) {
    const Guest guest(port);
    auto handshake = detail::Handshake::caller(mine, detail::ClusterSecret(secret), 0, channel);
    while (handshake.outcome() == detail::Handshake::Outcome::open) {
      const std::string bytes(handshake.out());
      guest.say(bytes);
      handshake.sent(bytes.size());
      const std::string heard = guest.hear(handshake.wanted());
      if (heard.empty()) break;
      handshake.take(heard);
    }
    incarnation = handshake.theirs().incarnation;
    return handshake.outcome();
  }

  TEST_CASE("at work, a worker answers probes, sends others away at once, and goes on") {
    std::string secret;
    SUBCASE("without a secret") {}
#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
    SUBCASE("with a secret") { secret = "correct horse battery staple"; }
#endif
    LocalCluster cluster(2);
    const std::uint16_t port = cluster.listeners[0].port();
    std::vector<Rendezvous> places = cluster.places();
    for (Rendezvous& place : places) place.secret = secret;
    std::atomic<int> connected = 0;
    std::atomic<bool> over = false;
    const auto thrown = run_threads(3, [&](int i) {
      if (i < 2) {
        auto ring = Ring<Tcp>::connect(places[static_cast<std::size_t>(i)], patient_options());
        ring.barrier();
        ++connected;
        std::vector<float> values(1000);
        do {
          values.assign(values.size(), over ? 1.0F : 0.0F);
          ring.all_reduce(std::span(values));
        } while (values[0] == 0);
        return ring.close();
      }
      const std::unique_ptr<std::atomic<bool>, void (*)(std::atomic<bool>*)> in_any_case(
          &over, [](std::atomic<bool>* flag) { *flag = true; });
      for (int wait = 0; connected < 2 && wait < 6000; ++wait) std::this_thread::sleep_for(10ms);
      detail::Hello mine = hello_of_rank_1(cluster);
      mine.lane = 0;
      using Outcome = detail::Handshake::Outcome;
      using Channel = detail::Hello::Channel;
      std::uint64_t incarnation = 0;
      CHECK(ask(port, mine, secret, Channel::control, incarnation) == Outcome::at_work);
      CHECK(incarnation == 0);
      CHECK(ask(port, mine, secret, Channel::probe, incarnation) == Outcome::agreed);
      CHECK(incarnation != 0);
      const std::uint64_t lives = incarnation;
      if (!secret.empty()) {
        CHECK(ask(port, mine, "wrong horse battery", Channel::probe, incarnation) ==
              Outcome::refused);
        CHECK(incarnation == 0);
      }
      const auto begin = Clock::now();
      const Guest closes(port);
      closes.end();
      const std::string heard = closes.hear_all();  // what a PortProbe looks for
      REQUIRE(heard.size() == 8);
      CHECK(detail::get_number<8>(reinterpret_cast<const std::byte*>(heard.data())) == lives);
      const Guest loud(port);
      loud.say("GET / HTTP/1.1\r\n\r\n");
      CHECK(loud.hear_all().empty());
      CHECK(seconds_since(begin) < 5);
      std::vector<Guest> flood;
      for (int guest = 0; guest < 300; ++guest) flood.emplace_back(port, 1);
      CHECK(ask(port, mine, secret, Channel::probe, incarnation) == Outcome::agreed);
    });
    rethrow_first(thrown);
  }

  TEST_CASE("a port that is kept is no other program's between two meetings") {
    LocalCluster cluster(2);
    std::vector<Rendezvous> places = cluster.places();
    for (Rendezvous& place : places) place.port = std::make_shared<KeptPort>();
    char own[16];
    std::snprintf(own, sizeof own, "0100007F:%04X", port_of(cluster.addresses[0]));
    const auto is_listening = [&] {
      const auto sockets = listening_sockets(::getpid());
      return std::count(sockets.begin(), sockets.end(), own) > 0;
    };
    for (int meeting = 0; meeting < 3; ++meeting) {
      rethrow_first(
          run_threads(2, [&](int rank) { join(places[static_cast<std::size_t>(rank)]); }));
      CHECK(is_listening());
      for (Rendezvous& place : places) place.listen_socket = -1;
    }
    for (Rendezvous& place : places) place.port.reset();
    CHECK_FALSE(is_listening());
  }

  TEST_CASE(
      "two clusters that share a port: both say what is different, and the one that was there goes "
      "on") {
    const auto addresses = free_addresses(3);
    const std::vector<std::string> ours{addresses[0], addresses[1]};
    const std::vector<std::string> theirs{addresses[0], addresses[2]};
    auto first = start_rank(0, ours, "join");
    { Guest arrives(port_of(addresses[0])); }
    const Finished chief = start_rank(0, theirs, "join", {.startup = 1s})->wait(30s);
    CAPTURE(chief.output);
    CHECK(chief.exit_code == 2);
    CHECK(contains(chief.output, "cannot listen on port " + std::to_string(port_of(addresses[0]))));
    CHECK(contains(chief.output, "another program, or another worker with the same task, has it"));
    const Finished lost = start_rank(1, theirs, "join")->wait(30s);
    CAPTURE(lost.output);
    CHECK(lost.exit_code == 2);
    CHECK(contains(lost.output, "worker 0 (" + addresses[0] +
                                    ") has another address of worker 1 than this worker"));
    CHECK_FALSE(contains(lost.output, addresses[1]));
    const Finished second = start_rank(1, ours, "join")->wait(30s);
    CHECK(second.exit_code == 0);
    CHECK(first->wait(30s).exit_code == 0);
  }
}

// Rank `late` comes when `victim` is gone or hangs, so that the start-up cannot have been over
// before.
struct Lineup {
  int victim;
  int late;
};
constexpr std::array<Lineup, 3> lineups{{{0, 2}, {1, 2}, {2, 1}}};

/// In three clusters at once, each role is struck by `signal` during start-up. All others must end,
/// in time, with an error that names it.
void check_named_by_all(int signal, std::chrono::milliseconds startup_timeout) {
  struct Cluster {
    std::vector<std::string> addresses;
    std::array<std::unique_ptr<Process>, 3> ranks;
  };
  std::array<Cluster, 3> clusters;
  const auto begin = Clock::now();
  const auto start = [&](Cluster& cluster, int rank) {
    cluster.ranks[static_cast<std::size_t>(rank)] =
        start_rank(rank, cluster.addresses, "join", {.startup = startup_timeout});
  };
  for (std::size_t i = 0; i < 3; ++i) {
    clusters[i].addresses = free_addresses(3);
    for (int rank = 0; rank < 3; ++rank)
      if (rank != lineups[i].late) start(clusters[i], rank);
  }
  std::this_thread::sleep_for(1s);
  for (std::size_t i = 0; i < 3; ++i)
    clusters[i].ranks[static_cast<std::size_t>(lineups[i].victim)]->signal(signal);
  for (std::size_t i = 0; i < 3; ++i) start(clusters[i], lineups[i].late);
  for (std::size_t i = 0; i < 3; ++i) {
    const int victim = lineups[i].victim;
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      const Finished finished = clusters[i].ranks[static_cast<std::size_t>(rank)]->wait(60s);
      CAPTURE(rank);
      CAPTURE(finished.output);
      CHECK(finished.exit_code == 138);
      CHECK(contains(finished.output, "error: start-up: worker " + std::to_string(victim) + " (" +
                                          clusters[i].addresses[static_cast<std::size_t>(victim)] +
                                          ") failed: "));
    }
  }
  CHECK(seconds_since(begin) < std::chrono::duration<double>(startup_timeout).count() + 10);
}

TEST_SUITE("tcp start-up, processes that die") {
  TEST_CASE("one that ends in the middle of a message is missed at once") {
    LocalCluster cluster(2);
    const std::uint16_t port = cluster.listeners[0].port();
    const detail::Hello mine = hello_of_rank_1(cluster);
    const Rendezvous place = cluster.place(0);
    const auto thrown = run_threads(2, [&](int rank) {
      if (rank == 0) return join(place, {.startup_timeout = 1500ms});
      const Guest guest(port);
      std::string said;
      REQUIRE(introduce(guest, mine, {}, said) == detail::Handshake::Outcome::agreed);
      guest.say("LSC");
      std::this_thread::sleep_for(100ms);
    });
    CHECK(contains(failure_of(thrown[0]).reason, "closed the connection again"));
  }

  TEST_CASE(
      "when the connection for control is lost, none for data is tried before it stands again") {
    LocalCluster cluster(2);
    const Listener& port = cluster.listeners[0];
    const timeval limit{0, 400'000};
    ::setsockopt(port.descriptor(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const Rendezvous place = cluster.place(1);
    detail::Hello mine;
    mine.incarnation = 1;
    mine.addresses = cluster.addresses;
    int others = 0;
    const auto thrown = run_threads(2, [&](int rank) {
      if (rank == 1) return (void)Tcp::connect(place, {.startup_timeout = 1500ms});
      const auto accept = [&] {
        return ::accept4(port.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
      };
      const int control = accept();
      auto handshake = detail::Handshake::callee(mine, {});
      while (handshake.outcome() == detail::Handshake::Outcome::open) {
        std::string bytes(handshake.wanted(), '\0');
        const ssize_t n = ::recv(control, bytes.data(), bytes.size(), 0);
        if (n <= 0) break;
        handshake.take(bytes.substr(0, static_cast<std::size_t>(n)));
      }
      (void)!::send(control, handshake.out().data(), handshake.out().size(), MSG_NOSIGNAL);
      const int data = accept();
      ::close(control);
      ::close(data);
      const int again = accept();
      for (int other = 0; (other = accept()) >= 0; ++others) ::close(other);
      ::close(again);
      CHECK(handshake.outcome() == detail::Handshake::Outcome::agreed);
      CHECK(again >= 0);
    });
    CHECK(others == 0);
    CHECK(failure_of(thrown[1]).failed_rank == 0);
  }

  TEST_CASE("a rank that is lost when rank 0 says go has a moment to come again, and is named") {
    using Type = detail::ControlFrame::Type;
    using Channel = detail::Hello::Channel;
    LocalCluster cluster(3);
    const std::uint16_t port = cluster.listeners[1].port();
    const Rendezvous place = cluster.place(1);
    CommunicationOptions options = patient_options();
    options.connections = 1;
    const auto hello = [&](int rank) {
      detail::Hello mine;
      mine.from = rank;
      mine.incarnation = 100 + static_cast<std::uint64_t>(rank);
      mine.addresses = cluster.addresses;
      return mine;
    };
    bool comes_again = false;
    SUBCASE("it does not come again") {}
    SUBCASE("it does") { comes_again = true; }
    std::vector<Guest> links;  // of ranks 0 and 2
    const auto call = [&] {
      for (const Channel channel : {Channel::control, Channel::data}) {
        links.emplace_back(port);
        REQUIRE(agree(links.back(), detail::Handshake::caller(hello(2), {}, 1, channel)) ==
                detail::Handshake::Outcome::agreed);
      }
    };
    const auto thrown = run_threads(2, [&](int thread) {
      if (thread == 1) return (void)Tcp::connect(place, options);
      for (int link = 0; link < 2; ++link) {
        links.push_back(Guest::of(cluster.listeners[0]));
        REQUIRE(agree(links.back(), detail::Handshake::callee(hello(0), {})) ==
                detail::Handshake::Outcome::agreed);
      }
      call();
      const detail::ControlFrame ready = links[0].hear_frame(Type::ready);
      links.erase(links.begin() + 2, links.end());
      do  // until rank 1 has noticed that
        links[0].say_frame({.type = Type::probe});
      while (links[0].hear_frame(Type::waiting).value != 2);
      links[0].say_frame({.type = Type::go, .value = ready.value, .extra = ready.extra});
      if (comes_again) return call();
      CHECK(links[0].hear_frame(Type::abort).value == 2);
    });
    CHECK_FALSE(thrown[0]);
    if (comes_again) {
      CHECK_FALSE(thrown[1]);
      return;
    }
    const CollectiveFailure failure = failure_of(thrown[1]);
    CHECK(failure.failed_rank == 2);
    CHECK(contains(failure.reason, "lost just when all workers were connected"));
    CHECK(failure.seconds < 30);
  }

  TEST_CASE("a rank of any role that is killed may be started again") {
    for (const Lineup& lineup : lineups) {
      const auto addresses = free_addresses(3);
      std::array<std::unique_ptr<Process>, 3> ranks;
      const auto start = [&](int rank) {
        ranks[static_cast<std::size_t>(rank)] = start_rank(rank, addresses, "join");
      };
      for (int rank = 0; rank < 3; ++rank)
        if (rank != lineup.late) start(rank);
      std::this_thread::sleep_for(500ms);
      ranks[static_cast<std::size_t>(lineup.victim)]->signal(SIGKILL);
      (void)ranks[static_cast<std::size_t>(lineup.victim)]->wait(10s);  // its port is free again
      start(lineup.victim);
      start(lineup.late);
      for (const auto& rank : ranks) {
        const Finished finished = rank->wait(60s);
        CAPTURE(finished.output);
        CHECK(finished.exit_code == 0);
      }
    }
  }
}

TEST_SUITE("tcp start-up, processes that die or hang [full]") {
  TEST_CASE("a rank of any role that is killed is named by all others") {
    check_named_by_all(SIGKILL, 4s);
  }

  TEST_CASE(
      "a rank of any role that is stopped is named by all others, and not those that wait for it") {
    check_named_by_all(SIGSTOP, 8s);
  }
}

// Three hosts, each in a network namespace of its own, on one switch. Host 2's cable is pulled
// before the start ($2: before) or when all ranks are connected (after).
constexpr const char* three_hosts = R"sh(
set -euo pipefail
folder=$(mktemp -d)
hosts=()
trap 'kill "${hosts[@]}" 2>/dev/null || true; rm -rf "$folder"' EXIT
ip link add switch type bridge
ip link set switch up
addresses=(10.77.0.1:2222 10.77.0.2:2222 10.77.0.3:2222)
for i in 0 1 2; do
  unshare --net sleep 120 &
  hosts[i]=$!
  while [[ $(readlink "/proc/${hosts[i]}/ns/net") == "$(readlink /proc/$$/ns/net)" ]]; do sleep 0.01; done
  ip link add "cable$i" type veth peer name eth0 netns "${hosts[i]}"
  ip link set "cable$i" master switch up
  nsenter --net --target "${hosts[i]}" sh -c "ip address add 10.77.0.$((i + 1))/24 dev eth0; ip link set eth0 up; ip link set lo up"
done
[[ $2 != before ]] || ip link set cable2 down
# The cable carries 1000 bytes, and the hosts believe in 1500. (Packets that are still in one piece
# would pass.)
if [[ $2 == narrow ]]; then
  for host in "${hosts[@]}"; do nsenter --net --target "$host" ip link set eth0 gso_max_segs 1; done
  ip link set cable2 mtu 1000
  ip link set switch mtu 1500
fi
ranks=()
for i in 0 1 2; do
  nsenter --net --target "${hosts[i]}" "$1" $i 6000 2000 reduce "${addresses[@]}" >"$folder/$i" 2>&1 &
  ranks[i]=$!
done
if [[ $2 == after ]]; then
  for i in 0 1 2; do until grep -q connected "$folder/$i"; do kill -0 "${ranks[i]}"; sleep 0.05; done; done
  ip link set cable2 down
fi
for i in 0 1 2; do
  code=0
  wait "${ranks[i]}" || code=$?
  echo "rank $i ended with $code"
  sed "s/^/[$i] /" "$folder/$i"
done
)sh";

TEST_SUITE("tcp start-up, hosts [full] [needs namespaces]") {
  TEST_CASE("a host that is cut off is named by the others") {
    const Finished may = run_process(
        {"/bin/sh", "-c",
         "unshare --net sh -c 'ip link add lockstep0 type veth peer name lockstep1 && ip link "
         "add lockstep2 type bridge' && command -v nsenter && command -v bash"});
    if (may.exit_code != 0)
      return skip("a host that is cut off", "the right to make network namespaces: " + may.output);
    std::string when, why;
    SUBCASE("before the start-up") {
      when = "before";
      why = "error: start-up: worker 2 (10.77.0.3:2222) failed: ";
    }
    SUBCASE("in the middle of the work") {
      when = "after";
      why = "error: all_reduce: worker 2 (10.77.0.3:2222) failed: ";
    }
    const auto begin = Clock::now();
    const Finished finished =
        run_process({"/bin/sh", "-c", "exec unshare --net bash -c \"$0\" hosts \"$@\"", three_hosts,
                     test_program("collectives_rank"), when},
                    {}, 60s);
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 0);
    CHECK(seconds_since(begin) < 30);
    for (const std::string rank : {"0", "1"}) {
      CHECK(contains(finished.output, "rank " + rank + " ended with 138\n"));
      CHECK(contains(finished.output, "[" + rank + "] " + why));
    }
    CHECK(contains(finished.output, "rank 2 ended with 138\n"));
  }

  TEST_CASE("a network that loses large packets is named by all, and no host") {
    const Finished may = run_process(
        {"/bin/sh", "-c",
         "unshare --net sh -c 'ip link add lockstep0 gso_max_segs 1 type veth peer name lockstep1' "
         "&& command -v nsenter && command -v bash"});
    if (may.exit_code != 0)
      return skip("a narrow network", "the right to make network namespaces: " + may.output);
    const Finished finished =
        run_process({"/bin/sh", "-c", "exec unshare --net bash -c \"$0\" hosts \"$@\"", three_hosts,
                     test_program("collectives_rank"), "narrow"},
                    {}, 60s);
    CAPTURE(finished.output);
    for (const std::string rank : {"0", "1", "2"})
      CHECK(contains(finished.output,
                     "[" + rank + "] error: all_reduce: the network between worker "));
    CHECK(contains(finished.output, " and worker 2 (10.77.0.3:2222) loses large packets"));
    CHECK_FALSE(contains(finished.output, " failed: "));
  }
}

TEST_SUITE("tcp start-up, the number of open files") {
  /// Runs f() in a process of its own that may have so many open files; returns whether it has
  /// returned true.
  template <class F>
  bool with_open_files(rlim_t now, rlim_t at_most, F f) {
    const pid_t process = ::fork();
    REQUIRE(process >= 0);
    if (process == 0) {
      bool good = false;
      try {
        const rlimit limit{now, at_most};
        good = ::setrlimit(RLIMIT_NOFILE, &limit) == 0 && f();
      } catch (...) {
      }
      ::_exit(good ? 0 : 1);
    }
    int status = 0;
    ::waitpid(process, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  std::string failure_to_join(const Rendezvous& place, const CommunicationOptions& options) {
    try {
      join(place, options);
    } catch (const std::exception& error) {
      return error.what();
    }
    return {};
  }

  TEST_CASE("too few for all connections end the start-up at once, by name") {
    LocalCluster cluster(3);
    const Rendezvous place = cluster.place(1);
    CommunicationOptions options = patient_options();
    options.connections = 16;
    CHECK(with_open_files(60, 60, [&] {
      try {
        join(place, options);
      } catch (const ConfigurationError& error) {
        return contains(error.what(), "CommunicationOptions::connections") &&
               contains(error.what(), "66") && contains(error.what(), "RLIMIT_NOFILE");
      }
      return false;
    }));
    ::close(place.listen_socket);
  }

  TEST_CASE("as many as the system allows are taken when they are needed") {
    CHECK(with_open_files(40, 200, [] {
      CommunicationOptions options = patient_options();
      options.connections = 16;
      rethrow_first(run_places(2, [&](const Rendezvous& place) { join(place, options); }));
      rlimit limit{};
      return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 200;
    }));
  }

  // (Not with a sanitizer, which opens files itself to look at objects.)
  TEST_CASE(
      "when the program has used them up, that is the reason, and not that a peer does not answer" *
      doctest::skip(has_sanitizer)) {
    LocalCluster cluster(3);
    const Rendezvous place = cluster.place(1);
    const Guest waiting(port_of(cluster.addresses[1]));  // to be accepted
    CHECK(with_open_files(64, 64, [&] {
      std::vector<int> files;
      for (int file = 0; (file = ::dup(place.listen_socket)) >= 0;) files.push_back(file);
      // What the worker needs beside connections is not known here: it gets one more after the
      // other.
      for (const int file : files) {
        ::close(file);
        const std::string text = failure_to_join(place, {.startup_timeout = 300ms});
        if (contains(text, "cannot be called from here: too many open files"))
          return contains(text, "this worker cannot accept connections: Too many open files");
      }
      return false;
    }));
    ::close(place.listen_socket);
  }
}
