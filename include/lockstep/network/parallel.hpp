// Parallel and Residual: layers beside each other.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/activation_function.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/branches.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/layer_chain.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/sequential.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// The condition that a message of Parallel is about. What is printed beside it: the number of a
/// branch, from 0, its output's shape, that of the first one, and the branch.
template <std::size_t Number, class Output, class FirstOutput, class Branch, class Merge>
concept FittingBranch = Merge::template Rule<FirstOutput, Output>::holds;

template <std::size_t Number, class Output, class FirstOutput, class Branch, class Merge>
consteval bool check_fit() {
  static_assert(FittingBranch<Number, Output, FirstOutput, Branch, Merge>,
                "lockstep: this branch of Parallel does not fit the first one: Concatenate needs "
                "shapes that differ in the last extent only, Dot flat outputs of one size, other "
                "merges outputs of one shape");
  return true;
}
/// (A branch that is no layer, or does not take In, has its own message, which comes first.)
template <std::size_t Number, class Merge, class First, class Branch, class In>
consteval bool check_branch() {
  static_assert(alignof(LayerAt<Number, Branch, In>) > 0);
  return check_fit<Number, typename OutputShape<Branch, In>::Type,
                   typename OutputShape<First, In>::Type, Branch, Merge>();
}
template <class Merge, class In, class First, class... Branches, std::size_t... I>
consteval bool check_branches(std::index_sequence<I...>) {
  return check_branch<0, Merge, First, First, In>() &&
         (check_branch<I + 1, Merge, First, Branches, In>() && ...);
}

/// Null: the merge has none.
template <class Merge, class T>
consteval auto merge_backward() -> decltype(MergeCalls<T>::backward) {
  if constexpr (requires { &Merge::template backward<T>; })
    return Merge::template backward<T>;
  else
    return nullptr;
}

template <class Merge, class T>
consteval ArrayCalls<T> merge_array_calls() {
  if constexpr (requires { Merge::template array_calls<T>; })
    return Merge::template array_calls<T>;
  else
    return {};
}

template <template <class...> class>
struct MergeRule;
template <class Merge>
concept HasMergeRule = requires { typename MergeRule<Merge::template Rule>; };

/// A container of branches. With HideIdentity, the branches are Identity, which has no position and
/// no name then, and a Sequential, whose layers are those of the container.
template <bool HideIdentity, class Merge, class... Branches>
struct ParallelLayers {
  static_assert(HasMergeRule<Merge>,
                "lockstep: the first parameter of Parallel is how its branches come together: "
                "ls::Add, ls::Multiply, ls::Concatenate, ...");
  static constexpr std::size_t count = sizeof...(Branches);
  static constexpr bool keeps_padding = true;
  static constexpr bool takes_sequences = true;
  static constexpr std::size_t layer_count =
      (std::size_t{0} + ... + layer_count_of<Branches>()) - (HideIdentity ? 1 : 0);

  template <class In, std::size_t... I>
  static auto chain_of(std::index_sequence<I...>) -> LayerList<LayerAt<I, Branches, In>...>;
  /// A LayerAt for each branch.
  template <class In>
  using List = decltype(chain_of<In>(std::make_index_sequence<count>{}));
  template <class In>
  using Rule = typename Merge::template Rule<typename OutputShape<Branches, In>::Type...>;

  template <class In>
  static constexpr auto branch_infos = layer_infos(List<In>{});
  template <class In>
  static constexpr auto layers = [] {
    if constexpr (HideIdentity)
      return []<class Hidden, class Shown>(LayerList<Hidden, Shown>) {
        return Shown::Layer::template layers<In>;
      }(List<In>{});
    else
      return branch_infos<In>;
  }();

  template <class In>
  static constexpr auto variables =
      concatenate<&LayerInfo::variables, variable_count<&LayerInfo::variables>(branch_infos<In>)>(
          branch_infos<In>);
  template <class In>
  static constexpr auto state_variables =
      concatenate<&LayerInfo::state_variables,
                  variable_count<&LayerInfo::state_variables>(branch_infos<In>)>(branch_infos<In>);

  /// Without a gradient of the input, branches that have nothing to train do not go backward.
  template <class In>
  static constexpr Flop flop = []<class... At>(LayerList<At...>) {
    Flop all;
    ((all += flop_in_a_row(LayerList<At>{})), ...);
    return all;
  }(List<In>{});

  template <class In>
  static constexpr std::size_t scratch(std::size_t samples) {
    return branches_scratch(branches<In>, samples);
  }
  template <class In>
  static constexpr std::size_t temporary(std::size_t samples) {
    return branches_temporary(branches<In>, samples);
  }
  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    run_branches<T>(branches<In>, calls<In, T>, merge<In, T>, pass);
  }
  template <class In, class T, class F>
  static void each_output(std::size_t first, const ForwardPass<T>& pass, F& f) {
    visit_branches<T>(branches<In>, calls<In, T>, first, pass, OutputVisitor<T>(f));
  }
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    run_branches_backward<T>(branches<In>, calls<In, T>, merge<In, T>, pass);
  }
  template <class In, class T>
  static void backward_weights(const BackwardPass<T>& pass) {
    run_branches_backward<T>(branches<In>, calls<In, T>, merge<In, T>, pass);
  }

 protected:
  template <class In>
  static constexpr std::array<Branch, count> branches = [] {
    return []<class... At>(LayerList<At...>) {
      std::array<Branch, count> all{Branch{At::place(), !At::aliases}...};
      const std::array<std::size_t, count> layer_counts{layer_count_of<typename At::Layer>()...};
      LayerPlace before{};
      for (std::size_t b = 0; b < count; ++b) {
        all[b].place.position = before.position;
        all[b].place.first_variable = before.first_variable;
        all[b].place.first_state_variable = before.first_state_variable;
        if (std::is_same_v<Merge, NoMerge>) all[b].place.kept = nullptr;  // others read it
        before.position += HideIdentity && !all[b].computes ? 0 : layer_counts[b];
        before.first_variable += all[b].place.variables;
        before.first_state_variable += all[b].place.state_variables;
      }
      if (SumActivation<Merge>::is_sum && count == 2)
        all.back().writes_sum = all.back().place.adds_to_output;
      return all;
    }(List<In>{});
  }();

  template <class At, class T>
  static consteval BranchCalls<T> calls_of() {
    BranchCalls<T> calls{};
    if constexpr (!At::aliases) {
      constexpr bool trains = !variables_of<typename At::Layer, typename At::Given>().empty();
      calls.forward = At::template forward_call<T>();
      calls.backward =
          At::template backward_call<T, BackwardRole{.called = true, .input_gradient = true}>();
      calls.backward_weights = At::template backward_call<T, BackwardRole{.called = trains}>();
    }
    return calls;
  }
  template <class In, class T>
  static constexpr std::array<BranchCalls<T>, count> calls = [] {
    return []<class... At>(LayerList<At...>) {
      return std::array<BranchCalls<T>, count>{calls_of<At, T>()...};
    }(List<In>{});
  }();

  template <class In, class T>
  static constexpr MergeCalls<T> merge = [] {
    using Token = TokenOf<typename Rule<In>::Type>;
    return MergeCalls<T>{.blocks = Token::size / (Token::rank == 0 ? 1 : Token::extents.back()),
                         .forward = Merge::template forward<T>,
                         .backward = merge_backward<Merge, T>(),
                         .minimum = fused_minimum<typename SumActivation<Merge>::Type, T>(),
                         .arrays = merge_array_calls<Merge, T>()};
  }();
};

}  // namespace detail

/// Branches that have one input, and whose outputs a merge (Add, Subtract, Multiply, Average,
/// Maximum, Minimum, Dot, Concatenate) makes one of. A branch is a layer or a Sequential; Identity
/// hands the input on. As in Keras, a row of the output counts where it does in one branch; if a
/// branch has no mask, all rows count.
/// @code
/// using Inception = Parallel<Concatenate, Conv2D<16, 1, ReLU>,
///                            Sequential<Conv2D<8, 1, ReLU>, Conv2D<16, 3, ReLU, same>>>;
/// @endcode
/// Use: `Parallel<Concatenate, Dense<4>, Dense<8>>`: Shape<20> -> Shape<12>; kernel (20, 4), bias
/// (4), kernel (20, 8), bias (8). Keras: none (branches of a functional model).
template <class Merge, class... Branches>
  requires each_layer_has_its_angle_brackets<Branches...>
struct Parallel : detail::ParallelLayers<false, Merge, Branches...> {
  static_assert(
      sizeof...(Branches) > 0 && sizeof...(Branches) <= detail::max_branches,
      "lockstep: Parallel needs a merge (ls::Add, ls::Concatenate, ...) and 1 to 16 branches");
  static constexpr std::string_view name = "parallel";
  using AnnouncesGradients = Parallel;

  template <std::size_t Position, class In>
  static consteval bool check() {
    if constexpr (sizeof...(Branches) > 0)
      return detail::check_branches<Merge, In, Branches...>(
          std::make_index_sequence<sizeof...(Branches) - 1>{});
    else
      return true;
  }
  template <class In>
  using Output =
      typename detail::ParallelLayers<false, Merge, Branches...>::template Rule<In>::Type;
};

namespace detail {

template <class>
inline constexpr bool is_sequential = false;
template <class... Layers>
inline constexpr bool is_sequential<Sequential<Layers...>> = true;

template <std::size_t Position, class In, class Out>
concept SameShapes = std::is_same_v<In, Out>;
template <std::size_t Position, class BranchOutput, class ShortcutOutput>
concept SameOutputs = std::is_same_v<BranchOutput, ShortcutOutput>;

template <class Merge, class... Layers>
struct ResidualLayers : ParallelLayers<true, Merge, Identity, Sequential<Layers...>> {
  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(
        SameShapes<Position, In, typename Sequential<Layers...>::template Output<In>>,
        "lockstep: Residual adds its input to the output of its layers, so they must keep the "
        "shape; "
        "otherwise give it a shortcut: ls::Residual<ls::Sequential<...>, ls::Sequential<...>>");
    return true;
  }
  template <class In>
  using Output = In;
};
template <class Merge, class Branch, class Shortcut>
  requires(is_sequential<Branch> && is_sequential<Shortcut>)
struct ResidualLayers<Merge, Branch, Shortcut> : ParallelLayers<false, Merge, Branch, Shortcut> {
  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(
        SameOutputs<Position, typename Branch::template Output<In>,
                    typename Shortcut::template Output<In>>,
        "lockstep: the branch and the shortcut of Residual must have outputs of one shape");
    return true;
  }
  template <class In>
  using Output = typename Branch::template Output<In>;
};

template <class Function, class... Layers>
struct ActivatedResidual;

}  // namespace detail

/// x + f(x), where f is the layers one after the other. With exactly two Sequentials: the sum of a
/// branch and a shortcut. He, Zhang, Ren, Sun, "Deep residual learning for image recognition", CVPR
/// 2016. A maximum after it (Activation<ReLU>) is applied to the sum in the same pass over memory,
/// and where f ends with a BatchNormalization, that writes the sum.
/// @code
/// using Block = Residual<LayerNormalization<>, Dense<512, ReLU>, Dense<128>>;
/// using Down = Residual<Sequential<Conv2D<32, 3, ReLU, half>, Conv2D<32, 3, Linear, same>>,
///                       Sequential<Conv2D<32, 1, Linear, half>>>;
/// @endcode
/// Use: `Residual<Dense<20, ReLU>>`: Shape<20> -> Shape<20>; kernel (20, 20), bias (20). Keras:
/// none.
template <class... Layers>
  requires each_layer_has_its_angle_brackets<Layers...>
struct Residual : detail::ResidualLayers<Add, Layers...> {
  static_assert(sizeof...(Layers) > 0, "lockstep: Residual needs at least one layer");
  static constexpr std::string_view name = "residual";
  using AnnouncesGradients = Residual;

  template <class Function>
    requires detail::has_minimum<Function, float>
  using WithActivation = detail::ActivatedResidual<Function, Layers...>;
  using OutputActivation = Linear;
  using Preactivation = Residual;
};

namespace detail {

/// Function(x + f(x)).
template <class Function, class... Layers>
struct ActivatedResidual : ResidualLayers<ActivatedAdd<Function>, Layers...> {
  static constexpr std::string_view name = "residual";
  using AnnouncesGradients = ActivatedResidual;
  using OutputActivation = Function;
  using Preactivation = Residual<Layers...>;
};

}  // namespace detail

}}  // namespace lockstep
