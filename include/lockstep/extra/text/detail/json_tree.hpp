// A JSON file as a tree, for readers of files that are read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/file_format.hpp"
#include "lockstep/core/json.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A value, or nothing.
struct JsonTree {
  enum class Kind : std::uint8_t { nothing, scalar, array, object };
  Kind kind = Kind::nothing;
  std::string key = {};  ///< of a member
  JsonScalar scalar = nullptr;
  std::vector<JsonTree> children = {};  ///< members or elements

  /// A member. Of what is no object, or has none of that name: nothing.
  [[nodiscard]] const JsonTree& operator[](std::string_view name) const {
    static const JsonTree none;
    if (kind == Kind::object)
      for (const JsonTree& child : children)
        if (child.key == name) return child;
    return none;
  }
  /// Null for other values.
  [[nodiscard]] const std::string* text() const { return std::get_if<std::string>(&scalar); }
  [[nodiscard]] const std::uint64_t* number() const { return std::get_if<std::uint64_t>(&scalar); }
  [[nodiscard]] bool is_true() const { return scalar == JsonScalar(true); }
  /// In a message: "'red'", "a list", "nothing".
  [[nodiscard]] std::string described() const {
    if (kind != Kind::scalar)
      return kind == Kind::array ? "a list" : kind == Kind::object ? "an object" : "nothing";
    if (text() != nullptr) return in_quotes(*text(), 60);
    if (number() != nullptr) return concat({*number()});
    if (const auto* const truth = std::get_if<bool>(&scalar)) return *truth ? "true" : "false";
    return std::holds_alternative<std::nullptr_t>(scalar) ? "null" : "another number";
  }
};

class JsonFile final : JsonEvents {
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

  [[nodiscard]] const JsonTree& root() const noexcept { return root_; }

  /// "tokenizer.json 'path': model.vocab: expected an object, got null"
  [[noreturn, gnu::cold]] void refuse(std::string_view place, std::string_view expected,
                                      const JsonTree& got) const {
    throw DataError(
        concat({name_, ": ", place, ": expected ", expected, ", got ", got.described()}));
  }

 private:
  void begin_object() override { open(JsonTree::Kind::object); }
  void key(std::string name) override { key_ = std::move(name); }
  void end_object() override { open_.pop_back(); }
  void begin_array() override { open(JsonTree::Kind::array); }
  void end_array() override { open_.pop_back(); }
  void value(JsonScalar value) override { add(JsonTree::Kind::scalar).scalar = std::move(value); }

  JsonTree& add(JsonTree::Kind kind) {
    JsonTree& made = open_.empty() ? root_ : open_.back()->children.emplace_back();
    made.kind = kind;
    made.key = std::exchange(key_, {});
    return made;
  }
  /// (The children of a value do not move while one of them is open.)
  void open(JsonTree::Kind kind) { open_.push_back(&add(kind)); }

  std::string name_;
  JsonTree root_ = {};
  std::string key_ = {};
  std::vector<JsonTree*> open_ = {};
};

}}}  // namespace lockstep::detail
