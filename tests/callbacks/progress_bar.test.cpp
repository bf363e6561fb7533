#include "lockstep/callbacks/progress_bar.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>

namespace ls = lockstep;

namespace {

const ls::Logs no_logs;

ls::Logs logs_of(double loss, double accuracy) {
  ls::Logs logs;
  logs.set("loss", loss);
  logs.set("accuracy", accuracy);
  return logs;
}

double clock_now = 0;

/// A bar that writes to a file, under a clock that the test sets.
class Screen {
 public:
  Screen(int verbose, int epochs, bool terminal) : file_(std::tmpfile()) {
    clock_now = 1000;
    bar = std::make_unique<ls::ProgressBar>(
        verbose, epochs, ls::ProgressBarOutput{.file = file_, .terminal = terminal, .seconds = [] {
                                                 return clock_now;
                                               }});
  }
  ~Screen() {
    bar.reset();
    std::fclose(file_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// What was written since the last call.
  std::string text() {
    std::fseek(file_, read_, SEEK_SET);
    std::string all;
    for (int c = std::fgetc(file_); c != EOF; c = std::fgetc(file_)) all += static_cast<char>(c);
    read_ += static_cast<long>(all.size());
    std::fseek(file_, 0, SEEK_END);
    return all;
  }

  std::unique_ptr<ls::ProgressBar> bar;

 private:
  std::FILE* file_;
  long read_ = 0;
};

std::string running(double seconds_per_step, std::int64_t steps_left) {
  return ls::render_progress_bar(
      {.step = 0, .target = steps_left, .seconds_per_step = seconds_per_step}, no_logs);
}

std::string finished(double seconds, double seconds_per_step) {
  return ls::render_progress_bar({.step = 1,
                                  .target = 1,
                                  .seconds = seconds,
                                  .seconds_per_step = seconds_per_step,
                                  .finished = true},
                                 no_logs);
}

std::string figure(double value) {
  ls::Logs logs;
  logs.set("x", value);
  const std::string text = ls::render_epoch_line({.step = 1, .target = 1}, logs);
  const std::size_t begin = text.find("x: ") + 3;
  return text.substr(begin, text.find(" - ", begin) - begin);
}

}  // namespace

TEST_SUITE_BEGIN("Keras: fit and evaluate and predict");

TEST_CASE("render_progress_bar: finished") {
  CHECK(
      ls::render_progress_bar(
          {.step = 70, .target = 70, .seconds = 2.9, .seconds_per_step = 0.0417, .finished = true},
          logs_of(2.27801, 0.16894)) ==
      "70/70 [==============================] - 3s 42ms/step - loss: 2.2780 - accuracy: 0.1689");
}

TEST_CASE("render_progress_bar: running") {
  const auto bar = [](std::int64_t step, std::int64_t target) {
    return ls::render_progress_bar({.step = step, .target = target, .seconds_per_step = 1},
                                   no_logs);
  };
  CHECK(bar(0, 10) == " 0/10 [..............................] - ETA: 10s");
  CHECK(bar(1, 70) == " 1/70 [..............................] - ETA: 1:09");
  CHECK(bar(3, 10) == " 3/10 [========>.....................] - ETA: 7s");
  CHECK(bar(69, 70) == "69/70 [============================>.] - ETA: 1s");
  CHECK(bar(70, 70) == "70/70 [==============================] - ETA: 0s");
  CHECK(bar(100, 1875) == " 100/1875 [>.............................] - ETA: 29:35");
  CHECK(ls::render_progress_bar({.step = 35, .target = 70, .seconds_per_step = 0.1},
                                logs_of(2.5, 0.25)) ==
        "35/70 [==============>...............] - ETA: 3s - loss: 2.5000 - accuracy: 0.2500");
}

TEST_CASE("render_progress_bar: unknown target") {
  CHECK(ls::render_progress_bar({.step = 7, .seconds = 1.2, .seconds_per_step = 0.005},
                                logs_of(0.1, 1)) ==
        "      7/Unknown - 1s 5ms/step - loss: 0.1000 - accuracy: 1.0000");
  CHECK(ls::render_progress_bar({.step = 12345678}, no_logs) == "12345678/Unknown - 0s 0s/step");
}

TEST_CASE("render_progress_bar: time left") {
  CHECK(running(1, 60).ends_with(" - ETA: 60s"));
  CHECK(running(1, 61).ends_with(" - ETA: 1:01"));
  CHECK(running(1, 3600).ends_with(" - ETA: 60:00"));
  CHECK(running(1, 3661).ends_with(" - ETA: 1:01:01"));
  CHECK(running(3600, 100).ends_with(" - ETA: 100:00:00"));
  CHECK(running(0.999, 1).ends_with(" - ETA: 0s"));
}

TEST_CASE("render_progress_bar: time of a step") {
  CHECK(finished(0.4, 1e-6).ends_with(" - 0s 1us/step"));
  CHECK(finished(0.6, 999e-6).ends_with(" - 1s 999us/step"));
  CHECK(finished(1, 1e-3).ends_with(" - 1s 1ms/step"));
  CHECK(finished(1, 0.0426).ends_with(" - 1s 43ms/step"));
  CHECK(finished(125.4, 1).ends_with(" - 125s 1s/step"));
  CHECK(finished(1, 0).ends_with(" - 1s 0s/step"));
}

TEST_CASE("figures: four decimals, or a power of ten when tiny") {
  CHECK(figure(0.16894) == "0.1689");
  CHECK(figure(1234567) == "1234567.0000");
  CHECK(figure(0.0010001) == "0.0010");
  CHECK(figure(0.001) == "1.0000e-03");
  CHECK(figure(-0.5) == "-0.5000");
  CHECK(figure(0) == "0.0000e+00");
  CHECK(figure(-1.23456e-7) == "-1.2346e-07");
  CHECK(figure(std::numeric_limits<double>::quiet_NaN()) == "nan");
  CHECK(figure(-std::numeric_limits<double>::quiet_NaN()) == "nan");
  CHECK(figure(-std::numeric_limits<double>::infinity()) == "-inf");
  CHECK(figure(std::numeric_limits<double>::max()).size() == 309 + 5);
}

TEST_CASE("render_epoch_line") {
  CHECK(
      ls::render_epoch_line({.step = 70, .target = 70, .seconds = 2.9, .seconds_per_step = 0.0417},
                            logs_of(2.278, 0.1689)) ==
      "70/70 - 3s - loss: 2.2780 - accuracy: 0.1689 - 3s/epoch - 42ms/step");
}

TEST_CASE("ProgressBar on a terminal redraws one line, at most every 0.05 s") {
  Screen screen(1, 3, true);
  screen.bar->begin_epoch(0, 4);
  CHECK(screen.text() == "Epoch 1/3\n");

  clock_now += 2;
  screen.bar->update(1, logs_of(2.5, 0.1));
  CHECK(screen.text() ==
        "\r1/4 [======>.......................] - ETA: 6s - loss: 2.5000 - accuracy: 0.1000");
  clock_now += 0.04;
  screen.bar->update(2, logs_of(2.4, 0.2));
  CHECK(screen.text().empty());
  clock_now += 0.46;
  screen.bar->update(3, logs_of(2, 1e-9));
  CHECK(screen.text() ==
        "\r3/4 [=====================>........] - ETA: 0s - loss: 2.0000 - accuracy: 1.0000e-09");
  clock_now += 0.01;
  screen.bar->update(4, logs_of(1.9, 0.4));
  clock_now += 0.24;
  ls::Logs logs = logs_of(1.9, 0.4);
  logs.set("val_loss", 1.5);
  screen.bar->end_epoch(logs);
  // (2.75 - 2.00) s / 3: the first step is not counted.
  CHECK(screen.text() ==
        "\r4/4 [==============================] - 3s 250ms/step - loss: 1.9000 - accuracy: 0.4000 "
        "- val_loss: 1.5000\n");

  screen.bar->begin_epoch(1, 4);
  CHECK(screen.text() == "Epoch 2/3\n");
}

TEST_CASE("ProgressBar covers what a longer line has left") {
  Screen screen(1, 1, true);
  screen.bar->begin_epoch(0, 2);
  screen.bar->update(1, logs_of(1, 1e-9));
  const std::size_t first = screen.text().size();
  clock_now += 1;
  screen.bar->update(2, no_logs);
  const std::string second = screen.text();
  CHECK(second.size() == first);
  CHECK(second.starts_with("\r2/2 [==============================] - ETA: 0s   "));
  screen.bar->end_epoch(no_logs);
  CHECK(screen.text() == "\r2/2 [==============================] - 1s 1s/step\n");
}

TEST_CASE("ProgressBar on a pipe writes the last line of an epoch only") {
  Screen screen(1, 2, false);
  for (int epoch = 0; epoch < 2; ++epoch) {
    screen.bar->begin_epoch(epoch, 2);
    clock_now += 1;
    screen.bar->update(1, no_logs);
    clock_now += 1;
    screen.bar->update(2, no_logs);
    screen.bar->end_epoch(logs_of(1, 0.5));
  }
  CHECK(screen.text() ==
        "Epoch 1/2\n"
        "2/2 [==============================] - 2s 1s/step - loss: 1.0000 - accuracy: 0.5000\n"
        "Epoch 2/2\n"
        "2/2 [==============================] - 2s 1s/step - loss: 1.0000 - accuracy: 0.5000\n");
}

TEST_CASE(
    "ProgressBar: no header for a single epoch, nothing at verbose 0, a line an epoch at verbose "
    "2") {
  for (const int verbose : {0, 1, 2}) {
    Screen screen(verbose, 1, true);
    screen.bar->begin_epoch(0, 1);
    clock_now += 2;
    screen.bar->update(1, no_logs);
    CHECK(screen.text() ==
          (verbose == 1 ? "\r1/1 [==============================] - ETA: 0s" : ""));
    screen.bar->end_epoch(logs_of(1, 0.5));
    CHECK(screen.text() ==
          (verbose == 0   ? ""
           : verbose == 1 ? "\r1/1 [==============================] - 2s 2s/step - loss: 1.0000 - "
                            "accuracy: 0.5000\n"
                          : "1/1 - 2s - loss: 1.0000 - accuracy: 0.5000 - 2s/epoch - 2s/step\n"));
  }
}

TEST_CASE("ProgressBar learns an unknown number of steps in the first epoch") {
  Screen screen(1, 2, true);
  screen.bar->begin_epoch(0, std::nullopt);
  clock_now += 1;
  screen.bar->update(1, no_logs);
  CHECK(screen.text() == "Epoch 1/2\n\r      1/Unknown - 1s 1s/step");
  clock_now += 1;
  screen.bar->update(2, no_logs);
  screen.bar->end_epoch(no_logs);
  CHECK(screen.text() ==
        "\r      2/Unknown - 2s 1s/step\r2/2 [==============================] - 2s 1s/step\n");
  screen.bar->begin_epoch(1, std::nullopt);
  screen.bar->update(1, no_logs);
  CHECK(screen.text() == "Epoch 2/2\n\r1/2 [==============>...............] - ETA: 0s");
  screen.bar->end_epoch(no_logs);
  CHECK(screen.text() == "\r1/1 [==============================] - 0s 0s/step\n");
}

TEST_CASE(
    "ProgressBar: an epoch that ends early shows the steps done; one that is resumed times its own "
    "steps") {
  Screen screen(1, 1, false);
  screen.bar->begin_epoch(0, 10);
  clock_now += 1;
  screen.bar->update(5, no_logs);
  clock_now += 2;
  screen.bar->update(6, no_logs);
  screen.bar->end_epoch(no_logs);
  CHECK(screen.text() == " 6/10 [=================>............] - 3s 2s/step\n");
}

TEST_CASE("ProgressBar ends its line when an exception cuts the epoch short") {
  Screen screen(1, 1, true);
  screen.bar->begin_epoch(0, 10);
  screen.bar->update(1, no_logs);
  CHECK_FALSE(screen.text().empty());
  screen.bar.reset();
  CHECK(screen.text() == "\n");
}

TEST_CASE("ProgressBar: an epoch without a step") {
  Screen screen(1, 1, false);
  screen.bar->begin_epoch(0, std::nullopt);
  screen.bar->end_epoch(no_logs);
  CHECK(screen.text() == "0/0 [==============================] - 0s 0s/step\n");
}

TEST_SUITE_END();
