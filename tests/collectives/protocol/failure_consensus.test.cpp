#include "lockstep/collectives/protocol/failure_consensus.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/partners.hpp"

using namespace lockstep::detail;
using namespace lockstep;
using namespace std::chrono_literals;
using lockstep::detail::FailureCause;

using Milliseconds = std::chrono::milliseconds;

namespace {

/// Ranks that talk to each other without a network, on a clock of their own.
class Cluster {
 public:
  explicit Cluster(int size) {
    std::vector<std::string> names;
    for (int r = 0; r < size; ++r) names.push_back("rank " + std::to_string(r));
    for (int r = 0; r < size; ++r) ranks_.push_back(std::make_unique<Rank>(*this, r, names));
  }

  [[nodiscard]] FailureConsensus& consensus(int rank) { return at(rank).consensus; }
  [[nodiscard]] ControlChannel& channel(int rank) { return at(rank).channel; }
  [[nodiscard]] const std::optional<CollectiveFailure>& verdict(int rank) {
    return at(rank).verdict;
  }
  [[nodiscard]] FailureConsensus::Clock::time_point now() const {
    return FailureConsensus::Clock::time_point(1h + time_);
  }

  /// The rank does nothing, and its messages get lost.
  void stop(int rank) { at(rank).stopped = true; }
  /// The rank answers questions, and that is all.
  void mute(int rank) { at(rank).is_mute = true; }
  /// No more messages pass in this direction.
  void cut(int from, int to) { cuts_.emplace_back(from, to); }
  /// The connection is reset, on both sides.
  void reset(int a, int b) {
    cut(a, b);
    cut(b, a);
    for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)})
      lose(one, other, ECONNRESET);
  }
  /// A rank's process is killed: its partners see the end of their connections.
  void kill(int rank) {
    stop(rank);
    for (const int other : channel(rank).partners()) lose(other, rank, 0);
  }
  void lose(int by, int of, int error) {
    channel(by).peer(of).gone = true;
    consensus(by).lose(of, error, now());
  }

  /// Runs until no rank has anything more to say.
  void talk() {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (auto& rank : ranks_) {
        if (rank->stopped || rank->is_mute || rank->verdict) continue;
        if (const auto& reported = rank->channel.reported())
          rank->verdict = reported;
        else
          rank->verdict = rank->consensus.advance(now());
        if (rank->verdict) rank->channel.report(*rank->verdict);
      }
      while (!messages_.empty()) {
        goes_on = true;
        const Message message = messages_.front();
        messages_.pop_front();
        if (!at(message.to).stopped)
          (void)channel(message.to).take(message.from, message.bytes, now());
      }
    }
  }
  void talk_at(Milliseconds time) {
    time_ = time;
    talk();
  }

  /// All ranks that are not stopped say the same.
  void check_verdict(int failed, const std::string& reason) {
    for (auto& rank : ranks_) {
      if (rank->stopped) continue;
      REQUIRE(rank->verdict);
      CHECK(rank->verdict->failed_rank == failed);
      CHECK(rank->verdict->reason == reason);
    }
  }
  [[nodiscard]] bool is_open() {
    for (auto& rank : ranks_)
      if (!rank->stopped && rank->consensus.is_open()) return true;
    return false;
  }

 private:
  struct Rank {
    Rank(Cluster& cluster, int r, const std::vector<std::string>& names)
        : channel(r, static_cast<int>(names.size()), board,
                  [&cluster, r](int to, const ControlFrame& frame, std::string_view text) {
                    cluster.send(r, to, frame, text);
                  }),
          consensus(channel, names) {
      channel.set_on_vote(
          [this](int from, const ControlInbox::Message& message,
                 FailureConsensus::Clock::time_point now) { consensus.take(from, message, now); });
    }
    ActivityBoard board;
    ControlChannel channel;
    FailureConsensus consensus;
    bool stopped = false, is_mute = false;
    std::optional<CollectiveFailure> verdict;
  };
  struct Message {
    int from, to;
    std::string bytes;
  };

  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] Rank& at(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

  void send(int from, int to, const ControlFrame& frame, std::string_view text) {
    if (at(from).stopped || channel(from).peer(to).gone) return;
    for (const auto& [a, b] : cuts_)
      if (a == from && b == to) return;
    const FrameBytes bytes = frame.encode();
    messages_.push_back({from, to,
                         std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) +
                             std::string(text)});
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
  std::deque<Message> messages_;
  std::vector<std::pair<int, int>> cuts_;
  Milliseconds time_{0};
};

}  // namespace

TEST_SUITE("failure consensus") {
  TEST_CASE("a process that is killed is named by all, without any wait") {
    for (const int size : {2, 3, 5})
      for (int victim = 0; victim < size; ++victim) {
        Cluster cluster(size);
        cluster.kill(victim);
        cluster.talk();
        cluster.check_verdict(victim, "closed the connection");
      }
  }

  TEST_CASE("of many ranks, too, which hear of it from others") {
    for (const int size : {9, 12, 64})
      for (const int victim : {0, 5, size - 1}) {
        Cluster cluster(size);
        cluster.kill(victim);
        cluster.talk();
        cluster.check_verdict(victim, "closed the connection");
      }
  }

  TEST_CASE("several of many that are killed are all named, with one of them as the cause") {
    Cluster cluster(20);
    for (const int victim : {3, 4, 15}) cluster.kill(victim);
    cluster.talk();
    // Most have voted on rank 4: the two others are partners.
    cluster.check_verdict(4, "closed the connection; lost as well: rank 3, rank 15");
  }

  TEST_CASE("a rank whose partners are all killed names them") {
    Cluster cluster(12);
    const std::vector<int> partners = cluster.channel(6).partners();
    for (const int partner : partners) cluster.kill(partner);
    cluster.talk();
    REQUIRE(cluster.verdict(6));
    CHECK(cluster.verdict(6)->failed_rank == 2);
    CHECK(cluster.verdict(6)->reason ==
          "closed the connection; lost as well: rank 4, rank 5, rank 7, rank 8, rank 10");
  }

  TEST_CASE("of many ranks, two that lose each other are named by all, and neither is blamed") {
    Cluster cluster(20);
    cluster.reset(7, 11);
    cluster.talk();
    cluster.check_verdict(-1,
                          "the connection between rank 7 and rank 11 broke: Connection reset by "
                          "peer; other workers hear both");
  }

  TEST_CASE("a rank that misses one that is no partner learns from others what it is about") {
    Cluster cluster(20);
    cluster.consensus(0).miss(10, 30s, cluster.now());  // it is well
    cluster.talk();
    for (int rank = 0; rank < 20; ++rank) CHECK_FALSE(cluster.verdict(rank));
    CHECK_FALSE(cluster.is_open());
    cluster.stop(10);
    cluster.consensus(0).miss(10, 30s, cluster.now());
    for (const Milliseconds time : {0ms, 1600ms, 3200ms}) cluster.talk_at(time);
    cluster.check_verdict(10, "was silent for more than 30000 ms (CommunicationOptions::timeout)");
  }

  TEST_CASE("a rank that dies after it has been heard, before its vote, is not waited for") {
    for (const int size : {3, 12}) {
      Cluster cluster(size);
      cluster.mute(1);
      cluster.kill(2);
      cluster.talk();
      CHECK_FALSE(cluster.verdict(0));  // rank 1 has answered
      cluster.kill(1);
      cluster.talk();
      cluster.check_verdict(1, "closed the connection; lost as well: rank 2");
    }
  }

  TEST_CASE("words of a round that is over begin no other one") {
    Cluster cluster(3);
    cluster.consensus(0).miss(1, 30s, cluster.now());
    cluster.talk();
    CHECK_FALSE(cluster.is_open());
    const FrameBytes bytes = ControlFrame{.type = ControlFrame::Type::doubt, .extra = 1}.encode();
    const std::string late(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    CHECK(cluster.channel(2).take(1, late, cluster.now()));
    CHECK_FALSE(cluster.is_open());
    cluster.consensus(1).miss(2, 30s, cluster.now());
    CHECK(cluster.is_open());
  }

  TEST_CASE("a rank that hangs is named by all, as soon as it should have answered") {
    for (const int size : {2, 4}) {
      Cluster cluster(size);
      cluster.stop(1);
      cluster.consensus(0).miss(1, 30s, cluster.now());
      cluster.talk();
      CHECK_FALSE(cluster.verdict(0));
      CHECK(cluster.consensus(0).due() == cluster.now() + FailureConsensus::time_to_answer);
      cluster.talk_at(1499ms);
      CHECK_FALSE(cluster.verdict(0));
      cluster.talk_at(1500ms);
      cluster.check_verdict(1, "was silent for more than 30000 ms (CommunicationOptions::timeout)");
    }
  }

  TEST_CASE("many ranks have longer to answer") {
    CHECK(FailureConsensus::time_for(2) == 1500ms);
    CHECK(FailureConsensus::time_for(16) == 1500ms);
    CHECK(FailureConsensus::time_for(256) == 7500ms);
    Cluster cluster(24);
    cluster.stop(1);
    cluster.consensus(0).miss(1, 30s, cluster.now());
    cluster.talk();
    cluster.talk_at(1699ms);
    CHECK_FALSE(cluster.verdict(0));
    cluster.talk_at(1700ms);
    cluster.check_verdict(1, "was silent for more than 30000 ms (CommunicationOptions::timeout)");
  }

  TEST_CASE("a false alarm ends with nothing, and leaves nothing behind") {
    Cluster cluster(3);
    cluster.consensus(0).miss(1, 30s, cluster.now());
    cluster.talk();
    for (int rank = 0; rank < 3; ++rank) CHECK_FALSE(cluster.verdict(rank));
    CHECK_FALSE(cluster.is_open());
    CHECK(cluster.consensus(0).due() == FailureConsensus::Clock::time_point::max());
    cluster.kill(2);
    cluster.talk();
    cluster.check_verdict(2, "closed the connection");
  }

  TEST_CASE(
      "a connection between two ranks that breaks is called that by all, and neither is blamed") {
    for (int a = 0; a < 4; ++a)
      for (int b = a + 1; b < 4; ++b) {
        Cluster cluster(4);
        cluster.reset(a, b);
        cluster.talk();
        cluster.check_verdict(
            -1, concat({"the connection between rank ", a, " and rank ", b,
                        " broke: Connection reset by peer; other workers hear both"}));
      }
  }

  TEST_CASE("a connection for data that breaks, too") {
    Cluster cluster(3);
    cluster.consensus(2).lose_data(0, ECONNRESET, cluster.now());
    cluster.talk();
    cluster.check_verdict(-1,
                          "the connection between rank 0 and rank 2 broke: Connection reset by "
                          "peer; other workers hear both");
    Cluster two(2);
    two.consensus(1).lose_data(0, 0, two.now());
    two.talk();
    two.check_verdict(
        -1, "the connection between rank 0 and rank 1 broke: it was closed; both processes live");
  }

  TEST_CASE("when only one direction between two ranks is cut, all say the same") {
    Cluster cluster(3);
    cluster.cut(2, 0);
    cluster.consensus(0).miss(2, 30s, cluster.now());
    for (const Milliseconds time : {0ms, 1500ms, 3000ms}) cluster.talk_at(time);
    cluster.check_verdict(
        -1,
        "the network between rank 0 and rank 2 is cut: rank 2 was silent for more than 30000 ms "
        "(CommunicationOptions::timeout), as rank 0 hears it; other workers hear both");
  }

  TEST_CASE("a rank that none of the others hears, but that hears them, knows that it has failed") {
    for (const int size : {2, 3}) {
      Cluster cluster(size);
      for (int other = 1; other < size; ++other) cluster.cut(0, other);
      cluster.consensus(1).miss(0, 30s, cluster.now());
      for (const Milliseconds time : {0ms, 1500ms, 3000ms}) cluster.talk_at(time);
      cluster.check_verdict(0, "was silent for more than 30000 ms (CommunicationOptions::timeout)");
    }
  }

  TEST_CASE("a rank that is cut off from all others blames itself, as they do") {
    Cluster cluster(3);
    for (const int other : {0, 1}) {
      cluster.cut(2, other);
      cluster.cut(other, 2);
    }
    cluster.consensus(0).miss(2, 30s, cluster.now());
    cluster.consensus(2).miss(0, 30s, cluster.now());
    for (const Milliseconds time : {0ms, 1500ms, 3000ms}) cluster.talk_at(time);
    for (int rank = 0; rank < 3; ++rank) CHECK(cluster.verdict(rank)->failed_rank == 2);
  }

  TEST_CASE("a vote waits until it is known whether a process lives that has lost its connection") {
    for (const auto process : {PeerEvidence::Process::lives, PeerEvidence::Process::ended,
                               PeerEvidence::Process::unknown}) {
      Cluster cluster(2);
      cluster.stop(1);
      cluster.lose(0, 1, ECONNRESET);
      cluster.consensus(0).look_for(1, true);
      cluster.talk();
      CHECK_FALSE(cluster.verdict(0));
      cluster.consensus(0).found(1, process);
      cluster.talk();
      REQUIRE(cluster.verdict(0));
      CHECK(cluster.verdict(0)->failed_rank == (process == PeerEvidence::Process::lives ? -1 : 1));
      CHECK((cluster.verdict(0)->reason.find("its process has ended") != std::string::npos) ==
            (process == PeerEvidence::Process::ended));
    }
  }

  TEST_CASE("a rank that has come to its end may go") {
    Cluster cluster(3);
    cluster.channel(1).say_goodbye();
    cluster.talk();
    cluster.stop(1);
    cluster.consensus(0).lose_data(1, 0, cluster.now());
    cluster.talk();
    CHECK_FALSE(cluster.verdict(0));
    CHECK_FALSE(cluster.verdict(2));
    CHECK_FALSE(cluster.is_open());
  }

  TEST_CASE("a loss after the vote is cast is looked into again") {
    Cluster cluster(3);
    cluster.stop(2);
    cluster.consensus(0).miss(2, 30s, cluster.now());
    cluster.talk();
    cluster.kill(2);
    cluster.talk();
    cluster.check_verdict(2, "closed the connection");
  }
}

using Kind = PeerEvidence::Kind;
using Process = PeerEvidence::Process;

namespace {

constexpr PeerEvidence heard{Kind::heard}, reset{Kind::broken, ECONNRESET}, closed{Kind::closed},
    left{Kind::left}, silent{Kind::silent, 30'000}, unanswered{};

std::vector<std::string> names(int size) {
  std::vector<std::string> result;
  for (int r = 0; r < size; ++r) result.push_back("rank " + std::to_string(r));
  return result;
}

/// Checks what each rank concludes from `votes` (an empty one is missing).
std::vector<std::optional<CollectiveFailure>> verdicts(const std::vector<Vote>& votes) {
  std::vector<std::optional<CollectiveFailure>> result;
  for (std::size_t rank = 0; rank < votes.size(); ++rank) {
    if (votes[rank].empty()) continue;
    VoteTally mine(static_cast<int>(rank), names(static_cast<int>(votes.size())));
    for (std::size_t from = 0; from < votes.size(); ++from)
      if (!votes[from].empty()) mine.add(static_cast<int>(from), votes[from]);
    CHECK(mine.are_complete());
    result.push_back(mine.verdict());
  }
  return result;
}

void check_all(const std::vector<Vote>& votes, int failed, const std::string& reason) {
  for (const auto& verdict : verdicts(votes)) {
    REQUIRE(verdict);
    CHECK(verdict->failed_rank == failed);
    CHECK(verdict->reason == reason);
    CHECK(verdict->code == ExitCode::lost_peer);
  }
}

}  // namespace

TEST_SUITE("vote tally") {
  TEST_CASE("all are well") {
    for (const auto& verdict :
         verdicts({{heard, heard, heard}, {heard, heard, heard}, {heard, heard, heard}}))
      CHECK_FALSE(verdict);
    for (const auto& verdict : verdicts({{heard, left}, {heard, heard}})) CHECK_FALSE(verdict);
  }

  TEST_CASE("a rank that no other one hears has failed") {
    const PeerEvidence ended{Kind::broken, ECONNRESET, Process::ended};
    check_all({{heard, heard, reset}, {heard, heard, ended}, {}}, 2,
              "lost the connection (Connection reset by peer); its process has ended");
    check_all({{heard, heard, closed}, {heard, heard, reset}, {}}, 2, "closed the connection");
    check_all({{heard, heard, silent}, {heard, heard, unanswered}, {}}, 2,
              "was silent for more than 30000 ms (CommunicationOptions::timeout)");
  }

  TEST_CASE("so has one that most do not hear, though it hears some, and says so itself") {
    check_all({{heard, heard, heard, reset},
               {heard, heard, heard, reset},
               {heard, heard, heard, heard},
               {reset, reset, heard, heard}},
              3, "lost the connection (Connection reset by peer)");
  }

  TEST_CASE(
      "two ranks that have lost each other alone: the connection is at fault, in the same words on "
      "all") {
    check_all({{heard, heard, reset},
               {heard, heard, heard},
               {{Kind::broken, ECONNABORTED}, heard, heard}},
              -1,
              "the connection between rank 0 and rank 2 broke: Connection reset by peer; other "
              "workers hear both");
    check_all(
        {{heard, heard, silent}, {heard, heard, heard}, {heard, heard, heard}}, -1,
        "the network between rank 0 and rank 2 is cut: rank 2 was silent for more than 30000 ms "
        "(CommunicationOptions::timeout), as rank 0 hears it; other workers hear both");
    const PeerEvidence data{Kind::data_broken, ECONNRESET};
    check_all({{heard, heard, heard}, {heard, heard, data}, {heard, heard, heard}}, -1,
              "the connection between rank 1 and rank 2 broke: Connection reset by peer; other "
              "workers hear both");
  }

  TEST_CASE("where only large questions have no answer, the network is to blame, and no rank") {
    const PeerEvidence narrow{Kind::narrow};
    const auto check = [](const std::vector<Vote>& votes, const std::string& between) {
      for (const auto& verdict : verdicts(votes)) {
        REQUIRE(verdict);
        CHECK(verdict->failed_rank == -1);
        CHECK(verdict->reason.starts_with("the network between " + between +
                                          " loses large packets, though small ones pass"));
      }
    };
    check({{heard, heard, heard}, {heard, heard, narrow}, {heard, narrow, heard}},
          "rank 1 and rank 2");
    check({{}, {narrow, heard, narrow}, {}}, "rank 0 and rank 1");  // alone
    check({{heard, narrow}, {}}, "rank 0 and rank 1");
  }

  TEST_CASE("of two ranks, the other one has failed, unless its process is known to live") {
    check_all({{heard, reset}, {}}, 1, "lost the connection (Connection reset by peer)");
    check_all({{heard, silent}, {}}, 1,
              "was silent for more than 30000 ms (CommunicationOptions::timeout)");
    check_all({{heard, {Kind::broken, ECONNRESET, Process::refused}}, {}}, 1,
              "lost the connection (Connection reset by peer); its port refuses calls: its process "
              "has ended, or a firewall refuses them");
    const PeerEvidence lives{Kind::broken, ECONNRESET, Process::lives};
    const std::string reason =
        "the connection between rank 0 and rank 1 broke: Connection reset by peer; both "
        "processes live";
    check_all({{heard, lives}, {}}, -1, reason);
    check_all({{}, {lives, heard}}, -1, reason);  // the other side
    check_all({{heard, {Kind::broken, ECONNRESET, Process::closes}}, {}}, -1,
              "the connection between rank 0 and rank 1 broke: Connection reset by peer; a process "
              "closes calls of the other one's port, that one or a successor");
  }

  TEST_CASE("a rank that hears none of many others any more is alone") {
    check_all({{}, {silent, heard, unanswered}, {}}, 1,
              "hears none of the other workers any more: its network is cut, or all of them hang");
    check_all({{}, {closed, heard, closed}, {}}, 0,  // but those ended
              "closed the connection; lost as well: rank 2");
    // Rank 0 has spoken before the way was cut, and its vote does not come.
    VoteTally late(1, names(3));
    late.add(1, {heard, heard, silent});
    CHECK_FALSE(late.are_complete());
    REQUIRE(late.verdict());
    CHECK(late.verdict()->failed_rank == 1);
    late.add(0, {heard, heard, silent});
    CHECK(late.verdict()->failed_rank == 2);
  }

  TEST_CASE("a rank that has come to its end has not failed, and is not waited for") {
    check_all({{heard, left, reset}, {}, {}}, 2, "lost the connection (Connection reset by peer)");
  }

  TEST_CASE("of many ranks, each votes on its partners") {
    constexpr int size = 12;  // whose partners are 1, 2, 4 and 8 to the left or right
    std::vector<Vote> votes(size, Vote(size));
    for (int by = 0; by < size; ++by)
      for (int of = 0; of < size; ++of)
        if (by == of || are_partners(by, of, size))
          votes[static_cast<std::size_t>(by)][static_cast<std::size_t>(of)] = heard;
    for (const auto& verdict : verdicts(votes)) CHECK_FALSE(verdict);

    SUBCASE("a rank that is no partner has no vote, but may know how long the silence was") {
      votes[0][3] = silent;
      for (const auto& verdict : verdicts(votes)) CHECK_FALSE(verdict);
      votes[3].clear();
      for (const std::size_t by : {1u, 2u, 4u, 5u, 7u, 11u}) votes[by][3] = unanswered;
      check_all(votes, 3, "was silent for more than 30000 ms (CommunicationOptions::timeout)");
    }
    SUBCASE("one that has lost one of six is not to blame") {
      votes[3][4] = votes[4][3] = reset;
      check_all(votes, -1,
                "the connection between rank 3 and rank 4 broke: Connection reset by peer; other "
                "workers hear both");
    }
    SUBCASE("a vote that is missing is waited for, whichever rank hears the other") {
      VoteTally mine(0, names(size));
      for (int from = 0; from < size; ++from)
        if (from != 6) mine.add(from, votes[static_cast<std::size_t>(from)]);
      CHECK_FALSE(mine.are_complete());  // rank 0 itself does not hear it
      mine.add(6, votes[6]);
      CHECK(mine.are_complete());
    }
    SUBCASE("the judge is the lowest that has lost no living partner") {
      votes[0][1] = votes[1][0] = reset;
      for (const int rank : {0, 1, 7}) {
        VoteTally mine(rank, names(size));
        for (int from = 0; from < size; ++from)
          mine.add(from, votes[static_cast<std::size_t>(from)]);
        CHECK(mine.judge() == 2);
      }
    }
    SUBCASE("the last of a part names all that it has lost") {
      const std::vector<Vote> all = votes;
      for (Vote& vote : votes) vote.clear();
      votes[3] = all[3];
      for (const std::size_t of : {1u, 2u, 4u, 5u, 7u, 11u}) votes[3][of] = closed;
      check_all(votes, 1,
                "closed the connection; lost as well: rank 2, rank 4, rank 5, rank 7, rank 11");
    }
  }

  TEST_CASE("however long the names are, the reason fits into a message") {
    constexpr int size = 64;
    for (const std::size_t length : {10u, 100u, 250u}) {
      std::vector<std::string> hosts;
      for (int rank = 0; rank < size; ++rank)
        hosts.push_back("rank " + std::to_string(rank) + " (" + std::string(length, 'h') +
                        ":2222)");
      VoteTally mine(3, hosts);
      Vote vote(size, heard);  // of one that has lost all of its partners, which are eleven
      for (int of = 0; of < size; ++of)
        if (are_partners(3, of, size)) vote[static_cast<std::size_t>(of)] = closed;
      mine.add(3, vote);
      const auto verdict = mine.verdict();
      REQUIRE(verdict);
      CHECK(verdict->reason.size() <= ControlFrame::longest);
      const std::string few = "; lost as well: " + hosts[2] + ", " + hosts[4];
      CHECK(verdict->reason.find(few) != std::string::npos);
      const bool is_cut = verdict->reason.find(" more") != std::string::npos;
      CHECK(is_cut == (length == 250));
      if (is_cut) CHECK(verdict->reason.substr(verdict->reason.size() - 12) == ") and 4 more");
    }
  }

  TEST_CASE("the judge is heard by all, and waits until they have voted") {
    // 0 and 2 have lost each other.
    VoteTally of_0(0, names(3)), of_1(1, names(3));
    of_0.add(0, {heard, heard, reset});
    CHECK_FALSE(of_0.are_complete());
    of_0.add(1, {heard, heard, heard});
    CHECK_FALSE(of_0.are_complete());  // the vote of 2, which only 1 hears
    CHECK(of_0.judge() == 1);
    of_1.add(0, {heard, heard, reset});
    of_1.add(1, {heard, heard, heard});
    CHECK_FALSE(of_1.are_complete());
    of_1.add(2, {reset, heard, heard});
    CHECK(of_1.are_complete());
    CHECK(of_1.judge() == 1);
    of_1.clear();
    CHECK_FALSE(of_1.has(0));
  }
}

TEST_SUITE("peer evidence") {
  TEST_CASE("text and back") {
    const Vote vote{heard,
                    left,
                    {Kind::broken, ECONNRESET, Process::ended},
                    silent,
                    {Kind::closed, 0, Process::lives},
                    unanswered,
                    {Kind::data_broken, 5},
                    {Kind::closed, 0, Process::refused},
                    {Kind::narrow}};
    const std::string text = encode_vote(vote);
    CHECK(text == "hlb-104s30000c+ud5c!n");
    CHECK(decode_vote(text, 9) == vote);
  }

  TEST_CASE("what is no vote is refused") {
    for (const char* text : {"", "hh", "hhhh", "hhx", "hh-", "h+-h", "hhs99999999999", "hhs1 ",
                             "hh\x80", "hu3", "hu-2", "hu0", "hu99999999"}) {
      CAPTURE(text);
      CHECK_FALSE(decode_vote(text, 3));
    }
    CHECK(decode_vote("hh-h", 3));
  }

  TEST_CASE("of many ranks, most are those of which nothing is known: they are counted") {
    Vote vote(1000);
    vote[3] = heard;
    vote[5] = {Kind::closed, 0, Process::ended};
    vote[999] = silent;
    CHECK(encode_vote(vote) == "u3huc-u993s30000");
    CHECK(decode_vote("u3huc-u993s30000", 1000) == vote);
    CHECK_FALSE(decode_vote("u3huc-u993s30000", 999));
    CHECK_FALSE(decode_vote("u3huc-u993s30000", 1001));
    CHECK(decode_vote(encode_vote(Vote(5)), 5) == Vote(5));
  }
}

using Type = ControlFrame::Type;

namespace {

const FailureWatch::Clock::time_point now(100s);

std::string bytes_of(const ControlFrame& frame, const std::string& text = {}) {
  const FrameBytes bytes = frame.encode();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + text;
}

/// Rank 0 of three, and what it has sent.
struct Watcher {
  const WorkerNames names{{"a:1", "b:2", "c:3"}};
  ActivityBoard board;
  FailureCause cause;
  std::vector<std::pair<int, Type>> sent;
  FailureWatch watch{names, 0, board, cause,
                     [this](int to, const ControlFrame& frame, std::string_view) {
                       sent.emplace_back(to, frame.type);
                     }};

  [[nodiscard]] bool has_told(Type type) const {
    for (const int to : {1, 2})
      if (std::find(sent.begin(), sent.end(), std::pair(to, type)) == sent.end()) return false;
    return true;
  }
};

}  // namespace

// (What several ranks conclude together: simulated_work.test.cpp.)
TEST_SUITE("failure watch") {
  TEST_CASE("a report becomes the cause, with the address, and is told once") {
    Watcher w;
    CHECK_FALSE(w.watch.conclude(now));
    const ControlFrame abort{.type = Type::abort, .value = 2, .extra = 138, .length = 4};
    CHECK_FALSE(w.watch.take(1, bytes_of(abort, "lost"), now));
    CHECK(w.watch.has_report());
    CHECK_FALSE(w.watch.lose(1, 0, now));  // reports come first
    CHECK(w.watch.conclude(now));
    CHECK(w.cause.get().failed_rank == 2);
    CHECK(w.cause.get().address == "c:3");
    CHECK(w.cause.get().reason == "lost");
    CHECK_FALSE(w.watch.conclude(now));
    CHECK(w.watch.due() == FailureWatch::Clock::time_point::max());
    CollectiveFailure later;
    later.failed_rank = 1;
    CHECK(w.watch.settle(later).failed_rank == 2);
    CHECK(std::count(w.sent.begin(), w.sent.end(), std::pair(1, Type::abort)) == 1);
  }

  TEST_CASE("garbage is a failure of its sender; a goodbye is news, and its end is no loss") {
    Watcher w;
    CHECK(w.watch.take(1, bytes_of({.type = Type::goodbye}), now));
    CHECK_FALSE(w.watch.take(1, {}, now));
    CHECK_FALSE(w.watch.lose(1, 0, now));
    CHECK(w.sent.empty());
    CHECK(w.watch.take(2, std::string(16, 'x'), now));
    CHECK(w.cause.get().failed_rank == 2);
    CHECK(w.has_told(Type::abort));
  }

  TEST_CASE("a loss makes all ranks ask each other; a probe may look for the process meanwhile") {
    Watcher w;
    CHECK(w.watch.lose(2, 0, now));
    w.watch.look_for(2, true);
    CHECK(w.sent[0] == std::pair(1, Type::doubt));
    CHECK(w.watch.due() < FailureWatch::Clock::time_point::max());
    w.watch.found(2, PeerEvidence::Process::ended);
    CHECK_FALSE(w.watch.take(
        1, bytes_of({.type = Type::vote, .value = 1, .extra = 1, .length = 3}, "hhc"), now));
    CHECK(w.watch.conclude(now));
    CHECK(w.cause.get().failed_rank == 2);
    CHECK(w.cause.get().reason == "closed the connection; its process has ended");
  }
}

TEST_SUITE("failure cause") {
  TEST_CASE("the first one counts, whichever thread sets it") {
    FailureCause cause;
    CHECK_FALSE(cause.is_set());
    std::vector<std::string> returned(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < returned.size(); ++i)
      threads.emplace_back([&, i] {
        CollectiveFailure failure;
        failure.reason = std::to_string(i);
        returned[i] = cause.set(failure).reason;
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(cause.is_set());
    CHECK(returned == std::vector<std::string>(4, cause.get().reason));
  }
}
