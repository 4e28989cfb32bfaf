"""Writes a GGUF file of a Llama with random weights in Q4_0: bench/random_llama.py FILE.gguf [--shape 1.1b|7b|8b|small].

It has the shape, the bytes and a tokenizer of bytes; what it says means nothing. It serves to measure memory and speed.
With --hollow the weights are a hole of the file, which takes no disk: for `neap plan`, which reads the header alone."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

import gguf
import numpy as np

# Layers, width, heads, heads of keys, width of the feed-forward layer, tokens.
SHAPES = {
    "small": (2, 256, 8, 4, 512, 512),
    "1.1b": (22, 2048, 32, 4, 5632, 32000),
    "7b": (32, 4096, 32, 32, 11008, 32000),
    "8b": (32, 4096, 32, 8, 14336, 128256),
}
ALIGNMENT = gguf.GGUF_DEFAULT_ALIGNMENT
BLOCK, BYTES, SCALE = 32, 18, 0.0043  # numbers of a block; its bytes; so that weights deviate by 0.02


def matrices(shape: tuple[int, ...]) -> Iterator[tuple[str, int, int]]:
    """Names, rows and columns."""
    layers, width, heads, key_heads, feed, tokens = shape
    keys = width // heads * key_heads
    yield "token_embd.weight", tokens, width
    yield "output.weight", tokens, width
    for i in range(layers):
        for name, rows, columns in [
            ("attn_q", width, width),
            ("attn_k", keys, width),
            ("attn_v", keys, width),
            ("attn_output", width, width),
            ("ffn_gate", feed, width),
            ("ffn_up", feed, width),
            ("ffn_down", width, feed),
        ]:
            yield f"blk.{i}.{name}.weight", rows, columns


def vectors(shape: tuple[int, ...]) -> list[str]:
    norms = [f"blk.{i}.{name}.weight" for i in range(shape[0]) for name in ("attn_norm", "ffn_norm")]
    return ["output_norm.weight", *norms]


def draw(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    blocks = rng.integers(0, 256, (rows, columns // BLOCK, BYTES), dtype=np.uint8)
    blocks[:, :, :2] = np.frombuffer(np.float16(SCALE).tobytes(), np.uint8)
    return blocks.reshape(rows, -1)


def add_tokenizer(writer: gguf.GGUFWriter, tokens: int) -> None:
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.BYTE] * 256
    texts += [f"\u2581{i}" for i in range(tokens - len(texts))]
    kinds += [gguf.TokenType.NORMAL] * (tokens - len(kinds))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(texts)
    writer.add_token_scores([-float(i) for i in range(tokens)])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--shape", choices=SHAPES, default="1.1b")
    parser.add_argument("--hollow", action="store_true", help="zeros in place of weights, as a hole of the file")
    arguments = parser.parse_args()
    shape = SHAPES[arguments.shape]
    layers, width, heads, key_heads, feed, tokens = shape
    writer = gguf.GGUFWriter(arguments.file, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(2048)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(feed)
    writer.add_head_count(heads)
    writer.add_head_count_kv(key_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    writer.add_vocab_size(tokens)
    add_tokenizer(writer, tokens)
    for name, rows, columns in matrices(shape):
        packed = (rows, columns // BLOCK * BYTES)
        writer.add_tensor_info(
            name, packed, np.dtype(np.uint8), packed[0] * packed[1], gguf.GGMLQuantizationType.Q4_0
        )
    for name in vectors(shape):
        writer.add_tensor_info(name, (width,), np.dtype(np.float32), 4 * width)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    if arguments.hollow:
        writer.close()
        length = sum(rows * columns // BLOCK * BYTES for _, rows, columns in matrices(shape))
        length += len(vectors(shape)) * 4 * width
        header = (os.path.getsize(arguments.file) + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        os.truncate(arguments.file, header + length)
        return
    rng = np.random.default_rng(1)
    for _, rows, columns in matrices(shape):
        writer.write_tensor_data(draw(rng, rows, columns))
    for _ in vectors(shape):
        writer.write_tensor_data(np.ones(width, np.float32))
    writer.close()


if __name__ == "__main__":
    main()
