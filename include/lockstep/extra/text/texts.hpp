// Ranges of texts: what adapt and train take.
#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Hands all texts, one after the other, to a function.
using EachText = FunctionRef<void(FunctionRef<void(std::string_view)>)>;

/// A text, or a whole number, which stands for its decimal digits.
template <class V>
concept TextValue = std::convertible_to<const V&, std::string_view> ||
                    (std::integral<V> && !std::same_as<V, bool> && !std::same_as<V, char>);

/// Calls f for each text: of a range of them (lines, a column), of what has size() and [] (a
/// LineFile), or of ranges of those. Whole numbers are texts of their digits.
template <class Texts, class F>
void each_text(const Texts& texts, const F& f) {
  if constexpr (std::convertible_to<const Texts&, std::string_view>) {
    f(std::string_view(texts));
  } else if constexpr (std::integral<Texts>) {
    f(TextPiece(texts).view());
  } else if constexpr (requires { texts.begin() != texts.end(); }) {
    for (const auto& text : texts) each_text(text, f);
  } else {
    static_assert(
        requires { texts[texts.size()]; },
        "lockstep: expected a range of texts: a std::vector of std::string, a LineFile, "
        "CsvTable::texts(column)");
    for (std::size_t i = 0; i < texts.size(); ++i) each_text(texts[i], f);
  }
}

/// What of a line is the text, by default.
struct WholeText {
  std::string_view operator()(std::string_view text) const noexcept { return text; }
};

}}}  // namespace lockstep::detail
