"""Writes data_stages.hpp: what tf.data's stages deliver. Needs TensorFlow."""

import os
import tensorflow as tf

D = tf.data.Dataset


def flat(dataset):
    return [int(x) for element in dataset for x in tf.reshape(element, [-1]).numpy()]


def batches(dataset):
    return [[int(x) for x in element.numpy()] for element in dataset]


def window(n, size, shift, stride):
    windows = D.range(n).window(size, shift=shift, stride=stride, drop_remainder=True)
    return batches(windows.flat_map(lambda w: w.batch(size)))


def interleave(sizes, cycle, block):
    return flat(D.from_tensor_slices(tf.constant(sizes, tf.int64)).enumerate().interleave(
        lambda i, n: D.range(100 * i, 100 * i + n), cycle_length=cycle, block_length=block,
        num_parallel_calls=None))


def bucket(lengths, boundaries, sizes, drop):
    dataset = D.from_tensor_slices(lengths).enumerate()
    dataset = dataset.bucket_by_sequence_length(
        lambda i, n: n, boundaries, sizes, drop_remainder=drop)
    return [[int(x) for x in i.numpy()] for i, n in dataset]


LENGTHS = [3, 9, 4, 5, 12, 1, 10, 6, 2, 9, 30, 4, 5, 11, 7]
lists = {
    "range_up": flat(D.range(3, 17, 4)),
    "range_down": flat(D.range(10, -5, -3)),
    "concatenated": flat(D.range(1, 4).concatenate(D.range(4, 8))),
    "zipped_first": [int(a) for a, b in D.zip((D.range(1, 4), D.range(4, 9)))],
    "zipped_second": [int(b) for a, b in D.zip((D.range(1, 4), D.range(4, 9)))],
    "filtered": flat(D.range(20).filter(lambda x: x % 3 == 1)),
    "enumerated": [int(i) for i, x in D.range(7, 12).enumerate(start=5)],
    "sharded": flat(D.range(11).shard(3, 1)),
    "unbatched": flat(D.range(10).batch(4).unbatch().skip(1)),
    "interleaved": interleave([4, 1, 3, 2, 5], 2, 1),
    "interleaved_blocks": interleave([4, 1, 3, 2, 5], 3, 2),
    "interleaved_all": interleave([4, 1, 3, 0, 5], 5, 3),
    "shuffled_batches_flat": sorted(flat(D.range(10).batch(3).shuffle(10).unbatch())),
}
nested = {
    "windows": window(10, 3, 2, 1),
    "windows_strided": window(12, 3, 4, 2),
    "windows_apart": window(12, 2, 5, 1),
    "windows_none": window(4, 3, 1, 2),
    "buckets": bucket(LENGTHS, [5, 10], [3, 2, 2], False),
    "buckets_at_the_end": bucket(LENGTHS, [5, 10], [10, 10, 10], False),
    "buckets_dropped": bucket(LENGTHS, [5, 10], [3, 2, 2], True),
}
def unknown(n):
    return D.range(n).filter(lambda x: True)


def card(dataset):
    return int(dataset.cardinality())


cardinalities = {
    "concatenate_finite": card(D.range(3).concatenate(D.range(4))),
    "concatenate_infinite": card(unknown(3).concatenate(D.range(4).repeat())),
    "concatenate_unknown": card(unknown(3).concatenate(D.range(4))),
    "zip_finite": card(D.zip((D.range(3), D.range(4)))),
    "zip_infinite": card(D.zip((D.range(3), D.range(4).repeat()))),
    "zip_unknown": card(D.zip((D.range(3), unknown(3)))),
    "repeat_unknown": card(unknown(3).repeat(2)),
    "repeat_unknown_endless": card(unknown(3).repeat()),
    "filter_finite": card(unknown(4)),
    "window_dropped": card(D.range(10).window(3, shift=2, drop_remainder=True)),
    "shard_finite": card(D.range(11).shard(3, 1)),
    "enumerate_finite": card(D.range(5).enumerate()),
    "cache_finite": card(D.range(5).cache()),
    "unbatch_finite": card(D.range(10).batch(4).unbatch()),
    "sample_finite": card(D.sample_from_datasets([D.range(3), D.range(4)])),
    "sample_infinite": card(D.sample_from_datasets([D.range(3), D.range(4).repeat()])),
    "sample_unknown": card(D.sample_from_datasets([D.range(3), unknown(4)])),
}


def braces(values):
    return "{" + ", ".join(str(v) for v in values) + "}"


path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data_stages.hpp")
with open(path, "w") as out:
    out.write("// Written by make_golden_data_stages.py with TensorFlow %s: what tf.data delivers.\n" % tf.__version__)
    out.write("#pragma once\n\n#include <cstdint>\n#include <vector>\n\n// clang-format off\n")
    out.write("namespace lockstep_test::golden_data {\n\n")
    for name, values in lists.items():
        out.write("inline const std::vector<std::int64_t> %s%s;\n" % (name, braces(values)))
    out.write("\n")
    for name, rows in nested.items():
        out.write("inline const std::vector<std::vector<std::int64_t>> %s%s;\n" % (name, braces(map(braces, rows))))
    out.write("\n")
    for name, value in cardinalities.items():
        out.write("inline constexpr std::int64_t cardinality_of_%s = %d;\n" % (name, value))
    out.write("\n}  // namespace lockstep_test::golden_data\n// clang-format on\n")
