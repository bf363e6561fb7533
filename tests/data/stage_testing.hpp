// What every stage must do, checked by the values that it delivers.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/support.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/distributed_dataset.hpp"

namespace lockstep_test {

using Row = std::vector<double>;  ///< of a sample: its elements, then its targets
using Rows = std::vector<Row>;
using RowBatches = std::vector<Rows>;

inline Rows rows_of(const Tensor<double>& x, const Tensor<double>& y, std::size_t samples) {
  Rows rows(samples);
  for (std::size_t i = 0; i < samples; ++i) {
    for (std::size_t f = 0; f < x.view().features(); ++f) rows[i].push_back(x(i, f));
    for (std::size_t f = 0; f < y.view().features(); ++f) rows[i].push_back(y(i, f));
  }
  return rows;
}

/// The batches that are left.
inline RowBatches rest_of(lockstep::AnyDataset& dataset, std::size_t most = 1000) {
  RowBatches batches;
  while (batches.size() < most && dataset.next() > 0) {
    const Read<double> read(dataset);
    batches.push_back(rows_of(read.x, read.y, dataset.sample_indices().size()));
  }
  return batches;
}

inline RowBatches row_batches(lockstep::AnyDataset dataset, lockstep::Iteration iteration = {},
                              std::size_t most = 1000) {
  dataset.begin(iteration);
  return rest_of(dataset, most);
}

/// Element f of all samples of a pipeline that is not batched.
template <class P>
Indices element_of(const P& pipeline, std::size_t f = 0, lockstep::Iteration iteration = {}) {
  Indices values;
  for (const Rows& batch : row_batches(pipeline.batch(4), iteration))
    for (const Row& row : batch) values.push_back(static_cast<std::int64_t>(row.at(f)));
  return values;
}

/// The same iteration gives the same samples; seeking anywhere equals running there; two workers
/// have together what one has, in the order that sharding says.
inline void check_stage(const lockstep::AnyDataset& dataset, std::size_t most = 12) {
  const lockstep::Iteration iteration{5, 2};
  const RowBatches all = row_batches(dataset, iteration, most);
  REQUIRE(row_batches(dataset, iteration, most) == all);
  if (dataset.cardinality() >= 0 && all.size() < most)
    CHECK(dataset.cardinality() == static_cast<std::int64_t>(all.size()));
  for (std::size_t from = 0; from <= all.size(); from += 2)
    for (std::size_t to = 0; to <= all.size(); ++to) {
      lockstep::AnyDataset copy = dataset;
      copy.begin(iteration);
      for (std::size_t i = 0; i < from; ++i) copy.next();
      copy.seek(static_cast<std::int64_t>(to));
      REQUIRE(copy.position() == static_cast<std::int64_t>(to));
      REQUIRE(rest_of(copy, most - to) ==
              RowBatches(all.begin() + static_cast<std::ptrdiff_t>(to), all.end()));
    }
  for (int worker = 0; worker < 2; ++worker) {
    lockstep::DistributedDataset<lockstep::AnyDataset> rank(dataset, {2, worker},
                                                            lockstep::AutoShardPolicy::data);
    rank.begin(iteration);
    for (const Rows& batch : all) {
      REQUIRE(rank.has_next());
      REQUIRE(rank.next());
      const Tensor<double> x(rank.samples(), rank.sample_size()),
          y(rank.samples(), rank.target_size());
      if (rank.samples() > 0)
        rank.read(x.view(), rank.target_size() == 0 ? lockstep::TensorView<double>{} : y.view());
      const Rows own = rows_of(x, y, rank.samples());
      for (std::size_t p = static_cast<std::size_t>(worker), row = 0; p < batch.size();
           p += 2, ++row)
        REQUIRE(own.at(row) == batch[p]);
    }
    if (all.size() < most) REQUIRE_FALSE(rank.has_next());
  }
}

}  // namespace lockstep_test
