// What ends a job, by name; run by mpiexec on 2 ranks.
#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/cluster/run.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/extra/mpi/mpi.hpp"

using namespace lockstep;

int main(int argc, char** argv) {
  return run(argc, argv, [](int, char** arguments) {
    const std::string_view what = arguments[1];
    const Cluster cluster = mpi_cluster();
    Rendezvous rendezvous{.rank = cluster.rank(), .addresses = cluster.addresses()};
    CommunicationOptions options{.timeout = std::chrono::seconds(30),
                                 .startup_timeout = std::chrono::seconds(30)};
    if (what == "hang") options.timeout = options.progress_timeout = std::chrono::seconds(1);

    if (what == "another_place" && cluster.rank() == 1) rendezvous.rank = 0;
    rendezvous.properties = {
        {"version", "1"},
        {"replicas", what == "another_program" && cluster.rank() == 1 ? "2" : "1"}};
    if (what == "not_started" && cluster.rank() == 1)
      std::this_thread::sleep_for(std::chrono::minutes(5));
    if (what == "not_started") options.startup_timeout = std::chrono::seconds(1);
    Mpi mpi = Mpi::connect(rendezvous, options);

    std::vector<float> values(1000, 1.0f);
    mpi.all_reduce(std::span(values));
    if (what == "abort" && mpi.rank() == 1) mpi.abort("the loss is not finite", ExitCode::failure);
    if (what == "hang" && mpi.rank() == 1) std::this_thread::sleep_for(std::chrono::minutes(5));
    mpi.all_reduce(std::span(values));
    mpi.close();
  });
}
