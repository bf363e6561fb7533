"""Remakes attention.hpp, the golden values of attention and embeddings, with Keras 3 (TensorFlow) and PyTorch, on the CPU:

    python3 make_golden_attention.py > attention.hpp

All figures are computed in float64 and printed with 9 digits, enough for a float. Arrays are in Keras's order: [sample][position][feature].
Gradients are those of sum(y * dy). (Structs, so that a case is a template argument.)
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf
import torch
import torch.nn.functional as F

keras.config.set_floatx("float64")
rng = np.random.default_rng(20241119)


def normal(*shape):
    return rng.normal(size=shape).astype(np.float32).astype(np.float64)


def array(name, values):
    values = np.asarray(values).flatten().tolist()
    body = ",\n      ".join(", ".join(f"{v:.9g}" for v in values[i : i + 10]) for i in range(0, len(values), 10))
    print(f"  static constexpr double {name}[] = {{\n      {body}}};")


def keras_attention(name, query, value, mask=None, value_mask=None, causal=False, **options):
    """Keras's MultiHeadAttention; self attention where value is None. Masks: [sample][position]."""
    layer = keras.layers.MultiHeadAttention(**options)
    own = value is None
    x = tf.Variable(query)
    m = x if own else tf.Variable(value)
    layer.build(x.shape, m.shape)
    for variable in layer.weights:
        variable.assign(normal(*variable.shape) / 2)
    with tf.GradientTape() as tape:
        # With the scores Keras computes what its documentation says; without, dot_product_attention, where a query that sees nothing
        # has the mean of all values.
        tokens = tf.identity(x)
        if mask is not None:
            tokens._keras_mask = tf.constant(mask)  # as Embedding leaves it; an argument query_mask has no effect
        values_mask = mask if own else value_mask
        y, _ = layer(tokens, tokens if own else m, value_mask=values_mask, use_causal_mask=causal, return_attention_scores=True)
        dy = normal(*y.shape)
        loss = tf.reduce_sum(y * dy)
    weights = layer.trainable_weights
    gradients = tape.gradient(loss, [x, *([] if own else [m]), *[w.value for w in weights]])
    print(f"\nstruct {name} {{")
    array("x", query)
    if not own:
        array("m", value)
    if mask is not None:
        array("mask", mask)
    if value_mask is not None:
        array("value_mask", value_mask)
    array("dy", dy)
    array("y", y)
    array("dx", gradients.pop(0))
    if not own:
        array("dm", gradients.pop(0))
    for weight, gradient in zip(weights, gradients):
        path = "_".join(weight.path.split("/")[-2:])
        array(path, weight)
        array(path + "_gradient", gradient)
    print("};")


def plain_attention(name, layer, mask=None, value_mask=None, causal=False):
    """Keras's Attention or AdditiveAttention of two tensors."""
    x, m = tf.Variable(normal(2, 3, 4)), tf.Variable(normal(2, 5, 4))
    layer.build([x.shape, m.shape])
    for variable in layer.weights:
        variable.assign(normal(*variable.shape))
    dy = normal(*x.shape)
    masks = None if mask is None else [tf.constant(mask), tf.constant(value_mask)]
    with tf.GradientTape() as tape:
        y = layer([tf.identity(x), tf.identity(m)], mask=masks, use_causal_mask=causal)
        loss = tf.reduce_sum(y * dy)
    gradients = tape.gradient(loss, [x, m, *[w.value for w in layer.trainable_weights]])
    print(f"\nstruct {name} {{")
    for key, values in {"x": x, "m": m, "dy": dy, "y": y, "dx": gradients.pop(0), "dm": gradients.pop(0)}.items():
        array(key, values)
    array("mask", np.ones((2, 3)) if mask is None else mask)
    array("value_mask", np.ones((2, 5)) if mask is None else value_mask)
    print(f"  static constexpr unsigned weights = {len(layer.trainable_weights)};")
    flat = lambda arrays: np.concatenate([np.zeros(0), *[np.asarray(a).flatten() for a in arrays]]) if arrays else np.zeros(1)
    array("weight", flat(layer.trainable_weights))
    array("weight_gradient", flat(gradients))
    print("};")


def torch_attention(name, samples, positions, width, heads):
    """Causal self attention without biases, as GPT has it: scaled_dot_product_attention between products."""
    head = width // heads
    names = ("query_kernel", "key_kernel", "value_kernel", "attention_output_kernel")
    x = torch.tensor(normal(samples, positions, width), requires_grad=True)
    weights = [torch.tensor(normal(width, width) / 2, requires_grad=True) for _ in names]

    def split(projected):
        return projected.view(samples, positions, heads, head).transpose(1, 2)

    q, k, v = (split(x @ w) for w in weights[:3])
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(samples, positions, width) @ weights[3]
    dy = torch.tensor(normal(*y.shape))
    (y * dy).sum().backward()
    print(f"\nstruct {name} {{")
    for key, tensor in {"x": x, "dy": dy, "y": y, "dx": x.grad}.items():
        array(key, tensor.detach().numpy())
    for key, weight in zip(names, weights):
        array(key, weight.detach().numpy())
        array(key + "_gradient", weight.grad.numpy())
    print("};")


def embedding(name, vocabulary, width, ids):
    """Token and position embedding, summed."""
    ids = np.array(ids)
    token, position = (torch.tensor(normal(n, width), requires_grad=True) for n in (vocabulary, ids.shape[1] + 1))
    y = F.embedding(torch.tensor(ids), token) + position[: ids.shape[1]]
    dy = torch.tensor(normal(*y.shape))
    (y * dy).sum().backward()
    print(f"\nstruct {name} {{")
    array("x", ids)
    for key, tensor in {"dy": dy, "y": y, "token": token, "token_gradient": token.grad, "position": position,
                        "position_gradient": position.grad}.items():
        array(key, tensor.detach().numpy())
    print("};")


print("// Generated by make_golden_attention.py; do not edit.")
print("#pragma once\n\nnamespace lockstep_test::golden {")
masks = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]], dtype=bool)
sizes = {"num_heads": 2, "key_dim": 3, "value_dim": 2}
keras_attention("attention_plain", normal(2, 5, 4), None, **sizes)
keras_attention("attention_masked", normal(2, 5, 4), None, mask=masks, **sizes)
keras_attention("attention_masked_causal", normal(2, 5, 4), None, mask=masks, causal=True, **sizes)
keras_attention("attention_output_shape", normal(1, 3, 4), None, causal=True, use_bias=False, output_shape=5, num_heads=1, key_dim=2)
keras_attention("attention_cross", normal(2, 3, 4), normal(2, 5, 6), mask=masks[:, 1:4], value_mask=masks, **sizes)
torch_attention("attention_torch", 1, 17, 4, 2)
embedding("embedding_and_positions", 7, 3, [[6, 0, 3, 3], [1, 6, 6, 2], [0, 0, 0, 5]])
both = {"mask": masks[:, 1:4], "value_mask": masks}
layers = keras.layers
plain_attention("attention_dot", layers.Attention(), **both)
plain_attention("attention_dot_scaled", layers.Attention(use_scale=True), causal=True)
plain_attention("attention_concat", layers.Attention(score_mode="concat"), causal=True)
plain_attention("attention_concat_scaled", layers.Attention(use_scale=True, score_mode="concat"), **both)
plain_attention("attention_additive", layers.AdditiveAttention(), **both)
plain_attention("attention_additive_plain", layers.AdditiveAttention(use_scale=False), causal=True)
print("\n}  // namespace lockstep_test::golden")
