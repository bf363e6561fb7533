"""Writes augmentation.hpp: what Keras's image layers do with a factor that is no range. Needs Keras and TensorFlow."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import numpy as np

L = keras.layers
rows, columns, channels = 4, 5, 2
image = np.array([(37 * i * i + 11 * i) % 101 for i in range(rows * columns * channels)], "float32")
batch = image.reshape(1, rows, columns, channels)
cases = {
    "rotated": L.RandomRotation((0.07, 0.07)),
    "rotated_back_constant": L.RandomRotation((-0.2, -0.2), fill_mode="constant", fill_value=7.0),
    "rotated_nearest": L.RandomRotation((0.13, 0.13), fill_mode="nearest", interpolation="nearest"),
    "translated": L.RandomTranslation((0.3, 0.3), (-0.25, -0.25)),
    "translated_constant": L.RandomTranslation((-0.4, -0.4), (0.1, 0.1), fill_mode="constant", fill_value=3.0),
    "zoomed_out": L.RandomZoom((0.3, 0.3)),
    "zoomed_in": L.RandomZoom((-0.3, -0.3), (-0.1, -0.1), fill_mode="nearest"),
    "contrast": L.RandomContrast(0.6, value_range=(0, 90)),
}
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "augmentation.hpp")
with open(path, "w") as out:
    out.write("// Written by make_golden_augmentation.py with Keras %s.\n#pragma once\n\n" % keras.__version__)
    out.write("// clang-format off\nnamespace lockstep_test::golden_augmentation {\n\n")
    out.write("inline constexpr unsigned rows = %d, columns = %d, channels = %d;\n" % (rows, columns, channels))
    for name, layer in cases.items():
        if name == "contrast":  # Keras takes no range below its bounds: its function is called instead
            values = layer.transform_images(batch, {"contrast_factor": np.full((1, 1, 1, 1), 1.6, "float32")})
        else:
            values = layer(batch, training=True)
        numbers = ", ".join("%.7g" % v for v in np.array(values).reshape(-1))
        out.write("inline constexpr double %s[] = {%s};\n" % (name, numbers))
    out.write("\n}  // namespace lockstep_test::golden_augmentation\n// clang-format on\n")
