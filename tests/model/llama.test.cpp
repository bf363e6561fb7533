// A small Llama against transformers': weights in the names of its files, logits, training steps;
// the same bits by threads and workers.
#include <doctest/doctest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/harness.hpp"
#include "golden/llama.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/checkpoint/weights_file.hpp"
#include "lockstep/cluster/cluster_spec.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/layer_normalization.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/parallel.hpp"
#include "lockstep/network/repeat.hpp"
#include "lockstep/network/swiglu.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/generator.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using lockstep_test::golden::llama_model;

namespace {

// As in make_golden_llama.py.
constexpr std::size_t vocabulary = 13, positions = 9, samples = 4, layers = 2, width = 16,
                      hidden = 24;
constexpr ls::MultiHeadAttentionOptions rotary{
    .use_bias = false, .use_causal_mask = true, .rope_theta = 10000};
using Norm = ls::RMSNormalization<ls::RMSNormalizationOptions{.epsilon = 1e-5}>;
using Block = ls::Sequential<ls::Residual<Norm, ls::GroupQueryAttention<4, 4, 2, rotary>>,
                             ls::Residual<Norm, ls::SwiGLU<hidden, width>>>;
template <std::size_t Positions>
using LlamaOf =
    ls::Sequential<ls::Input<Positions>, ls::Embedding<vocabulary, width>,
                   ls::Repeat<layers, Block>, Norm,
                   ls::Dense<vocabulary, ls::Linear, ls::DenseOptions{.use_bias = false}>>;
using Llama = LlamaOf<positions>;

std::uint32_t hash(std::uint32_t h) {
  h ^= h >> 16;
  h *= 0x85EBCA6B;
  h ^= h >> 13;
  h *= 0xC2B2AE35;
  return h ^ (h >> 16);
}

/// A file as transformers writes it, with the golden model's weights.
std::vector<std::byte> file_of_weights() {
  std::vector<ls::SavedArray> arrays;
  std::uint32_t element = 1;
  const auto add = [&](const std::string& name, std::size_t rows, std::size_t columns,
                       float around = 0) {  // the hashes are those of [rows][columns]
    const bool is_kernel = columns > 1 && name != "model.embed_tokens";
    std::vector<float> values(rows * columns);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[is_kernel ? i % columns * rows + i / columns : i] =
          static_cast<float>(hash(element++) >> 8) * 0x1p-24F - 0.5F + around;
    const auto bytes = std::as_bytes(std::span(values));
    arrays.push_back({.name = name + ".weight",
                      .extents = {is_kernel ? columns : rows},
                      .bytes = {bytes.begin(), bytes.end()}});
    if (columns > 1) arrays.back().extents.push_back(is_kernel ? rows : columns);
  };
  add("model.embed_tokens", vocabulary, width);
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i);
    add(layer + ".input_layernorm", width, 1, 1);
    add(layer + ".self_attn.q_proj", width, 16);
    add(layer + ".self_attn.k_proj", width, 8);
    add(layer + ".self_attn.v_proj", width, 8);
    add(layer + ".self_attn.o_proj", 16, width);
    add(layer + ".post_attention_layernorm", width, 1, 1);
    add(layer + ".mlp.gate_proj", width, hidden);
    add(layer + ".mlp.up_proj", width, hidden);
    add(layer + ".mlp.down_proj", hidden, width);
  }
  add("model.norm", width, 1, 1);
  add("lm_head", width, vocabulary);
  return ls::encode_safetensors(arrays);
}

std::vector<ls::WeightsRename> names_of_llama() {
  std::vector<ls::WeightsRename> names = {{"model.embed_tokens", "embedding"},
                                          {"model.norm", "rms_normalization"},
                                          {"lm_head", "dense"}};
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string from = "model.layers." + std::to_string(i),
                      to = "repeat/sequential" + (i > 0 ? "_" + std::to_string(i) : "");
    const std::string attention = to + "/residual/grouped_query_attention",
                      gated = to + "/residual_1/sequential";
    for (const auto& [here, there] :
         {std::pair{".self_attn.q_proj", attention + "/query"},
          {".self_attn.k_proj", attention + "/key"},
          {".self_attn.v_proj", attention + "/value"},
          {".self_attn.o_proj", attention + "/attention_output"},
          {".input_layernorm", to + "/residual/rms_normalization"},
          {".post_attention_layernorm", to + "/residual_1/rms_normalization"},
          {".mlp.gate_proj", gated + "/parallel/dense"},
          {".mlp.up_proj", gated + "/parallel/dense_1"},
          {".mlp.down_proj", gated + "/dense"}})
      names.push_back({from + here, there});
  }
  return names;
}

/// Ids, and those that follow.
std::pair<Eigen::MatrixXf, Eigen::MatrixXf> texts() {
  Eigen::MatrixXf x(samples, positions), y(samples, positions);
  for (Eigen::Index i = 0; i < x.rows(); ++i)
    for (Eigen::Index t = 0; t <= x.cols(); ++t) {
      const auto id = static_cast<float>(
          hash(static_cast<std::uint32_t>(1'000'000 + i * (x.cols() + 1) + t)) % vocabulary);
      if (t < x.cols()) x(i, t) = id;
      if (t > 0) y(i, t - 1) = id;
    }
  return {x, y};
}

}  // namespace

TEST_CASE("Llama: a file of transformers gives its logits, and five steps of SGD its losses") {
  const lockstep_test::TemporaryFolder folder;
  ls::write_file_atomically(folder.path("model.safetensors"), file_of_weights());
  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<Llama>(
      strategy, {.seed = 1}, ls::SparseCategoricalCrossentropy{.from_logits = true}, ls::SGD{0.05});
  model.load_weights(folder.path("model.safetensors"),
                     {.rename = names_of_llama(), .layout = ls::WeightsLayout::pytorch});
  const auto [x, y] = texts();
  const Eigen::MatrixXf logits = model.predict(x);
  double worst = 0;
  for (std::size_t i = 0; i < std::size(llama_model::logits); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(logits(
                                         static_cast<Eigen::Index>(i / (positions * vocabulary)),
                                         static_cast<Eigen::Index>(i % (positions * vocabulary)))) -
                                     llama_model::logits[i]));
  CHECK(worst < 2e-6);
  for (const double loss : llama_model::losses) {
    const ls::History history =
        model.fit(x, y, {.batch_size = samples, .verbose = 0, .shuffle = false});
    CHECK(std::abs(history["loss"].front() - loss) < 5e-6);
  }
}

TEST_CASE("Llama: Generator writes greedily what transformers' generate writes") {
  const lockstep_test::TemporaryFolder folder;
  ls::write_file_atomically(folder.path("model.safetensors"), file_of_weights());
  const ls::Generator<LlamaOf<64>> generator(
      folder.path("model.safetensors"),
      {.rename = names_of_llama(), .layout = ls::WeightsLayout::pytorch});
  CHECK(generator.loaded().missing.empty());
  const auto [x, y] = texts();
  const auto prompt = [&, &ids = x](Eigen::Index text, std::size_t count) {
    std::vector<std::uint32_t> tokens(count);
    for (std::size_t t = 0; t < count; ++t)
      tokens[t] = static_cast<std::uint32_t>(ids(text, static_cast<Eigen::Index>(t)));
    return tokens;
  };
  const std::vector<std::vector<std::uint32_t>> expected{
      {std::begin(llama_model::after_three), std::end(llama_model::after_three)},
      {std::begin(llama_model::after_six), std::end(llama_model::after_six)}};
  CHECK(generator.generate(prompt(3, 3), {.max_new_tokens = 50}) == expected[0]);
  CHECK(generator.generate(prompt(1, 6), {.max_new_tokens = 50}) == expected[1]);
  CHECK(generator.generate({prompt(3, 3), prompt(1, 6)}, {.max_new_tokens = 50}) == expected);
}

TEST_CASE("Llama: two threads and two workers make the same bits") {
  const auto run = [](int workers, int replicas) {
    const auto addresses = lockstep_test::free_addresses(workers);
    std::vector<std::uint32_t> crcs(addresses.size());
    const auto thrown = lockstep_test::run_threads(workers, [&](int rank) {
      ls::Cluster cluster;
      cluster.spec.worker = addresses;
      cluster.task.index = rank;
      ls::MultiWorkerMirroredStrategy<ls::Ring<ls::Tcp>> strategy(
          cluster,
          {.replicas = replicas, .communication_options = lockstep_test::patient_options()});
      auto model =
          ls::compile<Llama>(strategy, {.seed = 3},
                             ls::SparseCategoricalCrossentropy{.from_logits = true}, ls::SGD{0.1});
      const auto before = model.parameters_crc32c();
      const auto [x, y] = texts();
      model.fit(x, y, {.batch_size = samples, .epochs = 3, .verbose = 0});
      crcs[static_cast<std::size_t>(rank)] = model.parameters_crc32c();
      CHECK(crcs[static_cast<std::size_t>(rank)] != before);
    });
    for (const std::exception_ptr& failure : thrown) CHECK(failure == nullptr);
    CHECK(std::all_of(crcs.begin(), crcs.end(), [&](auto crc) { return crc == crcs[0]; }));
    return crcs.at(0);
  };
  const std::uint32_t threads = run(1, 2);
  CHECK(run(2, 1) == threads);
}
