// Learns from a table of numbers and categories who will leave. `tabular --help` lists the options.
#include <lockstep/lockstep.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "command_line.hpp"

namespace ls = lockstep;

namespace {

// A sample has three numbers and the numbers of two categories, one after the other; 0 is a
// category that the training data do not have.
constexpr std::size_t plans = 8, countries = 32;
using Inputs =
    ls::Parallel<ls::Concatenate, ls::Sequential<ls::Slice<0, 3>, ls::Normalization<>>,
                 ls::Sequential<ls::Slice<3, 1>, ls::Embedding<plans, 3>, ls::Flatten>,
                 ls::Sequential<ls::Slice<4, 1>, ls::Embedding<countries, 4>, ls::Flatten>>;
using Net = ls::Sequential<ls::Input<5>, Inputs, ls::Dense<32, ls::ReLU>, ls::Dense<16, ls::ReLU>,
                           ls::Dense<1>>;

struct Options : examples::TrainingOptions {
  std::string data;
  int epochs = 10;
  double learning_rate = 0.005;
};

/// A table as `--data` has one, where some plans and countries make customers leave.
std::string make_table(int rows) {
  constexpr const char* plan_names[] = {"basic", "family", "student", "business"};
  ls::RandomStream random{ls::RandomKey(2024)};
  std::string table = "age,balance,visits,plan,country,left\n";
  for (int row = 0; row < rows; ++row) {
    const double age = 18 + std::floor(60 * random.uniform()),
                 visits = std::floor(20 * random.uniform());
    const double balance = std::floor(1000 * random.uniform());
    const std::uint64_t plan = random.below(4), country = random.below(20);
    const double score = 0.04 * (40 - age) - 0.15 * (visits - 10) - 0.002 * (balance - 500) +
                         (plan == 2   ? 1.5
                          : plan == 3 ? -1.5
                                      : 0) +
                         (country % 5 == 0 ? 1.5 : -0.3);
    const bool left = random.uniform() < 1 / (1 + std::exp(-2 * score));
    table += ls::number_text(age) + "," + (row % 50 == 7 ? "" : ls::number_text(balance)) + "," +
             ls::number_text(visits) + "," + plan_names[plan] + ",\"country " +
             std::to_string(country) + "\"," + (left ? "1" : "0") + "\n";
  }
  return table;
}

/// The samples of a table: numbers as they are, categories by their numbers in a vocabulary.
struct Samples {
  ls::Tensor<double> x;
  ls::Tensor<double> y;
};
Samples samples_of(const ls::CsvTable& table) {
  const std::size_t rows = table.rows();
  std::vector<double> x(rows * 5);
  std::size_t column = 0;
  for (const char* const name : {"age", "balance", "visits"}) {
    const std::vector<double> values = table.numbers(name, 0);
    for (std::size_t row = 0; row < rows; ++row) x[row * 5 + column] = values[row];
    ++column;
  }
  for (const auto& [name, most] : {std::pair("plan", plans), std::pair("country", countries)}) {
    const ls::Vocabulary vocabulary = table.vocabulary(name);
    if (vocabulary.size() > most)
      throw ls::DataError("tabular: the column '" + std::string(name) + "' has " +
                          std::to_string(vocabulary.size() - 1) +
                          " different texts; the model takes " + std::to_string(most - 1));
    const std::vector<double> numbers = table.categories(name, vocabulary);
    for (std::size_t row = 0; row < rows; ++row) x[row * 5 + column] = numbers[row];
    ++column;
  }
  return {ls::Tensor<double>(std::move(x), {rows, 5}), ls::Tensor<double>(table.numbers("left"))};
}

void train(const Options& options) {
  ls::MultiWorkerMirroredStrategy<> strategy({.replicas = options.replicas});
  const Samples samples =
      samples_of(options.data.empty() ? ls::CsvTable(make_table(4000), "made up")
                                      : ls::read_csv(options.data));
  const std::size_t rows = samples.x.rows(), held_back = rows / 5;
  const std::int64_t global_batch = options.batch_size * strategy.num_workers();
  const auto part = [&](std::size_t begin, std::size_t end) {
    return ls::from_tensor_slices(samples.x.slice(begin, end), samples.y.slice(begin, end));
  };
  const auto training =
      part(held_back, rows).shuffle(static_cast<std::int64_t>(rows)).batch(global_batch);

  auto model = ls::compile<Net>(strategy, {.seed = options.seed},
                                ls::BinaryCrossentropy{.from_logits = true},
                                ls::Adam{.learning_rate = options.learning_rate},
                                ls::BinaryAccuracy{.threshold = 0}, ls::AUC{.from_logits = true});
  if (options.verbose > 0 && strategy.is_chief()) model.summary();
  model.adapt(training);
  options.load(model);
  auto backup = options.backup();
  const ls::History history =
      model.fit(training, {.epochs = options.epochs, .verbose = options.verbose}, backup);
  options.save(model);
  const ls::Logs tested = model.evaluate(part(0, held_back).batch(global_batch), {.verbose = 0});
  if (strategy.is_chief())
    std::printf("final: loss=%.6f auc=%.4f val_loss=%.6f val_auc=%.4f parameters_crc32c=%08x\n",
                examples::last(history, "loss"), examples::last(history, "auc"), tested.at("loss"),
                tested.at("auc"), static_cast<unsigned>(model.parameters_crc32c()));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::CommandLine line("tabular");
  options.add_to(line);
  line.text("--data", options.data);
  line.number("--epochs", 1, 1'000'000, options.epochs);
  line.number("--learning-rate", 0.0, 1e6, options.learning_rate);
  const std::string usage =
      std::string(R"(usage: tabular [options]
  --data FILE          a CSV file with the columns age, balance, visits, plan, country and left, 0
                       or 1 (default: a table that the program makes up); the first fifth is held
                       back for the test
  --epochs N           (default 10)
  --learning-rate X    (default 0.005)
)") + options.usage +
      "The last line is: final: loss=L auc=A val_loss=V val_auc=B parameters_crc32c=HEX\n";
  return examples::run(argc, argv, line, usage, [&] { train(options); });
}
