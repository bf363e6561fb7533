#!/usr/bin/env python3
"""transformers beside ../generation.cpp: peers/generation.py make FOLDER, then benchmark_generation FOLDER, then
peers/generation.py compare FOLDER [THREADS [TOKENS [RUNS]]].

`make` leaves models with random weights in FOLDER, as files of transformers and of llama.cpp, and prompts. `compare` prints how far the logits are from those of
benchmark_generation, whether both write the same tokens greedily, and tokens a second with the cache and without.
"""

import statistics
import struct
import sys
import time

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = {
    "characters": {"vocab_size": 65, "hidden_size": 128, "intermediate_size": 344, "num_hidden_layers": 4, "num_attention_heads": 4},
    "llama": {"vocab_size": 32_000, "hidden_size": 288, "intermediate_size": 768, "num_hidden_layers": 6, "num_attention_heads": 6},
}


def model_of(name):
    config = LlamaConfig(**SIZES[name], max_position_embeddings=256, rms_norm_eps=1e-5, tie_word_embeddings=True, initializer_range=0.06)
    return LlamaForCausalLM(config).float().eval()


def write_gguf(path, config, weights):
    """llama.cpp's file: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md"""

    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    def number(key, value):
        kind, code = ("I", 4) if isinstance(value, int) else ("f", 6)
        return text(f"llama.{key}") + struct.pack(f"<I{kind}", code, value)

    def rotary(weight):  # llama.cpp turns features 2i and 2i + 1 of a head, transformers i and half + i
        heads = config.num_attention_heads
        return weight.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)

    tensors = {"token_embd": weights["model.embed_tokens.weight"], "output_norm": weights["model.norm.weight"]}
    for i in range(config.num_hidden_layers):
        for theirs, ours in {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
                             "attn_output": "self_attn.o_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
                             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}.items():
            weight = weights[f"model.layers.{i}.{ours}.weight"]
            tensors[f"blk.{i}.{theirs}"] = rotary(weight) if theirs in ("attn_q", "attn_k") else weight
    entries = [text(key) + struct.pack("<I", 8) + text(value) for key, value in
               {"general.architecture": "llama", "tokenizer.ggml.model": "none"}.items()]
    entries += [number(key, value) for key, value in {
        "vocab_size": config.vocab_size, "context_length": config.max_position_embeddings, "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers, "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads, "attention.layer_norm_rms_epsilon": config.rms_norm_eps}.items()]
    head, body = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries), b""
    for name, weight in tensors.items():
        head += text(f"{name}.weight") + struct.pack(f"<I{weight.dim()}QIQ", weight.dim(), *reversed(weight.shape), 0, len(body))
        body += weight.contiguous().numpy().tobytes()
        body += bytes(-len(body) % 32)
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32) + body)


def make(folder):
    for name in SIZES:
        torch.manual_seed(1)
        model = model_of(name)
        weights = {key: value.contiguous() for key, value in model.state_dict().items() if key != "lm_head.weight"}
        save_file(weights, f"{folder}/{name}.safetensors")
        write_gguf(f"{folder}/{name}.gguf", model.config, {key: value.detach() for key, value in weights.items()})
        ids = torch.randint(0, SIZES[name]["vocab_size"], (40,)).tolist()
        with open(f"{folder}/{name}.ids", "w") as file:
            print(*ids, file=file)


def compare(folder, threads, tokens, runs):
    import numpy as np

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    for name in SIZES:
        model = model_of(name)
        model.load_state_dict(load_file(f"{folder}/{name}.safetensors"), strict=False)
        model.tie_weights()
        ids = torch.tensor([[int(id) for id in open(f"{folder}/{name}.ids").read().split()]])
        ours = np.fromfile(f"{folder}/{name}.logits", np.float32).reshape(ids.shape[1], -1)
        theirs = model(ids).logits[0].numpy()
        print(f"{name}: logits up to {abs(theirs).max():.2f} differ by at most {abs(ours - theirs).max():.1e}")

        def write(count, cached):
            return model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=count, min_new_tokens=count,
                                  use_cache=cached, pad_token_id=0)[0, ids.shape[1] :]

        same = write(tokens, True).numpy() == np.fromfile(f"{folder}/{name}.tokens", np.uint32)[:tokens]
        print(f"{name}: {same.argmin() if not same.all() else tokens} of {tokens} tokens are equal, up to the first that is not")
        for cached in True, False:
            count = tokens if cached else tokens // 5  # (the text becomes longer)
            speeds = []
            for _ in range(runs):
                begin = time.perf_counter()
                model(ids)
                read = time.perf_counter() - begin
                begin = time.perf_counter()
                write(count, cached)
                speeds.append((count - 1) / (time.perf_counter() - begin - read))
            print(f"{name}: {statistics.median(speeds):.1f} tokens/s {'with' if cached else 'without'} the cache; prompt {1e3 * read:.2f} ms")


if sys.argv[1] == "make":
    make(sys.argv[2])
else:
    compare(sys.argv[2], *(int(a) for a in (sys.argv[3:] + ["2", "200", "3"][len(sys.argv) - 3 :])))
