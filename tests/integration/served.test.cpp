// Workers and parameter servers as processes, and the deaths of both.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "support/process.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep::testing;
using namespace std::chrono_literals;
using lockstep_test::TemporaryFolder;

namespace {

int free_port() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof name;
  REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&name), size) == 0);
  REQUIRE(::getsockname(listener, reinterpret_cast<sockaddr*>(&name), &size) == 0);
  ::close(listener);
  return ntohs(name.sin_port);
}

/// Two workers and a server, with a folder for its backup.
struct Job {
  std::string address = "127.0.0.1:" + std::to_string(free_port());
  TemporaryFolder folder;

  [[nodiscard]] std::unique_ptr<Process> start(const std::string& type, int index,
                                               const std::string& pause = "20") const {
    const std::string config = R"({"cluster": {"worker": ["a:1", "b:1"], "ps": [")" + address +
                               R"("]}, "task": {"type": ")" + type + R"(", "index": )" +
                               std::to_string(index) + "}}";
    return std::make_unique<Process>(
        std::vector<std::string>{PROGRAM_SERVED, folder.path(), "10", pause},
        Environment{{"TF_CONFIG", config}});
  }
};

/// What follows "loss " in the last line of a worker.
std::string result_of(const Finished& finished) {
  const auto at = finished.output.find(": loss ");
  REQUIRE(at != std::string::npos);
  return finished.output.substr(at);
}

}  // namespace

TEST_CASE("served: a worker and a server are killed, and the job ends as if they had not been") {
  const Job job;
  auto server = job.start("ps", 0);
  const auto chief = job.start("worker", 0);
  auto second = job.start("worker", 1);
  REQUIRE(second->wait_for("worker 1: epoch 2", 60s));
  second->signal(SIGKILL);
  CHECK(second->wait(60s).exit_code == 128 + SIGKILL);
  REQUIRE(chief->wait_for("worker 0: epoch 3", 60s));  // it goes on
  second = job.start("worker", 1);
  REQUIRE(second->wait_for("worker 1: epoch 3", 60s));
  server->signal(SIGKILL);
  CHECK(server->wait(60s).exit_code == 128 + SIGKILL);
  server = job.start("ps", 0);
  const Finished of_chief = chief->wait(120s), of_second = second->wait(120s);
  CAPTURE(of_chief.output);
  CAPTURE(of_second.output);
  CHECK(of_chief.exit_code == 0);
  CHECK(of_second.exit_code == 0);
  CHECK(of_chief.output.find("worker 0: epoch 10") != std::string::npos);
  CHECK(of_second.output.find("worker 1: epoch 1\n") == std::string::npos);  // not anew
  CHECK(result_of(of_chief) == result_of(of_second));
  CHECK(std::stod(result_of(of_chief).substr(7)) < 0.2);
  const Finished of_server = server->wait(60s);
  CAPTURE(of_server.output);
  CHECK(of_server.exit_code == 0);
  CHECK(of_server.output.find("goes on from its backup") != std::string::npos);
  CHECK(of_server.output.find("all workers have finished") != std::string::npos);
}
