// What a file is, seen by its first bytes: for errors, when it is not what a reader expects.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The kind of a file that begins with `head`, with what to do about it where that is known: "a
/// GIF image", "a Git LFS pointer, not the file that it stands for: run git lfs pull". Empty for
/// bytes that are of no known kind.
[[nodiscard, gnu::cold]] std::string known_format(std::string_view head);

/// The same for the end of a message: "; it is a GIF image", or empty.
[[nodiscard, gnu::cold]] std::string format_note(std::string_view head);

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/file_format.ipp"
#endif
