// Written by make_golden_data_stages.py with TensorFlow 2.18.1: what tf.data delivers.
#pragma once

#include <cstdint>
#include <vector>

// clang-format off
namespace lockstep_test::golden_data {

inline const std::vector<std::int64_t> range_up{3, 7, 11, 15};
inline const std::vector<std::int64_t> range_down{10, 7, 4, 1, -2};
inline const std::vector<std::int64_t> concatenated{1, 2, 3, 4, 5, 6, 7};
inline const std::vector<std::int64_t> zipped_first{1, 2, 3};
inline const std::vector<std::int64_t> zipped_second{4, 5, 6};
inline const std::vector<std::int64_t> filtered{1, 4, 7, 10, 13, 16, 19};
inline const std::vector<std::int64_t> enumerated{5, 6, 7, 8, 9};
inline const std::vector<std::int64_t> sharded{1, 4, 7, 10};
inline const std::vector<std::int64_t> unbatched{1, 2, 3, 4, 5, 6, 7, 8, 9};
inline const std::vector<std::int64_t> interleaved{0, 100, 1, 2, 200, 3, 201, 202, 300, 301, 400, 401, 402, 403, 404};
inline const std::vector<std::int64_t> interleaved_blocks{0, 1, 100, 200, 201, 2, 3, 300, 301, 202, 400, 401, 402, 403, 404};
inline const std::vector<std::int64_t> interleaved_all{0, 1, 2, 100, 200, 201, 202, 400, 401, 402, 3, 403, 404};
inline const std::vector<std::int64_t> shuffled_batches_flat{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

inline const std::vector<std::vector<std::int64_t>> windows{{0, 1, 2}, {2, 3, 4}, {4, 5, 6}, {6, 7, 8}};
inline const std::vector<std::vector<std::int64_t>> windows_strided{{0, 2, 4}, {4, 6, 8}};
inline const std::vector<std::vector<std::int64_t>> windows_apart{{0, 1}, {5, 6}, {10, 11}};
inline const std::vector<std::vector<std::int64_t>> windows_none{};
inline const std::vector<std::vector<std::int64_t>> buckets{{1, 3}, {0, 2, 5}, {4, 6}, {7, 9}, {10, 13}, {12, 14}, {8, 11}};
inline const std::vector<std::vector<std::int64_t>> buckets_at_the_end{{0, 2, 5, 8, 11}, {1, 3, 7, 9, 12, 14}, {4, 6, 10, 13}};
inline const std::vector<std::vector<std::int64_t>> buckets_dropped{{1, 3}, {0, 2, 5}, {4, 6}, {7, 9}, {10, 13}, {12, 14}};

inline constexpr std::int64_t cardinality_of_concatenate_finite = 7;
inline constexpr std::int64_t cardinality_of_concatenate_infinite = -1;
inline constexpr std::int64_t cardinality_of_concatenate_unknown = -2;
inline constexpr std::int64_t cardinality_of_zip_finite = 3;
inline constexpr std::int64_t cardinality_of_zip_infinite = 3;
inline constexpr std::int64_t cardinality_of_zip_unknown = -2;
inline constexpr std::int64_t cardinality_of_repeat_unknown = -2;
inline constexpr std::int64_t cardinality_of_repeat_unknown_endless = -1;
inline constexpr std::int64_t cardinality_of_filter_finite = -2;
inline constexpr std::int64_t cardinality_of_window_dropped = 4;
inline constexpr std::int64_t cardinality_of_shard_finite = 4;
inline constexpr std::int64_t cardinality_of_enumerate_finite = 5;
inline constexpr std::int64_t cardinality_of_cache_finite = 5;
inline constexpr std::int64_t cardinality_of_unbatch_finite = -2;
inline constexpr std::int64_t cardinality_of_sample_finite = -2;
inline constexpr std::int64_t cardinality_of_sample_infinite = -1;
inline constexpr std::int64_t cardinality_of_sample_unknown = -2;

}  // namespace lockstep_test::golden_data
// clang-format on
