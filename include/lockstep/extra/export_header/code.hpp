// The code of a header while it is written.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/export_header/runtime.hpp"
#include "lockstep/saving/exported_variables.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Statements, one for each layer, that turn one value into the next: `rows` parts of this many
/// numbers (the tokens of a sequence, or one sample). The functions are those of runtime.hpp.
class HeaderCode : public ExportedVariables {
 public:
  HeaderCode(ExportedVariables variables, std::size_t inputs)
      : ExportedVariables(std::move(variables)), size_(inputs), before_(inputs) {}

  /// A layer whose output is a sum of products and a bias for each of its channels, which are the
  /// last extent of the kernel. A scale and a shift that come next are folded into these.
  void linear(std::string function, std::size_t rows, std::size_t outputs, ExportedArray kernel,
              std::optional<ExportedArray> bias) {
    flush();
    pending_ = Linear{std::move(function), rows, outputs, std::move(kernel), std::move(bias)};
    size_ = rows * outputs;
  }

  void scale_shift(const std::vector<float>& scale, const std::vector<float>& shift) {
    if (pending_ && pending_->kernel.shape.back() == scale.size()) return fold(scale, shift);
    const std::string factors = constants("scale", scale), terms = constants("shift", shift);
    call(concat({"scale_shift<", size_, ", ", scale.size(), ">"}), 1, size_, {factors, terms});
  }

  /// An activation, by the name of its function.
  void map(std::string_view function) {
    if (function == "linear") return;
    flush();
    const std::string next = is_read_only(value_) ? other() : value_;
    statements_ +=
        concat({"  detail::map<", size_, ", detail::", function, ">(", value_, ", ", next, ");\n"});
    value_ = next;
    keep();
  }

  /// function(value, weights..., next value) for each of `rows` parts. `outputs`: of a part.
  void call(const std::string& function, std::size_t rows, std::size_t outputs,
            std::initializer_list<std::string> weights) {
    flush();
    const std::size_t inputs = size_ / rows;
    const std::string next = other();
    const std::string_view part = rows > 1 ? " + i * " : "";
    std::string all = rows > 1 ? concat({"  for (int i = 0; i < ", rows, "; ++i)\n    "}) : "  ";
    all +=
        concat({"detail::", function, "(", value_, part, rows > 1 ? concat({inputs}) : "", ", "});
    for (const std::string& weight : weights)
      all += concat({weight == "nullptr" ? "" : "detail::", weight, ", "});
    statements_ += concat({all, next, part, rows > 1 ? concat({outputs}) : "", ");\n"});
    value_ = next;
    size_ = rows * outputs;
    keep();
  }

  /// Branches that are all given the value that there is now: what they return is given to
  /// end_branches.
  struct Branches {
    std::string input, output;  ///< arrays
    std::size_t input_size, output_size;
    std::size_t count = 0;  ///< branches that are merged
    bool was_read_only;
  };
  Branches begin_branches(std::size_t output_size) {
    flush();
    Branches branches{.input = value_,
                      .output = kept_array("m", output_size),
                      .input_size = size_,
                      .output_size = output_size,
                      .was_read_only = is_read_only(value_)};
    if (value_ == "a" || value_ == "b") {
      branches.input = kept_array("k", size_);
      copy(value_, size_, branches.input);
    }
    read_only_.insert(branches.input);
    return branches;
  }
  void begin_branch(const Branches& branches) {
    value_ = branches.input;
    size_ = before_ = branches.input_size;
  }
  /// Merges the value of a branch into the output: `how` is add, multiply, or put, which takes the
  /// number of blocks, and where the branch's part of each begins.
  void end_branch(Branches& branches, std::string_view how, std::size_t blocks, std::size_t first) {
    flush();
    if (how == "put")
      statements_ += concat({"  detail::put<", blocks, ", ", size_ / blocks, ", ",
                             branches.output_size / blocks, ">(", value_, ", ", branches.output,
                             " + ", first, ");\n"});
    else if (branches.count == 0)
      copy(value_, size_, branches.output);
    else
      statements_ +=
          concat({"  detail::", how, "<", size_, ">(", value_, ", ", branches.output, ");\n"});
    ++branches.count;
  }
  void end_branches(const Branches& branches) {
    if (!branches.was_read_only) read_only_.erase(branches.input);
    value_ = branches.output;
    size_ = before_ = branches.output_size;
  }

  /// An array of constants; returns its name, that of an equal one where there is one. Throws Error
  /// for what is no number.
  std::string constants(std::string_view what, std::span<const float> values) {
    std::string& known = names_[{std::string(what), {values.begin(), values.end()}}];
    if (known.empty()) known = new_constants(what, values);
    return known;
  }
  std::string new_constants(std::string_view what, std::span<const float> values) {
    std::string name = concat({what, "_", arrays_++});
    constants_ += concat({"constexpr float ", name, "[] = {"});
    std::size_t column = 100;
    for (const float value : values) {
      if (!std::isfinite(value))
        throw Error(concat({"export_header: '", what, "' has a value that is no finite number"}));
      const std::string digits =
          number_text(static_cast<double>(value), NumberForm::general, 9);  // enough for a float
      const bool is_whole = digits.find_first_of(".e") == digits.npos;
      if (column + digits.size() + 4 > 100) constants_ += "\n   ", column = 4;
      constants_ += concat({" ", digits, is_whole ? ".f," : "f,"});
      column += digits.size() + 4;
    }
    constants_ += "};\n";
    bytes_ += values.size_bytes();
    return name;
  }
  std::string constants(const ExportedArray& array) {
    const std::size_t slash = array.name.rfind('/');
    return constants(array.name.substr(slash == array.name.npos ? 0 : slash + 1), array.values);
  }
  std::string constants(const std::optional<ExportedArray>& array) {
    return array ? constants(*array) : "nullptr";
  }

  /// The file. `inputs`: the numbers of a sample, and how they lie.
  [[nodiscard]] std::string file(std::string_view name, std::size_t inputs,
                                 std::string_view input_text, std::string_view output_text,
                                 std::string_view version) {
    flush();
    return concat(
        {"// A trained model, written by export_header of lockstep ",
         version,
         ".\n// Constants: ",
         bytes_,
         " bytes. Arrays on the stack of predict: ",
         (size_of_[0] + size_of_[1] + kept_size_) * sizeof(float),
         " bytes and what a layer keeps.\n#pragma once\n\n#include <cmath>\n\nnamespace ",
         name,
         " {\n\nconstexpr int inputs = ",
         inputs,
         ", outputs = ",
         size_,
         ";\n\nnamespace detail {\n",
         header_runtime,
         "\n",
         constants_,
         "\n}  // namespace detail\n\n/// y = what the model predicts for one sample. x: ",
         input_text,
         "; y: ",
         output_text,
         ", row by row, channels last.\ninline void predict(const float* x, float* y) {\n",
         array_text('a'),
         array_text('b'),
         kept_arrays_,
         statements_,
         "  detail::map<outputs, detail::linear>(",
         value_,
         ", y);\n}\n\n}  // namespace ",
         name,
         "\n"});
  }

 private:
  struct Linear {
    std::string function;
    std::size_t rows, outputs;
    ExportedArray kernel;
    std::optional<ExportedArray> bias;
  };

  void flush() {
    if (!pending_) return;
    const Linear layer = std::move(*pending_);
    pending_.reset();
    const std::string kernel = constants(layer.kernel), bias = constants(layer.bias);
    const std::size_t size = std::exchange(size_, before_);
    call(layer.function, layer.rows, layer.outputs, {kernel, bias});
    size_ = size;
  }

  void fold(const std::vector<float>& scale, const std::vector<float>& shift) {
    for (std::size_t i = 0; i < pending_->kernel.values.size(); ++i)
      pending_->kernel.values[i] *= scale[i % scale.size()];
    if (!pending_->bias)
      pending_->bias = ExportedArray{"bias", {}, std::vector<float>(scale.size(), 0.0f)};
    for (std::size_t i = 0; i < scale.size(); ++i)
      pending_->bias->values[i] = pending_->bias->values[i] * scale[i] + shift[i];
  }

  [[nodiscard]] std::string other() const { return value_ == "a" ? "b" : "a"; }
  [[nodiscard]] bool is_read_only(const std::string& array) const {
    return array == "x" || read_only_.contains(array);
  }
  /// An array that no layer writes to.
  std::string kept_array(std::string_view kind, std::size_t size) {
    std::string name = concat({kind, kept_++});
    kept_arrays_ += concat({"  float ", name, "[", size, "];\n"});
    kept_size_ += size;
    return name;
  }
  void copy(const std::string& from, std::size_t size, const std::string& to) {
    statements_ += concat({"  detail::map<", size, ", detail::linear>(", from, ", ", to, ");\n"});
  }
  void keep() {
    before_ = size_;
    if (value_ != "a" && value_ != "b") return;
    std::size_t& size = size_of_[value_ == "b"];
    size = std::max(size, size_);
  }
  [[nodiscard]] std::string array_text(char name) const {
    const std::size_t size = size_of_[name == 'b'];
    return size == 0 ? "" : concat({"  float ", std::string(1, name), "[", size, "];\n"});
  }

  std::string constants_, statements_, kept_arrays_;
  std::map<std::pair<std::string, std::vector<float>>, std::string> names_;  // of the constants
  std::set<std::string> read_only_;  // arrays that branches still need
  std::string value_ = "x";          // the array that has the value
  std::size_t size_;                 // of the value
  std::size_t before_;               // the same, without what is pending
  std::size_t size_of_[2] = {};      // of a and b
  std::size_t arrays_ = 0, bytes_ = 0;
  std::size_t kept_ = 0, kept_size_ = 0;  // arrays of branches, and their numbers
  std::optional<Linear> pending_;
};

}}}  // namespace lockstep::detail
