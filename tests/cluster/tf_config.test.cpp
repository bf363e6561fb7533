#include "lockstep/cluster/cluster_from_environment.hpp"

#include <doctest/doctest.h>

using namespace lockstep;

namespace {

/// The message of the ConfigurationError that `text` gives.
std::string refusal(std::string_view text) {
  try {
    (void)parse_tf_config(text);
  } catch (const ConfigurationError& error) {
    CHECK(error.exit_code() == ExitCode::usage);
    CHECK(std::string_view(error.what()).starts_with("TF_CONFIG: "));
    return error.what();
  }
  return "accepted";
}

bool names(const std::string& message, std::initializer_list<std::string_view> parts) {
  CAPTURE(message);
  for (const std::string_view part : parts) {
    CAPTURE(part);
    CHECK(message.find(part) != std::string::npos);
  }
  return true;
}

/// A cluster of workers a:1 and b:1, and this task.
std::string two_workers(std::string_view task) {
  return R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": )" + std::string(task) + "}";
}

/// Worker 0 of a cluster with this job.
std::string with_jobs(std::string_view jobs) {
  return R"({"cluster": {)" + std::string(jobs) + R"(}, "task": {"type": "worker", "index": 0}})";
}

}  // namespace

TEST_SUITE("tf_config") {
  TEST_CASE("unset, empty, {} and no cluster: alone") {
    for (const char* text :
         {"", "  \n", "{}", R"({"environment": "cloud"})", R"({"cluster": {}})",
          R"({"cluster": {"worker": []}})", R"({"task": {"type": "worker", "index": 3}})"}) {
      CAPTURE(text);
      const Cluster cluster = parse_tf_config(text);
      CHECK(cluster.is_alone());
      CHECK(cluster.rank() == 0);
      CHECK(cluster.is_chief());
    }
  }

  TEST_CASE("workers a and b; task worker 1") {
    const Cluster cluster = parse_tf_config(two_workers(R"({"type": "worker", "index": 1})"));
    CHECK(cluster.rank() == 1);
    CHECK(cluster.world_size() == 2);
    CHECK_FALSE(cluster.is_chief());
    CHECK(cluster.addresses() == std::vector<std::string>{"a:1", "b:1"});
  }

  TEST_CASE("chief c, workers a and b; also spelled master") {
    for (const std::string chief : {"chief", "master"}) {
      const std::string cluster =
          R"({"cluster": {")" + chief + R"(": ["c:1"], "worker": ["a:1", "b:1"]}, "task": )";
      const Cluster worker = parse_tf_config(cluster + R"({"type": "worker", "index": 0}})");
      CHECK(worker.rank() == 1);
      CHECK(worker.world_size() == 3);
      CHECK_FALSE(worker.is_chief());
      for (const std::string task : {"chief", "master"}) {
        const Cluster first =
            parse_tf_config(cluster + R"({"type": ")" + task + R"(", "index": 0}})");
        CHECK(first.rank() == 0);
        CHECK(first.is_chief());
      }
    }
    names(refusal(with_jobs(R"("chief": ["c:1"], "master": ["d:1"], "worker": ["a:1"])")),
          {"'chief'", "'master'"});
  }

  TEST_CASE("what Kubernetes' TFJob operator emits") {
    const Cluster cluster = parse_tf_config(
        R"({"cluster":{"chief":["job-chief-0.ns.svc:2222"],"worker":["job-worker-0.ns.svc:2222"]},"task":{"type":"worker","index":0},"environment":"cloud"})");
    CHECK(cluster.rank() == 1);
    CHECK(cluster.world_size() == 2);
  }

  TEST_CASE("an evaluator, in the cluster or not, stands alone") {
    for (
        const char* text :
        {R"({"cluster": {"worker": ["a:1"], "evaluator": ["e:1"]}, "task": {"type": "evaluator", "index": 0}})",
         R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}})"}) {
      const Cluster cluster = parse_tf_config(text);
      CHECK(cluster.is_evaluator());
      CHECK_FALSE(cluster.is_chief());
      CHECK(cluster.rank() == -1);
    }
  }

  TEST_CASE("evaluator and ps that are listed do not count") {
    const Cluster cluster = parse_tf_config(
        with_jobs(R"("worker": ["a:1", "b:1"], "ps": ["p:1"], "evaluator": ["e:1"])"));
    CHECK(cluster.world_size() == 2);
    CHECK(cluster.rank() == 0);
  }

  TEST_CASE("the task ps is a parameter server, and has no rank") {
    const Cluster cluster = parse_tf_config(
        R"({"cluster": {"worker": ["a:1"], "ps": ["p:1"]}, "task": {"type": "ps", "index": 0}})");
    CHECK(cluster.is_parameter_server());
    CHECK_FALSE(cluster.is_chief());
    CHECK(cluster.rank() == -1);
    CHECK(cluster.world_size() == 1);
    names(refusal(R"({"cluster": {"ps": ["p:1"]}, "task": {"type": "ps", "index": 1}})"),
          {"task 'ps' 1", "the index must be 0"});
  }

  TEST_CASE("the index is a number, or a string of digits, in the range of its job") {
    CHECK(parse_tf_config(two_workers(R"({"type": "worker", "index": "1"})")).rank() == 1);
    for (const char* index : {"-1", "1.5", "true", "null", "[]", R"("")", R"("one")", R"("-1")",
                              "99999999999999999999"}) {
      CAPTURE(index);
      names(refusal(two_workers(R"({"type": "worker", "index": )" + std::string(index) + "}")),
            {"'task.index'", "whole number", index[0] == '9' ? "" : index});
    }
    names(refusal(two_workers(R"({"type": "worker", "index": 2})")),
          {"task 'worker' 2", "the index must be 0 to 1"});
    names(refusal(with_jobs(R"("chief": ["c:1"])")), {"task 'worker' 0", "no job 'worker'"});
  }

  TEST_CASE("a missing task, an unknown job and worker_hosts are refused") {
    names(refusal(R"({"cluster": {"worker": ["a:1"]}})"),
          {"both 'task.type' and 'task.index' are needed"});
    names(refusal(two_workers(R"({"type": "worker"})")), {"'task.type' and 'task.index'"});
    names(refusal(two_workers(R"({"index": 0})")), {"'task.type' and 'task.index'"});
    names(refusal(two_workers("7")), {"'task.type' and 'task.index'"});
    names(refusal(two_workers(R"({"type": "wroker", "index": 0})")),
          {"\"wroker\"", "chief (or master), worker, ps and evaluator"});
    names(refusal(with_jobs(R"("wroker": ["a:1"])")),
          {"'wroker'", "chief (or master), worker, ps and evaluator"});
    names(refusal(with_jobs(R"("worker_hosts": ["a:1"])")), {"'worker_hosts'", "allowed are"});
    names(refusal(R"({"worker_hosts": ["a:1"]})"), {"'worker_hosts'", "\"cluster\""});
    names(refusal(R"({"clutser": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})"),
          {"'clutser'"});
  }

  TEST_CASE("addresses: two chiefs, duplicates and malformed ones are refused") {
    names(refusal(with_jobs(R"("chief": ["c:1", "d:1"], "worker": ["a:1"])")),
          {"'chief'", "'c:1'", "'d:1'"});
    names(refusal(with_jobs(R"("worker": ["a:1"], "evaluator": ["e:1", "f:1"])")),
          {"'evaluator'", "'f:1'"});
    names(refusal(with_jobs(R"("worker": ["a:1", "a:1"])")), {"'a:1'", "worker 0 and worker 1"});
    names(refusal(with_jobs(R"("worker": ["a:1"], "ps": ["a:1"])")),
          {"'a:1'", "worker 0 and ps 0"});
    names(refusal(with_jobs(R"("worker": ["a:1", "host"])")),
          {"worker 1", "'host'", "has no port"});
    names(refusal(with_jobs(R"("worker": ["a:0"])")), {"worker 0", "'a:0'", "has port 0"});
    names(refusal(with_jobs(R"("worker": ["a:70000"])")), {"'a:70000'", "above 65535"});
    CHECK(parse_tf_config(with_jobs(R"("worker": ["[::1]:2222", "worker-1.ns.svc.:2222"])"))
              .world_size() == 2);
  }

  TEST_CASE("a value that is no list of texts is refused, and its job named") {
    names(refusal(with_jobs(R"("worker": "a:1,b:1")")),
          {"job 'worker' must be a list", "\"a:1,b:1\""});
    names(refusal(with_jobs(R"("worker": 5)")), {"job 'worker' must be a list"});
    names(refusal(with_jobs(R"("worker": ["a:1", 5])")), {"job 'worker'", "5"});
    names(refusal(R"({"cluster": ["a:1"]})"), {"'cluster' must be an object"});
    names(refusal(R"({"cluster": null})"), {"'cluster' must be an object"});
    names(refusal("[]"), {"must be an object"});
    names(refusal("7"), {"must be an object"});
  }

  TEST_CASE("dynamic clusters") {
    names(refusal(with_jobs(R"("worker": {"1": "a:1"})")), {"job 'worker'", "sparse"});
    names(
        refusal(
            R"({"sparseCluster": {"worker": {"1": "a:1"}}, "task": {"type": "worker", "index": 1}})"),
        {"'sparseCluster'"});
  }

  TEST_CASE("malformed JSON is an error with its position, and never a silent local run") {
    names(refusal(R"({"cluster": )"), {"malformed JSON", "line 1, column "});
    names(refusal("{\n'cluster': {}}"), {"line 2, column "});
    names(refusal("{} {}"), {"malformed JSON"});
    names(refusal("garbage"), {"malformed JSON"});
    names(refusal(std::string(100'000, '[')), {"malformed JSON"});
    names(refusal("{\"cluster\": \"\xFF\"}"), {"malformed JSON"});
    names(refusal(two_workers(R"({"type": "worker", "index": 1e999})")),
          {"malformed JSON", "1e999"});
    names(refusal(R"({"other": -1e999})"), {"malformed JSON", "1e999"});
    names(refusal("{\"cluster\": \"\x01\"}"), {"malformed JSON"});
    names(refusal(R"({"a": "\ud800"})"), {"malformed JSON"});
    names(refusal(std::string("{\0}", 3)), {"malformed JSON"});
  }

  TEST_CASE("values of every wrong type are refused, at every place") {
    const std::string deep = std::string(20'000, '[') + std::string(20'000, ']');
    for (const std::string& value :
         {std::string("null"), std::string("true"), std::string("-1"), std::string("1e300"),
          std::string("18446744073709551615"), std::string("-9223372036854775808"),
          std::string(R"("x")"), std::string("[[]]"), std::string(R"({"a": {}})"), deep}) {
      CAPTURE(value.substr(0, 40));
      if (value.front() != '{') names(refusal(value), {"TF_CONFIG: "});
      names(refusal(R"({"cluster": )" + value + R"(, "task": {"type": "worker", "index": 0}})"),
            {"TF_CONFIG: "});
      names(refusal(with_jobs(R"("worker": )" + value)), {"TF_CONFIG: "});
      names(refusal(with_jobs(R"("worker": [)" + value + "]")), {"TF_CONFIG: "});
      names(refusal(two_workers(value)), {"TF_CONFIG: "});
      names(refusal(two_workers(R"({"type": )" + value + R"(, "index": 0})")), {"TF_CONFIG: "});
      names(refusal(two_workers(R"({"type": "worker", "index": )" + value + "}")), {"TF_CONFIG: "});
    }
    names(refusal(two_workers(R"({"type": "worker", "index": 18446744073709551615})")),
          {"got 18446744073709551615"});
    names(refusal(with_jobs(R"("worker": ["a\u0000\nb"])")), {"a??b"});
    names(
        refusal(
            R"({"cluster": {"worker": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}})"),
        {"key 'worker' stands twice"});
  }
}
