// `--hosts`: workers that are started by ssh, here by a script in its place, and by a real one.
#include <doctest/doctest.h>
#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/messages.hpp"
#include "support/process.hpp"
#include "support/skip.hpp"
#include "support/slurm.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string>;

/// What ssh does, without another host: it joins its words, and gives them to a shell of another
/// session, with few variables. Host "lost" cannot be reached. The hosts' names resolve nowhere, so
/// that workers meet where the test says.
class FakeSsh {
 public:
  FakeSsh() {
    std::ofstream(folder_.path("ssh"))
        << "#!/bin/sh\n"
           "host=$1; shift\n"
           "if [ $host = lost ]; then echo no route to host lost >&2; exit 255; fi\n"
           "exec setsid -w env -i PATH=\"$PATH\" HOST_NAME=$host sh -c \"$*\"\n";
    std::filesystem::permissions(folder_.path("ssh"), std::filesystem::perms::owner_all);
  }

  [[nodiscard]] Words command(const std::string& hosts, const Words& rest,
                              const Words& options = {}) const {
    Words words{test_program("cluster_worker"), "--hosts", hosts, "--ssh", folder_.path("ssh")};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), rest.begin(), rest.end());
    return words;
  }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path(name); }

 private:
  TemporaryFolder folder_;
};

/// The hosts of a test are this machine, on a port that differs from test to test.
Environment meeting_here(const Environment& more = {}) {
  static int next = 0;
  Environment environment{
      {"LOCKSTEP_MEETING_ADDRESS",
       "127.0.0.1:" +
           std::to_string(10'240 + (static_cast<int>(::getpid()) % 2'500) * 8 + 8 * (next++ % 4))}};
  environment.insert(environment.end(), more.begin(), more.end());
  return environment;
}

}  // namespace

TEST_SUITE("hosts") {
  TEST_CASE(
      "workers on hosts meet; their output has prefixes, and their arguments and folder are those "
      "given") {
    const FakeSsh ssh;
    const Finished sum = run_process(ssh.command("a:2,me@b", {"sum"}), meeting_here(), 60s);
    CAPTURE(sum.output);
    CHECK(sum.exit_code == 0);
    CHECK(count(sum.output, "] sum 6\n") == 3);
    CHECK_FALSE(contains(sum.output, "lockstep-note"));
    const Finished told =
        run_process(ssh.command("a,b", {"arguments", "it's", "$HOME \"x\"", "", "--", "--hosts"}),
                    meeting_here(), 60s);
    CAPTURE(told.output);
    CHECK(told.exit_code == 0);
    for (const char* line :
         {"[worker 0] rank 0 of 2\n", "[worker 1] rank 1 of 2\n", "[worker 1] argument 2: it's\n",
          "[worker 1] argument 3: $HOME \"x\"\n", "[worker 1] argument 4: \n",
          "[worker 1] argument 6: --hosts\n"})
      CHECK(contains(told.output, line));
    const std::string file = ssh.path("hosts");
    std::ofstream(file) << "a slots=2\n";
    const Finished from_file = run_process(
        {test_program("cluster_worker"), "--hostfile", file, "--ssh=" + ssh.path("ssh"), "sum"}, {},
        60s);  // all on one: loopback
    CAPTURE(from_file.output);
    CHECK(count(from_file.output, "] sum 3\n") == 2);
  }

  TEST_CASE("a secret reaches the workers through their input, and no list of processes") {
    const FakeSsh ssh;
    const std::string secret = "a secret of some length";
    Process process(ssh.command("a,b", {"wait"}),
                    meeting_here({{"LOCKSTEP_CLUSTER_SECRET", secret}}));
    REQUIRE(process.wait_for("waiting, process", 60s, 2));
    std::size_t seen = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string text = lockstep_test::file_text(entry.path() / "cmdline");
      CHECK_FALSE(contains(text, secret));
      seen += contains(text, "LOCKSTEP") || contains(text, "lockstep-note");
    }
    CHECK(seen > 0);
    process.signal(SIGTERM);
    CHECK(process.wait(60s).exit_code == 143);
#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
    const Finished sum = run_process(ssh.command("a,b", {"sum"}),
                                     meeting_here({{"LOCKSTEP_CLUSTER_SECRET", secret}}), 60s);
    CHECK(count(sum.output, "] sum 3\n") == 2);
#endif
  }

  TEST_CASE("exit codes: of the first that failed, by itself or by ssh") {
    const FakeSsh ssh;
    const Finished killed = run_process(ssh.command("a,b,c", {"kill"}), meeting_here(), 60s);
    CAPTURE(killed.output);
    CHECK(killed.exit_code == 137);
    CHECK(contains(killed.output, "lockstep: worker 1 on host b failed first: exit code 137\n"));
    CHECK(count(killed.output, "error: ") == 2);  // the others name it
    const Finished lost = run_process(ssh.command("lost,a", {"arguments"}), meeting_here(), 60s);
    CAPTURE(lost.output);
    CHECK(lost.exit_code == 255);
    CHECK(contains(lost.output, "[worker 0] no route to host lost\n"));
    CHECK(
        contains(lost.output,
                 "worker 0 on host lost failed first: exit code 255 of ssh: it could not connect"));
    const Finished nowhere = run_process(
        {test_program("cluster_worker"), "--hosts", "a", "--ssh", "/no/such/ssh", "arguments"},
        meeting_here(), 60s);
    CHECK(nowhere.exit_code == 127);
    const Finished both =
        run_process({test_program("cluster_worker"), "--hosts", "a", "--workers", "2"}, {}, 60s);
    CHECK(both.exit_code == 2);
    CHECK(contains(both.output, "--workers, --hosts and --hostfile"));
    const TemporaryFolder folder;
    for (const auto& [path, why] : {std::pair{folder.path("none"), "No such file or directory"},
                                    {folder.path(), "Is a directory"}}) {
      const Finished unread =
          run_process({test_program("cluster_worker"), "--hostfile", path}, {}, 60s);
      CAPTURE(unread.output);
      CHECK(unread.exit_code == 2);
      CHECK(contains(unread.output, "--hostfile: cannot read '" + path + "': " + why));
    }
    const Finished two_lines =
        run_process(ssh.command("a,b", {"sum"}),
                    meeting_here({{"LOCKSTEP_CLUSTER_SECRET", "one line\nand another"}}), 60s);
    CHECK(two_lines.exit_code == 2);
    CHECK(contains(two_lines.output, "the value of LOCKSTEP_CLUSTER_SECRET has a line break"));
    CHECK_FALSE(contains(two_lines.output, "another"));
  }

  TEST_CASE("signals reach the workers; when the launcher is killed, so are they") {
    const FakeSsh ssh;
    {
      Process process(ssh.command("a,b", {"graceful"}), meeting_here());
      REQUIRE(process.wait_for("] waiting", 60s, 2));
      process.signal(SIGTERM);
      const Finished finished = process.wait(60s);
      CAPTURE(finished.output);
      CHECK(count(finished.output, "] stopped by 1 signal\n") == 2);
      CHECK(finished.exit_code == 0);  // as --workers has it: all ended with 0
    }
    Process process(ssh.command("a,b", {"wait"}), meeting_here());
    REQUIRE(process.wait_for("waiting, process", 60s, 2));
    process.signal(SIGKILL);
    const std::string output = process.wait(60s).output;
    std::size_t workers = 0;
    const std::string mark = "waiting, process ";
    for (std::size_t at = output.find(mark); at != std::string::npos;
         at = output.find(mark, at + 1)) {
      ++workers;
      const pid_t worker = std::atoi(output.c_str() + at + mark.size());
      for (int i = 0; i < 400 && ::kill(worker, 0) == 0; ++i) std::this_thread::sleep_for(50ms);
      CHECK(::kill(worker, 0) != 0);
    }
    CHECK(workers == 2);
  }

  TEST_CASE(
      "a worker that was killed is started again, and one that hangs is killed by what the others "
      "say") {
    const FakeSsh ssh;
    const std::string file = ssh.path("attempts");
    const Finished again = run_process(
        ssh.command("a,b", {"once", "kill", file}, {"--restarts", "2"}), meeting_here(), 60s);
    CAPTURE(again.output);
    CHECK(again.exit_code == 0);
    CHECK(
        contains(again.output,
                 "worker 1 on host b ended (exit code 137) and is started again; 1 restarts left"));
    CHECK(count(again.output, "] sum 3\n") >= 2);
    const Finished hung =
        run_process(ssh.command("a,b", {"once", "stop", ssh.path("stopped")}, {"--restarts", "2"}),
                    meeting_here(), 60s);
    CAPTURE(hung.output);
    CHECK(hung.exit_code == 0);
    CHECK(contains(hung.output, "worker 1 on host b was lost to worker 0"));
  }
}

/// Keys and a configuration for a real sshd.
class SshFiles {
 public:
  /// Empty, or what was in the way.
  std::string make(const std::string& addresses) {
    for (const char* name : {"host", "user"})
      if (const Finished made = run_process({find_program("ssh-keygen"), "-q", "-t", "ed25519",
                                             "-N", "", "-f", folder_.path(name)});
          made.exit_code != 0)
        return "an ssh-keygen that makes keys: " + made.output;
    std::filesystem::copy_file(folder_.path("user.pub"), folder_.path("authorized"));
    std::filesystem::permissions(folder_.path(), std::filesystem::perms::owner_all);
    std::ofstream(config()) << "Port " << port_ << "\n"
                            << addresses << "HostKey " << folder_.path("host")
                            << "\nAuthorizedKeysFile " << folder_.path("authorized")
                            << "\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
                               "PasswordAuthentication no\nKbdInteractiveAuthentication no\n";
    return {};
  }
  [[nodiscard]] std::string config() const { return folder_.path("config"); }
  [[nodiscard]] std::string ssh() const {
    return "ssh -T -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
           "-o LogLevel=ERROR -o IdentitiesOnly=yes -o ConnectTimeout=20 -i " +
           folder_.path("user") + " -p " + port_;
  }

 private:
  TemporaryFolder folder_;
  const std::string port_ = std::to_string(10'000 + ::getpid() % 20'000);
};

/// Two hosts, each a network of its own with an sshd, and a link between them; then the command, on
/// the first one. All of it ends with this process space.
constexpr const char* two_hosts = R"sh(
mount -t tmpfs tmpfs /run && mkdir -p /run/sshd || exit 77
for host in 1 2; do ip netns add host$host || exit 77; done
ip link add eth1 netns host1 type veth peer name eth2 netns host2 || exit 77
on() { host=$1; shift; nsenter --net=/run/netns/host$host "$@"; }
sshd=$0 config=$1 ssh=$2
shift 2
for host in 1 2; do
  ip -n host$host address add 10.77.0.$host/24 dev eth$host
  ip -n host$host link set lo up
  ip -n host$host link set eth$host up
  on $host "$sshd" -D -e -f "$config" -o ListenAddress=10.77.0.$host >/dev/null 2>&1 &
done
for host in 1 2; do
  n=0
  until on 1 $ssh 10.77.0.$host true 2>/dev/null; do
    n=$((n + 1))
    [ $n -lt 50 ] || exit 77
    sleep 0.2
  done
done
echo "two hosts"
on 1 "$@"
)sh";

TEST_SUITE("hosts [needs sshd]") {
  TEST_CASE("a real sshd on the loopback interface") {
    const char* const test = "--hosts with a real sshd";
    if (!has_programs(test, {"sshd", "ssh", "ssh-keygen"})) return;
    SshFiles files;
    if (const std::string lack = files.make("ListenAddress 127.0.0.1\n"); !lack.empty())
      return skip(test, lack);
    if (::getuid() == 0) std::filesystem::create_directories("/run/sshd");  // which sshd demands
    Process sshd({find_program("sshd"), "-D", "-e", "-f", files.config()});
    if (!sshd.wait_for("Server listening", 20s))
      return skip(test, "an sshd that starts: " + sshd.wait(1s).output);
    const Finished login =
        run_process({"/bin/sh", "-c", "exec " + files.ssh() + " 127.0.0.1 true"}, {}, 30s);
    if (login.exit_code != 0) return skip(test, "an sshd that lets this user in: " + login.output);
    const auto run = [&](const Words& rest) {
      Words words{test_program("cluster_worker"), "--hosts", "127.0.0.1:2", "--ssh", files.ssh()};
      words.insert(words.end(), rest.begin(), rest.end());
      return words;
    };
    const Finished sum = run_process(run({"sum"}), {}, 60s);
    CAPTURE(sum.output);
    CHECK(sum.exit_code == 0);
    CHECK(count(sum.output, "] sum 3\n") == 2);
    const Finished killed = run_process(run({"kill"}), {}, 60s);
    CAPTURE(killed.output);
    CHECK(killed.exit_code == 137);
    CHECK(contains(killed.output, "worker 1 on host 127.0.0.1 failed first"));
    Process stopped(run({"graceful"}));
    REQUIRE(stopped.wait_for("] waiting", 60s, 2));
    stopped.signal(SIGTERM);
    CHECK(count(stopped.wait(60s).output, "] stopped by 1 signal\n") == 2);
  }

  TEST_CASE("real sshds in two networks: workers on both meet, and a host that is none is named") {
    const char* const test = "--hosts with sshds in two networks";
    if (!has_programs(test, {"sshd", "ssh", "ssh-keygen", "ip", "unshare", "nsenter"})) return;
    SshFiles files;
    if (const std::string lack = files.make(""); !lack.empty()) return skip(test, lack);
    const auto run = [&](const std::string& hosts, const Words& rest) {
      Words words{find_program("unshare")};
      if (::getuid() != 0) words.emplace_back("--map-root-user");
      words.insert(words.end(),
                   {"--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                    "/bin/sh", "-c", two_hosts, find_program("sshd"), files.config(), files.ssh(),
                    test_program("cluster_worker"), "--hosts", hosts, "--ssh", files.ssh()});
      words.insert(words.end(), rest.begin(), rest.end());
      return run_process(words, {}, 120s);
    };
    const Finished sum = run("10.77.0.1:2,10.77.0.2:2", {"sum"});
    CAPTURE(sum.output);
    if (!contains(sum.output, "two hosts\n"))
      return skip(test, "the right to make networks in which sshd lets this user in");
    CHECK(sum.exit_code == 0);
    CHECK(count(sum.output, "] sum 10\n") == 4);
    const Finished killed = run("10.77.0.1,10.77.0.2", {"kill"});
    CAPTURE(killed.output);
    CHECK(killed.exit_code == 137);
    CHECK(contains(killed.output, "worker 1 on host 10.77.0.2 failed first: exit code 137\n"));
    CHECK(contains(killed.output, "[worker 0] error: "));  // it names the other one
    const Finished nowhere = run("10.77.0.2,10.77.0.9", {"arguments"});
    CAPTURE(nowhere.output);
    CHECK(nowhere.exit_code == 255);
    CHECK(
        contains(nowhere.output, "worker 1 on host 10.77.0.9 failed first: exit code 255 of ssh"));
  }
}
