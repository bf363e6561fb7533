// A parameter server that counts, and its workers, as threads of a test.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "lockstep/extra/parameter_server/client.hpp"
#include "lockstep/extra/parameter_server/server.hpp"
#include "lockstep/net/socket.hpp"
#include "support/model_testing.hpp"

namespace lockstep_test {

/// One parameter, to which gradients are added.
class Counter final : public lockstep::detail::ShardKeeper {
 public:
  [[nodiscard]] std::optional<std::string> fit_difference(std::string_view given,
                                                          std::string_view first) const override {
    if (given == first) return std::nullopt;
    return std::string(given) + " is not " + std::string(first);
  }
  [[nodiscard]] std::optional<std::string> difference(std::string_view signature) const override {
    if (signature != "waits") return std::nullopt;
    is_asked = true;
    for (int i = 0; !may_answer && i < 6000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return std::nullopt;
  }
  [[nodiscard]] lockstep::DataType type() const override { return lockstep::DataType::float64; }
  [[nodiscard]] std::size_t begin() const override { return 0; }
  [[nodiscard]] std::span<std::byte> parameters() override {
    return std::as_writable_bytes(std::span(&value_, 1));
  }
  [[nodiscard]] std::size_t status_size() const override { return 1; }
  void apply(const Gradients& gradients) override {
    double gradient = 0;
    std::memcpy(&gradient, gradients.values.data(), sizeof gradient);
    value_ += gradient;
  }
  [[nodiscard]] std::size_t state_bytes() const override { return sizeof value_; }
  void save(std::span<std::byte> state) const override {
    std::memcpy(state.data(), &value_, sizeof value_);
  }
  void load(std::span<const std::byte> state) override {
    std::memcpy(&value_, state.data(), sizeof value_);
  }
  [[nodiscard]] lockstep::TrainingState backup(lockstep::TrainingState reused) const override {
    reused.scalar = "float64";
    reused.learning_rate = value_;
    return reused;
  }
  void restore(const lockstep::TrainingState& backup) override { value_ = backup.learning_rate; }
  [[nodiscard]] std::uint64_t backup_bytes() const override { return 0; }

  mutable std::atomic<bool> is_asked = false;
  std::atomic<bool> may_answer = false;

 private:
  double value_ = 0;
};

/// A server that runs on a separate thread until its workers have said goodbye.
class ServerOf {
 public:
  using Trust = lockstep::detail::PsTrust;

  ServerOf(lockstep::detail::ShardKeeper& keeper, int index, int servers, int workers,
           const lockstep::ParameterServerOptions& options, Trust trust = {})
      : options_(options),
        trust_(std::move(trust)),
        listener_(lockstep::detail::listen_for("127.0.0.1", "", 0)),
        server_(keeper,
                {.index = index, .servers = servers, .workers = workers, .address = address()},
                options_, trust_, listener_),
        thread_([this] { message_ = message_of<lockstep::Error>([&] { server_.serve(); }); }) {}
  ServerOf(const ServerOf&) = delete;
  ServerOf& operator=(const ServerOf&) = delete;
  ~ServerOf() {
    thread_.join();
    CHECK(message_ == "NO EXCEPTION");
  }

  [[nodiscard]] std::string address() const {
    return "127.0.0.1:" + std::to_string(listener_.port());
  }

 private:
  const lockstep::ParameterServerOptions options_;
  const Trust trust_;
  lockstep::detail::ListeningSocket listener_;
  lockstep::detail::ParameterServer server_;
  std::string message_;
  std::thread thread_;
};

/// A server that counts. In the end its workers say goodbye.
class Served {
 public:
  using Trust = lockstep::detail::PsTrust;

  /// `trust`: the server's; `of_worker`: by rank.
  explicit Served(
      int workers, std::optional<std::int64_t> max_staleness = std::nullopt, Trust trust = {},
      std::function<Trust(int)> of_worker = [](int) { return Trust(); })
      : options{.max_staleness = max_staleness,
                .timeout = std::chrono::seconds(20),
                .startup_timeout = std::chrono::seconds(60)},
        trust_of_worker(std::move(of_worker)),
        workers_(workers),
        server_(keeper, 0, 1, workers, options, std::move(trust)) {}
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  ~Served() {
    keeper.may_answer = true;
    for (int rank = 0; rank < workers_; ++rank)
      lockstep::detail::ParameterClient(rank, workers_, {address()}, options, trust_of_worker(rank))
          .say_goodbye();
  }

  [[nodiscard]] std::string address() const { return server_.address(); }

  Counter keeper;
  const lockstep::ParameterServerOptions options;
  const std::function<Trust(int)> trust_of_worker;

 private:
  const int workers_;
  ServerOf server_;
};

struct Worker {
  Worker(const Served& served, int rank, int workers)
      : client(rank, workers, {served.address()}, served.options, served.trust_of_worker(rank)) {}

  void put(double value) { client.put(0, {}, std::as_bytes(std::span(&value, 1))); }
  double pull() {
    double value = 0;
    client.pull(0, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  /// The parameter after a step with this gradient.
  double step(double gradient) {
    double parameter = 0, status = 0;
    const std::array<lockstep::detail::PsExchange, 1> exchanges{
        {{.gradients = std::as_bytes(std::span(&gradient, 1)),
          .parameters = std::as_writable_bytes(std::span(&parameter, 1)),
          .status = {&status, 1}}}};
    const double sent = 0;
    client.step(0.1, false, {}, {&sent, 1}, exchanges);
    return parameter;
  }

  lockstep::detail::ParameterClient client;
};

}  // namespace lockstep_test
