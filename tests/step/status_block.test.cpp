#include "lockstep/step/status_block.hpp"

#include <doctest/doctest.h>

#include <initializer_list>

using Status = lockstep::detail::StatusBlock;

TEST_CASE("StatusBlock: starts with zeros, and its fields and metrics are what is reduced") {
  Status status(2);
  CHECK(status.values().size() == Status::field_count + 2 + 3);
  CHECK(status.saved().size() == Status::field_count + 2);  // files have that many
  for (const double value : status.values()) CHECK(value == 0);
  status[Status::samples] = 3;
  status[Status::rows] = 3;
  status[Status::stop] = 1;
  status.metrics()[1] = 7;
  CHECK(status.values()[Status::samples] == 3);
  CHECK(status.saved().back() == 7);
  CHECK(Status(0).metrics().empty());
}

TEST_CASE("StatusBlock: accumulate adds all of it, clear forgets it") {
  Status sum(2), one(2);
  one[Status::samples] = 2;
  one[Status::rows] = 2;
  one[Status::loss_sum] = 0.5;
  one.metrics()[0] = 1;
  sum.accumulate(one);
  sum.accumulate(one);
  CHECK(sum[Status::samples] == 4);
  CHECK(sum[Status::loss_sum] == 1);
  CHECK(sum.metrics()[0] == 2);
  sum.clear();
  for (const double value : sum.values()) CHECK(value == 0);
}

TEST_CASE("StatusBlock: what any rank asks is what all are asked, and SIGTERM goes before SIGINT") {
  using lockstep::ExitCode;
  const auto asked_by = [](std::initializer_list<lockstep::detail::Requests> ranks) {
    Status sum(2);
    for (const lockstep::detail::Requests& requests : ranks) {
      Status one(2);
      one.ask(requests);
      sum.accumulate(one);
    }
    return sum.asked();
  };
  CHECK_FALSE(asked_by({{}, {}}).stop);
  CHECK(asked_by({{}, {}}).preemption == ExitCode::success);
  CHECK(asked_by({{}, {.stop = true}}).stop);
  CHECK(asked_by({{.preemption = ExitCode::interrupted}, {}}).preemption == ExitCode::interrupted);
  CHECK(asked_by({{.preemption = ExitCode::interrupted}, {}, {.preemption = ExitCode::terminated}})
            .preemption == ExitCode::terminated);
  CHECK_FALSE(asked_by({{.preemption = ExitCode::terminated}}).stop);
  CHECK_FALSE(asked_by({{.stop = true}}).verify);
  CHECK(asked_by({{}, {.verify = true}}).verify);
  CHECK_FALSE(asked_by({{}, {.verify = true}}).regroup);
  CHECK(asked_by({{}, {.regroup = true}}).regroup);
  CHECK_FALSE(asked_by({{}, {.regroup = true}}).verify);
}
