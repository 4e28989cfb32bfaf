#!/usr/bin/env python3
"""Writes quantised_cases.h: blocks of quantised types, their numbers, and numbers as blocks.

What is written is PyPI's gguf (ggml's types), ggml itself (numbers as blocks of q4_k, q5_k, q6_k, which gguf only reads; built
without fused operations, as CMAKE_ARGS=-DGGML_NATIVE=OFF does) and bitsandbytes (nf4, i8), never ours:

    pip install gguf==0.19.0 bitsandbytes==0.50.2 llama-cpp-python==0.3.16
    python3 tests/quantised_cases.py .../llama_cpp/lib/libggml-base.so >tests/quantised_cases.h
    clang-format -i tests/quantised_cases.h
"""

import ctypes
import sys

import numpy as np
import torch
from bitsandbytes.backends.default import ops  # noqa: F401 (registers them)
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

GGML = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
SCALES = {"Q4_1": 2, "Q5_1": 2, "Q4_K": 2, "Q5_K": 2}  # numbers of f16 at the beginning; others have one
random = np.random.default_rng(20)


def blocks_of(name: str, count: int, size: int) -> np.ndarray:
    """Random ones; in the last ones scales are the least of f16 and infinite."""
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    first = size - 2 if name == "Q6_K" else 0
    scales = blocks[:, first : first + 2 * SCALES.get(name, 1)].view(np.uint16)
    scales[:] = random.standard_normal(scales.shape).astype(np.float16).view(np.uint16)
    scales[-1, 0] = 0x7C00
    scales[-1, 1:] = scales[-2, 0] = 0x0001
    blocks[:, first : first + 2 * SCALES.get(name, 1)] = scales.view(np.uint8)
    return blocks


def numbers_to_write(length: int) -> np.ndarray:
    """Of sizes from those that no scale of f16 reaches to large ones, halves between two numbers, extreme signs."""
    random = np.random.default_rng(21)  # the same ones for every type
    rows = [
        np.zeros(64),
        np.full(64, -3.0),
        31.0 - np.arange(64),
        random.integers(-16, 17, 64) * 0.5,
        random.standard_normal(64),
        random.standard_normal(64) * 1e-6,
        random.uniform(-6e4, 6e4, 64),
        random.uniform(100, 101, 64),
        np.eye(1, 64, 5)[0] * -7 + 0.0,
        *(random.standard_normal((3, 64)) * 0.02),
    ]
    return np.array(rows, np.float32).reshape(-1, length)


def written_by_ggml(name: str, x: np.ndarray, size: int) -> np.ndarray:
    blocks = np.empty(x.size // 256 * size, np.uint8)
    write = ctypes.CDLL(sys.argv[1])[f"quantize_row_{name.lower()[:-1]}K_ref"]
    write(x.ctypes.data_as(ctypes.c_void_p), blocks.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(x.size))
    return blocks


def array(kind: str, name: str, values: np.ndarray) -> None:
    form = {"uint8_t": "{:d}", "uint32_t": "0x{:X}"}[kind]
    print(f"static const {kind} {name}[] = {{{', '.join(form.format(v) for v in values.reshape(-1).tolist())}}};")


def bits(values: np.ndarray) -> np.ndarray:
    """NaN as one, and 0 without a sign."""
    values = np.where(np.isnan(values), np.float32(np.nan), values + np.float32(0))
    return values.astype(np.float32).view(np.uint32)


def main() -> None:
    print("/* Written by quantised_cases.py. */\n#include <stdint.h>\n")
    print('#include "base/dtype.h"\n')
    cases = []
    for name in GGML:
        kind = GGMLQuantizationType[name]
        length, size = GGML_QUANT_SIZES[kind]
        blocks = blocks_of(name, 4 if length == 32 else 2, size)
        array("uint8_t", f"{name.lower()}_blocks", blocks)
        with np.errstate(all="ignore"):
            array("uint32_t", f"{name.lower()}_numbers", bits(quants.dequantize(blocks.reshape(-1), kind)))
        x = numbers_to_write(length)
        written = quants.quantize(x.reshape(-1), kind) if length == 32 else written_by_ggml(name, x, size)
        array("uint8_t", f"{name.lower()}_written", written)
        cases.append([name, length * len(blocks), str(x.size), length, f"{name.lower()}_written"])
    x = numbers_to_write(64)
    q, scales = torch.ops.bitsandbytes.quantize_4bit(torch.tensor(x).reshape(-1), 64, "nf4", torch.uint8)
    y = torch.ops.bitsandbytes.dequantize_4bit(q, scales, 64, "nf4", [x.size], torch.float32).numpy()
    blocks = np.concatenate([q.numpy().reshape(-1, 32), scales.numpy().reshape(-1, 1).view(np.uint8)], axis=1)
    array("uint8_t", "nf4_blocks", blocks)
    array("uint32_t", "nf4_numbers", bits(y))
    cases.append(["NF4", x.size, str(x.size), 64, "nf4_blocks"])
    rows = torch.tensor(x).reshape(-1, 192)  # each block repeats the largest size of its row
    q, most, _ = torch.ops.bitsandbytes.int8_vectorwise_quant(rows)
    q = torch.where(most[:, None] > 0, q, 0)
    y = torch.ops.bitsandbytes.int8_vectorwise_dequant(q, most).numpy()
    scales = most.numpy().repeat(3).reshape(-1, 1).view(np.int8)
    array("uint8_t", "i8_blocks", np.concatenate([q.numpy().reshape(-1, 64), scales], axis=1).view(np.uint8))
    array("uint32_t", "i8_numbers", bits(y))
    cases.append(["I8", x.size, str(x.size), 192, "i8_blocks"])
    array("uint32_t", "quantised_from", x.view(np.uint32))
    print("\nstatic const struct quantised_case {\n  neap_dtype dtype;\n  int64_t elements;\n  const uint8_t *blocks;")
    print(
        "  const uint32_t *numbers;\n  int64_t from; /* of the numbers quantised_from; 0: they do not become blocks */"
    )
    print("  int64_t row; /* elements */\n  const uint8_t *written;\n} quantised_cases[] = {")
    for name, elements, count, row, written in cases:
        low = name.lower()
        print(f"  {{NEAP_{name}, {elements}, {low}_blocks, {low}_numbers, {count}, {row}, {written}}},")
    print("};")


if __name__ == "__main__":
    main()
