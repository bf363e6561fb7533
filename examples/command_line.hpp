// Options of the example programs: `--name value` or `--name=value`.
#pragma once

#include <lockstep/lockstep.hpp>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace examples {

/// The options of a program by name, each with what is done with its value.
class CommandLine {
 public:
  explicit CommandLine(std::string program) : program_(std::move(program)) {}

  void text(const std::string& name, std::string& to) {
    options_[name] = [&to](std::string_view value) { to = value; };
  }
  template <class Number>
  void number(const std::string& name, Number least, Number most, Number& to) {
    options_[name] = [this, name, least, most, &to](std::string_view value) {
      read(name, value, least, most, to);
    };
  }
  /// What `read(value)` makes of it, which throws ConfigurationError.
  void other(const std::string& name, std::function<void(std::string_view)> read) {
    options_[name] = std::move(read);
  }
  /// `name` says more about `other`: given alone, it would have no effect, and is refused.
  void needs(const std::string& name, const std::string& other) { needed_[name] = other; }

  template <class Number>
  void read(const std::string& name, std::string_view text, Number least, Number most,
            Number& to) const {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
    if (error != std::errc() || end != text.data() + text.size() || !(to >= least && to <= most))
      refuse(name + ": '" + std::string(text) + "' is no number from " +
             lockstep::number_text(static_cast<double>(least)) + " to " +
             lockstep::number_text(static_cast<double>(most)));
  }

  /// False: the user asks for help. Throws ConfigurationError.
  [[nodiscard]] bool parse(int argc, char** argv) const {
    std::set<std::string> given;
    for (int i = 1; i < argc; ++i) {
      std::string name = argv[i];
      if (name == "--help" || name == "-h") return false;
      std::optional<std::string> value;
      if (const auto equals = name.find('='); equals != std::string::npos) {
        value = name.substr(equals + 1);
        name.resize(equals);
      }
      const auto option = options_.find(name);
      if (option == options_.end()) refuse("unknown option '" + name + "'");
      if (!value) {
        if (i + 1 == argc) refuse(name + " needs a value");
        value = argv[++i];
      }
      option->second(*value);
      given.insert(name);
    }
    for (const auto& [name, other] : needed_)
      if (given.contains(name) && !given.contains(other))
        refuse(name + " has no effect without " + other);
    return true;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw lockstep::ConfigurationError(program_ + ": " + what);
  }
  [[nodiscard]] const std::string& program() const { return program_; }

 private:
  std::string program_;
  std::map<std::string, std::function<void(std::string_view)>> options_;
  std::map<std::string, std::string> needed_;
};

/// Whether a model's file has its weights alone, which its name says; any other has all of the
/// training state.
inline bool has_weights_alone(std::string_view path) {
  return path.ends_with(".safetensors") || path.ends_with(".npz") || lockstep::is_keras_file(path);
}

/// What is wrong with `path` as the file in which a program saves its model, before it has trained;
/// empty if nothing is.
inline std::string fault_of_model_out(std::string_view path) {
#if defined(LOCKSTEP_HAS_HDF5)
  constexpr bool has_hdf5 = true;
#else
  constexpr bool has_hdf5 = false;
#endif
  if (has_hdf5 && path.ends_with(".weights.h5")) return "";
  for (const char* const other : {".h5", ".hdf5", ".keras", ".pt", ".pth", ".onnx"})
    if (path.ends_with(other))
      return "'" + std::string(path) + "': this program writes no " + other +
             " files: it writes weights to .safetensors and .npz" +
             (has_hdf5 ? " and .weights.h5"
                       : " (and to .weights.h5 if it is linked with lockstep::hdf5)") +
             ", and all of the training state to files of any other name";
  return "";
}

/// What is said after an error in the command line.
inline int report_usage_error(const lockstep::Error& error, const std::string& program) {
  std::fprintf(stderr, "%s\nsee '%s --help'\n", error.what(), program.c_str());
  return static_cast<int>(lockstep::ExitCode::usage);
}

/// The options that all programs have.
struct RunOptions {
  int workers = 1;  // read by lockstep::run
  int replicas = 1;
  std::int64_t batch_size = 32;
  std::uint64_t seed = 1;
  int verbose = 1;

  void add_to(CommandLine& line) {
    line.number("--workers", 1, 1024, workers);
    line.number("--replicas", 0, 1024, replicas);
    line.number<std::int64_t>("--batch-size", 1, 1'000'000, batch_size);
    line.number<std::uint64_t>("--seed", 0, UINT64_MAX, seed);
    line.number("--verbose", 0, 2, verbose);
  }

  /// How their lines of the usage text read.
  static constexpr const char* usage =
      R"(  --workers N          start N worker processes on this machine (default: this process, or
                       TF_CONFIG's cluster)
  --replicas R         replicas (threads) in each worker (default 1; 0: its share of the cores)
  --batch-size N       samples in a step, per worker
  --seed N             (default 1)
  --verbose 0|1|2      silent, progress bar, or one line per epoch (default 1)
  --help
)";
};

/// Those of programs that train by fit.
struct TrainingOptions : RunOptions {
  std::string backup_dir, model_in, model_out;
  std::int64_t save_freq = lockstep::SaveFrequency::epoch;

  void add_to(CommandLine& line) {
    constexpr int many = 1'000'000;
    RunOptions::add_to(line);
    line.text("--backup-dir", backup_dir);
    line.text("--model-in", model_in);
    line.other("--model-out", [this, &line](std::string_view path) {
      if (const std::string fault = fault_of_model_out(path); !fault.empty())
        line.refuse("--model-out: " + fault);
      model_out = path;
    });
    line.other("--save-freq", [this, &line](std::string_view value) {
      if (value != "epoch") line.read<std::int64_t>("--save-freq", value, 1, many, save_freq);
    });
    line.needs("--save-freq", "--backup-dir");
  }

  static inline const std::string usage =
      std::string(
          R"(  --backup-dir DIR     save the training state there, and go on from it when it is
                       there
  --save-freq epoch|N  with --backup-dir: how often, at every epoch or every N steps (default epoch)
  --model-in FILE      start from a model that --model-out saved: weights from .safetensors and
                       .npz, else all of the training state
  --model-out FILE     save the model at the end: weights to .safetensors and .npz, else all of the
                       training state
)") + RunOptions::usage;

  [[nodiscard]] std::optional<lockstep::BackupAndRestore> backup() const {
    if (backup_dir.empty()) return std::nullopt;
    return lockstep::BackupAndRestore{.backup_dir = backup_dir, .save_freq = save_freq};
  }
  template <class Model>
  void load(Model& model) const {
    if (model_in.empty()) return;
    has_weights_alone(model_in) ? model.load_weights(model_in) : model.load(model_in);
  }
  template <class Model>
  void save(Model& model) const {
    if (model_out.empty()) return;
    has_weights_alone(model_out) ? model.save_weights(model_out) : model.save(model_out);
  }
};

/// A figure of the last epoch; NaN where no epoch was left to do.
inline double last(const lockstep::History& history, const std::string& figure) {
  return history.epoch.empty() ? NAN : history[figure].back();
}

/// Reads the command line with `line`, then runs `train` in each worker; returns main's exit code.
template <class Train>
int run(int argc, char** argv, const CommandLine& line, const std::string& usage,
        const Train& train) {
  try {
    if (!line.parse(argc, argv)) {
      std::fputs(usage.c_str(), stdout);
      return static_cast<int>(lockstep::ExitCode::success);
    }
  } catch (const lockstep::Error& error) {
    return report_usage_error(error, line.program());
  }
  return lockstep::run(argc, argv, train);
}

}  // namespace examples
