#include "lockstep/extra/records/tfrecord_file.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ls = lockstep;

namespace {

std::vector<std::byte> bytes_of(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte byte : bytes)
    for (const int shift : {4, 0})
      hex += "0123456789abcdef"[(std::to_integer<unsigned>(byte) >> shift) & 15];
  return hex;
}

/// What stands in front of a record, and behind it.
std::string frame_of(std::string_view data) {
  const std::vector<std::byte> record = bytes_of(data);
  return hex_of(ls::detail::record_head(record.size())) + " " +
         hex_of(ls::detail::record_tail(record));
}

}  // namespace

TEST_SUITE_BEGIN("Keras: TensorBoard event file");

TEST_CASE(
    "TensorBoard's event file: a record is its length in u64, data, and the masked CRC-32C of "
    "each; that of 123456789 is c78ab0e5") {
  CHECK(ls::detail::masked_crc32c(std::as_bytes(std::span("123456789", 9))) == 0xC78AB0E5);
  // Event{wall_time 1, file_version "brain.Event:2"}, and epoch_loss = 0.25 at step 3.
  CHECK(frame_of("09000000000000f03f1a0d627261696e2e4576656e743a32") ==
        "1800000000000000a37f4b22 86bf577a");
  CHECK(
      frame_of("09000000000000f03f10032a290a270a0a65706f63685f6c6f7373420a080112002a040000803e4a0d"
               "0a090a077363616c6172732001") == "36000000000000004f578cef 7e65e148");
}

TEST_SUITE_END();
