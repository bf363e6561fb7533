// A user's own collective and strategy, written outside the library: workers as threads of one
// process, each with a model of its own, as if they were processes.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/strategies/concepts.hpp"

namespace lockstep_test {

/// Where the workers meet: each brings bytes and gets those of all.
class Board {
 public:
  explicit Board(int size) : parts_(static_cast<std::size_t>(size)) {}

  using Parts = std::vector<std::vector<std::byte>>;

  [[nodiscard]] int size() const { return static_cast<int>(parts_.size()); }

  std::shared_ptr<const Parts> gather(int rank, std::span<const std::byte> mine) {
    std::unique_lock lock(mutex_);
    check();
    parts_[static_cast<std::size_t>(rank)].assign(mine.begin(), mine.end());
    const std::uint64_t round = round_;
    if (++arrived_ == size()) {
      published_ = std::make_shared<const Parts>(parts_);
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    } else {
      const bool came = changed_.wait_for(lock, std::chrono::seconds(60),
                                          [&] { return round_ != round || !failure_.empty(); });
      if (!came) failure_ = "a worker did not come within a minute";
      if (round_ == round) check();
    }
    return published_;
  }

  void abort(std::string_view reason) noexcept {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = reason;
    changed_.notify_all();
  }

 private:
  void check() const {
    if (!failure_.empty()) throw std::runtime_error("a worker failed: " + failure_);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Parts parts_;
  std::shared_ptr<const Parts> published_;
  int arrived_ = 0;
  std::uint64_t round_ = 0;
  std::string failure_;
};

class BoardCollective {
 public:
  BoardCollective(Board& board, int rank) : board_(&board), rank_(rank) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return board_->size(); }

  template <class T>
  void all_reduce(std::span<T> values, lockstep::ReduceOp op) {
    const auto parts = board_->gather(rank_, std::as_bytes(values));
    combine(*parts, 0, values, op);
  }
  template <class T>
  void all_reduce(std::span<double> status, std::span<T> values) {
    std::vector<std::byte> mine(status.size_bytes() + values.size_bytes());
    std::copy_n(std::as_bytes(status).begin(), status.size_bytes(), mine.begin());
    std::copy_n(std::as_bytes(values).begin(), values.size_bytes(),
                mine.begin() + static_cast<std::ptrdiff_t>(status.size_bytes()));
    const auto parts = board_->gather(rank_, mine);
    combine(*parts, 0, status, lockstep::ReduceOp::sum);
    combine(*parts, status.size_bytes(), values, lockstep::ReduceOp::sum);
  }
  void broadcast(std::span<std::byte> bytes, int root) {
    const auto parts = board_->gather(rank_, bytes);
    const auto& of_root = (*parts)[static_cast<std::size_t>(root)];
    if (of_root.size() != bytes.size()) throw std::runtime_error("broadcast of other lengths");
    std::copy(of_root.begin(), of_root.end(), bytes.begin());
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
    const auto parts = board_->gather(rank_, mine);
    auto out = all.begin();
    for (const auto& part : *parts) out = std::copy(part.begin(), part.end(), out);
  }
  void barrier() { board_->gather(rank_, {}); }
  void abort(std::string_view reason) noexcept { board_->abort(reason); }

 private:
  template <class T>
  static void combine(const Board::Parts& parts, std::size_t offset, std::span<T> values,
                      lockstep::ReduceOp op) {
    for (std::size_t i = 0; i < values.size(); ++i)
      for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        if (parts[rank].size() < offset + values.size_bytes())
          throw std::runtime_error("all_reduce of other lengths");
        T other;
        std::memcpy(&other, parts[rank].data() + offset + i * sizeof(T), sizeof(T));
        values[i] = rank == 0                       ? other
                    : op == lockstep::ReduceOp::max ? std::max(values[i], other)
                                                    : values[i] + other;
      }
  }

  Board* board_;
  int rank_;
};
static_assert(lockstep::Collective<BoardCollective>);

/// One worker with one replica.
class WorkerStrategy {
 public:
  struct Replica {
    BoardCollective board;
    BoardCollective& collective() { return board; }
    [[nodiscard]] int local_rank() const { return 0; }
    [[nodiscard]] int local_size() const { return 1; }
    void team_barrier() {}
  };

  WorkerStrategy(Board& board, int rank) : replica_{{board, rank}} {}

  [[nodiscard]] int num_workers() const { return replica_.board.size(); }
  [[nodiscard]] int worker_index() const { return replica_.board.rank(); }
  [[nodiscard]] bool is_chief() const { return worker_index() == 0; }
  [[nodiscard]] int local_replicas() const { return 1; }
  [[nodiscard]] int num_replicas_in_sync() const { return num_workers(); }

  template <class F>
  void run(F&& f) {
    try {
      f(replica_);
    } catch (const std::exception& error) {
      replica_.board.abort(error.what());
      throw;
    }
  }

 private:
  Replica replica_;
};
static_assert(lockstep::Strategy<WorkerStrategy>);

/// Runs f(strategy) as each of `workers`. Returns for each the message of the exception that ended
/// it; empty: none.
inline std::vector<std::string> run_workers(int workers,
                                            const std::function<void(WorkerStrategy&)>& f) {
  Board board(workers);
  std::vector<std::string> failures(static_cast<std::size_t>(workers));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < workers; ++rank)
    threads.emplace_back([&, rank] {
      WorkerStrategy strategy(board, rank);
      try {
        f(strategy);
      } catch (const std::exception& error) {
        failures[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return failures;
}

}  // namespace lockstep_test
