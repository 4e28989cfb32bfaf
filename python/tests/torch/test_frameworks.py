"""The backend under loops that others wrote: DistributedDataParallel, Hugging Face Trainer. The oracle is the same loop in eager."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cases
import helpers
import pytest
import quick  # noqa: F401  (for the processes that are started here, too)
import torch

import neap.torch
from neap.torch import backend


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


def in_processes(train: Callable[..., Any], count: int, ways: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """What `train` returns on rank 0 of `count` processes, one way after the other in the same processes."""
    torch.multiprocessing.spawn(work, (train, count, ways, free_ports(len(ways)), str(folder)), nprocs=count)
    return [torch.load(folder / f"{how}.pt") for how in ways]


def work(rank: int, train: Callable[..., Any], count: int, ways: Sequence[str], ports: list[int], folder: str) -> None:
    torch.set_num_threads(1)
    for how, port in zip(ways, ports, strict=True):
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        torch.distributed.init_process_group("gloo", rank=rank, world_size=count)
        torch._dynamo.reset()
        backend._last = None
        state = train(rank, count, how)
        assert (len(neap.torch.last_plans()) > 0) == (how != "eager")
        if rank == 0:
            torch.save(state, f"{folder}/{how}.pt")
        torch.distributed.destroy_process_group()


def replicas(rank: int, count: int, how: str) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    model, loss_fn, (x, y) = cases.OURS["transformer"]()
    torch.manual_seed(10 + rank)
    part = slice(2 * rank, 2 * rank + 2)
    if how == "inner":
        model.compile(backend="neap", options={"budget": "min"}, dynamic=False)
    replica = torch.nn.parallel.DistributedDataParallel(model)
    if how == "outer":
        replica = torch.compile(replica, backend="neap", options={"budget": "min"}, dynamic=False)
    optimizer = helpers.adamw(model.parameters())
    for _ in range(3):
        loss = loss_fn(replica, x[part], y[part])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return helpers.state(model, optimizer)


def test_distributed_data_parallel(tmp_path):
    expected, *others = in_processes(replicas, 2, ("eager", "inner", "outer"), tmp_path)
    for got in others:
        assert helpers.differing(got, expected) == []


def shards(rank: int, count: int, how: str) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    model, loss_fn, (x, y) = cases.OURS["transformer"]()
    from torch.distributed.fsdp import fully_shard

    fully_shard(model, mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (count,)))
    if how == "neap":
        model.compile(backend="neap", options={"budget": "max"}, dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        loss_fn(model, x[rank : rank + 2], y[rank : rank + 2]).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {k: v.full_tensor() for k, v in model.state_dict().items() if hasattr(v, "full_tensor")}


@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.long), 3])
def test_fully_sharded(tmp_path, count):
    expected, got = in_processes(shards, count, ("eager", "neap"), tmp_path)
    assert len(expected) > 10 and all(torch.equal(got[k], v) for k, v in expected.items())


TEXT = Path(os.environ.get("NEAP_SHARED", "/nowhere")) / "data/text/tinyshakespeare.txt"


def fine_tune(folder, budget):
    import transformers as t

    text = (
        TEXT.read_text()[:20000]
        if TEXT.exists()
        else "All the world's a stage, and all the men and women merely players. " * 200
    )
    data = [{"input_ids": torch.tensor([ord(c) % 256 for c in text[i : i + 64]])} for i in range(0, 64 * 160, 64)]
    data = [{**d, "labels": d["input_ids"]} for d in data]
    t.set_seed(3)
    model = t.GPT2LMHeadModel(t.GPT2Config(vocab_size=256, n_embd=64, n_layer=4, n_head=4, n_positions=64))
    if budget is not None:
        model.compile(backend="neap", options={"budget": budget}, dynamic=False)
    arguments = t.TrainingArguments(
        output_dir=str(folder), max_steps=20, per_device_train_batch_size=8, logging_steps=1, report_to=[], save_strategy="no", use_cpu=True,
        disable_tqdm=True, seed=3,
    )  # fmt: skip
    trainer = t.Trainer(model=model, args=arguments, train_dataset=data)
    trainer.train()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row], {
        k: v.clone() for k, v in model.state_dict().items()
    }


def test_hugging_face_trainer(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    losses, state = fine_tune(tmp_path, None)
    torch._dynamo.reset()
    got, got_state = fine_tune(tmp_path, "50%")
    assert len(losses) == 20 and got == losses
    assert helpers.differing(got_state, state) == []
    first = neap.torch.last_plans()[0]
    assert first.recomputed > 0 and first.planned_peak_bytes <= first.budget_bytes


def test_budget_of_the_backend_that_cannot_be_met():
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, loss_fn, batch = cases.OURS["transformer"]()
    run = torch.compile(loss_fn, backend="neap", options={"budget": 1000}, dynamic=False)
    with pytest.raises(Exception, match="smallest that can be met is"):
        run(model, *batch)
    with pytest.raises(Exception, match="no option bugdet"):
        torch._dynamo.reset()
        torch.compile(loss_fn, backend="neap", options={"bugdet": 1000}, dynamic=False)(model, *batch)


class Breaks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        x = torch.relu(self.a(x))
        if x.sum().item() > 1e9:
            x = x * 2
        return self.b(x)


def test_of_all_shapes_the_largest_counts_against_the_budget():
    def left(*sizes: int) -> list[int]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        run = torch.compile(Breaks(), backend="neap", options={"budget": "64MiB"}, dynamic=True)
        for size in sizes:
            run(torch.randn(size, 16)).sum().backward()
        session = backend._last
        return sorted(session.budget_for(g.inputs) for g in session.graphs)

    large, small = left(4096), left(64)
    assert left(4096, 64) == large and large[0] < small[0]


def test_graph_break_runs_that_part_eagerly():
    torch.manual_seed(0)
    case = (Breaks(), cases.classify, (torch.randn(8, 16), torch.randint(4, (8,))))
    losses, state = helpers.eager(case, helpers.sgd)
    got, got_state, memories = helpers.backend(case, helpers.sgd, "1MiB")
    assert got == losses and helpers.differing(got_state, state) == []
    assert len(memories) >= 2
