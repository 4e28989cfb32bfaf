#!/usr/bin/env python3
"""Times a training step of a GPT in PyTorch, with what autograd saves in memory or, by saved_tensors_hooks, in a memory-mapped file.

    spill_hooks.py [--spill DIR] [--layers N] [--width N] [--heads N] [--tokens N] [--length N] [--batch N] [--steps N]

Prints seconds a step (the median after the first) and the process's peak of anonymous memory, as JSON. The same shape in Neap, at the same
memory: neap train --model gpt-24x1024x16 --classes 50257 --length 1024 --batch 1 --optimizer sgd --momentum 0 --process-budget B
[--disk DIR --disk-for activations]."""

import argparse
import json
import mmap
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import nn
from torch.nn import functional as F

SMALLEST = 1 << 18  # bytes of a tensor that is spilled


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads, self.first, self.second = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, width = x.shape
        q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.first(x)).chunk(3, dim=-1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, width)
        x = x + self.out(attended)
        return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, o: argparse.Namespace):
        super().__init__()
        self.words, self.places = nn.Embedding(o.tokens, o.width), nn.Embedding(o.length, o.width)
        self.blocks = nn.Sequential(*(Block(o.width, o.heads) for _ in range(o.layers)))
        self.norm = nn.LayerNorm(o.width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return F.linear(self.norm(self.blocks(x)), self.words.weight)


@contextmanager
def spilled(folder: str, model: nn.Module) -> Iterator[None]:
    """Writes what autograd saves to a file, and reads it when the backward pass asks for it."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    with tempfile.TemporaryFile(dir=folder) as file:

        def pack(x: torch.Tensor) -> object:
            if x.nbytes < SMALLEST or x.untyped_storage().data_ptr() in weights:
                return x
            at = file.seek(0, 2)
            file.write(memoryview(x.detach().contiguous().view(-1).view(torch.uint8).numpy()))
            file.write(bytes(-x.nbytes % mmap.ALLOCATIONGRANULARITY))
            return at, x.nbytes, x.dtype, x.shape

        def unpack(packed: object) -> torch.Tensor:
            if isinstance(packed, torch.Tensor):
                return packed
            at, size, dtype, shape = packed
            file.flush()
            mapped = mmap.mmap(file.fileno(), size, offset=at, access=mmap.ACCESS_COPY)
            return torch.frombuffer(mapped, dtype=dtype).view(shape)

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            yield


def anonymous_bytes() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))


class Peak(threading.Thread):
    """Looks at the process's anonymous memory a hundred times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes = 0

    def run(self) -> None:
        while True:
            self.bytes = max(self.bytes, anonymous_bytes())
            time.sleep(0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spill", metavar="DIR")
    for name, usual in (
        ("layers", 24),
        ("width", 1024),
        ("heads", 16),
        ("tokens", 50257),
        ("length", 1024),
        ("batch", 1),
        ("steps", 3),
    ):
        parser.add_argument(f"--{name}", type=int, default=usual)
    o = parser.parse_args()
    torch.manual_seed(0)
    model = GPT(o)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    ids = torch.randint(o.tokens, (o.batch, o.length + 1))
    seconds, peak = [], Peak()
    peak.start()
    for _ in range(o.steps):
        began = time.perf_counter()
        way: AbstractContextManager[None] = spilled(o.spill, model) if o.spill else nullcontext()
        with way:
            logits = model(ids[:, :-1])
            F.cross_entropy(logits.view(-1, o.tokens), ids[:, 1:].reshape(-1)).backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - began)
    print(json.dumps({"seconds": statistics.median(seconds[1:]), "peak_anonymous_bytes": peak.bytes}))


if __name__ == "__main__":
    main()
