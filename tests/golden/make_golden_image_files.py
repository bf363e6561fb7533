"""Writes image_files.hpp: PNG and JPEG of all kinds, and what Pillow makes of them."""

import io
import os
import struct
import zlib

import numpy as np
import PIL
from PIL import Image, ImageCms

HEIGHT, WIDTH = 3, 6
GREY, RGB, PALETTE, GREY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGB_ALPHA: 4}
# Adam7: first row, first column, distance of rows, of columns.
PASSES = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
random = np.random.default_rng(5)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def rows(pixels, depth):
    data = b""
    for row in pixels:
        if depth == 16:
            line = row.astype(">u2").tobytes()
        else:
            bits = "".join(format(int(v), "0%db" % depth) for v in row.reshape(-1))
            bits += "0" * (-len(bits) % 8)
            line = bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))
        data += b"\0" + line
    return data


def png(pixels, depth, colour, interlaced, extra=b""):
    data = b""
    for first_row, first_column, down, right in PASSES if interlaced else [(0, 0, 1, 1)]:
        part = pixels[first_row::down, first_column::right]
        if part.size:
            data += rows(part, depth)
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b"")


def pillow(data):
    image = Image.open(io.BytesIO(data))
    if image.mode == "I;16":
        return np.repeat((np.asarray(image) >> 8).astype("u1")[..., None], 3, 2)
    return np.asarray(image.convert("RGB"))


# What a reader of colours would apply.
profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("XYZ")).tobytes()
chunks = {
    "gAMA 1.0": chunk(b"gAMA", struct.pack(">I", 100000)),
    "gAMA 0.45455": chunk(b"gAMA", struct.pack(">I", 45455)),
    "gAMA 0.55556": chunk(b"gAMA", struct.pack(">I", 55556)),
    "sRGB": chunk(b"sRGB", b"\0"),
    "cHRM": chunk(b"cHRM", struct.pack(">8I", 34570, 35850, 73470, 26530, 11520, 82600, 15660, 1770)),
    "iCCP": chunk(b"iCCP", b"p\0\0" + zlib.compress(profile, 9)),
    "sBIT": chunk(b"sBIT", b"\x04"),
    "tEXt": chunk(b"tEXt", b"Comment\0text"),
}
pngs, jpegs = [], []
for colour, depths in [(GREY, [1, 2, 4, 8, 16]), (RGB, [8, 16]), (PALETTE, [1, 2, 4, 8]), (GREY_ALPHA, [8, 16]), (RGB_ALPHA, [8, 16])]:
    for depth in depths:
        pixels = random.integers(0, 1 << depth, (HEIGHT, WIDTH, CHANNELS[colour]))
        if depth == 16:
            pixels[0, 0] = 0x8080
        palette = b""
        if colour == PALETTE:
            palette = chunk(b"PLTE", random.integers(0, 256, 3 << depth, dtype="u1").tobytes())
        transparent = {
            GREY: struct.pack(">H", int(pixels[0, 0, 0])),
            RGB: pixels[0, 0].astype(">u2").tobytes(),
            PALETTE: b"\0\x80",
        }.get(colour)
        for interlaced in (False, True):
            for with_transparency in (False, True) if transparent else (False,):
                extra = palette + (chunk(b"tRNS", transparent) if with_transparency else b"")
                data = png(pixels, depth, colour, interlaced, extra)
                name = "%s %d%s%s" % (
                    {GREY: "grey", RGB: "RGB", PALETTE: "palette", GREY_ALPHA: "grey and alpha", RGB_ALPHA: "RGB and alpha"}[colour],
                    depth,
                    " interlaced" if interlaced else "",
                    " tRNS" if with_transparency else "",
                )
                values = pillow(data)
                for more in chunks.values():
                    assert (pillow(data[:33] + more + data[33:]) == values).all(), name
                pngs.append((name, data, values))

ramp = np.arange(64).reshape(8, 8)
inks = np.stack([ramp * 4, 255 - ramp * 3, ramp * 2 + 40, ramp * 2], -1).astype("u1")
file = io.BytesIO()
Image.fromarray(inks, "CMYK").save(file, "JPEG", quality=100, subsampling=0)
cmyk = file.getvalue()
at = cmyk.index(b"\xff\xee")
assert cmyk[at + 4 : at + 9] == b"Adobe" and cmyk[at + 15] == 0
jpegs.append(("CMYK", cmyk, pillow(cmyk)))
ycck = cmyk[: at + 15] + b"\2" + cmyk[at + 16 :]
jpegs.append(("YCCK", ycck, pillow(ycck)))
# Without Adobe's marker, 0 is no ink, as in TensorFlow; Pillow takes it for Adobe's all the same.
plain = cmyk[:at] + cmyk[at + 16 :]
stored = 255 - np.asarray(Image.open(io.BytesIO(plain))).astype(int)
jpegs.append(("CMYK without Adobe's marker", plain, np.rint((255 - stored[..., :3]) * (255 - stored[..., 3:]) / 255)))
file = io.BytesIO()
Image.fromarray(inks[..., 0]).save(file, "JPEG", quality=100)
jpegs.append(("grey", file.getvalue(), pillow(file.getvalue())))
file = io.BytesIO()
Image.fromarray(inks[..., :3]).save(file, "JPEG", quality=100, subsampling=0, progressive=True)
jpegs.append(("progressive", file.getvalue(), pillow(file.getvalue())))
print("scans of the progressive one:", file.getvalue().count(b"\xff\xda"))

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "image_files.hpp")
with open(path, "w") as out:
    out.write("// Written by make_golden_image_files.py with Pillow %s.\n#pragma once\n\n#include <string_view>\n\n" % PIL.__version__)
    out.write("// clang-format off\nnamespace lockstep_test::golden_image_files {\n\n// Files and pixels (red, green, blue) in hexadecimal digits.\n")
    out.write("struct Case {\n  std::string_view name, file, rgb;\n};\n")
    for name, cases in (("pngs", pngs), ("jpegs", jpegs)):
        out.write("inline constexpr Case %s[] = {\n" % name)
        for case, data, values in cases:
            out.write('    {"%s", "%s", "%s"},\n' % (case, data.hex(), values.astype("u1").tobytes().hex()))
        out.write("};\n")
    out.write("// Parts of a PNG that change no number; they stand behind the first 33 bytes.\n")
    out.write("struct Chunk {\n  std::string_view name, bytes;\n};\ninline constexpr Chunk chunks[] = {\n")
    for name, data in chunks.items():
        out.write('    {"%s", "%s"},\n' % (name, data.hex()))
    out.write("};\n\n}  // namespace lockstep_test::golden_image_files\n// clang-format on\n")
