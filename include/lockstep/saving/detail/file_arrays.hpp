// The arrays of a file of weights, by the names that they have in a model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/model/load_weights_options.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// An array of the file, under the name that it has in this model.
struct NamedFileArray {
  SavedArray array;
  std::string name;
  std::vector<std::size_t> flattened{};
  bool is_used = false;
};

/// The arrays of a file by their names.
class FileArrays {
 public:
  FileArrays(std::vector<SavedArray> found, const LoadWeightsOptions& options)
      : is_pytorch_(options.layout == WeightsLayout::pytorch) {
    std::set<const WeightsRename*> used;
    for (SavedArray& array : found) {
      if (array_size(array.extents, scalar_size(array.scalar)) != array.bytes.size())
        throw DataError(
            concat({in_quotes(array.name), " ", shape_text(array.extents), " of ", array.scalar,
                    " cannot have ", array.bytes.size(), " bytes: the file is damaged"}));
      const WeightsRename* const rule = rule_for(array.name, options.rename);
      used.insert(rule);
      NamedFileArray& renamed =
          arrays_.emplace_back(NamedFileArray{.array = std::move(array), .name = {}});
      const std::string& name = renamed.array.name;
      renamed.name = rule == nullptr ? name : rule->to + name.substr(rule->from.size());
      if (rule != nullptr) renamed.flattened = rule->flattened;
      if (is_pytorch_) std::replace(renamed.name.begin(), renamed.name.end(), '.', '/');
    }
    for (const WeightsRename& rule : options.rename)
      if (!used.contains(&rule))
        throw ConfigurationError(
            concat({"rename: the file has no array whose name is or begins with ",
                    in_quotes(rule.from), "; it has ", names()}));
  }

  /// Marks it as used. Null when there is none.
  NamedFileArray* take(std::string_view name) {
    const auto at = std::find_if(arrays_.begin(), arrays_.end(),
                                 [&](const auto& array) { return array.name == name; });
    if (at == arrays_.end()) return nullptr;
    at->is_used = true;
    return &*at;
  }
  [[nodiscard]] bool is_pytorch() const noexcept { return is_pytorch_; }
  [[nodiscard]] std::vector<std::string> unused() const {
    std::vector<std::string> left;
    for (const NamedFileArray& array : arrays_)
      if (!array.is_used) left.push_back(array.array.name);
    return left;
  }
  [[nodiscard]] std::string names() const {
    std::string text;
    for (std::size_t i = 0; i < arrays_.size() && i < 12; ++i) {
      const SavedArray& array = arrays_[i].array;
      text +=
          concat({i > 0 ? ", " : "", in_quotes(array.name, 60), " ", shape_text(array.extents)});
    }
    if (arrays_.size() > 12) text += concat({" and ", arrays_.size() - 12, " more"});
    return text.empty() ? "none" : text;
  }

 private:
  static const WeightsRename* rule_for(std::string_view name,
                                       const std::vector<WeightsRename>& rules) {
    const WeightsRename* best = nullptr;
    for (const WeightsRename& rule : rules) {
      const bool fits = name.starts_with(rule.from) &&
                        (name.size() == rule.from.size() || name[rule.from.size()] == '.' ||
                         name[rule.from.size()] == '/' || rule.from.empty() ||
                         rule.from.ends_with('.') || rule.from.ends_with('/'));
      if (fits && (best == nullptr || rule.from.size() > best->from.size())) best = &rule;
    }
    return best;
  }

  std::vector<NamedFileArray> arrays_;
  bool is_pytorch_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
