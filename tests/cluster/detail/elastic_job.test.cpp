#include "lockstep/cluster/detail/worker_group.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <string>
#include <string_view>
#include <vector>

#include "cluster/script_program.hpp"

using namespace lockstep::detail;
using lockstep_test::ScriptProgram;

namespace {

std::vector<LaunchedWorker> workers_of(int count) {
  std::vector<LaunchedWorker> workers;
  workers.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) workers.emplace_back(i, 0);
  return workers;
}

bool says(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
bool goes_on(const ElasticJob& job) { return says(job.outlook(), "the others go on without it"); }

}  // namespace

TEST_CASE("elastic job: it is one as soon as a worker tells of its world") {
  ElasticJob job;
  CHECK_FALSE(job.is_elastic());
  job.heed(WorkerNote("world 1 0"));
  CHECK(job.is_elastic());
}

TEST_CASE("elastic job: more than half of a world go on without the others") {
  ElasticJob job;
  job.heed(WorkerNote("world 1 0 1 2 3"));
  job.ended(3);
  CHECK(goes_on(job));
  job.ended(2);
  CHECK_FALSE(goes_on(job));
  CHECK(says(job.outlook(), "no more than half"));
  job.heed(WorkerNote("world 2 0 1"));  // the others have formed a smaller one
  CHECK(goes_on(job));
  job.ended(2);  // is not one of it
  CHECK(goes_on(job));
}

TEST_CASE("elastic job: a note of an older world that comes late changes nothing") {
  ElasticJob job;
  job.heed(WorkerNote("world 2 0 1"));
  job.heed(WorkerNote("world 1 0 1 2 3"));
  job.ended(0);
  CHECK_FALSE(goes_on(job));  // 1 of 2, not 3 of 4
}

TEST_CASE("elastic job: when all have ended, their successors count worlds anew") {
  ElasticJob job;
  job.heed(WorkerNote("world 5 0 1 2"));
  for (const int worker : {0, 1, 2}) job.ended(worker);
  job.heed(WorkerNote("world 1 0 1"));
  job.ended(1);
  CHECK_FALSE(goes_on(job));
}

TEST_CASE("elastic job: successors count worlds anew, too, while a worker of the last one hangs") {
  ElasticJob job;
  job.heed(WorkerNote("world 4 0 1 2"));
  job.ended(1);
  job.heed(WorkerNote("world 1 1 2"));  // older, as worker 2 has not ended
  job.ended(2);
  CHECK(says(job.outlook(), "no more than half"));
  job.heed(WorkerNote("world 1 1 2"));
  CHECK(goes_on(job));
  job.ended(1);
  CHECK_FALSE(goes_on(job));  // 1 of 2
}

TEST_CASE("elastic job: names that are no numbers are left out") {
  ElasticJob job;
  job.heed(WorkerNote("world 1 0 -1 2"));
  job.ended(0);
  CHECK_FALSE(goes_on(job));  // 1 of 2
  ElasticJob broken;
  broken.heed(WorkerNote("world soon 0 1"));
  CHECK(broken.is_elastic());
  CHECK(goes_on(broken));
}

TEST_CASE("elastic job: all of a world come to the end together") {
  ElasticJob job;
  std::vector<LaunchedWorker> workers = workers_of(2);
  CHECK_FALSE(job.is_done(workers));  // not known to be elastic
  job.heed(WorkerNote("world 1 0 1"));
  CHECK(job.is_done(workers));  // none lives, and all have ended with 0
  workers[0].end.code = workers[1].end.code = 137;
  CHECK_FALSE(job.is_done(workers));
  workers[0].end.code = 0;
  workers[0].task.is_server = true;  // of a server, the end says nothing
  CHECK_FALSE(job.is_done(workers));
}

TEST_CASE("elastic job: those that live and are not at work are left behind when it is done") {
  const ScriptProgram idle;
  ElasticJob job;
  std::vector<LaunchedWorker> workers = workers_of(3);
  workers[1].process.start(idle.program);
  workers[2].end.code = 137;
  job.heed(WorkerNote("world 1 0"));
  CHECK(job.leaves_some_behind(workers));
  workers[0].end.code = 1;
  CHECK_FALSE(job.leaves_some_behind(workers));  // it is not done
  workers[0].end.code = 0;
  job.heed(WorkerNote("world 2 0 1"));
  CHECK_FALSE(job.leaves_some_behind(workers));  // 1 is at work
  workers[1].process.end();
  CHECK_FALSE(job.leaves_some_behind(workers));  // none lives
}

TEST_CASE("elastic job: it goes on without one that was killed, if another can") {
  const ScriptProgram idle;
  ElasticJob job;
  std::vector<LaunchedWorker> workers = workers_of(2);
  workers[0].end.code = 137;
  workers[1].process.start(idle.program);
  CHECK_FALSE(job.goes_without(workers[0], workers));  // not known to be elastic
  job.heed(WorkerNote("world 1 0 1"));
  CHECK(job.goes_without(workers[0], workers));
  workers[0].has_agreed_to_stop = true;
  CHECK_FALSE(job.goes_without(workers[0], workers));
  workers[0].has_agreed_to_stop = false;
  workers[0].end.code = 1;  // its own mistake
  CHECK_FALSE(job.goes_without(workers[0], workers));
  workers[0].end.code = 138;
  workers[1].process.end();
  workers[1].end.code = 138;
  CHECK_FALSE(job.goes_without(workers[0], workers));  // no worker is left
  workers[1].end.code = 0;
  CHECK(job.goes_without(workers[0], workers));
}
