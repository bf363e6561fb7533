// Trains the tutorial's CNN on digits: alone, on threads, or on several workers. `mnist --help`
// lists the options.
#include <lockstep/extra/elastic.hpp>
#include <lockstep/lockstep.hpp>
#include <lockstep/saving/sidecar_evaluator.hpp>

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "command_line.hpp"

namespace ls = lockstep;

using Cnn = ls::Sequential<ls::Input<28, 28>, ls::Reshape<28, 28, 1>, ls::Conv2D<32, 3, ls::ReLU>,
                           ls::Flatten, ls::Dense<128, ls::ReLU>, ls::Dense<10>>;

namespace {

constexpr const char* usage = R"(usage: mnist [options]
  --data DIR           MNIST's four IDX files, .gz or not (default: digits drawn by the program)
  --workers N          start N worker processes on this machine (default: this process, or
                       TF_CONFIG's cluster)
  --replicas R         replicas (threads) in each worker (default 1; 0: its share of the cores)
  --epochs N           (default 3)
  --steps-per-epoch N  (default 70; 0: all of the data)
  --batch-size N       samples in a step, per worker (default 64)
  --optimizer NAME     sgd or adam (default sgd)
  --learning-rate X    (default 0.001)
  --momentum X         with sgd (default 0)
  --seed N             (default 1)
  --backup-dir DIR     save the training state there, and go on from it when it is there
  --save-freq epoch|N  with --backup-dir: how often, at every epoch or every N steps (default epoch)
  --restarts M         with --workers: start a worker again up to M times when it was killed or has
                       lost another one
  --on-peer-loss fail|rejoin  when another worker is lost: end with 138, or, with --backup-dir, wait
                       until it has been started again (default fail)
  --elastic MIN        go on with fewer workers when some are lost, down to MIN, and take them in
                       when they come. What goes on is always more than half of those that were
                       there: one of two workers never goes on alone
  --elastic-wait S     with --elastic: how many seconds to wait for a lost one, before going on
                       without it (default 30)
  --global-batch fixed|follows-world  with --elastic, and fewer workers: as large, or batch-size for
                       each (default fixed)
  --verbose 0|1|2      silent, progress bar, or one line per epoch (default 1)
  --checkpoint-dir DIR restore the newest checkpoint there, if there is one; save one after each
                       epoch, and keep three. Where TF_CONFIG's task is an evaluator: evaluate each
                       one that the workers save there, until they have ended, and append a row to
                       DIR/evaluation.csv
  --model-in FILE      start from a model that --model-out saved: weights from .safetensors and
                       .npz, else all of the training state
  --model-out FILE     save the model at the end: weights to .safetensors and .npz, else all of the
                       training state
  --profile FILE       print where the time goes, and write it as a Chrome trace
  --help
The last line is: final: loss=L accuracy=A val_accuracy=V parameters_crc32c=HEX
)";

struct Options {
  std::string data;
  int workers = 1;
  int replicas = 1;
  int epochs = 3;
  std::int64_t steps_per_epoch = 70;
  std::int64_t batch_size = 64;
  std::string optimizer = "sgd";
  double learning_rate = 0.001;
  double momentum = 0;
  std::uint64_t seed = 1;
  int verbose = 1;
  std::string checkpoint_dir;
  std::string model_in;
  std::string model_out;
  std::string profile;
  std::string backup_dir;
  std::int64_t save_freq = ls::SaveFrequency::epoch;
  ls::OnPeerLoss on_peer_loss = ls::OnPeerLoss::fail;
  int restarts = 0;
  int elastic = 0;  // min_workers; 0: the number of workers stays
  int elastic_wait = 30;
  ls::GlobalBatch elastic_batch = ls::GlobalBatch::fixed;
  bool help = false;
};

template <class Number>
void read_number(std::string_view flag, std::string_view text, Number least, Number most,
                 Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(number >= least && number <= most))
    throw ls::ConfigurationError("mnist: " + std::string(flag) + ": '" + std::string(text) +
                                 "' is no number from " +
                                 ls::number_text(static_cast<double>(least)) + " to " +
                                 ls::number_text(static_cast<double>(most)));
}

Options parse(int argc, char** argv) {
  Options options;
  std::set<std::string_view> given;
  for (int i = 1; i < argc; ++i) {
    std::string_view flag = argv[i];
    std::optional<std::string_view> value;
    if (const auto equals = flag.find('='); equals != std::string_view::npos) {
      value = flag.substr(equals + 1);
      flag = flag.substr(0, equals);
    }
    if (flag == "--help" || flag == "-h") {
      options.help = true;
      return options;
    }
    given.insert(flag);
    const auto text = [&]() -> std::string_view {
      if (value) return *value;
      if (i + 1 == argc)
        throw ls::ConfigurationError("mnist: " + std::string(flag) + " needs a value");
      return argv[++i];
    };
    constexpr int many = 1'000'000;
    if (flag == "--data") {
      options.data = text();
    } else if (flag == "--workers") {
      read_number(flag, text(), 1, 1024, options.workers);
    } else if (flag == "--replicas") {
      read_number(flag, text(), 0, 1024, options.replicas);
    } else if (flag == "--epochs") {
      read_number(flag, text(), 1, many, options.epochs);
    } else if (flag == "--steps-per-epoch") {
      read_number<std::int64_t>(flag, text(), 0, many, options.steps_per_epoch);
    } else if (flag == "--batch-size") {
      read_number<std::int64_t>(flag, text(), 1, many, options.batch_size);
    } else if (flag == "--optimizer") {
      options.optimizer = text();
      if (options.optimizer != "sgd" && options.optimizer != "adam")
        throw ls::ConfigurationError("mnist: --optimizer: '" + options.optimizer +
                                     "' is neither sgd nor adam");
    } else if (flag == "--learning-rate") {
      read_number(flag, text(), 0.0, 1e6, options.learning_rate);
    } else if (flag == "--momentum") {
      read_number(flag, text(), 0.0, 1.0, options.momentum);
    } else if (flag == "--seed") {
      read_number<std::uint64_t>(flag, text(), 0, UINT64_MAX, options.seed);
    } else if (flag == "--backup-dir") {
      options.backup_dir = text();
    } else if (flag == "--save-freq") {
      const std::string_view frequency = text();
      if (frequency != "epoch")
        read_number<std::int64_t>(flag, frequency, 1, many, options.save_freq);
    } else if (flag == "--on-peer-loss") {
      const std::string_view choice = text();
      if (choice != "fail" && choice != "rejoin")
        throw ls::ConfigurationError("mnist: --on-peer-loss: '" + std::string(choice) +
                                     "' is neither fail nor rejoin");
      options.on_peer_loss = choice == "rejoin" ? ls::OnPeerLoss::rejoin : ls::OnPeerLoss::fail;
    } else if (flag == "--restarts") {
      read_number(flag, text(), 0, many, options.restarts);
    } else if (flag == "--elastic") {
      read_number(flag, text(), 1, 1024, options.elastic);
    } else if (flag == "--elastic-wait") {
      read_number(flag, text(), 1, 86'400, options.elastic_wait);
    } else if (flag == "--global-batch") {
      const std::string_view choice = text();
      if (choice != "fixed" && choice != "follows-world")
        throw ls::ConfigurationError("mnist: --global-batch: '" + std::string(choice) +
                                     "' is neither fixed nor follows-world");
      options.elastic_batch =
          choice == "fixed" ? ls::GlobalBatch::fixed : ls::GlobalBatch::follows_world;
    } else if (flag == "--verbose") {
      read_number(flag, text(), 0, 2, options.verbose);
    } else if (flag == "--checkpoint-dir") {
      options.checkpoint_dir = text();
    } else if (flag == "--model-in") {
      options.model_in = text();
    } else if (flag == "--model-out") {
      options.model_out = text();
      if (const std::string fault = examples::fault_of_model_out(options.model_out); !fault.empty())
        throw ls::ConfigurationError("mnist: --model-out: " + fault);
    } else if (flag == "--profile") {
      options.profile = text();
    } else {
      throw ls::ConfigurationError("mnist: unknown option '" + std::string(flag) + "'");
    }
  }
  if ((options.on_peer_loss == ls::OnPeerLoss::rejoin || options.elastic > 0) &&
      (!options.checkpoint_dir.empty() || !options.model_in.empty()))
    throw ls::ConfigurationError(
        "mnist: --on-peer-loss rejoin, and --elastic: --checkpoint-dir and --model-in are read by "
        "all workers together, which a worker that is started again cannot; use --backup-dir "
        "alone");
  const auto needs = [&](const char* flag, const char* other) {
    if (given.contains(flag) && !given.contains(other))
      throw ls::ConfigurationError("mnist: " + std::string(flag) + " has no effect without " +
                                   other);
  };
  needs("--restarts", "--workers");
  needs("--save-freq", "--backup-dir");
  needs("--elastic-wait", "--elastic");
  needs("--global-batch", "--elastic");
  if (options.on_peer_loss == ls::OnPeerLoss::rejoin) needs("--on-peer-loss", "--backup-dir");
  if (options.optimizer == "adam" && given.contains("--momentum"))
    throw ls::ConfigurationError("mnist: --momentum has no effect with --optimizer adam");
  return options;
}

/// Saves a checkpoint after each epoch, where there is a manager, and says at the end that there
/// will be no more.
template <class Manager>
struct SaveCheckpoints {
  std::optional<Manager>& manager;
  void on_epoch_complete(ls::Training&, int) const {
    if (manager) manager->save();
  }
  void on_train_end(ls::Training&, ls::Logs&) const {
    if (manager) manager->finish();
  }
};

ls::ImageDataset load_digits(const Options& options) {
  return options.data.empty() ? ls::make_synthetic_digits() : ls::load_mnist(options.data);
}

template <class Strategy, class Optimizer>
auto compile_cnn(Strategy& strategy, const Options& options, const Optimizer& optimizer) {
  return ls::compile<Cnn>(strategy, {.seed = options.seed},
                          ls::SparseCategoricalCrossentropy{.from_logits = true}, optimizer,
                          ls::Accuracy{});
}

template <class Optimizer>
void evaluate_checkpoints(const Options& options, const Optimizer& optimizer) {
  if (options.checkpoint_dir.empty())
    throw ls::ConfigurationError(
        "mnist: TF_CONFIG's task is an evaluator, which needs --checkpoint-dir");
  ls::MirroredStrategy strategy({.replicas = options.replicas});
  const ls::LabelledImages test = load_digits(options).test;
  auto model = compile_cnn(strategy, options, optimizer);
  ls::SidecarEvaluator(
      model, ls::from_tensor_slices(test.images / 255.0f, test.labels).batch(options.batch_size),
      {.checkpoint_dir = options.checkpoint_dir,
       .results = options.checkpoint_dir + "/evaluation.csv"})
      .start();
}

template <class Optimizer>
void train(const ls::Cluster& cluster, const Options& options, const Optimizer& optimizer) {
  std::optional<ls::ElasticOptions> elastic;
  if (options.elastic > 0)
    elastic = ls::ElasticOptions{.min_workers = options.elastic,
                                 .wait = std::chrono::seconds(options.elastic_wait),
                                 .global_batch = options.elastic_batch};
  ls::MultiWorkerMirroredStrategy<> strategy(cluster,
                                             {.replicas = options.replicas, .elastic = elastic});
  const ls::ImageDataset digits = load_digits(options);
  // Of all workers that there may be, and not of those that are there now.
  const std::int64_t global_batch = options.batch_size * cluster.world_size();
  const auto samples =
      ls::from_tensor_slices(digits.train.images / 255.0f, digits.train.labels).shuffle(60'000);
  const auto test =
      ls::from_tensor_slices(digits.test.images / 255.0f, digits.test.labels).batch(global_batch);

  auto model = compile_cnn(strategy, options, optimizer);
  if (options.verbose > 0 && strategy.is_chief()) model.summary();
  if (!options.model_in.empty())
    examples::has_weights_alone(options.model_in) ? model.load_weights(options.model_in)
                                                  : model.load(options.model_in);
  ls::Checkpoint checkpoint(model);
  using Manager = ls::CheckpointManager<decltype(checkpoint)>;
  std::optional<Manager> manager;
  if (!options.checkpoint_dir.empty()) {
    manager.emplace(checkpoint, ls::CheckpointManagerOptions{.directory = options.checkpoint_dir,
                                                             .max_to_keep = 3});
    const auto restored = manager->restore_or_initialize();
    if (restored && strategy.is_chief()) ls::log_line("restored '" + *restored + "'");
  }
  const SaveCheckpoints<Manager> save_checkpoints{manager};
  const bool whole_pass = options.steps_per_epoch == 0;
  const auto batches = samples.repeat(whole_pass ? 1 : -1).batch(global_batch);
  const ls::FitOptions fit{
      .epochs = options.epochs,
      .verbose = options.verbose,
      .steps_per_epoch = whole_pass ? std::nullopt : std::optional(options.steps_per_epoch),
      .profile = options.profile};
  std::optional<ls::BackupAndRestore> backup;
  if (!options.backup_dir.empty())
    backup = ls::BackupAndRestore{.backup_dir = options.backup_dir,
                                  .save_freq = options.save_freq,
                                  .on_peer_loss = options.on_peer_loss};
  const ls::History history = model.fit(batches, fit, save_checkpoints, backup);
  if (!options.model_out.empty())
    examples::has_weights_alone(options.model_out) ? model.save_weights(options.model_out)
                                                   : model.save(options.model_out);
  const auto last =
      [&](const char* figure) {  // nothing was left to do for a run that had been saved at its end
        return history.epoch.empty() ? NAN : history[figure].back();
      };
  const ls::Logs tested = model.evaluate(test, {.verbose = 0});
  if (strategy.is_chief())
    std::printf("final: loss=%.6f accuracy=%.4f val_accuracy=%.4f parameters_crc32c=%08x\n",
                last("loss"), last("accuracy"), tested.at("accuracy"),
                static_cast<unsigned>(model.parameters_crc32c()));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  try {
    options = parse(argc, argv);
  } catch (const ls::Error& error) {
    return examples::report_usage_error(error, "mnist");
  }
  if (options.help) {
    std::fputs(usage, stdout);
    return static_cast<int>(ls::ExitCode::success);
  }
  return ls::run(argc, argv, [&] {
    const ls::Cluster cluster = ls::cluster_from_environment();
    const auto work = [&](const auto& optimizer) {
      cluster.is_evaluator() ? evaluate_checkpoints(options, optimizer)
                             : train(cluster, options, optimizer);
    };
    if (options.optimizer == "adam")
      work(ls::Adam{.learning_rate = options.learning_rate});
    else
      work(ls::SGD{.learning_rate = options.learning_rate, .momentum = options.momentum});
  });
}
