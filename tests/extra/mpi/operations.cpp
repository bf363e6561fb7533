// Every operation of Mpi, with exact results; run by mpiexec. Exit code 0 when all are right.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/extra/mpi/mpi.hpp"

using namespace lockstep;

namespace {

int wrong = 0;

void expect(bool condition, const Mpi& mpi, const std::string& what) {
  if (condition) return;
  ++wrong;
  std::fprintf(stderr, "rank %d of %d: wrong: %s\n", mpi.rank(), mpi.size(), what.c_str());
}

template <class T>
T value(int rank, std::size_t i) {
  return static_cast<T>((i * 7 + static_cast<std::size_t>(rank) * 13) % 101) - T{50};
}

template <class T>
void reduces(Mpi& mpi) {
  const auto ranks = static_cast<std::size_t>(mpi.size());
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, ranks - 1, ranks, ranks + 1,
                                  std::size_t{1009}, std::size_t{1} << 20}) {
    const std::string what =
        std::to_string(count) + " elements of " + std::to_string(sizeof(T)) + " bytes";
    std::vector<T> mine(count), sum(count), maximum(count, std::numeric_limits<T>::lowest());
    for (std::size_t i = 0; i < count; ++i) {
      mine[i] = value<T>(mpi.rank(), i);
      for (int rank = 0; rank < mpi.size(); ++rank) {
        sum[i] += value<T>(rank, i);
        maximum[i] = std::max(maximum[i], value<T>(rank, i));
      }
    }
    std::vector<T> values = mine;
    mpi.all_reduce(std::span(values));
    expect(values == sum, mpi, "sum of " + what);

    values = mine;
    mpi.all_reduce(std::span(values), ReduceOp::max);
    expect(values == maximum, mpi, "maximum of " + what);

    values = mine;
    std::vector<double> status(5, mpi.rank() + 1.0);
    mpi.all_reduce(std::span(status), std::span(values));
    expect(values == sum, mpi, "sum with a status of " + what);
    expect(status == std::vector<double>(5, mpi.size() * (mpi.size() + 1) / 2.0), mpi,
           "status of " + what);
  }
}

template <class T>
void maximum_is_nan(Mpi& mpi) {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  for (int who = 0; who < mpi.size(); ++who) {
    std::vector<T> values{mpi.rank() == who ? nan : T{1}, T{2}};
    mpi.all_reduce(std::span(values), ReduceOp::max);
    expect(values[0] != values[0] && values[1] == T{2}, mpi,
           "maximum with NaN of rank " + std::to_string(who));
  }
}

void moves_bytes(Mpi& mpi) {
  const auto content = [](int rank, std::size_t i) {
    return static_cast<std::byte>(i * 31 + static_cast<std::size_t>(rank));
  };
  for (const std::size_t count : {0u, 1u, 1009u, 700'001u}) {
    std::vector<std::byte> mine(count), all(count * static_cast<std::size_t>(mpi.size())),
        expected(all);
    for (int rank = 0; rank < mpi.size(); ++rank)
      for (std::size_t i = 0; i < count; ++i)
        expected[static_cast<std::size_t>(rank) * count + i] = content(rank, i);
    const auto slice = [&](int rank) {
      return std::span(expected).subspan(static_cast<std::size_t>(rank) * count, count);
    };
    for (int root = 0; root < mpi.size(); ++root) {
      std::fill(mine.begin(), mine.end(), std::byte{0xEE});
      if (mpi.rank() == root) std::copy(slice(root).begin(), slice(root).end(), mine.begin());
      mpi.broadcast(std::span(mine), root);
      expect(std::equal(mine.begin(), mine.end(), slice(root).begin()), mpi,
             "broadcast of " + std::to_string(count) + " bytes from " + std::to_string(root));
    }
    std::copy(slice(mpi.rank()).begin(), slice(mpi.rank()).end(), mine.begin());
    mpi.all_gather(std::span<const std::byte>(mine), std::span(all));
    expect(all == expected, mpi, "all_gather of " + std::to_string(count) + " bytes");
    mpi.all_gather(std::span<const std::byte>(all).subspan(
                       static_cast<std::size_t>(mpi.rank()) * count, count),
                   std::span(all));
    expect(all == expected, mpi, "all_gather in place of " + std::to_string(count) + " bytes");
  }
}

void all_ranks_hold_the_same_bits(Mpi& mpi) {
  RandomStream random(RandomKey(42).fold_in(static_cast<std::uint64_t>(mpi.rank())));
  std::vector<float> values(100'003);
  for (float& v : values) v = static_cast<float>(random.normal());
  mpi.all_reduce(std::span(values));
  const auto mine = std::as_bytes(std::span(values));
  std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(mpi.size()));
  mpi.all_gather(mine, std::span(all));
  for (std::size_t at = 0; at < all.size(); at += mine.size())
    expect(std::equal(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(at)), mpi,
           "equal bits");
}

template <class F>
void refuses(const Mpi& mpi, const std::string& message, F f) {
  try {
    f();
    expect(false, mpi, "no exception: " + message);
  } catch (const Error& error) {
    expect(error.what() == message, mpi, error.what());
  }
}

}  // namespace

int main() {
  const Cluster cluster = mpi_cluster();
  cluster.validate();
  const MpiPlace place = MpiPlace::get();
  Rendezvous rendezvous{.rank = cluster.rank(), .addresses = cluster.addresses()};
  if (cluster.is_alone()) rendezvous.addresses = {"localhost:1"};
  Mpi mpi = Mpi::connect(rendezvous, {});
  expect(mpi.rank() == place.rank && mpi.size() == cluster.world_size(), mpi, "place");

  reduces<float>(mpi);
  reduces<double>(mpi);
  reduces<std::int64_t>(mpi);
  maximum_is_nan<float>(mpi);
  maximum_is_nan<double>(mpi);
  moves_bytes(mpi);
  all_ranks_hold_the_same_bits(mpi);
  mpi.barrier();

  const std::string size = std::to_string(mpi.size());
  std::vector<std::byte> bytes(3), all(1);
  refuses(mpi, "broadcast: there is no rank " + size + " among " + size,
          [&] { mpi.broadcast(std::span(bytes), mpi.size()); });
  refuses(mpi, "all_gather: " + size + " ranks of 3 bytes do not fill 1 bytes",
          [&] { mpi.all_gather(std::span<const std::byte>(bytes), std::span(all)); });
  refuses(mpi, "CommunicationOptions::wire is not for Mpi: take the settings of the MPI library",
          [&] { (void)Mpi::connect(rendezvous, {.wire = Wire::bfloat16}); });

  mpi.close();
  return wrong == 0 ? 0 : 1;
}
