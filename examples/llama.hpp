// Llama as a type, and the names of its variables in transformers' files.
#pragma once

#include <lockstep/layers/attention.hpp>
#include <lockstep/layers/embedding.hpp>
#include <lockstep/layers/layer_normalization.hpp>
#include <lockstep/model/load_weights_options.hpp>
#include <lockstep/network/parallel.hpp>
#include <lockstep/network/repeat.hpp>
#include <lockstep/network/swiglu.hpp>
#include <lockstep/network/tied_head.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace examples {

/// transformers' LlamaForCausalLM with tie_word_embeddings, of the sizes of its config.json.
template <std::size_t VocabSize, std::size_t HiddenSize, std::size_t IntermediateSize,
          std::size_t NumHiddenLayers, std::size_t NumAttentionHeads, std::size_t NumKeyValueHeads,
          std::size_t MaxPositions>
struct Llama {
  static constexpr lockstep::MultiHeadAttentionOptions rotary{
      .use_bias = false, .use_causal_mask = true, .rope_theta = 10000};
  using Norm = lockstep::RMSNormalization<lockstep::RMSNormalizationOptions{.epsilon = 1e-5}>;
  using Attention = lockstep::GroupQueryAttention<HiddenSize / NumAttentionHeads, NumAttentionHeads,
                                                  NumKeyValueHeads, rotary>;
  using Block = lockstep::Sequential<
      lockstep::Residual<Norm, Attention>,
      lockstep::Residual<Norm, lockstep::SwiGLU<IntermediateSize, HiddenSize>>>;
  using Net =
      lockstep::Sequential<lockstep::Input<MaxPositions>,
                           lockstep::TiedHead<lockstep::Embedding<VocabSize, HiddenSize>,
                                              lockstep::Repeat<NumHiddenLayers, Block>, Norm>>;

  /// For load_weights, Predictor and Generator.
  static lockstep::LoadWeightsOptions file_of_transformers() {
    std::vector<lockstep::WeightsRename> names{{"model.embed_tokens", "tied_head/embedding"},
                                               {"model.norm", "tied_head/rms_normalization"}};
    for (std::size_t i = 0; i < NumHiddenLayers; ++i) {
      const std::string there = "model.layers." + std::to_string(i),
                        here = "tied_head/repeat/sequential" +
                               (i > 0 ? "_" + std::to_string(i) : std::string());
      const std::string attention = here + "/residual/grouped_query_attention",
                        feed_forward = here + "/residual_1/sequential";
      for (const auto& [from, to] :
           {std::pair{".self_attn.q_proj", attention + "/query"},
            {".self_attn.k_proj", attention + "/key"},
            {".self_attn.v_proj", attention + "/value"},
            {".self_attn.o_proj", attention + "/attention_output"},
            {".input_layernorm", here + "/residual/rms_normalization"},
            {".post_attention_layernorm", here + "/residual_1/rms_normalization"},
            {".mlp.gate_proj", feed_forward + "/parallel/dense"},
            {".mlp.up_proj", feed_forward + "/parallel/dense_1"},
            {".mlp.down_proj", feed_forward + "/dense"}})
        names.push_back({there + from, to});
    }
    return {.rename = std::move(names), .layout = lockstep::WeightsLayout::pytorch};
  }
};

}  // namespace examples
