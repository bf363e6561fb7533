"""Writes images.hpp: small files as TensorFlow writes them, and what it makes of them."""

import os
import numpy as np
import tensorflow as tf

rgb = np.array([[[(40 * r + 90 * c * c + 50 * k) % 256 for k in range(3)] for c in range(4)] for r in range(3)], "uint8")
smooth = np.array([[[100 + 5 * r + 3 * c, 60 + 2 * r, 200 - 4 * c] for c in range(16)] for r in range(8)], "uint8")
alpha = np.concatenate([rgb, np.full((3, 4, 1), 77, "uint8")], -1)
grey = rgb[..., :1]
files = {
    "png": tf.io.encode_png(rgb).numpy(),
    "png_with_alpha": tf.io.encode_png(alpha).numpy(),
    "png_of_grey": tf.io.encode_png(grey).numpy(),
    "jpeg": tf.io.encode_jpeg(smooth, quality=100, chroma_downsampling=False).numpy(),
}
arrays = {
    "rgb": rgb,
    "grey": grey,
    "smooth": smooth,
    "larger": tf.image.resize(rgb, (5, 7)).numpy(),
    "smaller": tf.image.resize(rgb, (2, 2)).numpy(),
}
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "images.hpp")
with open(path, "w") as out:
    out.write("// Written by make_golden_images.py with TensorFlow %s.\n#pragma once\n\n#include <string_view>\n\n" % tf.__version__)
    out.write("// clang-format off\nnamespace lockstep_test::golden_images {\n\n// Files in hexadecimal digits.\n")
    for name, content in files.items():
        out.write('inline constexpr std::string_view %s = "%s";\n' % (name, content.hex()))
    for name, array in arrays.items():
        numbers = ", ".join("%.7g" % v for v in np.asarray(array, "float64").reshape(-1))
        out.write("inline constexpr double %s[] = {%s};\n" % (name, numbers))
    out.write("\n}  // namespace lockstep_test::golden_images\n// clang-format on\n")
