#include "lockstep/collectives/protocol/vote_tally.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/collectives/protocol/control_partners.hpp"
#include "lockstep/collectives/protocol/frame.hpp"

using namespace lockstep;
using namespace lockstep::detail;
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
        if (by == of || are_control_partners(by, of, size))
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
        if (are_control_partners(3, of, size)) vote[static_cast<std::size_t>(of)] = closed;
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
