// Backups of parameter servers: which are read, and what becomes of them at a training's end.
#include "lockstep/extra/parameter_server/backup.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "extra/parameter_server/served.hpp"
#include "lockstep/extra/parameter_server/client.hpp"
#include "lockstep/extra/parameter_server/server.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
namespace lsd = lockstep::detail;
using lockstep_test::CapturedStderr;
using lockstep_test::contains;
using lockstep_test::Counter;
using lockstep_test::message_of;
using lockstep_test::TemporaryFolder;
using namespace std::chrono_literals;

namespace {

/// Makes the two generations of server 0's backup: an older one with 1, a newer one with 2.
void save_two(const std::string& folder) {
  Counter keeper;
  for (const double value : {1.0, 2.0}) {
    keeper.load(std::as_bytes(std::span(&value, 1)));
    lsd::PsBackup backup(folder, 0, 1);
    backup.copy(keeper, {.fit = 1});
    CHECK(backup.write());
  }
}

/// What a server goes on with.
std::optional<double> restored(lsd::PsBackup& backup) {
  Counter keeper;
  lsd::PsProgress progress;
  if (!backup.restore(keeper, progress)) return std::nullopt;
  CHECK(progress.fit == 1);
  double value = 0;
  keeper.save(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}
std::optional<double> restored(const std::string& folder, int servers = 1) {
  lsd::PsBackup backup(folder, 0, servers);
  return restored(backup);
}

/// Servers of a job with one worker, as threads.
class Servers {
 public:
  explicit Servers(const std::string& folder) {
    options.backup_dir = folder;
    for (int i = 0; i < 2; ++i) {
      listeners_.emplace_back(lsd::listen_for("127.0.0.1", "", 0));
      addresses.push_back("127.0.0.1:" + std::to_string(listeners_.back().port()));
    }
    for (std::size_t i = 0; i < 2; ++i)
      threads_.emplace_back([this, i] {
        messages[i] = message_of<ls::Error>([&] {
          lsd::ParameterServer(
              keepers[i],
              {.index = static_cast<int>(i), .servers = 2, .workers = 1, .address = addresses[i]},
              options, {}, listeners_[i])
              .serve();
        });
      });
  }
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;
  ~Servers() {
    for (std::thread& thread : threads_) thread.join();
    for (const std::string& message : messages) CHECK(message == "NO EXCEPTION");
  }

  /// The chief has finished. Tells a server that all is over; true when its backup says so.
  bool end(int server) const {
    lsd::PsLink link(caller, static_cast<std::size_t>(server), address(server));
    link.connect(lsd::PsLink::Clock::now() + 20s);
    link.connection->send(lsd::PsMessage::finish, {}, 1);
    (void)link.reply("test", std::nullopt);
    link.connection->send(lsd::PsMessage::pull, "");
    std::vector<std::byte> state(link.reply("test", std::nullopt).size);
    link.connection->receive(state);
    link.connection->send(lsd::PsMessage::ended, "");
    return link.reply("test", std::nullopt).number == 1;
  }
  /// They leave what there is.
  void say_goodbye() const {
    for (int i = 0; i < 2; ++i) {
      lsd::PsLink link(caller, static_cast<std::size_t>(i), address(i));
      link.connect(lsd::PsLink::Clock::now() + 20s);
      link.connection->send(lsd::PsMessage::goodbye, "");
    }
  }
  const std::string& address(int server) const {
    return addresses[static_cast<std::size_t>(server)];
  }

  ls::ParameterServerOptions options{.timeout = 20s, .startup_timeout = 60s};
  const lsd::PsCaller caller{.servers = 2, .options = options, .process = 7};
  std::vector<std::string> addresses;
  std::vector<Counter> keepers{2};
  std::vector<std::string> messages{2};

 private:
  std::vector<lsd::ListeningSocket> listeners_;
  std::vector<std::thread> threads_;
};

struct Chief {
  explicit Chief(const Servers& servers)
      : client(0, 1, servers.addresses, servers.options, {}), begun(client.begin(1, "same")) {}
  void put(double value) {
    for (std::size_t i = 0; i < 2; ++i) client.put(i, {}, std::as_bytes(std::span(&value, 1)));
  }
  double pull(std::size_t server) {
    double value = 0;
    client.pull(server, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  lsd::ParameterClient client;
  lsd::PsBegun begun;
};

bool exists(const std::string& path) {
  for (int i = 0; i < 200 && !std::filesystem::exists(path); ++i) std::this_thread::sleep_for(10ms);
  return std::filesystem::exists(path);
}

}  // namespace

TEST_CASE("backup of a parameter server: the newest that can be read; none of two is refused") {
  const TemporaryFolder folder;
  const CapturedStderr captured;
  const std::string newest = folder.path("ps-0.lockstep"), former = newest + ".previous";
  CHECK(restored(folder.path()) == std::nullopt);
  save_two(folder.path());
  CHECK(restored(folder.path()) == 2);

  SUBCASE("damaged") {
    std::ofstream(newest) << "damaged";
    {
      lsd::PsBackup backup(folder.path(), 0, 1);
      CHECK(restored(backup) == 1);
      CHECK(contains(captured.text(), "going on from the backup before it"));
      // The damaged one does not take the place of the one that can be read.
      backup.copy(Counter(), {.fit = 1});
      CHECK(backup.write());
    }
    std::ofstream(newest) << "damaged";
    CHECK(restored(folder.path()) == 1);
  }
  SUBCASE("a folder in its place") {
    std::filesystem::remove(newest);
    std::filesystem::create_directory(newest);
    CHECK(restored(folder.path()) == 1);
  }
  SUBCASE("both") {
    std::ofstream(newest) << "damaged";
    std::ofstream(former) << "damaged";
    const std::string why = message_of<ls::DataError>([&] { (void)restored(folder.path()); });
    CHECK(contains(why, "'" + newest + "'"));
    CHECK(contains(why, "'" + former + "'"));
    CHECK(contains(why, "remove the files 'ps-*' of all servers to start from the beginning"));
    CHECK(std::filesystem::exists(newest));
    CHECK(std::filesystem::exists(former));
  }
}

TEST_CASE("backup of a parameter server: another job's is refused, in use or of other servers") {
  const TemporaryFolder folder;
  save_two(folder.path());
  CHECK(contains(message_of<ls::ConfigurationError>([&] { (void)restored(folder.path(), 2); }),
                 "is of a job with a number of servers of 1, and this job has 2"));
  lsd::PsBackup owner(folder.path(), 0, 1);
  CHECK(restored(owner) == 2);
  const std::string why =
      message_of<ls::ConfigurationError>([&] { (void)restored(folder.path()); });
  CHECK(contains(why, "backup_dir '" + folder.path() + "' is in use by another job (process "));
}

TEST_CASE("parameter servers: one that has no backup beside others that have is told by name") {
  const TemporaryFolder folder;
  const std::string first = folder.path("ps-0.lockstep"), second = folder.path("ps-1.lockstep");
  {
    Servers servers(folder.path());
    Chief chief(servers);
    CHECK(chief.begun.gives_state);
    chief.put(5);
    CHECK(exists(first));
    CHECK(exists(second));
    chief.client.hang_up();
    servers.say_goodbye();
  }
  SUBCASE("with both, training goes on") {
    Servers servers(folder.path());
    Chief chief(servers);
    CHECK_FALSE(chief.begun.gives_state);
    CHECK(chief.pull(1) == 5);
    chief.client.finish();
    chief.client.say_goodbye();
  }
  SUBCASE("the second one's is lost") {
    std::filesystem::remove(second);
    Servers servers(folder.path());
    const std::string why = message_of<ls::ConfigurationError>([&] { const Chief chief(servers); });
    CHECK(contains(why,
                   "parameter servers 0 hold the parameters of a training, and parameter "
                   "servers 1 do not"));
    CHECK(contains(why, "bring back '" + second + "' to go on, or remove '" + first + "', '" +
                            first + ".previous' to begin anew"));
    servers.say_goodbye();
  }
  SUBCASE("the first one's is lost") {
    std::filesystem::remove(first);
    Servers servers(folder.path());
    CHECK(contains(message_of<ls::ConfigurationError>([&] { const Chief chief(servers); }),
                   "bring back '" + first + "' to go on, or remove '" + second + "'"));
    servers.say_goodbye();
  }
}

TEST_CASE("parameter servers: what an end leaves behind, cut off anywhere, is of no training") {
  const TemporaryFolder folder;
  const std::string first = folder.path("ps-0.lockstep"), second = folder.path("ps-1.lockstep");
  int told = 0;  // of the end
  SUBCASE("no server knows of it") {}
  SUBCASE("the first one knows") { told = 1; }
  SUBCASE("both know") { told = 2; }
  {
    Servers servers(folder.path());
    Chief chief(servers);
    chief.put(5);
    CHECK(exists(first));
    CHECK(exists(second));
    chief.client.finish();
    CHECK(chief.pull(1) == 5);
    chief.client.hang_up();
    for (int i = 0; i < told; ++i) CHECK(servers.end(i));
    servers.say_goodbye();
  }
  CHECK(std::filesystem::exists(first));
  CHECK(std::filesystem::exists(second) == (told < 2));
  {
    Servers servers(folder.path());
    Chief chief(servers);
    CHECK(chief.begun.gives_state == (told > 0));  // else it goes on, at the end
    if (told > 0) chief.put(9);
    CHECK(chief.pull(0) == (told > 0 ? 9 : 5));
    CHECK(chief.pull(1) == (told > 0 ? 9 : 5));
    chief.client.finish();
    chief.client.say_goodbye();
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}
