"""Weight decay acts on the numbers that a model's file has: losses and norms beside transformers with PyTorch's optimizers."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from test_export_language import VOCABULARY, neap
from test_language_models import make
from torch.nn import functional as F

transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")
BATCH, LENGTH, STEPS, DECAY = 2, 12, 10, 0.1


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, as in its paper."""

    def __init__(self, parameters, lr, weight_decay):
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                update = (0.9 * m + 0.1 * p.grad).sign() + group["weight_decay"] * p
                m.mul_(0.99).add_(p.grad, alpha=0.01)
                p.sub_(group["lr"] * update)


OPTIMIZERS = {
    "adamw": (lambda p: torch.optim.AdamW(p, lr=0.001, weight_decay=DECAY), ["--lr", 0.001]),
    "adam": (lambda p: torch.optim.Adam(p, lr=0.003, weight_decay=DECAY), ["--lr", 0.003]),
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, weight_decay=DECAY), ["--lr", 0.02, "--momentum", 0.9]),
    "sgd in micro-batches": (lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, weight_decay=DECAY),
                             ["--lr", 0.02, "--momentum", 0.9, "--micro-batch", 1]),
    "rmsprop": (lambda p: torch.optim.RMSprop(p, lr=0.0005, weight_decay=DECAY, eps=1e-4), ["--lr", 0.0005, "--epsilon", 1e-4]),
    "lion": (lambda p: Lion(p, lr=0.0005, weight_decay=DECAY), ["--lr", 0.0005]),
}  # fmt: skip


CASES = [("gemma", name) for name in OPTIMIZERS]  # one family with every optimizer
CASES += [(family, name) for family in ("gemma2", "llama") for name in ("adamw", "sgd")]


@pytest.mark.parametrize(("family", "optimizer"), CASES)
def test_steps_are_those_of_transformers(tmp_path, family, optimizer):
    base, run = tmp_path / "base", tmp_path / "run"
    make(family, base, vocab_size=VOCABULARY)
    ids = np.random.default_rng(2).integers(0, VOCABULARY, (BATCH * STEPS + 2) * LENGTH).astype(np.int32)
    np.save(tmp_path / "ids.npy", ids)
    creator, options = OPTIMIZERS[optimizer]
    neap("train", "--model", base, "--data", f"tokens:{tmp_path}/ids.npy,test={tmp_path}/ids.npy", "--length", LENGTH,
         "--batch", BATCH, "--steps", STEPS, "--schedule", "constant", "--optimizer", optimizer.split()[0], "--shuffle", "off",
         "--weight-decay", DECAY, "--augment", "off", "--evaluate", "off", "--metrics", tmp_path / "m.jsonl", "--out", run, *options)  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).train()
    torch_optimizer = creator(model.parameters())
    losses = []
    for k in range(STEPS):
        part = torch.tensor(ids[k * BATCH * LENGTH : (k + 1) * BATCH * LENGTH + 1].astype(np.int64))
        torch_optimizer.zero_grad()
        logits = model(part[:-1].view(BATCH, LENGTH)).logits
        loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), part[1:])
        loss.backward()
        torch_optimizer.step()
        losses.append(loss.item())
    lines = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    found = [line["loss"] for line in lines if "loss" in line and "step" in line][:STEPS]
    assert len(found) == STEPS
    np.testing.assert_allclose(found, losses, atol=2e-5 if optimizer in ("rmsprop", "lion") else 1e-5)
    state = json.loads((run / "state.json").read_text())
    assert ("decay_by_file" in state["settings"]) == family.startswith("gemma")
    norm = safetensors.load_file(run / state["weights"])["model.norm.weight"]
    wanted = model.model.norm.weight.detach() + family.startswith("gemma")
    torch.testing.assert_close(norm, wanted, atol=1e-4 if optimizer in ("rmsprop", "lion") else 2e-5, rtol=0)
