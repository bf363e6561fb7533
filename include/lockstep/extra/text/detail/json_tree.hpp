// A JSON file as a tree, for readers of files that are read once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/file_format.hpp"
#include "lockstep/core/json.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

class JsonFile final : public JsonTreeBuilder {
 public:
  /// `kind` says what the file is to be. Throws DataError when it cannot be read or is no JSON.
  JsonFile(std::string_view kind, const std::string& path)
      : name_(concat({kind, " ", in_quotes(path)})) {
    // (A value of two bytes becomes a JsonTree of about 100.)
    const auto bytes = read_file(path, at_most(std::uint64_t{1} << 27, kind));
    if (!bytes) throw DataError(name_ + ": there is no such file");
    const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    try {
      read_json(text, *this);
    } catch (const JsonError& error) {
      throw DataError(concat(
          {name_, " is no JSON: ", error.what(), format_note(text.substr(0, checked_head))}));
    }
  }

  /// "tokenizer.json 'path': model.vocab: expected an object, got null"
  [[noreturn, gnu::cold]] void refuse(std::string_view place, std::string_view expected,
                                      const JsonTree& got) const {
    throw DataError(
        concat({name_, ": ", place, ": expected ", expected, ", got ", got.described()}));
  }

 private:
  std::string name_;
};

}}}  // namespace lockstep::detail
