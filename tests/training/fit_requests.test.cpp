#include "lockstep/training/fit_requests.hpp"

#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using ls::ExitCode;
using ls::detail::FitRequests;
using ls::detail::PreemptionSignals;

TEST_CASE("FitRequests: a stop and a preemption stay, a comparison is asked for one step") {
  FitRequests requests;
  CHECK_FALSE(requests.next().stop);
  CHECK_FALSE(requests.next().verify);
  CHECK(requests.next().preemption == ExitCode::success);
  requests.stop();
  requests.verify(true);
  requests.preempt(ExitCode::interrupted);
  CHECK(requests.next().verify);
  requests.verify(false);
  CHECK(requests.next().stop);
  CHECK_FALSE(requests.next().verify);
  CHECK(requests.next().preemption == ExitCode::interrupted);
  CHECK(contains(message_of<ls::ConfigurationError>([&] { requests.preempt(ExitCode::lost_peer); }),
                 "got 138"));
  CHECK(requests.next().preemption == ExitCode::interrupted);
}

namespace {

/// While one lives, SIGTERM has a handler that does nothing.
struct SigtermHandler {
  using Handler = void (*)(int);
  static void handle(int) {}
  Handler former = std::signal(SIGTERM, &SigtermHandler::handle);
  ~SigtermHandler() { std::signal(SIGTERM, former); }
};

}  // namespace

TEST_CASE("FitRequests: a signal counts while signals are taken, and after a callback's request") {
  const SigtermHandler own;
  FitRequests requests;
  CHECK(std::string(requests.signal_name(ExitCode::interrupted)) == "SIGINT");
  CHECK(std::string(requests.signal_name(ExitCode::terminated)) == "SIGTERM");
  requests.preempt_on_signals();
  requests.leave_signals();
  std::raise(SIGTERM);  // goes to the program's own handler
  requests.take_signals_again();
  CHECK(requests.next().preemption == ExitCode::success);
  std::raise(SIGTERM);
  CHECK(requests.next().preemption == ExitCode::terminated);
  requests.preempt(ExitCode::interrupted);
  CHECK(requests.next().preemption == ExitCode::interrupted);
  requests.answer_signals();
}

TEST_CASE("FitRequests: what took no signals takes none again") {
  const SigtermHandler own;
  FitRequests requests;
  requests.leave_signals();
  requests.take_signals_again();
  const bool is_untouched =
      std::signal(SIGTERM, &SigtermHandler::handle) == &SigtermHandler::handle;
  CHECK(is_untouched);
}

namespace {

volatile std::sig_atomic_t own_handler_calls = 0;

/// Puts a handler of the program's own in place, while it lives.
class OwnHandler {
 public:
  explicit OwnHandler(
      int number, void (*handler)(int) = [](int) { own_handler_calls = own_handler_calls + 1; })
      : number_(number), former_(std::signal(number, handler)) {
    own_handler_calls = 0;
  }
  ~OwnHandler() { std::signal(number_, former_); }

 private:
  int number_;
  void (*former_)(int);
};

/// What a child process that runs f ends with: its exit code, or 1000 + the signal that ended it.
template <class F>
int end_of_child(F f) {
  const pid_t child = ::fork();
  if (child == 0) {
    f();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

TEST_SUITE_BEGIN("Keras: MultiWorkerMirroredStrategy: preemption");

TEST_CASE("PreemptionSignals: the first signal is noted, as the exit code that it asks for") {
  for (const auto& [number, code] : {std::pair{SIGINT, ls::ExitCode::interrupted},
                                     std::pair{SIGTERM, ls::ExitCode::terminated}}) {
    const OwnHandler own(number);
    {
      PreemptionSignals signals;
      CHECK(signals.received() == ls::ExitCode::success);
      ::raise(number);
      CHECK(signals.received() == code);
      signals.answered();
    }
    CHECK(own_handler_calls == 0);
    ::raise(number);  // the program's own handler is back
    CHECK(own_handler_calls == 1);
    CHECK(PreemptionSignals().received() == ls::ExitCode::success);
  }
}

TEST_CASE("PreemptionSignals: a signal that no fit has answered is delivered to the program") {
  const OwnHandler own(SIGTERM);
  {
    const PreemptionSignals signals;
    ::raise(SIGTERM);
    CHECK(own_handler_calls == 0);
  }
  CHECK(own_handler_calls == 1);
  CHECK(end_of_child([] {
          std::signal(SIGINT, SIG_DFL);
          const PreemptionSignals signals;
          ::raise(SIGINT);
        }) == 1000 + SIGINT);
}

TEST_CASE(
    "PreemptionSignals: a second signal ends the process at once, when it comes a second after the "
    "first") {
  for (const auto& [number, code] :
       {std::pair{SIGTERM, 143}, std::pair{SIGINT, 130}, std::pair{SIGHUP, 143}}) {
    const int second = number;
    CHECK(end_of_child([second] {
            std::signal(SIGHUP, SIG_DFL);
            const PreemptionSignals signals;
            ::raise(SIGTERM);
            ::usleep(1'050'000);
            ::raise(second);
          }) == code);
  }
}

TEST_CASE("PreemptionSignals: signals within a second are one") {
  // (In a child: if a busy machine takes a second between two signals, its exit code shows it.)
  CHECK(end_of_child([] {
          PreemptionSignals signals;
          ::raise(SIGINT);
          ::raise(SIGINT);
          ::raise(SIGTERM);
          const bool first = signals.received() == ls::ExitCode::interrupted;
          signals.answered();
          ::_exit(first ? 7 : 8);
        }) == 7);
}

TEST_CASE("PreemptionSignals: SIGHUP is as SIGTERM, unless it is ignored") {
  {
    const OwnHandler own(SIGHUP);
    PreemptionSignals signals;
    ::raise(SIGHUP);
    CHECK(signals.received() == ls::ExitCode::terminated);
    CHECK(signals.name(ls::ExitCode::terminated) == std::string("SIGHUP"));
    signals.answered();
  }
  const OwnHandler nohup(SIGHUP, SIG_IGN);
  const PreemptionSignals signals;
  ::raise(SIGHUP);
  CHECK(signals.received() == ls::ExitCode::success);
}

TEST_CASE("PreemptionSignals: SIGUSR1 is as SIGTERM, unless the program has a handler for it") {
  {
    PreemptionSignals signals;
    CHECK(signals.name(ls::ExitCode::terminated) == std::string("SIGTERM"));
    ::raise(SIGUSR1);
    CHECK(signals.received() == ls::ExitCode::terminated);
    CHECK(signals.name(ls::ExitCode::terminated) == std::string("SIGUSR1"));
    CHECK(signals.name(ls::ExitCode::interrupted) == std::string("SIGINT"));
    signals.answered();
  }
  const OwnHandler own(SIGUSR1);
  const PreemptionSignals signals;
  ::raise(SIGUSR1);
  CHECK(signals.received() == ls::ExitCode::success);
  CHECK(own_handler_calls == 1);
}

TEST_CASE("PreemptionSignals: what the program ignores stays ignored") {
  const OwnHandler own(SIGINT, SIG_IGN);
  const PreemptionSignals signals;
  ::raise(SIGINT);
  ::raise(SIGINT);
  CHECK(signals.received() == ls::ExitCode::success);
}

TEST_CASE("PreemptionSignals: several share the handlers, and the last one gives them back") {
  const OwnHandler own(SIGTERM);
  {
    PreemptionSignals first;
    {
      PreemptionSignals second;
      ::raise(SIGTERM);
      CHECK(second.received() == ls::ExitCode::terminated);
    }
    CHECK(own_handler_calls == 0);
    CHECK(first.received() == ls::ExitCode::terminated);
    first.answered();
  }
  CHECK(own_handler_calls == 0);
}

TEST_SUITE_END();
