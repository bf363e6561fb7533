#!/usr/bin/env python3
"""Training steps of two of the models in ../deep_models.hpp in TensorFlow (Keras) on the CPU.

One batch, over and over. Output and variants are those of tensorflow_step.py. (Its GPTs are slower
than PyTorch's and would take most of the time.)
"""

import timing
import tensorflow_step
import tensorflow as tf

layers = tf.keras.layers


def residual(x, filters, stride):
    y = layers.Conv2D(filters, 3, stride, padding="same", use_bias=False)(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.BatchNormalization()(layers.Conv2D(filters, 3, padding="same", use_bias=False)(y))
    if stride != 1:
        x = layers.BatchNormalization()(layers.Conv2D(filters, 1, stride, padding="same", use_bias=False)(x))
    return layers.ReLU()(layers.Add()([x, y]))


def resnet():
    x = first = layers.Input((32, 32, 3))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(16, 3, padding="same", use_bias=False)(x)))
    for filters in (16, 32, 64):
        for block in range(3):
            x = residual(x, filters, 2 if block == 0 and filters > 16 else 1)
    model = tf.keras.Model(first, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))
    optimizer = tf.keras.optimizers.SGD(1e-3, momentum=0.9)
    return model, optimizer, tf.random.uniform((128, 32, 32, 3)), tf.random.uniform((128,), maxval=10, dtype=tf.int32)


def bilstm():
    model = tf.keras.Sequential([
        layers.Input((200,)), layers.Embedding(20_000, 128), layers.Bidirectional(layers.LSTM(64, return_sequences=True)),
        layers.Bidirectional(layers.LSTM(64)), layers.Dense(2)])
    x = tf.random.uniform((32, 200), maxval=20_000, dtype=tf.int32)
    return model, tf.keras.optimizers.Adam(1e-4), x, tf.random.uniform((32,), maxval=2, dtype=tf.int32)


MODELS = {"resnet": resnet, "bilstm": bilstm}


def make_step(name, variant):
    tf.keras.utils.set_random_seed(1)
    model, optimizer, x, y = MODELS[name]()
    optimizer.build(model.trainable_variables)
    loss_function = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function(jit_compile=variant == "xla")
    def step():
        with tf.GradientTape() as tape:
            loss = loss_function(y, model(x, training=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    return lambda: step().numpy()


if __name__ == "__main__":
    timing.run(__doc__, "function,xla", tensorflow_step.set_threads, make_step, models=",".join(MODELS))
