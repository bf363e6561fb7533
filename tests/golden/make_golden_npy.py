"""Writes npy.hpp: small files as NumPy writes them."""

import io
import os
import numpy as np

files = {}


def npy(name, array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    files[name] = buffer.getvalue()


npy("bytes", np.arange(12, dtype="u1").reshape(3, 2, 2) * 20)
for kind in ["b1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8"]:
    npy("of_" + kind, np.array([[0, 1], [3, 100], [7, 2]]).astype(kind))
npy("labels", np.array([4, 5, 6], "i8"))
npy("fortran", np.asfortranarray(np.arange(6.0).reshape(2, 3)))
npy("fortran_3d", np.asfortranarray(np.arange(24, dtype="i2").reshape(4, 2, 3)))
npy("structured", np.array([(1, 2.0)], dtype=[("x", "<f4"), ("y", "<f8")]))
# As NumPy wrote it under Python 2: some numbers are long.
buffer = io.BytesIO()
np.save(buffer, np.arange(6, dtype="f4").reshape(3, 2))
files["python2"] = buffer.getvalue().replace(b"(3, 2), }  ", b"(3L, 2L), }")
npy("text", np.array(["a", "b"]))
npy("single", np.float32(1.5))
buffer = io.BytesIO()
np.savez(buffer, x=np.arange(6, dtype="f4").reshape(3, 2), y=np.array([7, 8, 9], "i4"))
files["archive"] = buffer.getvalue()
buffer = io.BytesIO()
np.savez_compressed(buffer, x=np.arange(6, dtype="f4").reshape(3, 2))
files["compressed"] = buffer.getvalue()

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "npy.hpp")
with open(path, "w") as out:
    out.write("// Written by make_golden_npy.py with NumPy %s.\n#pragma once\n\n#include <string_view>\n\n" % np.__version__)
    out.write("// clang-format off\nnamespace lockstep_test::golden_npy {\n\n")
    out.write("// In hexadecimal digits.\n")
    for name, content in files.items():
        out.write('inline constexpr std::string_view %s = "%s";\n' % (name, content.hex()))
    out.write("\n}  // namespace lockstep_test::golden_npy\n// clang-format on\n")
