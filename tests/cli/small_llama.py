"""Writes a GGUF file of a small Llama: small_llama.py FILE.gguf [--hollow].

Its matrices are of F16, drawn at random, or a hole of the file; it prints the bytes of all weights and their number."""

import os, random, struct, sys

LAYERS, WIDTH, HEADS, KEY_HEADS, FEED, TOKENS, ALIGNMENT = 1, 256, 8, 4, 512, 512, 32
UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5
F32, F16 = 0, 1


def string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def key(name, kind, value):
    form = {UINT32: "<I", FLOAT32: "<f"}.get(kind)
    return string(name) + struct.pack("<I", kind) + (struct.pack(form, value) if form else string(value))


def array(name, kind, values):
    form = {FLOAT32: "<f", INT32: "<i"}.get(kind)
    items = b"".join(struct.pack(form, v) if form else string(v) for v in values)
    return string(name) + struct.pack("<IIQ", ARRAY, kind, len(values)) + items


def matrices():
    keys = WIDTH // HEADS * KEY_HEADS
    yield from (("token_embd", TOKENS, WIDTH), ("output", TOKENS, WIDTH))
    for i in range(LAYERS):
        for name, rows, columns in (
            ("attn_q", WIDTH, WIDTH), ("attn_k", keys, WIDTH), ("attn_v", keys, WIDTH), ("attn_output", WIDTH, WIDTH),
            ("ffn_gate", FEED, WIDTH), ("ffn_up", FEED, WIDTH), ("ffn_down", WIDTH, FEED),
        ):  # fmt: skip
            yield f"blk.{i}.{name}", rows, columns


def keys():
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [2, 3, 3, *([6] * 256)]
    kinds += [1] * (TOKENS - len(texts))
    texts += [f"\u2581{i}" for i in range(TOKENS - len(texts))]
    yield key("general.architecture", STRING, "llama")
    for name, value in (
        ("block_count", LAYERS), ("context_length", 128), ("embedding_length", WIDTH), ("feed_forward_length", FEED),
        ("attention.head_count", HEADS), ("attention.head_count_kv", KEY_HEADS), ("rope.dimension_count", WIDTH // HEADS),
        ("vocab_size", TOKENS),
    ):  # fmt: skip
        yield key(f"llama.{name}", UINT32, value)
    yield key("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5)
    yield key("tokenizer.ggml.model", STRING, "llama")
    yield array("tokenizer.ggml.tokens", STRING, texts)
    yield array("tokenizer.ggml.scores", FLOAT32, [-float(i) for i in range(TOKENS)])
    yield array("tokenizer.ggml.token_type", INT32, kinds)
    for name, value in (("bos", 1), ("eos", 2), ("unknown", 0)):
        yield key(f"tokenizer.ggml.{name}_token_id", UINT32, value)


def main():
    hollow = "--hollow" in sys.argv
    names = ["output_norm", *(f"blk.{i}.{name}" for i in range(LAYERS) for name in ("attn_norm", "ffn_norm"))]
    tensors = [(name, (columns, rows), F16, 2 * rows * columns) for name, rows, columns in matrices()]
    tensors += [(name, (WIDTH,), F32, 4 * WIDTH) for name in names]
    written = list(keys())
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(written)) + b"".join(written)
    offset = elements = 0
    for name, dims, kind, size in tensors:
        header += string(f"{name}.weight") + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        offset += size
        elements += dims[0] * (dims[1] if len(dims) > 1 else 1)
    draw = random.Random(1)
    with open(sys.argv[1], "wb") as file:
        file.write(header + b"\0" * (-len(header) % ALIGNMENT))
        start = file.tell()
        for _, _, kind, size in [] if hollow else tensors:
            count = size // (4 if kind == F32 else 2)
            numbers = [1.0] * count if kind == F32 else [draw.uniform(-0.05, 0.05) for _ in range(count)]
            file.write(struct.pack(f"<{count}{'f' if kind == F32 else 'e'}", *numbers))
    os.truncate(sys.argv[1], start + offset)
    print(offset, elements)


main()
