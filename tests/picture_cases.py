"""Writes picture_cases.h, small files of pictures and what Pillow makes of them, and resize_cases.h, pictures in other sizes.

python3 picture_cases.py FOLDER      # needs Pillow and NumPy
"""

import io
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

rng = np.random.default_rng(7)


later = np.random.default_rng(8)  # of cases that came later, so that the earlier ones stay


def texture(height: int, width: int, channels: int, draw: np.random.Generator = rng) -> np.ndarray:
    """Slopes under noise."""
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    slopes = 40 + 150 * y / height + 50 * np.sin(x / 2 + c)
    return np.clip(slopes + draw.integers(-30, 31, slopes.shape), 0, 255).astype(
        np.uint8
    )


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    """Bytes of a file."""
    out = io.BytesIO()
    image.save(out, kind, **options)  # type: ignore[arg-type]
    return out.getvalue()


def raw_png(
    width: int,
    height: int,
    depth: int,
    color: int,
    rows: list[bytes],
    interlace: int = 0,
) -> bytes:
    """A PNG of unfiltered rows, for forms that Pillow does not write."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data))
            + name
            + data
            + struct.pack(">I", zlib.crc32(name + data))
        )

    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", data)
        + chunk(b"IEND", b"")
    )


def adam7(pixels: np.ndarray) -> list[bytes]:
    """Rows of an interlaced picture."""
    passes = [
        (0, 0, 8, 8),
        (0, 4, 8, 8),
        (4, 0, 8, 4),
        (0, 2, 4, 4),
        (2, 0, 4, 2),
        (0, 1, 2, 2),
        (1, 0, 2, 1),
    ]
    return [
        row.tobytes()
        for y, x, dy, dx in passes
        for row in pixels[y::dy, x::dx]
        if row.size
    ]


def orientation(number: int) -> bytes:
    """EXIF that says it; 9 has no meaning."""
    exif = Image.Exif()
    exif[0x0112] = number
    return exif.tobytes()


def upright(name: str, image: Image.Image) -> np.ndarray:
    """What Pillow shows, as colours. Of 16 bits of grey the upper 8, which its convert clips to white."""
    if "16 bits" in name and image.mode.startswith("I;16"):
        return np.repeat((np.asarray(image) >> 8).astype(np.uint8)[:, :, None], 3, 2)
    return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def files() -> dict[str, tuple[bytes, int]]:
    """Files by name, and how far from Pillow's values they may be: versions of libjpeg differ by 1."""
    rgb, grey = (
        Image.fromarray(texture(11, 13, 3)),
        Image.fromarray(texture(11, 13, 1)[:, :, 0]),
    )
    alpha = Image.fromarray(texture(11, 13, 1)[:, :, 0])
    rgba, la, colours = rgb.copy(), grey.copy(), rgb.quantize(12)
    rgba.putalpha(alpha)
    la.putalpha(alpha)
    wide = rng.integers(0, 65536, (5, 6, 3)).astype(">u2")
    wide_la = rng.integers(0, 65536, (5, 6, 2)).astype(">u2")
    deep = rng.integers(0, 256, (5, 3)).astype(np.uint8)
    frames = [Image.fromarray(texture(6, 7, 3)) for _ in range(3)]
    small = Image.fromarray(texture(8, 5, 3, later))
    turned = {
        f"turned {kind} {n}": (saved(small, kind, exif=orientation(n), **options), slack)
        for kind, slack, options, numbers in (
            ("jpeg", 1, {"quality": 90, "subsampling": 0}, range(1, 10)),
            ("png", 0, {}, (2, 6, 9)),
        )
        for n in numbers
    }
    transparent = small.quantize(8)
    others = {
        "webp": (saved(small, "webp", lossless=True), 0),
        "lossy webp": (saved(Image.fromarray(texture(11, 13, 3, later)), "webp", quality=90), 2),
        "webp with alpha": (saved(rgba, "webp", lossless=True, exact=True), 0),
        "turned webp": (saved(small, "webp", lossless=True, exif=orientation(6)), 0),
        "gif": (saved(small.quantize(40), "gif", optimize=False), 0),
        "interlaced gif": (saved(rgb.quantize(60), "gif", interlace=1), 0),
        "transparent gif": (saved(transparent, "gif", transparency=2), 0),
        "animated gif": (saved(frames[0].quantize(30), "gif", save_all=True, append_images=frames[1:]), 0),
        "tiff": (saved(small, "tiff"), 0),
        "packed tiff": (saved(rgb, "tiff", compression="tiff_lzw"), 0),
        "deflated tiff": (saved(rgba, "tiff", compression="tiff_adobe_deflate"), 0),
        "grey tiff": (saved(grey, "tiff"), 0),
        "bits as tiff": (saved(grey.convert("1"), "tiff", compression="group4"), 0),
        "palette tiff": (saved(colours, "tiff"), 0),
        "turned tiff": (saved(small, "tiff", tiffinfo={274: 6}), 0),
        "tiff of 16 bits of grey": (saved(Image.fromarray(later.integers(0, 65536, (5, 6)).astype("u2")), "tiff"), 1),
    }
    deep_grey = later.integers(0, 65536, (5, 6)).astype(">u2")
    turned["grey of 16 bits"] = raw_png(6, 5, 16, 0, [row.tobytes() for row in deep_grey]), 0
    return {
        "rgb": (saved(rgb, "png"), 0),
        "grey": (saved(grey, "png"), 0),
        "bits": (saved(grey.convert("1"), "png"), 0),
        "grey of 4 bits": (raw_png(6, 5, 4, 0, [row.tobytes() for row in deep]), 0),
        "grey of 2 bits": (raw_png(12, 5, 2, 0, [row.tobytes() for row in deep]), 0),
        "rgba": (saved(rgba, "png"), 0),
        "grey and alpha": (saved(la, "png"), 0),
        "palette": (saved(rgb.quantize(140), "png"), 0),
        "palette of 4 bits": (saved(colours, "png"), 0),
        "palette with transparency": (saved(colours, "png", transparency=3), 0),
        "rgb with transparency": (saved(rgb, "png", transparency=(1, 2, 3)), 0),
        "rgb of 16 bits": (raw_png(6, 5, 16, 2, [row.tobytes() for row in wide]), 0),
        "grey and alpha of 16 bits": (
            raw_png(6, 5, 16, 4, [row.tobytes() for row in wide_la]),
            0,
        ),
        "interlaced": (raw_png(13, 11, 8, 2, adam7(np.asarray(rgb)), 1), 0),
        "animated": (
            saved(frames[0], "png", save_all=True, append_images=frames[1:]),
            0,
        ),
        "jpeg": (saved(rgb, "jpeg", quality=95, subsampling=0), 1),
        "jpeg of half colours": (saved(rgb, "jpeg", quality=80), 1),
        "progressive jpeg": (saved(rgb, "jpeg", quality=90, progressive=True), 1),
        "grey jpeg": (saved(grey, "jpeg"), 1),
        "jpeg of inks": (saved(rgb.convert("CMYK"), "jpeg", quality=95), 2),
    } | turned | others


class Header:
    """A file of C arrays; equal ones are written once."""

    def __init__(self) -> None:
        self.lines = [
            "/* Made by picture_cases.py: do not edit. */",
            "/* clang-format off */",
        ]
        self.arrays: dict[bytes, str] = {}

    def array(self, name: str, data: bytes) -> str:
        """The name of the array that has these bytes."""
        if data not in self.arrays:
            self.arrays[data] = name
            rows = [
                "    " + "".join(f"{b}, " for b in data[at : at + 32]).rstrip()
                for at in range(0, len(data), 32)
            ]
            self.lines += [f"static const uint8_t {name}[] = {{", *rows, "};"]
        return self.arrays[data]

    def write(self, path: Path) -> None:
        """With what it needs."""
        body = [
            *self.lines[:2],
            "#include <stddef.h>",
            "#include <stdint.h>",
            "",
            *self.lines[2:],
            "/* clang-format on */",
            "",
        ]
        path.write_text("\n".join(body))


def pictures() -> Header:
    """Files, and their pixels."""
    header, rows = Header(), []
    for i, (name, (data, slack)) in enumerate(files().items()):
        image = Image.open(io.BytesIO(data))
        file = header.array(f"picture_{i}", data)
        assert file == f"picture_{i}", f"{name} is the same file as another one"
        shown = upright(name, image)
        pixels = header.array(f"pixels_{i}", shown.tobytes())
        ending = next((f".{kind}" for kind in ("webp", "gif", "tiff") if kind in name), ".png")
        rows.append(f'  {{"{name}", "{ending}", {file}, sizeof {file}, {pixels}, {shown.shape[1]}, {shown.shape[0]}, {slack}}},')
    header.lines += [
        "static const struct picture_case {", "  const char *name, *ending;", "  const uint8_t *file;", "  size_t size;",
        "  const uint8_t *pixels; /* [height, width, 3], as Pillow converts them */", "  int width, height, slack;",
        "} picture_cases[] = {", *rows, "};",
    ]  # fmt: skip
    return header


def resizes() -> Header:
    """A picture, and boxes of it in other sizes."""
    header, rows = Header(), []
    source = Image.fromarray(texture(21, 29, 3))
    header.array("resize_source", source.tobytes())
    boxes = [
        (0, 0, 29, 21, 10, 10),
        (0, 0, 29, 21, 29, 9),
        (0, 0, 29, 21, 40, 33),
        (3, 5, 20, 16, 12, 13),
    ]
    boxes += [
        (22, 1, 7, 2, 3, 9),
        (0, 0, 29, 21, 1, 1),
        (10, 11, 1, 1, 4, 4),
        (0, 0, 29, 21, 28, 20),
    ]
    for i, (left, top, width, height, to_width, to_height) in enumerate(boxes):
        box = source.crop((left, top, left + width, top + height))
        resized = header.array(
            f"resized_{i}",
            box.resize((to_width, to_height), Image.Resampling.BILINEAR).tobytes(),
        )
        rows.append(
            f"  {{{left}, {top}, {width}, {height}, {to_width}, {to_height}, {resized}}},"
        )
    header.lines += [
        "enum { RESIZE_WIDTH = 29, RESIZE_HEIGHT = 21 };", "static const struct resize_case {",
        "  int left, top, width, height, to_width, to_height;", "  const uint8_t *pixels;", "} resize_cases[] = {", *rows, "};",
    ]  # fmt: skip
    return header


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    pictures().write(folder / "picture_cases.h")
    resizes().write(folder / "resize_cases.h")
