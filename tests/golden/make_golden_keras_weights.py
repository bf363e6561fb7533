"""Remakes ../saving/samples/keras.weights.h5, the weights of a small model, with Keras (any version 3, on PyTorch) and h5py:

    KERAS_BACKEND=torch python3 make_golden_keras_weights.py

Element j of the model's array i is (j - 3 i) / 8.
"""

import os
import pathlib

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy

ids = keras.Input((3,), dtype="int32")
words = keras.layers.Embedding(5, 2)(ids)
last = keras.layers.LSTM(2)(words)
branch = keras.layers.Dense(4)(keras.layers.Dense(1)(last))
model = keras.Model(ids, keras.layers.Dense(3)(keras.layers.add([keras.layers.Dense(4)(last), branch])))
model.compile("adam", "mse")
model.optimizer.build(model.trainable_variables)  # the file has its state, too
for i, weight in enumerate(model.weights):
    weight.assign(((numpy.arange(numpy.prod(weight.shape)) - 3 * i) / 8).reshape(weight.shape))
    print(i, weight.path, tuple(weight.shape))
model.save_weights(str(pathlib.Path(__file__).parent.parent / "saving/samples/keras.weights.h5"))
