#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/datasets/fixed_length_records.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE RecordFile::RecordFile(const std::string& path,
                                       const FixedLengthRecordsOptions& options)
    : file_(std::make_shared<const detail::MappedFile>("from_fixed_length_records", path)),
      record_bytes_(options.record_bytes) {
  if (record_bytes_ == 0)
    throw ConfigurationError("from_fixed_length_records: record_bytes must be at least 1, got 0");
  const std::size_t all = file_->bytes().size();
  if (options.header_bytes > all || options.footer_bytes > all - options.header_bytes ||
      (all - options.header_bytes - options.footer_bytes) % record_bytes_ != 0)
    throw DataError(
        concat({"from_fixed_length_records: ", path, " has ", all,
                " bytes, which are not a header of ", options.header_bytes, ", records of ",
                record_bytes_, " and a footer of ", options.footer_bytes}));
  records_ = {reinterpret_cast<const std::uint8_t*>(file_->bytes().data()) + options.header_bytes,
              all - options.header_bytes - options.footer_bytes};
}

LOCKSTEP_INLINE std::span<const std::uint8_t> RecordFile::operator[](std::size_t i) const noexcept {
  return records_.subspan(i * record_bytes_, record_bytes_);
}

}}  // namespace lockstep
