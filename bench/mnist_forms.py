#!/usr/bin/env python3
"""Trains LeNet on MNIST in three forms, idx files, a folder of PNG files and npz, and compares the weights bit for bit.

    mnist_forms.py MNIST FOLDER [--neap build/neap]      (MNIST has idx files, compressed or not; needs numpy and pillow)

FOLDER is made where it is missing. Names of the PNG files are numbers, so that records have the same order. Prints a table in
Markdown; the exit status is 1 where a `weights_sha256` differs."""

import argparse
import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy
from PIL import Image

LENGTHS = (("--steps", "3"), ("--epochs", "1"))
PARTS = {"train": "train", "test": "t10k"}


def idx(path: Path, header: int) -> numpy.ndarray:
    content = path.read_bytes() if path.exists() else gzip.decompress(path.with_name(path.name + ".gz").read_bytes())
    return numpy.frombuffer(content, numpy.uint8, offset=header)


def write(mnist: Path, folder: Path) -> None:
    arrays = {}
    for part, name in PARTS.items():
        images = idx(mnist / f"{name}-images-idx3-ubyte", 16).reshape(-1, 28, 28)
        labels = idx(mnist / f"{name}-labels-idx1-ubyte", 8)
        arrays |= {f"x_{part}": images, f"y_{part}": labels}
        for label in range(10):
            (folder / part / str(label)).mkdir(parents=True)
        for i, (image, label) in enumerate(zip(images, labels, strict=True)):
            Image.fromarray(image).save(folder / part / str(label) / f"{i:05d}.png", compress_level=1)
    numpy.savez(folder / "mnist.npz", **arrays)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mnist", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--neap", default="build/neap")
    args = parser.parse_args()
    if not args.folder.is_dir():
        write(args.mnist, args.folder)
    forms = (f"mnist:{args.mnist}", f"images:{args.folder}", f"npz:{args.folder}/mnist.npz")
    equal = True
    print("| length | data | test accuracy | weights_sha256 | as of idx files |\n|---|---|---|---|---|")
    for length in LENGTHS:
        first = ""
        for data in forms:
            command = [args.neap, "train", "--model", "lenet", "--data", data, *length, "--lr", "0.05", "--threads", "1", "--json"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(done.stderr)
            result = json.loads(done.stdout)
            first = first or result["weights_sha256"]
            same = result["weights_sha256"] == first
            equal &= same
            accuracy = f"{100 * result['test_accuracy']:.2f} %"
            print(f"| {' '.join(length)} | {data.split(':')[0]} | {accuracy} | {result['weights_sha256'][:12]} | {'yes' if same else 'NO'} |", flush=True)
    return not equal


if __name__ == "__main__":
    sys.exit(main())
