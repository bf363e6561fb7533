"""Remakes llama.hpp, golden values of what a Llama block needs, with Keras 3 (over PyTorch) and transformers, on the CPU:

    python3 make_golden_llama.py > llama.hpp

Layers in float64, as structs as in make_golden_attention.py: Keras's GroupQueryAttention, and the attention of transformers' Mistral (rotary
positions, fewer heads of keys and values, a sliding window). And a small LlamaForCausalLM: its logits, and the losses of five steps of SGD in
float32, and before these what transformers' generate writes after two prompts, greedily. Its weights are made of hashes in the order of this library's variables, so that a test makes the same.
"""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig
from transformers.models.mistral.modeling_mistral import MistralAttention, MistralRotaryEmbedding

softmax = F.softmax
F.softmax = lambda x, dim, dtype=None: softmax(x, dim=dim)  # (transformers' softmax is in float32)
keras.config.set_floatx("float64")
rng = np.random.default_rng(20261128)


def normal(*shape):
    return rng.normal(size=shape).astype(np.float32).astype(np.float64)


def array(name, values):
    values = np.asarray(values).flatten().tolist()
    body = ",\n      ".join(", ".join(f"{v:.9g}" for v in values[i : i + 10]) for i in range(0, len(values), 10))
    print(f"  static constexpr double {name}[] = {{\n      {body}}};")


def print_struct(name, arrays):
    print(f"\nstruct {name} {{")
    for key, values in arrays.items():
        array(key, values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values)
    print("};")


def keras_group_query(name, samples, positions, width, window, use_bias, **options):
    layer = keras.layers.GroupQueryAttention(sliding_window=window, use_bias=use_bias, **options)
    layer.build((samples, positions, width), (samples, positions, width))
    for variable in layer.weights:
        variable.assign(normal(*variable.shape) / 2)
    x = torch.tensor(normal(samples, positions, width), requires_grad=True)
    y, _ = layer(x, x, use_causal_mask=True, return_attention_scores=True)  # (without scores, by an exp of fewer digits)
    dy = torch.tensor(normal(*y.shape))
    (y * dy).sum().backward()
    arrays = {"x": x, "dy": dy, "y": y, "dx": x.grad}
    for weight in layer.trainable_weights:
        path = "_".join(weight.path.split("/")[-2:])
        arrays |= {path: weight.value, path + "_gradient": weight.value.grad}
    print_struct(name, arrays)


def mistral(name, samples, positions, width, heads, key_value_heads, head_dim, theta, window):
    """Mistral's attention; its kernels are transposed, [inputs][heads * features]."""
    config = MistralConfig(hidden_size=width, num_attention_heads=heads, num_key_value_heads=key_value_heads, head_dim=head_dim,
                           rope_parameters={"rope_type": "default", "rope_theta": theta}, sliding_window=window, attn_implementation="eager")
    attention = MistralAttention(config, 0).double()
    projections = {"query": attention.q_proj, "key": attention.k_proj, "value": attention.v_proj, "attention_output": attention.o_proj}
    with torch.no_grad():
        for projection in projections.values():
            projection.weight.copy_(torch.tensor(normal(*projection.weight.shape) / 2))
    x = torch.tensor(normal(samples, positions, width), requires_grad=True)
    t = torch.arange(positions)
    distance = t[:, None] - t[None, :]
    mask = torch.where((distance >= 0) & (distance < window), 0.0, -1e30).double()[None, None]
    # (In float64: transformers computes cosines and sines in float32.)
    frequencies = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = t.double()[:, None] * frequencies[None, :]
    angles = torch.cat([angles, angles], dim=-1)[None]
    cos, sin = MistralRotaryEmbedding(config)(x.float(), t[None])
    assert torch.allclose(cos.double(), angles.cos(), atol=1e-5) and torch.allclose(sin.double(), angles.sin(), atol=1e-5)
    y, _ = attention(x, (angles.cos(), angles.sin()), mask)
    dy = torch.tensor(normal(*y.shape))
    (y * dy).sum().backward()
    arrays = {"x": x, "dy": dy, "y": y, "dx": x.grad}
    for key, projection in projections.items():
        arrays |= {key + "_kernel": projection.weight.T, key + "_kernel_gradient": projection.weight.grad.T}
    print_struct(name, arrays)


def hashes(first, count):
    """32 bits for each number from `first` on: the finalizer of MurmurHash3."""
    h = np.arange(first, first + count, dtype=np.uint32)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))


def llama():
    vocabulary, positions, samples, layers = 13, 9, 4, 2
    config = LlamaConfig(vocab_size=vocabulary, hidden_size=16, intermediate_size=24, num_hidden_layers=layers, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=False,
                         rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, attn_implementation="eager")
    model = LlamaForCausalLM(config).float().train()
    element = 1

    def fill(parameter, around=0.0):
        """Kernels in this library's layout, [inputs][units]."""
        nonlocal element
        count, is_kernel = parameter.numel(), parameter.dim() == 2 and parameter is not model.model.embed_tokens.weight
        values = (hashes(element, count) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24) - np.float32(0.5) + np.float32(around)
        element += count
        with torch.no_grad():
            parameter.copy_(torch.tensor(values.reshape(parameter.T.shape).T if is_kernel else values.reshape(parameter.shape)))

    fill(model.model.embed_tokens.weight)
    for block in model.model.layers:
        fill(block.input_layernorm.weight, 1)
        for projection in (block.self_attn.q_proj, block.self_attn.k_proj, block.self_attn.v_proj, block.self_attn.o_proj):
            fill(projection.weight)
        fill(block.post_attention_layernorm.weight, 1)
        for projection in (block.mlp.gate_proj, block.mlp.up_proj, block.mlp.down_proj):
            fill(projection.weight)
    fill(model.model.norm.weight, 1)
    fill(model.lm_head.weight)
    ids = torch.tensor((hashes(1_000_000, samples * (positions + 1)) % vocabulary).astype(np.int64).reshape(samples, positions + 1))
    print("\nstruct llama_model {")
    model.eval()
    for name, prompt in (("after_three", ids[3:4, :3]), ("after_six", ids[1:2, :6])):
        written = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=50, eos_token_id=None,
                                 pad_token_id=0)[0]
        with torch.no_grad():
            best = model(written[None]).logits[0, prompt.shape[1] - 1 : -1].topk(2).values
        assert (best[:, 0] - best[:, 1]).min() > 1e-3  # (no choice by rounding)
        array(name, written[prompt.shape[1] :].numpy())
    model.train()
    losses = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(5):
        logits = model(ids[:, :-1]).logits
        if step == 0:
            array("logits", logits.detach().numpy())
        loss = F.cross_entropy(logits.reshape(-1, vocabulary), ids[:, 1:].reshape(-1))
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    array("losses", losses)
    print("};")


print("// Generated by make_golden_llama.py; do not edit.")
print("#pragma once\n\nnamespace lockstep_test::golden {")
# (Heads of 4: Keras over PyTorch rounds 1 / sqrt(head_dim) to float32.)
keras_group_query("group_query", 2, 5, 4, None, True, head_dim=4, num_query_heads=4, num_key_value_heads=2)
keras_group_query("group_query_window", 1, 7, 4, 3, False, head_dim=4, num_query_heads=3, num_key_value_heads=1)
mistral("mistral_attention", 2, 19, 6, 4, 2, 4, 100.0, 5)
llama()
print("\n}  // namespace lockstep_test::golden")
