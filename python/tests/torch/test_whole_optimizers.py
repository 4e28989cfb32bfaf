"""Optimizers, each taken parameter by parameter where that is the same, else whole after the last gradient. The oracle is eager."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from typing import Any

import helpers
import optimizers as own
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.optimizer import register_optimizer_step_pre_hook

import neap.torch
import neap.torch.updates

STEPS = 12
Make = Callable[[nn.Module], torch.optim.Optimizer]
optim = torch.optim


def of(optimizer: Any, **options: Any) -> Make:
    return lambda model: optimizer(model.parameters(), **options)


def decayed(model: nn.Module) -> torch.optim.Optimizer:
    weights = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    return optim.AdamW([{"params": weights, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=1e-2)


APART: dict[str, Make] = {
    "Adadelta": of(optim.Adadelta),
    "Adafactor": of(optim.Adafactor),
    "Adagrad": of(optim.Adagrad, lr=0.05),
    "Adam": of(optim.Adam, lr=1e-2),
    "Adam amsgrad": of(optim.Adam, lr=1e-2, amsgrad=True),
    "Adam fused": of(optim.Adam, lr=1e-2, fused=True),
    "AdamW": of(optim.AdamW, lr=1e-2),
    "AdamW foreach": of(optim.AdamW, lr=1e-2, foreach=True),
    "AdamW groups": decayed,
    "AdamW rate 0": of(optim.AdamW, lr=0.0),
    "AdamW rate tensor": lambda model: optim.AdamW(model.parameters(), lr=torch.tensor(1e-2)),
    "Adamax": of(optim.Adamax, lr=1e-2),
    "ASGD": of(optim.ASGD),
    "Lion": of(own.Lion),
    "NAdam": of(optim.NAdam),
    "RAdam": of(optim.RAdam, lr=1e-2),
    "RMSprop": of(optim.RMSprop, lr=1e-2, momentum=0.5),
    "Rprop": of(optim.Rprop, lr=1e-2),
    "SGD": of(optim.SGD, lr=0.05),
    "SGD Nesterov": of(optim.SGD, lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3),
}
if hasattr(optim, "Muon"):
    APART["Muon"] = lambda model: optim.Muon([p for p in model.parameters() if p.dim() == 2])

# Name -> (optimizer, a part of the reason why it runs whole).
WHOLE: dict[str, tuple[Make, str]] = {
    "clips inside": (of(own.ClippedAdamW, lr=1e-2), "differs from one step for each"),
    "each third step": (of(own.SlowedSGD), "attribute calls"),
    "Lookahead": (lambda m: own.Lookahead(optim.AdamW(m.parameters(), lr=1e-2)), "a trial of its steps fails"),
    "SAM": (of(own.SAM, base=optim.SGD, lr=0.05, momentum=0.9), "a second time"),
    "schedule-free": (of(own.ScheduleFreeSGD), "differs from one step for each"),
    "Shampoo": (of(own.Shampoo), "attribute number"),
    "new states": (of(own.Momentum, kind="new"), "new states"),
    "the gradient itself": (of(own.Momentum, kind="gradient"), "gradient itself|new states"),
    "noise": (of(own.Momentum, kind="noise"), "random"),
    "pre-hook": (own.clipped_by_a_hook, "hooks of its step"),
    "post-hook": (own.averaged_by_a_hook, "hooks of its step"),
    "steps in backward": (own.stepped_in_backward, "hook for its gradient"),
    "gradient hooks": (own.limited_by_gradient_hooks, "hook for its gradient"),
    "replaced step": (own.replaced_step, "replaced"),
}
CONDITIONS = ("plain", "gradients present", "clipping", "scheduler")
CLIP = 0.2


def rows() -> list[Any]:
    """Each optimizer under each condition; a quick pass takes one condition for each."""
    found = []
    for i, name in enumerate((*APART, *WHOLE)):
        for j, condition in enumerate(CONDITIONS):
            marks = [] if (i - j) % len(CONDITIONS) == 0 else [pytest.mark.long]
            found.append(pytest.param(name, condition, marks=marks, id=f"{name}, {condition}"))
    return found


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.Dropout(0.2)
        self.last = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.drop(torch.tanh(self.norm(self.first(x)))))


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


def everything(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Parameters, buffers, states, settings of groups, and tensors and numbers that the optimizer has as attributes."""
    found = helpers.state(model, optimizer)
    for i, group in enumerate(optimizer.param_groups):
        found |= {f"group {i} {k}": torch.tensor(float(v)) for k, v in group.items() if isinstance(v, (int, float))}
    for key, value in vars(optimizer).items():
        for i, x in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(x, (int, float, torch.Tensor)):
                found[f"{key} {i}"] = torch.as_tensor(x).detach().clone()
    return found


def train(make: Make, condition: str, budget: Any, **options: Any) -> tuple[Any, ...]:
    """Trains; returns losses, states and the state of the generator, and the compiled step."""
    torch.manual_seed(0)
    model, x, y = Net(), torch.randn(STEPS, 6, 8), torch.randint(4, (STEPS, 6))
    optimizer = make(model)
    clip = CLIP if condition == "clipping" else None
    scheduler = optim.lr_scheduler.StepLR(optimizer, 4, 0.5) if condition == "scheduler" else None
    closed = hasattr(optimizer, "first_step")
    step = None
    if condition == "gradients present":
        loss_of(copy.deepcopy(model), x[0], y[0])  # draws
        for p in model.parameters():
            p.grad = torch.ones_like(p)
    if budget is not None:
        before = everything(model, optimizer), [p.grad for p in model.parameters()], torch.get_rng_state()
        step = neap.torch.compile_step(model, loss_of, optimizer, budget=budget, clip_norm=clip, **options)
        step.prepare(x[0], y[0])
        assert helpers.differing(everything(model, optimizer), before[0]) == []
        assert all(p.grad is g for p, g in zip(model.parameters(), before[1], strict=True))
        assert torch.equal(torch.get_rng_state(), before[2])
    losses = []
    for xs, ys in zip(x, y, strict=True):
        if step is not None:
            losses.append(step(xs, ys).item())
            assert all(p.grad is None for p in own.all_parameters(optimizer))
        else:
            losses.append(eager_step(model, optimizer, xs, ys, clip, closed, **options))
        if scheduler is not None:
            scheduler.step()
    return losses, everything(model, optimizer), torch.get_rng_state(), step


def eager_step(model: Any, optimizer: Any, x: Any, y: Any, clip: Any, closed: bool, micro_batches: int = 1) -> float:
    def backward() -> torch.Tensor:
        model.zero_grad()
        parts = list(zip(x.chunk(micro_batches), y.chunk(micro_batches), strict=True))
        losses = [loss_of(model, a, b) / len(parts) if len(parts) > 1 else loss_of(model, a, b) for a, b in parts]
        for loss in losses:
            loss.backward()
        return sum(loss.detach() for loss in losses)

    loss = backward()
    if clip is not None:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step(*([backward] if closed else []))
    return loss.item()


def check(make: Make, condition: str, budget: Any, **options: Any) -> Any:
    expected = train(make, condition, None, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # bytes beside the plan
        if make is own.stepped_in_backward:  # states that only a hook knows are seen in the first step
            warnings.filterwarnings("ignore", "neap: (more was )?allocated")
        got = train(make, condition, budget, **options)
    assert got[0] == expected[0]
    assert helpers.differing(got[1], expected[1]) == []
    assert torch.equal(got[2], expected[2])
    memory = got[3].memory
    assert memory.enforced and 0 < memory.measured_peak_bytes <= memory.planned_peak_bytes
    return got[3]


@pytest.mark.parametrize(("name", "condition"), rows())
def test_bits_and_bytes(name: str, condition: str) -> None:
    make, why = WHOLE.get(name, (APART.get(name), "^$"))
    step = check(make, condition, "min" if len(name) % 2 else "max")
    assert re.search(why, step.why_whole)


@pytest.mark.parametrize("name", ["AdamW", "clips inside", "each third step", "pre-hook", "new states", "Lookahead"])
@pytest.mark.parametrize("condition", ["plain", "clipping"])
def test_micro_batches(name: str, condition: str) -> None:
    make = APART[name] if name in APART else WHOLE[name][0]
    check(lambda model: make(without_norm(model)), condition, "min", micro_batches=2)


def without_norm(model: Net) -> Net:
    """Replaces what reads the whole batch: a loop over micro-batches updates it more than once."""
    model.norm = nn.Identity()
    return model


def test_what_micro_batches_refuse() -> None:
    for name in ("SAM", "gradient hooks"):
        model = Net()
        before = copy.deepcopy(model.state_dict())
        step = neap.torch.compile_step(model, loss_of, WHOLE[name][0](model), budget="min", micro_batches=2)
        with pytest.raises(neap.torch.CannotTrace, match="micro_batches=1"):
            step(torch.randn(6, 8), torch.randint(4, (6,)))
        assert helpers.differing(dict(model.state_dict()), before) == []


class Clipping(optim.SGD):
    def step(self, closure: Any = None) -> Any:
        nn.utils.clip_grad_norm_([p for p in own.all_parameters(self) if p.grad is not None], 0.5)
        return super().step(closure)


class Slow(optim.SGD):
    """Keeps and clones all parameters, those without gradients, too."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        nn.utils.clip_grad_norm_([p for p in own.all_parameters(self) if p.grad is not None], 0.5)
        super().step()
        for p in own.all_parameters(self):
            slow = self.state[p].setdefault("slow", p.clone())
            p.copy_(slow.lerp_(p, 0.5))


@pytest.mark.parametrize("kind", [Clipping, Slow])
@pytest.mark.parametrize("frozen", ["first", "later"])
def test_bytes_of_parameters_without_gradients(kind: Any, frozen: str) -> None:
    """The optimizer holds states of parameters that the step does not train, and works on them."""
    torch.manual_seed(0)
    model = Net()
    optimizer = kind(model.parameters(), lr=0.05, momentum=0.9)
    step = neap.torch.compile_step(model, loss_of, optimizer, budget="max")
    for i in range(4):
        model.first.requires_grad_(frozen == "later" and i < 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            step(torch.randn(6, 8), torch.randint(4, (6,)))
        memory = step.memory
        assert memory.enforced and 0 < memory.measured_peak_bytes <= memory.planned_peak_bytes


class Averaging(optim.SGD):
    """Works on all parameters, those without gradients, too."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        super().step()
        for p in own.all_parameters(self):
            slow = self.state[p].setdefault("slow", p.clone().mul_(0.5))
            p.copy_(slow.lerp_(p, 0.5))


@pytest.mark.parametrize("unused", ["frozen", "not in the loss", "none"])
def test_parameters_without_gradients_that_a_step_changes(unused: str) -> None:
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model, others = Net(), [nn.Parameter(torch.randn(3))] if unused == "not in the loss" else []
        model.first.requires_grad_(unused != "frozen")
        optimizer = Averaging([*model.parameters(), *others], lr=0.05)
        step = neap.torch.compile_step(model, loss_of, optimizer, budget="max")
        losses = []
        for _ in range(4):
            x, y = torch.randn(6, 8), torch.randint(4, (6,))
            losses.append(step(x, y).item() if compiled else eager_step(model, optimizer, x, y, None, False))
        found.append((losses, helpers.state(model, optimizer) | dict(enumerate(others))))
    assert found[0][0] == found[1][0] and helpers.differing(found[0][1], found[1][1]) == []
    assert bool(step.why_whole) == (unused != "none")


def test_refused_by_name() -> None:
    model = Net()
    for optimizer, name in (
        (optim.LBFGS(model.parameters()), "LBFGS"),
        (own.Lookahead(optim.LBFGS(model.parameters())), "LBFGS"),
        (optim.SparseAdam(model.parameters()), "SparseAdam"),
    ):
        with pytest.raises(TypeError, match=f"{name} is not supported"):
            neap.torch.compile_step(model, loss_of, optimizer, budget="min")


def test_parameters_that_a_state_dict_replaces() -> None:
    """In eager the optimizer goes on with the former parameters, and nothing trains any more; here that is refused, until it has the new."""
    torch.manual_seed(0)
    model, x, y = Net(), torch.randn(6, 8), torch.randint(4, (6,))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    step = neap.torch.compile_step(model, loss_of, optimizer, budget="max")
    step(x, y)
    loaded = copy.deepcopy(model.state_dict())
    model.load_state_dict(copy.deepcopy(loaded), assign=True)
    with pytest.raises(neap.torch.CannotTrace, match="assign=True"):
        step(x, y)
    assert helpers.differing(dict(model.state_dict()), loaded) == []
    other = copy.deepcopy(model)
    optimizer.add_param_group({"params": list(model.parameters())})
    torch.manual_seed(1)
    got = step(x, y)
    torch.manual_seed(1)
    expected = loss_of(other, x, y)
    expected.backward()
    optim.SGD(other.parameters(), lr=0.1).step()
    assert torch.equal(got, expected.detach())
    assert helpers.differing(dict(model.state_dict()), dict(other.state_dict())) == []


def test_types_in_which_a_small_step_hardly_shows() -> None:
    """The rates of fine-tuning in bf16 and f16: a parameter near 1 does not move, and the optimizer is taken apart all the same."""
    for dtype in (torch.bfloat16, torch.float16):
        for make in (of(optim.AdamW, lr=1e-6), of(optim.SGD, lr=1e-4, momentum=0.9)):
            updater = neap.torch.updates.Updater(make(Net().to(dtype)))
            updater.look([])
            assert updater.whole == ""


def test_hooks_that_come_and_go() -> None:
    """A hook between steps has the optimizer run whole from then on, until it is removed; settings between steps are tried anew."""

    class Limited(own.ClippedAdamW):
        limit = False

        def step(self, closure: Any = None) -> Any:
            return super().step(closure) if self.limit else optim.AdamW.step(self, closure)

    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model, x, y = Net(), torch.randn(8, 6, 8), torch.randint(4, (8, 6))
        optimizer = Limited(model.parameters(), lr=1e-2)
        optimizer.limit = False
        step = neap.torch.compile_step(model, loss_of, optimizer, budget="max") if compiled else None
        seen: list[float] = []
        handle, ways = None, []
        for i, (xs, ys) in enumerate(zip(x, y, strict=True)):
            if i == 2:
                handle = optimizer.register_step_pre_hook(
                    lambda o, a, k, seen=seen: seen.append(
                        max(float(p.grad.abs().max()) for p in own.all_parameters(o))
                    )
                )
            if i == 4:
                handle.remove()
            optimizer.limit = i >= 6
            step(xs, ys) if compiled else eager_step(model, optimizer, xs, ys, None, False)
            ways.append(bool(step.why_whole) if compiled else None)
        found.append((helpers.state(model, optimizer), seen, ways))
    assert helpers.differing(found[0][0], found[1][0]) == []
    assert found[0][1] == found[1][1] != []
    assert found[1][2] == [False, False, True, True, False, False, True, True]


def test_hooks_of_inner_and_of_all_optimizers() -> None:
    def scaled(optimizer: Any, args: Any, kwargs: Any) -> None:
        for p in own.all_parameters(optimizer):
            p.grad.mul_(0.5)

    def inner(model: nn.Module) -> torch.optim.Optimizer:
        base = optim.SGD(model.parameters(), lr=0.1)
        base.register_step_pre_hook(scaled)
        return own.Lookahead(base)

    assert "hooks" in check(inner, "plain", "min").why_whole
    handle = register_optimizer_step_pre_hook(scaled)
    try:
        assert "hooks" in check(of(optim.SGD, lr=0.1), "plain", "min").why_whole
    finally:
        handle.remove()


def test_gradients_that_are_kept() -> None:
    """A hook may keep a gradient: the next step does not write over it. A view of one is refused; an optimizer gets clones."""
    kept: list[torch.Tensor] = []
    itself: Any = lambda gradient: gradient  # noqa: E731

    def keeping(model: nn.Module, view: Any) -> torch.optim.Optimizer:
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        kept.clear()
        optimizer.register_step_pre_hook(
            lambda o, a, k: kept.extend(view(p.grad) for p in own.all_parameters(o))
        )  # fmt: skip
        return optimizer

    found = []
    for budget in (None, "min"):
        train(lambda m: keeping(m, itself), "plain", budget)
        found.append([g.clone() for g in kept])
    assert len(found[0]) == len(found[1]) == STEPS * 5
    assert all(map(torch.equal, *found))
    with pytest.raises(RuntimeError, match="keep a clone"):
        train(lambda m: keeping(m, lambda g: g[:1]), "plain", "min")

    class Former(optim.SGD):
        """Adds the former step's gradient, of which it keeps a view."""

        @torch.no_grad()
        def step(self, closure: Any = None) -> Any:
            for p in own.all_parameters(self):
                former = self.state[p].get("former")
                self.state[p]["former"] = p.grad.data.view(-1)
                p.grad = p.grad if former is None else p.grad + 0.5 * former.view_as(p)
            return super().step(closure)

    assert "views of gradients" in check(of(Former, lr=0.05), "plain", "min").why_whole


def test_bytes_of_gradients_are_in_the_plan() -> None:
    """Of a net whose parameters are most of its bytes: parameter by parameter, one gradient exists at a time; whole, all do."""
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(128, 128, bias=False) for _ in range(6)))
    least = {}
    for hook in (False, True):
        optimizer = optim.SGD(model.parameters(), lr=0.01)
        if hook:
            optimizer.register_step_pre_hook(lambda o, a, k: None)
        step = neap.torch.compile_step(model, lambda m, x: m(x).square().mean(), optimizer, budget="min")
        step(torch.randn(2, 128))
        least[hook] = step.memory.planned_peak_bytes
        report = neap.torch.plan(model, lambda m, x: m(x).square().mean(), (torch.randn(2, 128),), optimizer=optimizer)
        least["report", hook] = report.smallest_budget_bytes
    one = 128 * 128 * 4
    assert least[True] >= least[False] + 4 * one
    assert least["report", True] >= least["report", False] + 4 * one
    with pytest.raises(neap.OverBudget, match="all gradients exist at once") as raised:
        neap.torch.compile_step(model, lambda m, x: m(x).square().mean(), optimizer, budget=least[False])(
            torch.randn(2, 128)
        )
    assert raised.value.smallest == least[True]


def test_the_order_of_gradient_hooks() -> None:
    """They run in the order in which gradients are complete, with the gradient in place."""
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model, order = Net(), []
        for name, p in model.named_parameters():
            p.register_post_accumulate_grad_hook(
                lambda p, name=name, order=order: order.append((name, float(p.grad.norm())))
            )
        optimizer, x, y = optim.SGD(model.parameters(), lr=0.1), torch.randn(6, 8), torch.randint(4, (6,))
        step = neap.torch.compile_step(model, loss_of, optimizer, budget="min") if compiled else None
        for _ in range(3):
            step(x, y) if compiled else eager_step(model, optimizer, x, y, None, False)
        found.append(order)
    assert sorted(found[0][:5]) == sorted(found[1][:5])
    assert found[0] == found[1]


@pytest.mark.long
def test_timm() -> None:
    """All of timm's optimizers that train in eager on this machine."""
    timm = pytest.importorskip("timm.optim")
    apart, whole = [], []
    for name in timm.list_optimizers():
        make = lambda model, name=name: timm.create_optimizer_v2(model, opt=name, lr=1e-2, weight_decay=1e-2)  # noqa: E731
        try:
            train(make, "plain", None)
        except (AssertionError, ValueError, ImportError):  # they need CUDA, or other libraries
            continue
        step = check(make, "plain", "min")
        (whole if step.why_whole else apart).append(name)
    assert {"sgdw", "nadamw", "adamp", "lion", "madgrad"} <= set(apart)
    assert {"adafactor", "laprop", "lamb", "adan"} <= set(whole)


@pytest.mark.parametrize("name", ["lookahead_adamw", "adafactor", "laprop"])
def test_timm_at_once(name: str) -> None:
    timm = pytest.importorskip("timm.optim")
    assert check(lambda m: timm.create_optimizer_v2(m, opt=name, lr=1e-2), "gradients present", "min").why_whole


# ---- Lightning ----


def fitted(budget: Any, average: bool = False, **options: Any) -> Any:
    """A module that keeps its losses in a list, and what a callback sees of them; trained for some epochs."""
    pl = pytest.importorskip("lightning.pytorch")

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net, self.losses, self.seen = Net(), [], []

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = loss_of(self.net, *batch)
            self.losses.append(loss)
            self.log("loss", loss, on_step=True, on_epoch=True)
            return {"loss": loss, "twice": 2 * loss.detach()}

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("validated", loss_of(self.net, *batch))

        def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
            self.seen.append(
                (float(outputs["loss"]), float(outputs["twice"]), float(self.trainer.callback_metrics["loss"]))
            )

        def on_train_epoch_start(self) -> None:
            self.zero_grad()  # Lightning takes a step with old gradients at the end of the averages' pass for statistics

        def configure_optimizers(self) -> Any:
            return optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    g = torch.Generator().manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(22, 8, generator=g), torch.randint(4, (22,), generator=g))
    module = Module()
    callbacks = [] if budget is None else [neap.torch.LightningBudget(budget)]
    if average:
        callbacks.append(pl.callbacks.StochasticWeightAveraging(swa_lrs=0.05, swa_epoch_start=1))
    torch.manual_seed(1)
    trainer = pl.Trainer(
        max_epochs=4, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=callbacks, **options,
    )  # fmt: skip
    trainer.fit(module, torch.utils.data.DataLoader(data, 4), torch.utils.data.DataLoader(data, 8))
    return module, trainer


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"average": True},
        {"accumulate_grad_batches": 4, "gradient_clip_val": 0.2},
        {"accumulate_grad_batches": 3, "val_check_interval": 2},
        {"accumulate_grad_batches": 2, "average": True},
    ],
    ids=lambda options: " ".join(options) or "plain",
)
@pytest.mark.filterwarnings("ignore")
def test_lightning(options: dict[str, Any]) -> None:
    expected, plain = fitted(None, **options)
    got, trainer = fitted("min", **options)
    assert got.seen == expected.seen and trainer.global_step == plain.global_step
    assert helpers.differing(dict(got.state_dict()), dict(expected.state_dict())) == []
    assert [float(x) for x in got.losses] == [float(x) for x in expected.losses]
    assert all(type(x) is torch.Tensor for x in got.losses)
    memory = next(c for c in trainer.callbacks if isinstance(c, neap.torch.LightningBudget)).memory
    assert 0 < memory.measured_peak_bytes <= memory.planned_peak_bytes
