// A JSON file as a tree, for readers of files that are small or read once.
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

/// A value, its members or its elements.
struct JsonTree {
  enum class Kind : std::uint8_t { scalar, array, object };
  Kind kind = Kind::scalar;
  std::string key = {};  ///< of a member
  JsonScalar scalar = nullptr;
  std::vector<JsonTree> children = {};

  [[nodiscard]] const std::string* text() const {
    return kind == Kind::scalar ? std::get_if<std::string>(&scalar) : nullptr;
  }
  [[nodiscard]] const std::uint64_t* number() const {
    return kind == Kind::scalar ? std::get_if<std::uint64_t>(&scalar) : nullptr;
  }
  [[nodiscard]] bool is_null() const {
    return kind == Kind::scalar && std::holds_alternative<std::nullptr_t>(scalar);
  }
  [[nodiscard]] bool is_true() const { return kind == Kind::scalar && scalar == JsonScalar(true); }
  /// "'red'", "a list": what was got, in an error.
  [[nodiscard]] std::string described() const {
    if (kind != Kind::scalar) return kind == Kind::array ? "a list" : "an object";
    if (const auto* const found = text()) return in_quotes(*found, 60);
    if (const auto* const found = number()) return concat({*found});
    if (const auto* const found = std::get_if<bool>(&scalar)) return *found ? "true" : "false";
    return is_null() ? "null" : "another number";
  }
};

/// A file of JSON, and the errors about what stands in it.
class JsonFile final : JsonEvents {
 public:
  /// `kind`, what it is to be, begins the errors: "tokenizer.json 'path': model.vocab: expected an
  /// object, got null". Throws DataError for a file that cannot be read or is no JSON.
  JsonFile(std::string_view kind, const std::string& path)
      : name_(concat({kind, " ", in_quotes(path)})) {
    const auto bytes = read_file(path, at_most(std::uint64_t{1} << 30, kind));
    if (!bytes) throw DataError(concat({name_, ": there is no such file"}));
    const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    try {
      read_json(text, *this);
    } catch (const JsonError& error) {
      throw DataError(concat(
          {name_, " is no JSON: ", error.what(), format_note(text.substr(0, checked_head))}));
    }
  }

  [[nodiscard]] const JsonTree& root() const noexcept { return root_; }

  [[noreturn, gnu::cold]] void refuse(std::string_view place, std::string_view expected,
                                      const JsonTree* got) const {
    throw DataError(concat({name_, ": ", place, ": expected ", expected, ", got ",
                            got == nullptr ? std::string("nothing") : got->described()}));
  }
  /// A member, or null. `place` is that of the object, empty for the file's.
  [[nodiscard]] const JsonTree* find(const JsonTree& object, std::string_view place,
                                     std::string_view key) const {
    if (object.kind != JsonTree::Kind::object)
      refuse(place.empty() ? "the file" : place, "an object", &object);
    for (const JsonTree& child : object.children)
      if (child.key == key) return &child;
    return nullptr;
  }
  /// A member that must be there and of this kind.
  [[nodiscard]] const JsonTree& at(const JsonTree& object, std::string_view place,
                                   std::string_view key, JsonTree::Kind kind) const {
    const JsonTree* const child = find(object, place, key);
    if (child == nullptr || child->kind != kind)
      refuse(place_of(place, key),
             kind == JsonTree::Kind::array    ? "a list"
             : kind == JsonTree::Kind::object ? "an object"
                                              : "a value",
             child);
    return *child;
  }
  [[nodiscard]] static std::string place_of(std::string_view place, std::string_view key) {
    return concat({place, place.empty() ? "" : ".", key});
  }

 private:
  void begin_object() override { open(JsonTree::Kind::object); }
  void key(std::string name) override { key_ = std::move(name); }
  void end_object() override { open_.pop_back(); }
  void begin_array() override { open(JsonTree::Kind::array); }
  void end_array() override { open_.pop_back(); }
  void value(JsonScalar value) override { add().scalar = std::move(value); }

  JsonTree& add() {
    if (open_.empty()) return root_;
    JsonTree& made = open_.back()->children.emplace_back();
    made.key = std::exchange(key_, {});
    return made;
  }
  /// (The children of a value do not grow while one of them is open.)
  void open(JsonTree::Kind kind) {
    JsonTree& made = add();
    made.kind = kind;
    open_.push_back(&made);
  }

  std::string name_;
  JsonTree root_ = {};
  std::string key_ = {};
  std::vector<JsonTree*> open_ = {};
};

/// Writes a text to a file, whole or not at all.
inline void write_text(const std::string& path, std::string_view text) {
  write_file_atomically(path,
                        std::span(reinterpret_cast<const std::byte*>(text.data()), text.size()));
}

}}}  // namespace lockstep::detail
