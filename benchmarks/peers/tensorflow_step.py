#!/usr/bin/env python3
"""Training steps of the models in ../models.hpp in TensorFlow (Keras) on the CPU.

One batch, over and over. Prints a CSV line for each repetition:
"step/MODEL/THREADS","VARIANT",milliseconds; of processor time with one thread, which other programs
disturb little. Variants: function (the step as one tf.function), xla (the same with
jit_compile=True).
"""

import os

import timing

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import tensorflow as tf  # noqa: E402 (it reads the environment)

layers = tf.keras.layers


def cnn():
    return [layers.Conv2D(32, 3, activation="relu"), layers.Flatten(), layers.Dense(128, activation="relu"),
            layers.Dense(10)], (64, 28, 28, 1)


def mlp():
    return [layers.Dense(512, activation="relu"), layers.Dense(512, activation="relu"), layers.Dense(10)], (128, 784)


def cifar():
    stack = []
    for filters in (32, 64, 128):
        stack += [layers.Conv2D(filters, 3, padding="same"), layers.BatchNormalization(), layers.ReLU(), layers.MaxPooling2D(2)]
    return stack + [layers.Flatten(), layers.Dense(10)], (64, 32, 32, 3)


MODELS = {"cnn": cnn, "mlp": mlp, "cifar": cifar}


def make_step(name, variant):
    tf.keras.utils.set_random_seed(1)
    stack, shape = MODELS[name]()
    model = tf.keras.Sequential([layers.Input(shape[1:]), *stack])
    x = tf.random.uniform(shape)
    y = tf.random.uniform(shape[:1], maxval=10, dtype=tf.int32)
    loss_function = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function(jit_compile=variant == "xla")
    def step():
        with tf.GradientTape() as tape:
            loss = loss_function(y, model(x, training=True))
        for variable, gradient in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
            variable.assign_sub(1e-4 * gradient)  # SGD
        return loss

    return lambda: step().numpy()


def set_threads(threads):
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)


if __name__ == "__main__":
    timing.run(__doc__, "function,xla", set_threads, make_step)
