// CategoryEncoding: numbers of categories as zeros and ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What CategoryEncoding makes of the numbers of a sample: for each category, whether or how often
/// it is among them; or, of each number, a 1 in the place of its category.
enum class CategoryOutput : std::uint8_t { multi_hot, count, one_hot };

/// Compile-time options of CategoryEncoding; the default is Keras's.
struct CategoryEncodingOptions {
  CategoryOutput output_mode = CategoryOutput::multi_hot;
};

/// A sample of Shape<N> holds N categories, whole numbers below NumTokens, and becomes NumTokens
/// numbers; with one_hot those of each: Shape<N, NumTokens>, and of Shape<1> Shape<NumTokens>. No
/// gradient goes through it. A number that is not whole, or out of range, ends the training with an
/// error that names it.
/// Use: `CategoryEncoding<4>`: Shape<2> -> Shape<4>. Keras: `CategoryEncoding(num_tokens=4)`.
template <std::size_t NumTokens, CategoryEncodingOptions Options = CategoryEncodingOptions{}>
struct CategoryEncoding {
  static_assert(NumTokens > 0, "lockstep: CategoryEncoding needs at least one category");

  static constexpr std::string_view name = "category_encoding";
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(
        IdInput<Position, In>,
        "lockstep: CategoryEncoding needs samples of numbers of categories, Shape<N>, and "
        "its input has more dimensions");
    return true;
  }

  static constexpr bool is_one_hot = Options.output_mode == CategoryOutput::one_hot;
  template <class In>
  using Output = std::conditional_t<is_one_hot && (In::size > 1), Shape<In::size, NumTokens>,
                                    Shape<NumTokens>>;

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    static_assert(NumTokens <= std::size_t{1} << std::numeric_limits<T>::digits,
                  "lockstep: CategoryEncoding has more categories than the scalar type has whole "
                  "numbers (float: 2^24 = 16,777,216): compile the model with double");
    std::fill_n(pass.y.data(), Output<In>::size * pass.y.stride(), T(0));
    for (std::size_t i = 0; i < In::size; ++i)
      for (std::size_t sample = 0; sample < pass.x.samples(); ++sample) {
        const T category = pass.x(sample, i);
        if (!(category >= T(0) && category < static_cast<T>(NumTokens) &&
              category == std::floor(category)))
          refuse(i, sample, static_cast<double>(category));
        T& number =
            pass.y(sample, (is_one_hot ? i * NumTokens : 0) + static_cast<std::size_t>(category));
        number = Options.output_mode == CategoryOutput::count ? number + 1 : T(1);
      }
  }

  /// Categories have no gradient: it is zero.
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    std::fill_n(pass.dx.data(), In::size * pass.dx.stride(), T(0));
  }

 private:
  [[noreturn, gnu::cold]] static void refuse(std::size_t i, std::size_t sample, double category) {
    throw BadSample(concat({"CategoryEncoding: number ", i, " of "}), sample,
                    concat({" is ", number_text(category), "; expected a whole number from 0 to ",
                            NumTokens - 1}));
  }
};

}}  // namespace lockstep
