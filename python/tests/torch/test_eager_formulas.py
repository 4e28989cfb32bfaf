"""Functions whose formulas PyTorch changes while a program is captured: both doors give eager's bits, or refuse by name."""

from __future__ import annotations

import copy

import pytest
import torch
from fuzz_run import same
from torch import distributions, nn
from torch.nn import functional as F

import neap.torch

HALF = torch.bfloat16
torch.manual_seed(1)
R = torch.randn
CLASSES = torch.randint(9, (600,))
CLASSES[::3] = -100


def half(*shape):
    return torch.rand(*shape).to(HALF)


def measured(x):
    with torch.no_grad():
        norm = torch.linalg.matrix_norm(x, 2)
    return x / norm


def changed_afterwards(x, value, c):
    filled, product = (
        x.masked_fill(c > 0, value),
        x[:, None] @ c[None, :, :5].expand(1, -1, -1)[:, :257].new_ones(1, 257, 5),
    )
    x.mul_(2)
    return filled * c + x + product.sum()


def cast(f):
    def inside(*operands):
        with torch.autocast("cpu", HALF):
            return f(*operands).float()

    return inside


def sampled(x):
    classes = distributions.Categorical(logits=x)
    return -classes.log_prob(classes.sample()) - classes.entropy()


def differentiated(f):
    return lambda x: torch.autograd.grad(f(x).sum(), x, create_graph=True)[0].square()


def tangents(f):
    return lambda x, t: torch.func.jvp(f, (x,), (t,))[1].square()


# Name -> (function, parameters, buffers).
EQUAL = {
    "prod": (lambda x: x.prod(1), [R(4, 33)], []),
    "prod with zeros": (torch.prod, [torch.tensor([1.0, 0, 2, 0, -3])], []),
    "prod with a zero": (torch.prod, [torch.tensor([1.0, 0, 2, 4, -3])], []),
    "cumprod": (lambda x: torch.cumprod(x, 1), [R(6, 7)], []),
    "max": (lambda x: x.max(), [R(8)], []),
    "min": (torch.min, [R(8)], []),
    "median": (torch.median, [R(9)], []),
    "nanmedian": (lambda x: x.nanmedian(), [R(9)], []),
    "masked_fill": (lambda x, v, c: x.masked_fill(c > 0, v) * c, [R(64, 257), torch.tensor(0.5)], [R(64, 257)]),
    "label smoothing": (
        lambda x, t, w: nn.CrossEntropyLoss(weight=w, label_smoothing=0.1)(x, t), [R(600, 9)], [CLASSES, torch.rand(9)],
    ),
    "a batch and a matrix": (lambda x, c: (x @ c).square(), [R(4, 2, 300)], [R(1, 300, 64)]),
    "a batch of rows and a matrix": (lambda x, c: torch.matmul(x, c).square(), [R(4, 1, 300)], [R(1, 300, 64)]),
    "singular values": (lambda x, c: x * torch.linalg.svdvals(c), [R(17, 17)], [R(17, 17)]),
    "a norm without gradients": (measured, [R(17, 17)], []),
    "bce": (F.binary_cross_entropy_with_logits, [R(77).to(HALF)], [torch.rand(77)]),
    "bce with weights": (
        lambda x, t, w: F.binary_cross_entropy_with_logits(x, t, pos_weight=w), [R(77)], [half(77), half(77)],
    ),
    "bce of targets": (
        lambda t, x, w: F.binary_cross_entropy_with_logits(x, t, pos_weight=w), [half(77) * 0.5], [R(77).to(HALF), torch.rand(77)],
    ),
    "bce of probabilities' targets": (
        lambda t, x, w: F.binary_cross_entropy(x, t.clamp(0, 1), w), [half(77) * 0.5], [half(77), torch.rand(77)],
    ),
    "linear": (lambda x, w, b: F.linear(x.transpose(0, 1), w, b).float().square(), [R(5, 6, 8).to(HALF), R(7, 8).to(HALF), R(7)], []),
    "keywords in another order": (
        lambda x, v, c: x.masked_fill(value=v, mask=c > 0) * c, [R(64, 257), torch.tensor(0.5)], [R(64, 257)],
    ),
    "an operand that is changed afterwards": (changed_afterwards, [R(64, 257), torch.tensor(0.5)], [R(64, 257)]),
    "a gradient inside": (torch.func.grad(lambda x: x.max() * x.sum()), [R(9)], []),
    "a batch of losses": (
        torch.func.vmap(lambda x: F.cross_entropy(x, torch.tensor([0, 1]), torch.ones(4) / 3, label_smoothing=0.1)), [R(3, 2, 4)], [],
    ),
    "a batch of maxima": (torch.func.vmap(lambda x: x.max()), [R(3, 8)], []),
    "bilinear by autocast": (cast(lambda x, w: F.bilinear(x, x, w)), [R(6, 2), R(1, 2, 2)], []),
    "affine_grid by autocast": (cast(lambda x: F.affine_grid(x, [4, 1, 5, 5])), [R(4, 2, 3)], []),
    "det": (torch.linalg.det, [R(5, 5)], []),
    "ctc": (
        lambda x, *rest: nn.CTCLoss()(x.log_softmax(2), *rest), [R(30, 4, 9)],
        [torch.randint(1, 9, (4, 8)), torch.tensor([30, 30, 20, 16]), torch.tensor([8, 3, 5, 1])],
    ),
    "ctc of a row of targets": (
        lambda x, *rest: F.ctc_loss(x.log_softmax(2), *rest, reduction="none", zero_infinity=True), [R(30, 4, 9)],
        [torch.randint(1, 9, (17,)), torch.tensor([30, 30, 20, 16]), torch.tensor([8, 3, 5, 1])],
    ),
    "ctc of numbers": (
        lambda x, t: F.ctc_loss(x.log_softmax(2), t, (30, 20), [8, 3], reduction="sum"), [R(30, 2, 9)], [torch.randint(1, 9, (2, 8))],
    ),
    "gaussian_nll": (lambda x, y, v: nn.GaussianNLLLoss()(x, y, v.exp()), [R(6, 5), R(6, 5)], [R(6, 5)]),
    "gaussian_nll of each": (
        lambda x, v, y: F.gaussian_nll_loss(x, y, v.exp(), full=True, reduction="none"), [R(6, 5), R(6, 1)], [R(6, 5)],
    ),
    "a normal": (lambda x: distributions.Normal(x[0], x[1].exp()).rsample().square(), [R(2, 6, 5)], []),
    "a divergence": (
        lambda x, m: distributions.kl_divergence(distributions.Normal(x[0], x[1].exp()), distributions.Normal(m, 1.0)), [R(2, 6, 5)], [R(6, 5)],
    ),
    "a sampled class": (sampled, [R(6, 5)], []),
    "a heavy tail": (lambda x, y: -distributions.StudentT(3.0, x).log_prob(y), [R(6, 5)], [R(6, 5)]),
    "jvp": (tangents(torch.sin), [R(4, 16)], [R(4, 16)]),
}  # fmt: skip
REFUSED = {
    "torch.linalg.det: its gradients are differentiated again": (differentiated(torch.linalg.det), [R(5, 5)], []),
    "torch.Tensor.cumprod: its gradients are differentiated again": (
        differentiated(lambda x: x.cumprod(1)),
        [R(6, 7)],
        [],
    ),
    "torch.prod in a transform of torch.func": (torch.func.vmap(torch.prod), [R(4, 33)], []),
    "torch.Tensor.cumprod in a transform": (torch.func.grad(lambda x: x.cumprod(0).sum()), [R(9)], []),
    "use cumprod": (lambda x: (x * 1).cumprod_(1), [R(6, 7)], []),
    "use masked_fill": (lambda x, v: (x * 1).masked_fill_(x > 0, v), [R(6, 7), torch.tensor(0.5)], []),
    "layer_norm in forward-mode": (tangents(lambda x: F.layer_norm(x, (16,))), [R(4, 16)], [R(4, 16)]),
}


class Net(nn.Module):
    """A function of parameters and buffers. The loss is negative: its gradients are, too."""

    def __init__(self, function, parameters, buffers):
        super().__init__()
        self.function, self.count = function, len(buffers)
        self.parameters_of = nn.ParameterList([nn.Parameter(p.clone()) for p in parameters])
        for i, b in enumerate(buffers):
            self.register_buffer(f"b{i}", b)

    def forward(self, scale):
        result = self.function(
            *[p * 1 for p in self.parameters_of], *[getattr(self, f"b{i}") for i in range(self.count)]
        )
        return (result * scale).sum()


def optimizer(model):
    return torch.optim.SGD(model.parameters(), 0.125, momentum=0.5)


def steps(model, door, budget):
    """Returns a function that makes a step and returns its loss."""
    made = optimizer(model)
    if door == "step":
        return neap.torch.compile_step(model, lambda m, x: m(x), made, budget=budget), made
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="neap", options={"budget": budget}) if door == "backend" else model

    def step(x):
        made.zero_grad()
        loss = compiled(x)
        loss.backward()
        made.step()
        return loss.detach()

    return step, made


@pytest.mark.parametrize("door", ["step", "backend"])
@pytest.mark.parametrize("name", EQUAL)
def test_bits(name, door):
    model = Net(*EQUAL[name])
    other = copy.deepcopy(model)
    step, own = steps(model, door, "min")
    eager, others = steps(other, "", None)
    for seed in range(2):
        torch.manual_seed(seed)
        loss = step(torch.tensor(-1.0))
        torch.manual_seed(seed)
        assert same(loss, eager(torch.tensor(-1.0)))
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            assert same(p, q) and same(own.state[p]["momentum_buffer"], others.state[q]["momentum_buffer"])
    if door == "step":
        assert step.memory.enforced, step.memory.why


@pytest.mark.parametrize("match", REFUSED)
def test_refused(match):
    model = Net(*REFUSED[match])
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(neap.torch.CannotTrace, match=match):
        steps(model, "step", "max")[0](torch.tensor(-1.0))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def noisy(model, x, width):
    return distributions.Normal(model(x), width, validate_args=True).rsample().square().mean()


@pytest.mark.parametrize("parts", [1, 2])
def test_a_value_that_a_distribution_does_not_allow(parts):
    """The step raises an error, as eager does, before it changes a weight; the next one goes on."""
    model = nn.Linear(8, 8)
    step = neap.torch.compile_step(model, noisy, optimizer(model), budget="min", micro_batches=parts)
    x, width = torch.randn(4, 8), torch.rand(4, 8) + 0.1
    step(x, width)
    before = copy.deepcopy(model.state_dict())
    width[3, 0] = -1.0
    with pytest.raises(ValueError, match="outside of what its distribution allows"):
        step(x, width)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    other = copy.deepcopy(model)
    eager = optimizer(other)
    eager.load_state_dict(copy.deepcopy(step.optimizer.state_dict()))
    torch.manual_seed(0)
    loss = step(x, width.abs())
    torch.manual_seed(0)
    parts_of = [noisy(other, a, b) / parts for a, b in zip(x.chunk(parts), width.abs().chunk(parts), strict=True)]
    for part in parts_of:
        part.backward()
    eager.step()
    assert same(loss, sum(p.detach() for p in parts_of)) and same(model.weight, other.weight)
