"""Logits in chunks: near to the whole loss, the bits of the same chunks in eager PyTorch, and never whole in memory."""

from __future__ import annotations

import copy

import helpers
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import neap.torch

VOCABULARY = 5000


class Model(nn.Module):
    def __init__(self, bias=False, tied=False):
        super().__init__()
        self.embed, self.inner = nn.Embedding(VOCABULARY, 16), nn.Linear(16, 16)
        self.lm_head = nn.Linear(16, VOCABULARY, bias=bias)
        if tied:
            self.lm_head.weight = self.embed.weight

    def body(self, x):
        return torch.tanh(self.inner(self.embed(x)))

    def forward(self, x):
        return self.lm_head(self.body(x))


def shifted(model, x):
    """As transformers' ForCausalLMLoss."""
    logits = model(x).float()
    labels = F.pad(x, (0, 1), value=-100)[..., 1:].contiguous()
    return F.cross_entropy(logits.view(-1, VOCABULARY), labels.view(-1), ignore_index=-100, reduction="mean")


def in_chunks(chunk):
    def loss_fn(model, x):
        labels = F.pad(x, (0, 1), value=-100)[..., 1:].contiguous()
        hidden, head = model.body(x), model.lm_head
        return neap.torch.chunked_cross_entropy(hidden, head.weight, labels, bias=head.bias, chunk=chunk)

    return loss_fn


def batch():
    torch.manual_seed(3)
    return (torch.randint(VOCABULARY, (3, 11)),)


@pytest.mark.parametrize(
    "bias,tied,frozen", [(False, False, False), (True, False, False), (False, True, False), (True, False, True)]
)
def test_bits_of_the_same_chunks_in_eager(bias, tied, frozen):
    torch.manual_seed(0)
    model = Model(bias, tied)
    if frozen:
        model.lm_head.requires_grad_(False)
    for chunk in (5, True):
        rows = None if chunk is True else chunk
        losses, state = helpers.eager((model, in_chunks(rows), batch()), helpers.sgd)
        for budget in ("max", "min"):
            got, got_state, step = helpers.compiled((model, shifted, batch()), helpers.sgd, budget, chunk_head=chunk)
            assert got == losses
            assert helpers.differing(got_state, state) == []
            assert step.memory.enforced, step.memory.why
    whole, _ = helpers.eager((model, shifted, batch()), helpers.sgd)
    assert losses == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_gradients_are_those_of_the_whole_loss(reduction):
    torch.manual_seed(0)
    h, w, b = (torch.randn(*n, dtype=torch.float64).float().requires_grad_() for n in ((2, 7, 8), (50, 8), (50,)))
    y = torch.randint(50, (2, 7))
    y[0, :5] = -100
    whole = F.cross_entropy(F.linear(h, w, b).flatten(0, 1), y.flatten(), reduction=reduction)
    expected = torch.autograd.grad(whole, (h, w, b))
    loss = neap.torch.chunked_cross_entropy(h, w, y, bias=b, chunk=3, reduction=reduction)
    assert loss.item() == pytest.approx(whole.item(), rel=1e-6)
    for a, e in zip(torch.autograd.grad(loss, (h, w, b)), expected, strict=True):
        assert (a - e).abs().max() <= 2e-6 * e.abs().max()


def test_the_logits_are_never_whole():
    torch.manual_seed(0)
    model = Model()
    x = torch.randint(VOCABULARY, (8, 64))
    least = []
    for chunk in (None, 32):
        own = copy.deepcopy(model)
        step = neap.torch.compile_step(own, shifted, helpers.sgd(own.parameters()), budget="min", chunk_head=chunk)
        step(x)
        least.append(step.memory.arena_bytes)
    logits = 8 * 64 * VOCABULARY * 4
    assert least[0] > logits
    assert least[1] < VOCABULARY * 16 * 4 * 3 + 4 * 32 * VOCABULARY * 4


def test_what_uses_the_logits_otherwise_is_refused():
    model = Model()
    for loss_fn in (
        lambda m, x: m(x).softmax(-1).mean(),
        lambda m, x: F.cross_entropy(m(x).transpose(1, 2), x),
        lambda m, x: F.cross_entropy(m(x).flatten(0, 1), x.flatten(), label_smoothing=0.1),
    ):
        step = neap.torch.compile_step(model, loss_fn, helpers.sgd(model.parameters()), budget="min", chunk_head=True)
        with pytest.raises(neap.torch.CannotTrace, match="chunk_head"):
            step(*batch())
    assert "forward" not in model.lm_head.__dict__
    with pytest.raises(TypeError, match=r"plain nn\.Linear"):
        neap.torch.compile_step(
            nn.Embedding(3, 3), shifted, helpers.sgd(model.parameters()), budget="min", chunk_head=True
        )


def test_a_llama_of_transformers():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        use_cache=False,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    case = model, lambda m, x: m(input_ids=x, labels=x).loss, batch()
    whole, _ = helpers.eager(case, helpers.sgd)
    got, _, step = helpers.compiled(case, helpers.sgd, "min", chunk_head=7)
    assert got == pytest.approx(whole, rel=1e-5)
    assert step.memory.enforced, step.memory.why
