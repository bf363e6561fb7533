// JSON, read event by event, or as a tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// null, a truth value, a negative whole number, another whole number, another number, a text.
using JsonScalar =
    std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string>;

/// Receives what stands in a text, in its order. What a member throws ends the reading.
class JsonEvents {
 public:
  virtual void begin_object() = 0;
  virtual void key(std::string name) = 0;
  virtual void end_object() = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
  virtual void value(JsonScalar value) = 0;

 protected:
  ~JsonEvents() = default;
};

/// The text is no JSON, has a number beyond a double, or is nested deeper than `deepest_json`.
struct JsonError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr std::size_t deepest_json = 500;

/// Throws JsonError.
void read_json(std::string_view text, JsonEvents& events);

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
  [[nodiscard]] bool exists() const noexcept { return kind != Kind::nothing; }
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

/// Puts a tree together, for texts that are read once.
class JsonTreeBuilder : public JsonEvents {
 public:
  [[nodiscard]] const JsonTree& root() const noexcept { return root_; }

  void begin_object() override { open(JsonTree::Kind::object); }
  void key(std::string name) override { key_ = std::move(name); }
  void end_object() override { open_.pop_back(); }
  void begin_array() override { open(JsonTree::Kind::array); }
  void end_array() override { open_.pop_back(); }
  void value(JsonScalar value) override { add(JsonTree::Kind::scalar).scalar = std::move(value); }

 protected:
  ~JsonTreeBuilder() = default;
  /// The object or array whose members or elements come next.
  [[nodiscard]] const JsonTree& open() const noexcept { return *open_.back(); }

 private:
  JsonTree& add(JsonTree::Kind kind) {
    JsonTree& made = open_.empty() ? root_ : open_.back()->children.emplace_back();
    made.kind = kind;
    made.key = std::exchange(key_, {});
    return made;
  }
  /// (The children of a value do not move while one of them is open.)
  void open(JsonTree::Kind kind) { open_.push_back(&add(kind)); }

  JsonTree root_ = {};
  std::string key_ = {};
  std::vector<JsonTree*> open_ = {};
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/json.ipp"
#endif
