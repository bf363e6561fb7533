#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>

#include "lockstep/checkpoint/file.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/training/profile.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE std::string rank_times_text(std::span<const RankTime> ranks, int epoch,
                                            std::int64_t steps, int local_size) {
  const auto milliseconds = [&](double seconds) {
    return number_text(1000 * seconds / static_cast<double>(std::max<std::int64_t>(1, steps)),
                       NumberForm::fixed, 2);
  };
  std::vector<std::size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return ranks[a].compute > ranks[b].compute;
  });
  const std::size_t slowest = order.front();
  const double wire =
      std::min_element(ranks.begin(), ranks.end(), [](const RankTime& a, const RankTime& b) {
        return a.collective < b.collective;
      })->collective;
  if (ranks.size() > 8)
    order = {order[0], order[1], order[2], order[3], order.back()};
  else
    std::sort(order.begin(), order.end());

  std::string text = concat({"replicas in epoch ", epoch + 1, ", ms a step:"});
  for (const std::size_t r : order)
    text += concat({" ", replica_name(r, local_size), " compute ", milliseconds(ranks[r].compute),
                    " wait ", milliseconds(ranks[r].collective - wire), ","});
  return text +
         concat({" wire ", milliseconds(wire), "; slowest: ", replica_name(slowest, local_size)});
}

LOCKSTEP_INLINE std::vector<RankTime> gather_rank_times(AnyCollective& collective,
                                                        Trace::Clock::duration whole,
                                                        Trace::Clock::duration in_collective) {
  const auto seconds = [](Trace::Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  const RankTime mine{.compute = seconds(whole - in_collective),
                      .collective = seconds(in_collective)};
  if (collective.size() == 1) return {mine};
  std::vector<RankTime> all(static_cast<std::size_t>(collective.size()));
  collective.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

/// Rows of the table and of nothing else.
struct ProfileRow {
  std::string_view name;
  double forward = 0;   ///< ms a step
  double backward = 0;  ///< ms a step
  double total = 0;     ///< ms a step
};

inline std::string right_aligned(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

inline std::string profile_line(const ProfileRow& row, double whole) {
  const auto number = [](double value) {
    return right_aligned(value > 0 ? number_text(value, NumberForm::fixed, 3) : "", 10);
  };
  std::string name(row.name);
  if (name.size() < 28) name.resize(28, ' ');
  return concat(
      {"\n  ", name, number(row.forward), number(row.backward),
       right_aligned(number_text(row.total, NumberForm::fixed, 3), 10),
       right_aligned(number_text(whole > 0 ? 100 * row.total / whole : 0.0, NumberForm::fixed, 1),
                     8),
       " %"});
}

LOCKSTEP_INLINE std::string profile_table(const Profile& profile, int epoch, std::int64_t steps,
                                          Trace::Clock::duration duration) {
  const Trace& trace = profile.traces()[0];
  const auto per_step = [&](Trace::Clock::duration time) {
    return steps > 0 ? std::chrono::duration<double, std::milli>(time).count() /
                           static_cast<double>(steps)
                     : 0.0;
  };
  const double whole = per_step(duration);
  double rest = whole;
  std::string text = concat(
      {"profile of epoch ", epoch + 1, ": ", steps, steps == 1 ? " step, " : " steps, ",
       number_text(whole, NumberForm::fixed, 3),
       " ms a step\n  ms a step                      forward  backward     total     share"});
  const auto add = [&](ProfileRow row) {
    rest -= row.total;
    text += profile_line(row, whole);
  };
  const auto part = [&](std::string_view name, TracePart which) {
    add({.name = name, .total = per_step(trace.total(which))});
  };
  part("input", TracePart::input);
  for (std::size_t layer = 0; layer < trace.layers(); ++layer) {
    const double forward = per_step(trace.total(TracePart::forward, layer));
    const double backward = per_step(trace.total(TracePart::backward, layer));
    if (forward + backward > 0)
      add({.name = profile.layer_names()[layer],
           .forward = forward,
           .backward = backward,
           .total = forward + backward});
  }
  part("loss and metrics", TracePart::loss);
  part("collective", TracePart::collective);
  part("optimizer", TracePart::optimizer);
  part("callbacks", TracePart::callbacks);
  add({.name = "rest", .total = rest});
  return text;
}

inline std::string_view trace_part_name(TracePart part) {
  constexpr std::string_view names[trace_part_count] = {
      "input", "forward", "loss and metrics", "backward", "collective", "optimizer", "callbacks"};
  return names[static_cast<std::size_t>(part)];
}

LOCKSTEP_INLINE std::string chrome_trace(const Profile& profile, int worker) {
  const auto microseconds = [](Trace::Clock::duration time) {
    return std::chrono::duration<double, std::micro>(time).count();
  };
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  text += concat({"\n{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": ", worker,
                  ", \"args\": {\"name\": \"worker ", worker, "\"}}"});
  for (std::size_t replica = 0; replica < profile.traces().size(); ++replica) {
    text += concat({",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": ", worker,
                    ", \"tid\": ", replica, ", \"args\": {\"name\": \"replica ", replica, "\"}}"});
    for (const Trace::Event& event : profile.traces()[replica].events()) {
      const std::string_view part = trace_part_name(event.part);
      const bool in_layer = event.part == TracePart::forward || event.part == TracePart::backward;
      text += ",\n{\"ph\": \"X\", \"name\": ";
      text += json_text(in_layer ? std::string_view(profile.layer_names()[event.layer]) : part);
      text += concat(
          {", \"cat\": \"", part, "\", \"pid\": ", worker, ", \"tid\": ", replica, ", \"ts\": ",
           number_text(microseconds(event.begin - profile.begin()), NumberForm::fixed, 3),
           ", \"dur\": ", number_text(microseconds(event.duration), NumberForm::fixed, 3), "}"});
    }
  }
  return text + "\n]}\n";
}

LOCKSTEP_INLINE std::string write_profile(const Profile& profile, const std::string& path,
                                          int worker) {
  std::filesystem::path own = path;
  if (worker > 0) {
    const std::string extension = own.extension().string();
    own.replace_extension(concat({".worker", worker, extension}));
  }
  const std::string text = chrome_trace(profile, worker);
  write_file_atomically(own.string(), std::as_bytes(std::span(text)));
  return own.string();
}

LOCKSTEP_INLINE void finish_profile(const Profile& profile, const std::string& path, int worker) {
  try {
    log_line("profile: wrote " + write_profile(profile, path, worker));
    const std::size_t left_out = profile.traces()[0].left_out();
    if (left_out > 0)
      log_line(concat(
          {"profile: it has the first events only, ", left_out, " later ones are left out"}));
  } catch (const Error& error) {
    log_warning(std::string("profile: ") + error.what());
  }
}

}}}  // namespace lockstep::detail
