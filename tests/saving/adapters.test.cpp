#include "lockstep/saving/adapters.hpp"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/network/lora.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

constexpr ls::MultiHeadAttentionOptions rotary{
    .use_bias = false, .use_causal_mask = true, .rope_theta = 100};
using Attention = ls::GroupQueryAttention<4, 4, 2, rotary>;
template <class A, class D>
using Net = ls::Sequential<ls::Input<5>, ls::Frozen<ls::Embedding<7, 6>>, ls::Residual<A>, D,
                           ls::Flatten, ls::Frozen<ls::Dense<2>>>;
using Base = Net<Attention, ls::Dense<3, ls::SiLU>>;
using Tuned = Net<ls::LoRA<Attention, 2>, ls::LoRA<ls::Dense<3, ls::SiLU>, 2>>;

Eigen::MatrixXf ids() {
  Eigen::MatrixXf x(12, 5);
  for (Eigen::Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i * i % 7);
  return x;
}

template <class Model>
void tune(Model& model) {
  const Eigen::MatrixXf x = ids();
  model.fit(x, Eigen::MatrixXf(x.leftCols(2) / 7), {.batch_size = 4, .epochs = 3, .verbose = 0});
}

template <class Net>
auto compiled(std::uint64_t seed) {
  return ls::compile<Net>(ls::CompileOptions{.seed = seed}, ls::MeanSquaredError{},
                          ls::Adam{.learning_rate = 0.01});
}

}  // namespace

TEST_CASE("LoRA: from a base's file, factors trained, saved alone, loaded, and merged") {
  const TemporaryFolder folder;
  auto base = compiled<Base>(1);
  base.save_weights(folder.path("base.safetensors"));
  auto tuned = compiled<Tuned>(2);
  tuned.load_weights(folder.path("base.safetensors"), {.by_name = true});
  const Eigen::MatrixXf before = base.predict(ids());
  CHECK(tuned.predict(ids()) == before);  // the factors add 0 at first
  tune(tuned);
  const Eigen::MatrixXf after = tuned.predict(ids());
  CHECK((after - before).cwiseAbs().maxCoeff() > 1e-2F);

  ls::save_adapters(tuned, folder.path("adapters.safetensors"));
  const auto arrays =
      ls::decode_safetensors(ls::read_file(folder.path("adapters.safetensors")).value());
  std::vector<std::string> names;
  for (const ls::SavedArray& array : arrays) names.push_back(array.name);
  const std::string attention = "residual/grouped_query_attention/";
  CHECK(names == std::vector<std::string>{
                     attention + "query/lora_kernel_a", attention + "query/lora_kernel_b",
                     attention + "value/lora_kernel_a", attention + "value/lora_kernel_b",
                     "dense/lora_kernel_a", "dense/lora_kernel_b"});
  auto again = compiled<Tuned>(3);
  again.load_weights(folder.path("base.safetensors"), {.by_name = true});
  again.load_weights(folder.path("adapters.safetensors"), {.by_name = true});
  CHECK(again.predict(ids()) == after);

  base.set_weights(ls::merged_weights(tuned.get_weights()));
  CHECK((base.predict(ids()) - after).cwiseAbs().maxCoeff() < 1e-5F);
  CHECK(contains(message_of<ls::ConfigurationError>(
                     [&] { ls::save_adapters(base, folder.path("none.safetensors")); }),
                 "the model has no LoRA layer"));
}

TEST_CASE("LoRA: factors in PEFT's names and layout") {
  const TemporaryFolder folder;
  std::vector<float> a(6), b(12);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i);
  const auto array = [](const char* name, std::vector<std::uint64_t> extents,
                        const std::vector<float>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return ls::SavedArray{
        .name = name, .extents = std::move(extents), .bytes = {bytes.begin(), bytes.end()}};
  };
  const std::string layer = "base_model.model.q_proj.";
  ls::write_file_atomically(
      folder.path("adapter_model.safetensors"),
      ls::encode_safetensors(std::vector{array((layer + "lora_A.weight").c_str(), {2, 3}, a),
                                         array((layer + "lora_B.weight").c_str(), {6, 2}, b)}));
  auto model = compiled<
      ls::Sequential<ls::Input<4, 3>, ls::ToSequence, ls::LoRA<ls::MultiHeadAttention<2, 3>, 2>>>(
      1);
  const std::string query = "multi_head_attention/query/";
  model.load_weights(folder.path("adapter_model.safetensors"),
                     {.by_name = true,
                      .rename = {{layer + "lora_A.weight", query + "lora_kernel_a"},
                                 {layer + "lora_B.weight", query + "lora_kernel_b"}},
                      .layout = ls::WeightsLayout::pytorch});
  const auto weights = model.get_weights();
  CHECK(weights[0].values == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(weights[1].values == std::vector<float>{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11});
}

TEST_CASE("LoRA: two threads and two workers make the same bits") {
  const auto run = [](int workers, int replicas) {
    const auto addresses = free_addresses(workers);
    std::vector<std::uint32_t> crcs(addresses.size());
    const auto thrown = run_threads(workers, [&](int rank) {
      ls::Cluster cluster;
      cluster.spec.worker = addresses;
      cluster.task.index = rank;
      ls::MultiWorkerMirroredStrategy<ls::Ring<ls::Tcp>> strategy(
          cluster, {.replicas = replicas, .communication_options = patient_options()});
      auto model = ls::compile<Tuned>(strategy, {.seed = 3}, ls::MeanSquaredError{},
                                      ls::Adam{.learning_rate = 0.01});
      tune(model);
      crcs[static_cast<std::size_t>(rank)] = model.parameters_crc32c();
    });
    for (const std::exception_ptr& failure : thrown) CHECK(failure == nullptr);
    CHECK(crcs.front() == crcs.back());
    return crcs.front();
  };
  const std::uint32_t threads = run(1, 2);
  CHECK(run(2, 1) == threads);
}
