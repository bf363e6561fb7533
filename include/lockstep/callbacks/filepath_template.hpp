// Paths with the epoch and the figures of training in them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A path as Keras's callbacks take it: "run/{epoch:02d}-{val_loss:.2f}". A field in braces is
/// epoch or batch (counted from 1), or the name of a figure of the logs. After a colon follows its
/// format: an optional 0, the width, a dot and the precision, and one of d (whole numbers), e, f,
/// g. {{ and }} are braces.
class FilepathTemplate {
 public:
  /// Throws ConfigurationError when the text is no such template.
  explicit FilepathTemplate(std::string_view text);

  /// `epoch` and `batch` from 0. Throws ConfigurationError when a figure is missing, listing those
  /// that exist, or when its format does not fit.
  [[nodiscard]] std::string format(std::int64_t epoch, std::optional<std::int64_t> batch,
                                   const Logs& logs) const;

 private:
  struct Piece {
    std::string text;   ///< comes first, as it is
    std::string field;  ///< comes behind the text; empty: none
    std::string flags;  ///< "02", ".2"
    char conversion = 0;
  };
  std::string text_;
  std::vector<Piece> pieces_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/callbacks/filepath_template.ipp"
#endif
