#!/usr/bin/env python3
"""Several processes train one model inside a budget each, with the bits of one process.

    several_processes.py [PROCESSES [STEPS]]

Each process runs its part of a batch with the backend "neap". The gradients of all parts are added in the order of ranks, as one process
adds those of its micro-batches. torch.distributed's own all_reduce adds in an order of its own, which depends on sizes and networks."""

import hashlib
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn

import neap.torch  # the backend "neap"

BATCH, WIDTH, CLASSES = 32, 64, 10


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, CLASSES))


def batch(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(BATCH, WIDTH, generator=generator), torch.randint(CLASSES, (BATCH,), generator=generator)


def digest(net):
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in net.parameters())).hexdigest()


def add_in_order(parameters):
    """Each gradient becomes the sum of all ranks' gradients, rank after rank."""
    for parameter in parameters:
        parts = [torch.empty_like(parameter.grad) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, parameter.grad)
        parameter.grad = parts[0]
        for part in parts[1:]:
            parameter.grad += part


def train(rank, parts, steps):
    """`rank` None: one process takes all parts."""
    torch.set_num_threads(1)
    net = model()
    net.compile(backend="neap", options={"budget": "90%"})
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step in range(steps):
        inputs, labels = (t.chunk(parts) for t in batch(step))
        for part in range(parts) if rank is None else [rank]:
            (F.cross_entropy(net(inputs[part]), labels[part], reduction="sum") / BATCH).backward()
        if rank is not None:
            add_in_order(net.parameters())
        optimizer.step()
        optimizer.zero_grad()
    return digest(net)


def run_rank(rank, parts, steps, results, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}/ranks", rank=rank, world_size=parts)
    results[rank] = train(rank, parts, steps)
    dist.destroy_process_group()


def main():
    parts, steps = (int(a) for a in (sys.argv[1:] + ["3", "5"][len(sys.argv) - 1 :])[:2])
    with mp.Manager() as manager, tempfile.TemporaryDirectory() as meeting:
        results = manager.dict()
        mp.spawn(run_rank, (parts, steps, results, meeting), nprocs=parts)
        digests = [results[r] for r in range(parts)]
    alone = train(None, parts, steps)
    print(f"{parts} processes: {digests[0]}\none process: {alone}")
    return 0 if set(digests) == {alone} else 1


if __name__ == "__main__":
    sys.exit(main())
