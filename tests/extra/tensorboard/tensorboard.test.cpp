#include "lockstep/extra/tensorboard/tensorboard.hpp"
#include "lockstep/callbacks/callback_list.hpp"
#include "lockstep/core/error.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "callbacks/fake_training.hpp"
#include "golden/events.hpp"
#include "support/model_testing.hpp"
#include "support/python.hpp"
#include "support/temporary_folder.hpp"
#include "support/tiny_trainer.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden::events;
using lockstep_test::contains;
using lockstep_test::FakeTraining;
using lockstep_test::file_text;
using lockstep_test::Finished;
using lockstep_test::has_python_modules;
using lockstep_test::message_of;
using lockstep_test::Recorder;
using lockstep_test::run_python;
using lockstep_test::TemporaryFolder;

namespace {

// No exchange after each batch.
static_assert(!ls::CallbackList<ls::TensorBoard>::presence().stop_in_batch);

template <class T>
ls::SavedArray array(const char* name, std::vector<std::uint64_t> extents,
                     const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {.name = name,
          .scalar = sizeof(T) == 4 ? "float32" : "float64",
          .extents = std::move(extents),
          .bytes = {bytes.begin(), bytes.end()}};
}

FakeTraining some_training() {
  FakeTraining training;
  training.rate = 0.125;
  training.text = {.summary = "Model\n====\n", .json = R"({"class_name": "Sequential"})"};
  training.snapshot.parameters = {array<float>("dense/kernel", {3, 2}, {1, 2, 3, 4, 5, 6})};
  training.snapshot.state = {array<double>("norm/mean", {1}, {0.5})};
  return training;
}

ls::Logs logs_of(std::initializer_list<ls::Logs::Entry> entries) {
  ls::Logs logs;
  for (const auto& [name, value] : entries) logs.set(name, value);
  return logs;
}

/// An epoch of two steps with a validation, as the golden files have it.
void run_epoch(ls::TensorBoard& board, FakeTraining& training, int epoch) {
  board.on_epoch_begin(training, epoch);
  for (std::int64_t batch = 0; batch < 2; ++batch) {
    board.on_train_batch_begin(training, batch);
    training.updates = 2 * epoch + batch + 1;
    ls::Logs logs = epoch == 0
                        ? logs_of({{"loss", 2.5 - static_cast<double>(batch)}, {"accuracy", 0.5}})
                        : logs_of({{"loss", 1}, {"accuracy", 1}});
    board.on_train_batch_end(training, batch, logs);
  }
  ls::Logs validated = logs_of({{"loss", 2 + epoch}});
  board.on_test_end(training, validated);
  ls::Logs logs =
      epoch == 0 ? logs_of({{"loss", 1.25}, {"accuracy", 0.75}, {"val_loss", 2}})
                 : logs_of({{"loss", 1}, {"accuracy", 1}, {"val_loss", 3}, {"learning_rate", 9}});
  board.on_epoch_end(training, epoch, logs);
}

ls::TensorBoard board_in(const std::string& log_dir) {
  return ls::TensorBoard({.log_dir = log_dir,
                          .histogram_freq = 2,
                          .write_images = true,
                          .update_freq = 2,
                          .wall_time = [] { return 1.5; }});
}

/// The only file of a folder.
std::string only_file(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(file_text(entry.path()));
  return files.size() == 1 ? files[0] : std::to_string(files.size()) + " files";
}
template <std::size_t N>
std::string bytes_of(const unsigned char (&bytes)[N]) {
  return {reinterpret_cast<const char*>(bytes), N};
}

}  // namespace

TEST_SUITE_BEGIN("Keras: callbacks");

TEST_CASE("TensorBoard: two epochs, byte for byte as TensorBoard's own messages") {
  const TemporaryFolder folder;
  FakeTraining training = some_training();
  ls::TensorBoard board = board_in(folder.path("logs"));
  ls::Logs logs;
  board.on_train_begin(training);
  run_epoch(board, training, 0);
  run_epoch(board, training, 1);
  CHECK(only_file(folder.path("logs/train")) ==
        bytes_of(golden::train));  // before the end, for those who watch
  board.on_train_end(training, logs);
  CHECK(only_file(folder.path("logs/train")) == bytes_of(golden::train));
  CHECK(only_file(folder.path("logs/validation")) == bytes_of(golden::validation));

  run_epoch((board.on_train_begin(training), board), training,
            0);  // a second fit: files of its own
  CHECK(only_file(folder.path("logs/train")) == "2 files");
}

TEST_CASE(
    "TensorBoard: a resumed run goes on in its files, without what came after the last snapshot") {
  const TemporaryFolder folder;
  FakeTraining training = some_training();
  ls::State state;
  {
    ls::TensorBoard killed = board_in(folder.path());
    killed.on_train_begin(training);
    run_epoch(killed, training, 0);
    killed.save(state);
    run_epoch(killed, training, 1);
  }
  training.updates = 2;
  ls::TensorBoard board = board_in(folder.path());
  board.on_train_begin(training);
  board.restore(state);
  run_epoch(board, training, 1);
  CHECK(only_file(folder.path("train")) == bytes_of(golden::train));
  CHECK(only_file(folder.path("validation")) == bytes_of(golden::validation));

  std::filesystem::remove_all(folder.path("train"));  // another machine: new files, with the model
  ls::TensorBoard elsewhere = board_in(folder.path());
  elsewhere.on_train_begin(training);
  elsewhere.restore(state);
  run_epoch(elsewhere, training, 1);
  CHECK(contains(only_file(folder.path("train")), "model_summary"));
}

TEST_CASE(
    "TensorBoard: no validation, no folder for it; evaluate alone; other workers write nothing") {
  const TemporaryFolder folder;
  FakeTraining training = some_training();
  ls::Logs logs = logs_of({{"loss", 1}});
  ls::TensorBoard board(
      {.log_dir = folder.path("fit"), .write_graph = false, .write_steps_per_second = true});
  board.on_train_begin(training);
  board.on_epoch_begin(training, 0);
  board.on_train_batch_begin(training, 0);
  board.on_train_batch_end(training, 0, logs);
  CHECK_FALSE(std::filesystem::exists(folder.path("fit")));  // update_freq = epoch
  board.on_epoch_end(training, 0, logs);
  board.on_train_abort(training);
  const std::string train = only_file(folder.path("fit/train"));
  for (const char* const tag : {"epoch_loss", "epoch_learning_rate", "epoch_steps_per_second"})
    CHECK(contains(train, tag));
  CHECK_FALSE(contains(train, "keras"));
  CHECK_FALSE(std::filesystem::exists(folder.path("fit/validation")));

  ls::TensorBoard evaluated({.log_dir = folder.path("evaluate")});
  evaluated.on_test_end(training, logs);
  CHECK(contains(only_file(folder.path("evaluate/validation")), "evaluation_loss_vs_iterations"));
  CHECK_FALSE(std::filesystem::exists(folder.path("evaluate/train")));

  FakeTraining other = some_training();
  other.chief = false;
  ls::State state;
  {
    FakeTraining chief = some_training();
    ls::TensorBoard its = board_in(folder.path("chief"));
    its.on_train_begin(chief);
    run_epoch(its, chief, 0);
    its.save(state);
  }
  const std::string before = only_file(folder.path("chief/train"));
  ls::TensorBoard silent = board_in(folder.path("chief"));
  silent.on_train_begin(other);
  silent.restore(state);
  run_epoch(silent, other, 1);
  CHECK(only_file(folder.path("chief/train")) == before);
}

TEST_CASE("TensorBoard: options that make no sense") {
  CHECK(contains(message_of<ls::ConfigurationError>([] { ls::TensorBoard({.log_dir = ""}); }),
                 "log_dir is empty"));
  CHECK(
      contains(message_of<ls::ConfigurationError>([] { ls::TensorBoard({.histogram_freq = -1}); }),
               "got -1"));
}

TEST_SUITE_END();

TEST_SUITE("TensorBoard in Python [needs python]") {
  TEST_CASE("TensorBoard: the real one reads what a fit with two replicas has written") {
    if (!has_python_modules("TensorBoard's files in TensorBoard", "tensorboard")) return;
    const TemporaryFolder folder;
    lockstep_test::TinyTrainer trainer({.replicas = 2});
    ls::TensorBoard board(
        {.log_dir = folder.path(), .histogram_freq = 1, .write_images = true, .update_freq = 2});
    Recorder recorder;
    recorder.at_train_begin = [&](ls::Training& training) { board.on_train_begin(training); };
    recorder.at_epoch_begin = [&](ls::Training& training, int epoch) {
      board.on_epoch_begin(training, epoch);
    };
    recorder.at_batch_end = [&](ls::Training& training, std::int64_t batch, ls::Logs& logs) {
      board.on_train_batch_end(training, batch, logs);
    };
    recorder.at_test_end = [&](ls::Training& training, ls::Logs& logs) {
      board.on_test_end(training, logs);
    };
    recorder.at_epoch_end = [&](ls::Training& training, int epoch, ls::Logs& logs) {
      board.on_epoch_end(training, epoch, logs);
    };
    recorder.at_train_end = [&](ls::Training& training, ls::Logs& logs) {
      board.on_train_end(training, logs);
    };
    const lockstep_test::RowDataset data(lockstep_test::TinyData(12), 4);
    trainer.fit(data, {.epochs = 2, .validation_data = data}, &recorder);

    std::string expected;
    const auto line = [&](const char* run, const std::string& tag, int step, double value) {
      char text[200];
      std::snprintf(text, sizeof text, "%s %s %d %.5g\n", run, tag.c_str(), step, value);
      expected += text;
    };
    for (const char* const name : {"accuracy", "loss"})
      for (int i : {1, 3, 5})
        line("train", std::string("batch_") + name, i + 1,
             recorder.batch_logs[static_cast<std::size_t>(i)].at(name));
    const auto epoch = [&](int i) { return recorder.epoch_logs[static_cast<std::size_t>(i)]; };
    for (int i : {0, 1}) line("train", "epoch_accuracy", i, epoch(i).at("accuracy"));
    for (int i : {0, 1}) line("train", "epoch_learning_rate", i, 0.1);
    for (int i : {0, 1}) line("train", "epoch_loss", i, epoch(i).at("loss"));
    for (const std::string kind : {"epoch_", "evaluation_"})
      for (const std::string name : {"accuracy", "loss"})
        for (int i : {0, 1}) {
          const bool by_epoch = kind == "epoch_";
          line("validation", kind + name + (by_epoch ? "" : "_vs_iterations"),
               by_epoch ? i : 3 * i + 3, epoch(i).at("val_" + name));
        }
    expected +=
        "histogram user_dense/bias/histogram 6.0\nhistogram user_dense/kernel/histogram 24.0\n"
        "histogram user_dense_1/bias/histogram 3.0\nhistogram user_dense_1/kernel/histogram 18.0\n"
        "image user_dense/bias/image 1x6\nimage user_dense/kernel/image 6x4\n"
        "image user_dense_1/bias/image 1x3\nimage user_dense_1/kernel/image 6x3\n"
        "graph input:InputLayer() user_dense:UserDense(input) user_re_lu:UserReLU(user_dense) "
        "user_dense_1:UserDense(user_re_lu)\n"
        "summary 1 True\n";

    const Finished finished = run_python(R"py(
import json, struct, sys
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.graph import keras_util
from tensorboard.util import tensor_util
out = ""
for run in ("train", "validation"):
    events = event_accumulator.EventAccumulator(sys.argv[1] + "/" + run, size_guidance={"tensors": 0})
    events.Reload()
    by_plugin = {}
    for tag, metadata in sorted(events.summary_metadata.items()):
        by_plugin.setdefault(metadata.plugin_data.plugin_name, []).append(tag)
    values = lambda tag: [(e.step, tensor_util.make_ndarray(e.tensor_proto)) for e in events.Tensors(tag)]
    for tag in by_plugin["scalars"]:
        for step, value in values(tag):
            out += "%s %s %d %.5g\n" % (run, tag, step, value)
    for tag in by_plugin.get("histograms", []):
        assert [step for step, _ in values(tag)] == [0, 1]
        out_ = values(tag)[1][1]
        assert out_.shape in ((30, 3), (1, 3)) and (out_[1:, 0] == out_[:-1, 1]).all()
        out += "histogram %s %s\n" % (tag, out_[:, 2].sum())
    for tag in by_plugin.get("images", []):
        image = values(tag)[1][1]
        assert struct.unpack(">II", image[2][16:24]) == (int(image[0]), int(image[1]))
        out += "image %s %sx%s\n" % (tag, image[0].decode(), image[1].decode())
    if run == "train":
        graph = keras_util.keras_model_to_graph_def(json.loads(values("keras")[0][1].item()))
        out += "graph " + " ".join("%s:%s(%s)" % (n.name.replace("sequential/", ""), n.attr["keras_class"].s.decode(),
                                                  "".join(n.input).replace("sequential/", "")) for n in graph.node) + "\n"
        text = values("model_summary")
        out += "summary %d %s\n" % (len(text), b"Total params: 51" in text[0][1].item())
order = ("train", "validation", "histogram", "image", "graph", "summary")
print("".join(l for kind in order for l in out.splitlines(True) if l.split()[0] == kind), end="")
)py",
                                         {folder.path()});
    INFO(finished.output);
    CHECK(finished.exit_code == 0);
    CHECK_MESSAGE(finished.output.ends_with(expected), expected);  // TensorFlow may greet first
  }
}

namespace {

double wall_time() { return 1.5; }

}  // namespace

TEST_SUITE_BEGIN("Keras: TensorBoard event file");

TEST_CASE(
    "EventFile: Event, Summary, Value and Metadata of every kind, byte for byte as TensorBoard's "
    "own messages") {
  const TemporaryFolder folder;
  std::string path;
  {
    ls::EventFile events(folder.path("logs/train"), &wall_time);
    path = events.path();
    events.scalar("epoch_loss", 3, 0.25);
    events.scalar("none", 0, 0);
    const std::vector<double> numbers = {1, 2, 3, 4.5}, equal = {2, 2};
    events.histogram("h", 7, numbers, 3);
    events.histogram("equal", 0, equal);
    events.histogram("empty", 0, {});
    events.text("note", 0, "*words*");
    events.model("keras", 0, "{}");
    const std::vector<std::uint8_t> first = {0, 255, 7, 8}, second = {1, 2, 3, 4};
    const std::vector<std::string> pngs = {ls::encode_png(first, 2, 2, 1),
                                           ls::encode_png(second, 2, 2, 1)};
    events.images("image", 2, 2, 2, pngs);
    CHECK(events.size() == sizeof golden::each_kind);
  }
  CHECK(file_text(path) == bytes_of(golden::each_kind));
}

TEST_CASE("EventFile: the file's name is events.out.tfevents.<seconds>.<host>.<pid>.<n>.v2") {
  const TemporaryFolder folder;
  char host[256] = "";
  REQUIRE(::gethostname(host, sizeof host - 1) == 0);
  const std::string begin = folder.path("events.out.tfevents.0000000001.") + host + "." +
                            std::to_string(::getpid()) + ".";
  // n counts the files of this process.
  const auto number_of = [&](const std::string& path) {
    REQUIRE(path.starts_with(begin));
    std::size_t digits = 0;
    const int n = std::stoi(path.substr(begin.size()), &digits);
    CHECK(path.substr(begin.size() + digits) == ".v2");
    return n;
  };
  const ls::EventFile first(folder.path(), &wall_time), second(folder.path(), &wall_time);
  CHECK(number_of(second.path()) == number_of(first.path()) + 1);
}

TEST_CASE("EventFile: goes on behind the first bytes of a file") {
  const TemporaryFolder folder;
  ls::EventFile events(folder.path(), &wall_time);
  events.scalar("a", 1, 1);
  events.flush();
  const std::uint64_t size = events.size();
  const std::string expected = file_text(events.path());
  events.scalar("lost", 2, 2);
  events.close();
  CHECK(file_text(events.path()).size() > size);
  {
    ls::EventFile again(events.path(), size, &wall_time);
    CHECK(again.size() == size);
    again.scalar("b", 2, 2);
  }
  CHECK(file_text(events.path()).starts_with(expected));
  CHECK_FALSE(contains(file_text(events.path()), "lost"));
  CHECK(contains(file_text(events.path()), "b"));

  CHECK(contains(message_of<ls::Error>([] { ls::EventFile("/dev/null/folder"); }),
                 "'/dev/null/folder'"));
}

TEST_CASE(
    "histogram_of: the least and the greatest value are inside, what is not finite is left out") {
  const std::vector<double> numbers = {-1, 0.5,          3,
                                       3,  std::nan(""), std::numeric_limits<double>::infinity()};
  const auto buckets = ls::histogram_of(numbers, 4);
  REQUIRE(buckets.size() == 4);
  CHECK(buckets[0] == ls::HistogramBucket{-1, 0, 1});
  CHECK(buckets[1] == ls::HistogramBucket{0, 1, 1});
  CHECK(buckets[2] == ls::HistogramBucket{1, 2, 0});
  CHECK(buckets[3] == ls::HistogramBucket{2, 3, 2});
  const double tiny = std::numeric_limits<double>::denorm_min();  // a range that has no thirtieth
  const std::vector<double> close = {0, tiny};
  double count = 0;
  for (const auto& bucket : ls::histogram_of(close)) count += bucket[2];
  CHECK(count == 2);
  CHECK(ls::histogram_of({}).empty());
}

TEST_CASE("encode_png: refuses other numbers of pixels") {
  const std::vector<std::uint8_t> pixels(6);
  CHECK_NOTHROW((void)ls::encode_png(pixels, 1, 2, 3));
  CHECK(contains(message_of<ls::ConfigurationError>([&] { (void)ls::encode_png(pixels, 2, 2, 1); }),
                 "got 6 for [2 x 2 x 1]"));
  CHECK(contains(message_of<ls::ConfigurationError>([&] { (void)ls::encode_png({}, 0, 2, 1); }),
                 "got 0 for"));
}

TEST_SUITE_END();
