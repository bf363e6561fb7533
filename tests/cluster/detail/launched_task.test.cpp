#include "lockstep/cluster/detail/launched_task.hpp"

#include <doctest/doctest.h>

#include <string>

#include "lockstep/cluster/tf_config.hpp"

using lockstep::detail::LaunchedTask;

TEST_CASE("launched task: TF_CONFIG of a worker and of a server") {
  const std::string cluster = R"("worker":["127.0.0.1:1","127.0.0.1:2"],"ps":["127.0.0.1:3"])";
  const LaunchedTask second{.index = 1}, server{.index = 0, .is_server = true};
  CHECK(second.name() == "worker 1");
  CHECK(server.name() == "server 0");
  const lockstep::Cluster of_worker = lockstep::parse_tf_config(second.tf_config(cluster));
  CHECK(of_worker.rank() == 1);
  CHECK(of_worker.world_size() == 2);
  CHECK(of_worker.spec.ps.size() == 1);
  const lockstep::Cluster of_server = lockstep::parse_tf_config(server.tf_config(cluster));
  CHECK(of_server.is_parameter_server());
  CHECK(of_server.task.index == 0);
  CHECK(of_server.spec.ps.front() == "127.0.0.1:3");
}

TEST_CASE("launched task: two jobs have two names, of digits and a hyphen") {
  const std::string name = lockstep::detail::new_job_name();
  CHECK(name != lockstep::detail::new_job_name());
  CHECK(name.find_first_not_of("0123456789-") == std::string::npos);
}
