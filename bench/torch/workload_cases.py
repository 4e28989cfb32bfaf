"""The trainings of workloads.py, as people write them: small nets, random data. Packages that a training needs are imported when it is made."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import itertools
import math
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

WIDTH = 16


@dataclasses.dataclass
class Trainer:
    """One step of one optimizer. batch(number) gives what loss_fn takes beside the model. eager: the eager step, if it is not the usual."""

    model: nn.Module
    loss_fn: Callable[..., Any]
    optimizer: torch.optim.Optimizer
    batch: Callable[[int], tuple[Any, ...]]
    clip_norm: float | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)  # of compile_step
    eager: Callable[..., torch.Tensor] | None = None


@dataclasses.dataclass
class Case:
    """trainers run one after the other in each step. others: what else is compared, by name. between(number): what is done after a step."""

    trainers: list[Trainer]
    others: dict[str, Any] = dataclasses.field(default_factory=dict)
    between: Callable[[int], None] = lambda number: None
    steps: int = 4


@dataclasses.dataclass
class Work:
    """trains: make(budget) trains itself, by the trainer of another package; else make() gives a Case."""

    name: str
    kind: str
    make: Callable[..., Any]
    needs: tuple[str, ...] = ()
    trains: bool = False
    timed: bool = True


WORKS: list[Work] = []


def work(name: str, kind: str, *needs: str, trains: bool = False, timed: bool = True) -> Callable[[Any], Any]:
    def add(make: Any) -> Any:
        WORKS.append(Work(name, kind, make, needs, trains, timed))
        return make

    return add


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


# ---- What trainings share ----


def drawn(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(100 + number)


def vectors(
    rows: int = 8, width: int = WIDTH, classes: int = WIDTH
) -> Callable[[int], tuple[torch.Tensor, torch.Tensor]]:
    def batch(number: int) -> tuple[torch.Tensor, torch.Tensor]:
        g = drawn(number)
        return torch.randn(rows, width, generator=g), torch.randint(classes, (rows,), generator=g)

    return batch


def pictures(rows: int = 4, size: int = 8, classes: int = 4) -> Callable[[int], tuple[torch.Tensor, torch.Tensor]]:
    def batch(number: int) -> tuple[torch.Tensor, torch.Tensor]:
        g = drawn(number)
        return torch.randn(rows, 3, size, size, generator=g), torch.randint(classes, (rows,), generator=g)

    return batch


def texts(rows: int = 4, length: int = 12, words: int = 32) -> Callable[[int], tuple[torch.Tensor]]:
    return lambda number: (torch.randint(3, words, (rows, length), generator=drawn(number)),)


def adamw(model: nn.Module, lr: float = 1e-2) -> torch.optim.Optimizer:
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def classify(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


def mlp(*widths: int, norm: bool = False, act: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [nn.Linear(a, b), *([nn.BatchNorm1d(b)] if norm else []), act()]
    return nn.Sequential(*layers[:-1])


def conv_net(classes: int = 4, width: int = 8) -> nn.Sequential:
    block = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True))  # noqa: E731
    return nn.Sequential(block(3, width), block(width, width), nn.MaxPool2d(2), block(width, width), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))  # fmt: skip


def plain(model: nn.Module, batch: Any = None, loss_fn: Any = classify, optimizer: Any = None, **options: Any) -> Case:
    """A case of one trainer."""
    return Case([Trainer(model, loss_fn, optimizer or adamw(model), batch or vectors())], **options)


class Net(nn.Module):
    """Has a forward pass of its own: run(self, x)."""

    def __init__(self, run: Callable[..., torch.Tensor], **attributes: Any):
        super().__init__()
        for name, value in attributes.items():
            setattr(self, name, value)
        self.run = run

    def forward(self, *args: Any) -> torch.Tensor:
        return self.run(self, *args)


def follow(slow: nn.Module, fast: nn.Module, rate: float = 0.1) -> None:
    with torch.no_grad():
        for a, b in zip(slow.parameters(), fast.parameters(), strict=True):
            a.lerp_(b, rate)


# ---- Vision ----


class Residual(nn.Module):
    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x)


@work("residual net, SGD, cosine schedule", "vision")
def _() -> Case:
    block = lambda: Residual(nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()))  # noqa: E731
    model = nn.Sequential(nn.Conv2d(3, 8, 3), block(), block(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    return plain(model, pictures(), optimizer=optimizer, between=lambda number: schedule.step())


@work("vision transformer, label smoothing, mixup", "vision")
def _() -> Case:
    class ViT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patch, self.token = nn.Conv2d(3, WIDTH, 4, 4), nn.Parameter(torch.zeros(1, 1, WIDTH))
            self.place = nn.Parameter(torch.randn(1, 5, WIDTH) * 0.02)
            self.blocks = nn.TransformerEncoder(
                nn.TransformerEncoderLayer(WIDTH, 2, 32, 0.1, batch_first=True), 2, enable_nested_tensor=False
            )
            self.head = nn.Linear(WIDTH, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
            return self.head(self.blocks(x)[:, 0])

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        out = model(share * x + (1 - share) * x.flip(0))
        parts = [F.cross_entropy(out, target, label_smoothing=0.1) for target in (y, y.flip(0))]
        return share * parts[0] + (1 - share) * parts[1]

    batch = lambda number: (*pictures()(number), torch.rand((), generator=drawn(number)))  # noqa: E731
    return plain(ViT(), batch, loss)


@work("U-Net, cross entropy and dice", "vision")
def _() -> Case:
    conv = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True))  # noqa: E731

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        a = self.down(x)
        b = self.up(self.middle(F.max_pool2d(a, 2)))
        return self.out(torch.cat([a, b], 1))

    model = Net(run, down=conv(3, 8), middle=conv(8, 8), up=nn.ConvTranspose2d(8, 8, 2, 2), out=nn.Conv2d(16, 1, 1))

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        mask = (x[:, :1] > 0).float()
        out = model(x)
        share = out.sigmoid()
        dice = 1 - (2 * (share * mask).sum() + 1) / (share.sum() + mask.sum() + 1)
        return F.binary_cross_entropy_with_logits(out, mask) + dice

    return plain(model, pictures(), loss)


@work("autoencoder with tied weights", "vision")
def _() -> Case:
    model = Net(
        lambda self, x: F.linear(torch.tanh(self.encode(x)), self.encode.weight.t()), encode=nn.Linear(WIDTH, 4)
    )
    return plain(model, vectors(), lambda model, x, y: F.mse_loss(model(x), x))


@work("variational autoencoder", "vision")
def _() -> Case:
    model = Net(lambda self, x: x, encode=mlp(WIDTH, 16, 8), decode=mlp(4, 16, WIDTH))

    def loss(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        mean, log = model.encode(x).chunk(2, 1)
        out = model.decode(mean + torch.randn_like(mean) * (0.5 * log).exp())
        return F.mse_loss(out, x) - 0.5 * (1 + log - mean.square() - log.exp()).mean()

    return plain(model, vectors(), loss)


@work("boxes by torchvision's IoU losses", "vision", "torchvision")
def _() -> Case:
    from torchvision import ops

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        boxes = lambda t: torch.cat([t[:, :2], t[:, :2] + t[:, 2:4].abs() + 0.1], 1)  # noqa: E731
        goal, out = boxes(x), boxes(model(x))
        return (
            ops.generalized_box_iou_loss(out, goal, reduction="mean")
            + ops.distance_box_iou_loss(out, goal, reduction="mean")
            + ops.complete_box_iou_loss(out, goal, reduction="sum")
            + ops.sigmoid_focal_loss(out, (goal > 0).float(), reduction="mean")
        )

    return plain(mlp(WIDTH, 16, 4), vectors(), loss)


@work("quantisation-aware training, fresh observers", "vision", timed=False)
def _() -> Case:
    import torch.ao.quantization as q

    model = nn.Sequential(q.QuantStub(), nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, WIDTH), q.DeQuantStub())
    model.qconfig = q.get_default_qat_qconfig("x86")
    q.prepare_qat(model.train(), inplace=True)
    return plain(model)


@work("quantisation-aware training, observers after one eager step", "vision")
def _() -> Case:
    import torch.ao.quantization as q

    model = nn.Sequential(q.QuantStub(), nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, WIDTH), q.DeQuantStub())
    model.qconfig = q.get_default_qat_qconfig("x86")
    q.prepare_qat(model.train(), inplace=True)
    model(vectors()(9)[0])
    return plain(model)


@work("features by hooks, perceptual loss", "vision")
def _() -> Case:
    net, found = conv_net().eval().requires_grad_(False), {}
    for i in (0, 1):
        net[i].register_forward_hook(lambda module, args, out, i=i: found.update({i: out}))
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 3, padding=1))

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        net(x)
        goals = dict(found)
        net(model(x))
        return sum(F.l1_loss(found[i], goals[i]) for i in goals)

    return plain(model, pictures(), loss)


@work("a picture is trained (style)", "vision")
def _() -> Case:
    net = conv_net().eval().requires_grad_(False)
    model = nn.ParameterList([nn.Parameter(torch.randn(1, 3, 8, 8))])

    def loss(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        gram = lambda t: (f := net[:2](t).flatten(2)) @ f.transpose(1, 2)  # noqa: E731
        return F.mse_loss(gram(model[0]), gram(x[:1]))

    return plain(model, pictures(), loss)


# ---- Objects ----


@work("a layer twice in a sequence", "objects")
def _() -> Case:
    layer = nn.Linear(WIDTH, WIDTH)
    return plain(nn.Sequential(layer, nn.ReLU(), layer))


@work("a list of one layer, three times", "objects")
def _() -> Case:
    layer = nn.Linear(WIDTH, WIDTH)

    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        for inner in self.layers:
            x = torch.tanh(inner(x))
        return x

    return plain(Net(run, layers=nn.ModuleList([layer] * 3)))


@work("siamese attributes, contrastive loss", "objects")
def _() -> Case:
    branch = mlp(WIDTH, 16, 8)
    model = Net(lambda self, x: (self.left(x), self.right(x.flip(0))), left=branch, right=branch)

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a, b = model(x)
        alike, gap = (y == y.flip(0)).float(), F.pairwise_distance(a, b)
        return (alike * gap.square() + (1 - alike) * F.relu(1 - gap).square()).mean()

    return plain(model, vectors(), loss)


@work("backbone and head, and both in a sequence", "objects")
def _() -> Case:
    backbone, head = mlp(WIDTH, 16, 16), nn.Linear(16, WIDTH)
    return plain(Net(lambda self, x: self.net(x), backbone=backbone, head=head, net=nn.Sequential(backbone, head)))


def changing(change: Callable[[nn.Module], None], model: nn.Module, loss_fn: Any = classify, **others: Any) -> Case:
    """A change after the second step."""
    return plain(
        model, loss_fn=loss_fn, between=lambda number: change(model) if number == 1 else None, steps=5, **others
    )


@work("a hook is added, then removed", "objects")
def _() -> Case:
    model, handles = mlp(WIDTH, 16, WIDTH), []

    def between(number: int) -> None:
        if number == 1:
            handles.append(model[0].register_forward_hook(lambda m, a, out: out * 0.5))
        if number == 3:
            handles.pop().remove()

    return plain(model, between=between, steps=6)


SETTINGS = {"factor": 1.0}


@work("a global dictionary changes", "objects")
def _() -> Case:
    SETTINGS["factor"] = 1.0
    loss = lambda model, x, y: classify(model, x, y) * SETTINGS["factor"]  # noqa: E731
    return changing(lambda model: SETTINGS.update(factor=0.5), mlp(WIDTH, 16, WIDTH), loss)


@work("a class attribute that forward reads changes", "objects")
def _() -> Case:
    class Scaled(nn.Module):
        factor = 1.0

        def __init__(self) -> None:
            super().__init__()
            self.inner = mlp(WIDTH, 16, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) * self.factor

    return changing(lambda model: setattr(Scaled, "factor", 0.5), Scaled())


@work("an object with slots changes", "objects")
def _() -> Case:
    class Slots:
        __slots__ = ("rate",)

    held = Slots()
    held.rate = 1.0
    loss = lambda model, x, y: classify(model, x, y) * held.rate  # noqa: E731
    return changing(lambda model: setattr(held, "rate", 0.5), mlp(WIDTH, 16, WIDTH), loss)


@work("a teacher in a closure changes its mode", "objects")
def _() -> Case:
    teacher = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.5))
    loss = lambda model, x, y: F.mse_loss(model(x), teacher(x).detach())  # noqa: E731
    return changing(lambda model: teacher.eval(), mlp(WIDTH, 16, WIDTH), loss)


@work("code that has no file", "objects")
def _() -> Case:
    scope: dict[str, Any] = {"F": F, "__name__": "__main__", "rates": [1.0]}
    exec(
        compile("def loss(model, x, y):\n    return F.cross_entropy(model(x), y) * rates[0]", "<stdin>", "exec"), scope
    )
    return changing(lambda model: scope["rates"].__setitem__(0, 0.5), mlp(WIDTH, 16, WIDTH), scope["loss"])


@work("state loaded with assign=True, and a new optimizer", "objects", timed=False)
def _() -> Case:
    case = plain(mlp(WIDTH, 16, WIDTH), steps=5)

    def between(number: int) -> None:
        trainer = case.trainers[0]
        if number == 1:
            trainer.model.load_state_dict({k: v * 0.5 for k, v in trainer.model.state_dict().items()}, assign=True)
            trainer.optimizer = adamw(trainer.model)

    case.between = between
    return case


@work("add_param_group: a layer is unfrozen", "objects")
def _() -> Case:
    model = mlp(WIDTH, 16, WIDTH)
    model[0].requires_grad_(False)
    case = plain(model, steps=5)

    def between(number: int) -> None:
        if number == 1:
            model[0].requires_grad_(True)
            case.trainers[0].optimizer.add_param_group({"params": list(model[0].parameters()), "lr": 1e-3})

    case.between = between
    return case


@work("mixture of experts by torch.where", "objects")
def _() -> Case:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        share, chosen = self.gate(x).softmax(1).max(1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            at = torch.where(chosen == i)[0]
            out = out.index_add(0, at, expert(x[at]) * share[at, None])
        return out

    return plain(Net(run, gate=nn.Linear(WIDTH, 3), experts=nn.ModuleList(mlp(WIDTH, 16, WIDTH) for _ in range(3))))


@work("mixture of experts by masks", "objects")
def _() -> Case:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        share, chosen = self.gate(x).softmax(1).max(1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            out = torch.where((chosen == i)[:, None], expert(x) * share[:, None], out)
        return out

    return plain(Net(run, gate=nn.Linear(WIDTH, 3), experts=nn.ModuleList(mlp(WIDTH, 16, WIDTH) for _ in range(3))))


@work("complex parameters (Fourier layer)", "objects")
def _() -> Case:
    weight = nn.Parameter(torch.randn(WIDTH // 2 + 1, dtype=torch.complex64))
    model = Net(
        lambda self, x: self.out(torch.fft.irfft(torch.fft.rfft(x) * self.weight, n=WIDTH)),
        weight=weight,
        out=nn.Linear(WIDTH, WIDTH),
    )
    return plain(model)


@work("a generator of one's own", "objects")
def _() -> Case:
    own = torch.Generator().manual_seed(3)

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return classify(model, x + 0.1 * torch.randn(x.shape, generator=own), y)

    return plain(mlp(WIDTH, 16, WIDTH), vectors(), loss)


@work("a module is cast in forward", "objects")
def _() -> Case:
    model = Net(
        lambda self, x: self.out(x + self.e.to(x.device)(torch.arange(len(x)))),
        e=nn.Embedding(8, WIDTH),
        out=nn.Linear(WIDTH, WIDTH),
    )
    return plain(model)


@work("detect_anomaly", "objects", timed=False)
def _() -> Case:
    torch.autograd.set_detect_anomaly(True)
    return plain(mlp(WIDTH, 16, WIDTH))


@work("a copy of a compiled step", "objects", trains=True)
def _(budget: str | None) -> Any:
    import neap.torch

    trainer = plain(mlp(WIDTH, 16, WIDTH)).trainers[0]
    if budget is not None:
        copy.deepcopy(neap.torch.compile_step(trainer.model, trainer.loss_fn, trainer.optimizer, budget=budget))
    return {}, None, []


# ---- Networks that train each other ----


def adversaries(
    g: nn.Module, d: nn.Module, noise: int, real: Any, of_d: Any = None, make: Any = adamw, **options: Any
) -> Case:
    """A discriminator's step, then a generator's; each is in the other's loss, in train mode."""

    def loss_d(d: nn.Module, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return F.softplus(d(g(z).detach())).mean() + F.softplus(-d(x)).mean()

    def loss_g(g: nn.Module, z: torch.Tensor) -> torch.Tensor:
        return F.softplus(-d(g(z))).mean()

    z = lambda number: torch.randn(4, noise, generator=drawn(number))  # noqa: E731
    return Case([Trainer(d, of_d or loss_d, make(d), lambda number: (real(number), z(number))), Trainer(g, loss_g, make(g), lambda number: (z(number),))], **options)  # fmt: skip


def dcgan() -> tuple[nn.Module, nn.Module]:
    g = nn.Sequential(
        nn.Unflatten(1, (WIDTH, 1, 1)),
        nn.ConvTranspose2d(WIDTH, 8, 4),
        nn.BatchNorm2d(8),
        nn.ReLU(True),
        nn.ConvTranspose2d(8, 3, 4, 2, 1),
        nn.Tanh(),
    )
    d = nn.Sequential(
        nn.Conv2d(3, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.LeakyReLU(0.2, True), nn.Conv2d(8, 1, 4), nn.Flatten()
    )
    return g, d


@work("DCGAN", "GAN")
def _() -> Case:
    return adversaries(*dcgan(), WIDTH, lambda number: pictures()(number)[0])


@work("WGAN-GP", "GAN")
def _() -> Case:
    g, d = mlp(WIDTH, 16, WIDTH, norm=True), mlp(WIDTH, 16, 1)

    def loss(d: nn.Module, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        fake = g(z).detach()
        share = torch.rand(len(x), 1)
        between = (share * x + (1 - share) * fake).requires_grad_()
        (slope,) = torch.autograd.grad(d(between).sum(), between, create_graph=True)
        return d(fake).mean() - d(x).mean() + 10 * (slope.norm(2, 1) - 1).square().mean()

    return adversaries(g, d, WIDTH, lambda number: vectors(4)(number)[0], loss)


@work("spectral norm in the discriminator, instance norm in the generator", "GAN")
def _() -> Case:
    g, d = dcgan()
    g[2] = nn.InstanceNorm2d(8, affine=True, track_running_stats=True)
    d[0], d[3], d[1] = parametrizations.spectral_norm(d[0]), parametrizations.spectral_norm(d[3]), nn.Identity()
    return adversaries(g, d, WIDTH, lambda number: pictures()(number)[0])


@work("GAN with R1 and an average of the generator", "GAN")
def _() -> Case:
    g, d = mlp(WIDTH, 16, WIDTH), mlp(WIDTH, 16, 1, act=nn.SiLU)
    mean = copy.deepcopy(g)

    def loss(d: nn.Module, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        out = d(x)
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        return F.softplus(d(g(z).detach())).mean() + F.softplus(-out).mean() + 5 * slope.square().sum(1).mean()

    return adversaries(
        g,
        d,
        WIDTH,
        lambda number: vectors(4)(number)[0],
        loss,
        others={"mean ": mean},
        between=lambda number: follow(mean, g),
    )


@work("CycleGAN: two generators in one optimizer", "GAN")
def _() -> Case:
    pair, d = nn.ModuleList([mlp(WIDTH, 16, WIDTH, norm=True) for _ in range(2)]), mlp(WIDTH, 16, 1, norm=True)

    def loss(pair: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        there = pair[0](x)
        return F.l1_loss(pair[1](there), x) + F.softplus(-d(there)).mean()

    def loss_d(d: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.softplus(d(pair[0](x).detach())).mean() + F.softplus(-d(x.flip(1))).mean()

    return Case([Trainer(pair, loss, adamw(pair), vectors()), Trainer(d, loss_d, adamw(d), vectors())])


# ---- Learning from a second network ----


@work("distillation from a frozen teacher", "contrastive")
def _() -> Case:
    teacher = conv_net().eval().requires_grad_(False)

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            goal = teacher(x)
        out = model(x)
        return F.cross_entropy(out, y) + 4 * F.kl_div(
            F.log_softmax(out / 2, 1), F.softmax(goal / 2, 1), reduction="batchmean"
        )

    return plain(conv_net(width=4), pictures(), loss, others={"teacher ": teacher})


@work("mean teacher, batch norm in train mode", "contrastive")
def _() -> Case:
    model = mlp(WIDTH, 16, WIDTH, norm=True)
    teacher = copy.deepcopy(model).requires_grad_(False)

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            goal = teacher(x + 0.1 * torch.randn_like(x))
        out = model(x)
        return F.cross_entropy(out, y) + F.mse_loss(out.softmax(1), goal.softmax(1))

    return plain(model, vectors(), loss, others={"teacher ": teacher}, between=lambda number: follow(teacher, model))


@work("BYOL, batch norm in train mode", "contrastive")
def _() -> Case:
    online, predict = mlp(WIDTH, 16, 8, norm=True), mlp(8, 16, 8, norm=True)
    target = copy.deepcopy(online).requires_grad_(False)
    model = nn.ModuleDict({"online": online, "predict": predict})

    def loss(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a, b = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
        with torch.no_grad():
            goals = target(a), target(b)
        seen = model["predict"](model["online"](a)), model["predict"](model["online"](b))
        return 2 - sum(F.cosine_similarity(s, t).mean() for s, t in zip(seen, reversed(goals), strict=True))

    return plain(model, vectors(), loss, others={"target ": target}, between=lambda number: follow(target, online))


@work("SimCLR", "contrastive")
def _() -> Case:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        both = torch.cat([x, F.dropout(x, 0.2)])
        z = F.normalize(model(both), dim=1)
        near = (z @ z.t() / 0.5).masked_fill(torch.eye(len(z), dtype=torch.bool), -1e9)
        return F.cross_entropy(near, torch.arange(len(z)).roll(len(x)))

    return plain(mlp(WIDTH, 16, 8, norm=True), vectors(), loss)


@work("MoCo: a queue of keys", "contrastive")
def _() -> Case:
    model = mlp(WIDTH, 16, 8)
    slow, queue = copy.deepcopy(model).requires_grad_(False), F.normalize(torch.randn(16, 8), dim=1)

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
        q = F.normalize(model(x), dim=1)
        with torch.no_grad():
            k = F.normalize(slow(x), dim=1)
        near = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.clone().t()], 1) / 0.1
        with torch.no_grad():
            queue.copy_(torch.cat([k, queue[: -len(k)]]))
        return F.cross_entropy(near, torch.zeros(len(x), dtype=torch.long))

    return plain(
        model,
        vectors(),
        loss,
        others={"queue ": {"keys": queue}, "slow ": slow},
        between=lambda number: follow(slow, model),
    )


@work("DINO with a center", "contrastive")
def _() -> Case:
    model, center = mlp(WIDTH, 16, 8), torch.zeros(8)
    teacher = copy.deepcopy(model).requires_grad_(False)

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            out = teacher(x)
            goal = ((out - center) / 0.04).softmax(1)
            center.mul_(0.9).add_(out.mean(0), alpha=0.1)
        return -(goal * F.log_softmax(model(F.dropout(x, 0.1)) / 0.1, 1)).sum(1).mean()

    return plain(
        model, vectors(), loss, others={"center ": {"c": center}}, between=lambda number: follow(teacher, model)
    )


@work("ArcFace: a loss with parameters", "contrastive")
def _() -> Case:
    model, weight = mlp(WIDTH, 16, 8), nn.Parameter(torch.randn(WIDTH, 8))

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        near = F.linear(F.normalize(model(x)), F.normalize(weight)).clamp(-0.99, 0.99)
        wider = torch.where(F.one_hot(y, WIDTH).bool(), (near.acos() + 0.5).cos(), near)
        return F.cross_entropy(wider * 16, y)

    return plain(
        model, vectors(), loss, torch.optim.SGD([*model.parameters(), weight], lr=0.05), others={"loss ": {"w": weight}}
    )


# ---- Language ----


class GPT(nn.Module):
    def __init__(self, words: int = 32, tied: bool = True):
        super().__init__()
        self.embed, self.place = nn.Embedding(words, WIDTH), nn.Embedding(32, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 2, 32, 0.1, F.gelu, batch_first=True, norm_first=True) for _ in range(2)
        )
        self.head = nn.Linear(WIDTH, words, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:
        n = ids.shape[1]
        x, mask = self.embed(ids) + self.place(torch.arange(n)), nn.Transformer.generate_square_subsequent_mask(n)
        for block in self.blocks:
            x = block(x, mask, is_causal=True)
        return x

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.hidden(ids))


def next_word(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


@work("GPT, tied head, clipped", "language")
def _() -> Case:
    model = GPT()
    return Case([Trainer(model, next_word, adamw(model, 1e-3), texts(), clip_norm=1.0)])


@work("GPT, head in chunks", "language")
def _() -> Case:
    import neap.torch

    model = GPT(48)

    def eager(ids: torch.Tensor) -> torch.Tensor:
        loss = neap.torch.chunked_cross_entropy(model.hidden(ids)[:, :-1], model.head.weight, ids[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    optimizer = adamw(model, 1e-3)
    return Case([Trainer(model, next_word, optimizer, texts(words=48), options={"chunk_head": True}, eager=eager)])


def language_model(**changed: Any) -> nn.Module:
    import transformers as t

    sizes = dict(
        vocab_size=32,
        hidden_size=WIDTH,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
    )
    return t.LlamaForCausalLM(t.LlamaConfig(**{**sizes, **changed}))


def own_loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    return model(input_ids=ids, labels=ids).loss


@work("Llama of transformers, no mask given", "language", "transformers")
def _() -> Case:
    return plain(language_model(), texts(), own_loss)


@work("Llama of transformers, a padded mask", "language", "transformers")
def _() -> Case:
    def loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        mask = torch.ones_like(ids)
        mask[0, 8:] = 0
        return model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss

    return plain(language_model(), texts(), loss)


@work("BERT, masked words", "language", "transformers")
def _() -> Case:
    import transformers as t

    model = t.BertForMaskedLM(
        t.BertConfig(vocab_size=32, hidden_size=WIDTH, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    )

    def loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        hidden = torch.rand(ids.shape) < 0.15
        return model(input_ids=ids.masked_fill(hidden, 1), labels=ids.masked_fill(~hidden, -100)).loss + 0

    return plain(model, texts(), loss)


@work("T5, sequence to sequence", "language", "transformers")
def _() -> Case:
    import transformers as t

    model = t.T5ForConditionalGeneration(
        t.T5Config(vocab_size=32, d_model=WIDTH, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0)
    )
    return plain(model, texts(), own_loss)


@work("LSTM language model, state from batch to batch", "recurrent")
def _() -> Case:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.lstm, self.head = (
                nn.Embedding(32, WIDTH),
                nn.LSTM(WIDTH, WIDTH, batch_first=True),
                nn.Linear(WIDTH, 32),
            )

        def forward(self, ids: torch.Tensor, state: Any) -> Any:
            out, state = self.lstm(self.embed(ids), state)
            return self.head(out), state

    def loss(model: nn.Module, ids: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> Any:
        out, state = model(ids, (h, c))
        return F.cross_entropy(out[:, :-1].flatten(0, 1), ids[:, 1:].flatten()), {
            "h": state[0].detach(),
            "c": state[1].detach(),
        }

    zeros = torch.zeros(1, 4, WIDTH)
    return plain(Words(), lambda number: (*texts()(number), zeros + number * 0.1, zeros), loss)


@work("GRU and CTC loss", "recurrent")
def _() -> Case:
    model = Net(
        lambda self, x: self.head(self.gru(x)[0]).log_softmax(-1),
        gru=nn.GRU(4, WIDTH, bidirectional=True),
        head=nn.Linear(2 * WIDTH, 6),
    )

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.ctc_loss(model(x), y, torch.full((3,), 12), torch.full((3,), 4))

    return plain(
        model,
        lambda n: (torch.randn(12, 3, 4, generator=drawn(n)), torch.randint(1, 6, (3, 4), generator=drawn(n))),
        loss,
    )


@work("state space scan, 20 times", "recurrent")
def _() -> Case:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        gate, state, out = self.gate(x).sigmoid(), torch.zeros(x.shape[0], WIDTH), []
        for i in range(x.shape[1]):
            state = gate[:, i] * state + (1 - gate[:, i]) * self.inner(x[:, i])
            out.append(state)
        return torch.stack(out, 1)

    model = Net(run, gate=nn.Linear(WIDTH, WIDTH), inner=nn.Linear(WIDTH, WIDTH))
    return plain(
        model,
        lambda n: (torch.randn(2, 20, WIDTH, generator=drawn(n)),),
        lambda model, x: F.mse_loss(model(x)[:, :-1], x[:, 1:]),
    )


@work("encoder and decoder (nn.Transformer)", "language")
def _() -> Case:
    model, mask = (
        nn.Transformer(WIDTH, 2, 1, 1, 32, batch_first=True),
        nn.Transformer.generate_square_subsequent_mask(5),
    )

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(model(x, x[:, :-1], tgt_mask=mask, tgt_is_causal=True), x[:, 1:])

    return plain(model, lambda n: (torch.randn(2, 6, WIDTH, generator=drawn(n)),), loss)


@work("word vectors, negative samples", "language")
def _() -> Case:
    def loss(model: Any, ids: torch.Tensor) -> torch.Tensor:
        word, near, far = model[0](ids[:, 0]), model[1](ids[:, 1]), model[1](torch.randint(32, (ids.shape[0], 5)))
        return -(F.logsigmoid((word * near).sum(1)) + F.logsigmoid(-(far @ word[:, :, None])).sum((1, 2))).mean()

    return plain(nn.ModuleList([nn.Embedding(32, WIDTH), nn.Embedding(32, WIDTH)]), texts(), loss)


# ---- Diffusion ----


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time, self.inner = (
            nn.Linear(1, 8),
            nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU()),
        )
        self.out = nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return self.out(self.inner(x) + self.time(t[:, None])[:, :, None, None])


@work("DDPM with an averaged model", "diffusion")
def _() -> Case:
    model = Denoiser()
    mean, kept = torch.optim.swa_utils.AveragedModel(model), torch.linspace(0.99, 0.01, 10).cumprod(0)

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        t, noise = torch.randint(10, (len(x),)), torch.randn_like(x)
        share = kept[t][:, None, None, None]
        return F.mse_loss(model(share.sqrt() * x + (1 - share).sqrt() * noise, t / 10), noise)

    return plain(model, pictures(), loss, others={"mean ": mean}, between=lambda number: mean.update_parameters(model))


@work("flow matching", "diffusion")
def _() -> Case:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        t, noise = torch.rand(len(x)), torch.randn_like(x)
        at = t[:, None, None, None]
        return F.mse_loss(model(at * x + (1 - at) * noise, t), x - noise)

    return plain(Denoiser(), pictures(), loss)


@work("score matching by jvp of two layers", "diffusion")
def _() -> Case:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        way = torch.randn_like(x)
        score, slope = torch.func.jvp(model, (x,), (way,))
        return (0.5 * score.square().sum(1) + (slope * way).sum(1)).mean()

    return plain(mlp(WIDTH, 16, WIDTH, act=nn.Tanh), vectors(), loss)


@work("a penalty by the hessian (vmap)", "diffusion")
def _() -> Case:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        bends = torch.vmap(torch.func.hessian(lambda t: model(t).sum()))(x)
        return model(x).square().mean() + 0.1 * bends.square().mean()

    return plain(mlp(4, 8, 1, act=nn.Tanh), vectors(4, 4), loss)


# ---- Graphs, tables, physics ----


@work("graph convolution by index_add", "graph")
def _() -> Case:
    def run(self: Any, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(torch.zeros_like(x).index_add(0, edges[1], layer(x)[edges[0]]) + x)
        return x

    model = Net(run, layers=nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2)))
    batch = lambda n: (*vectors()(n), torch.randint(8, (2, 20), generator=drawn(n)))  # noqa: E731
    return plain(model, batch, lambda model, x, y, edges: F.cross_entropy(model(x, edges), y))


@work("GCN of PyTorch Geometric", "graph", "torch_geometric")
def _() -> Case:
    from torch_geometric.nn import GCNConv

    model = Net(
        lambda self, x, edges: self.b(torch.relu(self.a(x, edges)), edges), a=GCNConv(WIDTH, 16), b=GCNConv(16, WIDTH)
    )
    batch = lambda n: (*vectors()(n), torch.randint(8, (2, 20), generator=drawn(n)))  # noqa: E731
    return plain(model, batch, lambda model, x, y, edges: F.cross_entropy(model(x, edges), y))


@work("a DataBatch of PyTorch Geometric", "graph", "torch_geometric")
def _() -> Case:
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import SAGEConv, global_mean_pool

    model = Net(
        lambda self, data: self.head(global_mean_pool(torch.relu(self.a(data.x, data.edge_index)), data.batch, 2)),
        a=SAGEConv(WIDTH, 16),
        head=nn.Linear(16, 4),
    )

    def batch(n: int) -> tuple[Any]:
        g = drawn(n)
        return (
            Batch.from_data_list(
                [
                    Data(
                        x=torch.randn(5, WIDTH, generator=g),
                        edge_index=torch.randint(5, (2, 9), generator=g),
                        y=torch.randint(4, (1,), generator=g),
                    )
                    for _ in range(2)
                ]
            ),
        )

    return plain(model, batch, lambda model, data: F.cross_entropy(model(data), data.y))


@work("table with categories", "tabular")
def _() -> Case:
    def run(self: Any, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return self.inner(torch.cat([self.norm(x), *(e(ids[:, i]) for i, e in enumerate(self.embeds))], 1))

    model = Net(
        run,
        norm=nn.BatchNorm1d(WIDTH),
        embeds=nn.ModuleList(nn.Embedding(8, 4) for _ in range(3)),
        inner=mlp(WIDTH + 12, 16, WIDTH),
    )
    batch = lambda n: (*vectors()(n), torch.randint(8, (8, 3), generator=drawn(n)))  # noqa: E731
    return plain(model, batch, lambda model, x, y, ids: F.cross_entropy(model(x, ids), y))


@work("physics-informed net, second derivatives", "tabular")
def _() -> Case:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        at = x[:, :2].detach().requires_grad_()
        u = model(at)
        (first,) = torch.autograd.grad(u.sum(), at, create_graph=True)
        (second,) = torch.autograd.grad(first[:, 0].sum(), at, create_graph=True)
        return (first[:, 1:] - 0.1 * second[:, :1]).square().mean() + u.square().mean()

    return plain(mlp(2, 16, 16, 1, act=nn.Tanh), vectors(), loss)


@work("normalising flow", "tabular")
def _() -> Case:
    def loss(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = 0
        for net in model:
            a, b = x.chunk(2, 1)
            scale, shift = net(a).chunk(2, 1)
            x, total = torch.cat([b * scale.tanh().exp() + shift, a], 1), total + scale.tanh().sum(1)
        return -(torch.distributions.Normal(0, 1).log_prob(x).sum(1) + total).mean()

    return plain(nn.ModuleList(mlp(WIDTH // 2, 16, WIDTH) for _ in range(2)), vectors(), loss)


# ---- Optimizers ----


class Clipping(torch.optim.AdamW):
    """Clips by the global norm, which is above its threshold only later."""

    def step(self, closure: Any = None) -> Any:
        torch.nn.utils.clip_grad_norm_([p for group in self.param_groups for p in group["params"]], 0.8)
        return super().step(closure)


class EveryThird(torch.optim.SGD):
    calls = 0

    def step(self, closure: Any = None) -> Any:
        self.calls += 1
        return super().step(closure) if self.calls % 3 == 0 else None


class Lookahead(torch.optim.Optimizer):
    def __init__(self, base: torch.optim.Optimizer):
        self.base, self.calls = base, 0
        super().__init__(base.param_groups, {})
        self.param_groups = base.param_groups

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        self.base.step()
        self.calls += 1
        for p in (p for group in self.param_groups for p in group["params"]):
            slow = self.state[p].setdefault("slow", p.clone())
            if self.calls % 2 == 0:
                p.copy_(slow.lerp_(p, 0.5))


class Sharp(torch.optim.Optimizer):
    """SAM: closure() computes the gradients again, at the worst point near by."""

    def __init__(self, parameters: Any):
        super().__init__(parameters, {"lr": 0.05})

    @torch.no_grad()
    def step(self, closure: Any) -> None:
        own = [p for group in self.param_groups for p in group["params"]]
        norm = torch.stack([p.grad.norm() for p in own]).norm() + 1e-12
        moves = [p.grad * (0.05 / norm) for p in own]
        for p, move in zip(own, moves, strict=True):
            p.add_(move)
            p.grad = None
        torch.enable_grad()(closure)()
        for p, move in zip(own, moves, strict=True):
            p.sub_(move).sub_(p.grad, alpha=0.05)


def trained_by(make: Callable[[nn.Module], torch.optim.Optimizer], **options: Any) -> Case:
    model = mlp(WIDTH, 16, WIDTH)
    return plain(model, optimizer=make(model), steps=7, **options)


@work("AdamW that clips by the global norm in step()", "optimizers")
def _() -> Case:
    return trained_by(lambda model: Clipping(model.parameters(), lr=1e-2))


@work("an optimizer that steps every third time", "optimizers")
def _() -> Case:
    return trained_by(lambda model: EveryThird(model.parameters(), lr=0.05))


@work("Lookahead of one's own", "optimizers")
def _() -> Case:
    return trained_by(lambda model: Lookahead(adamw(model)))


@work("SAM, with a closure", "optimizers")
def _() -> Case:
    case = trained_by(lambda model: Sharp(model.parameters()))
    trainer = case.trainers[0]

    def eager(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        def closure() -> torch.Tensor:
            loss = trainer.loss_fn(trainer.model, x, y)
            loss.backward()
            return loss

        loss = closure().detach()
        trainer.optimizer.step(closure)
        for p in trainer.model.parameters():
            p.grad = None
        return loss

    trainer.eager = eager
    return case


@work("register_step_pre_hook that scales gradients", "optimizers")
def _() -> Case:
    case = trained_by(sgd)
    case.trainers[0].optimizer.register_step_pre_hook(
        lambda o, args, kwargs: [p.grad.mul_(0.5) for g in o.param_groups for p in g["params"]] and None
    )
    return case


def _timm(name: str) -> Callable[[], Case]:
    def make() -> Case:
        import timm.optim

        kinds = {"adafactor": "Adafactor", "laprop": "LaProp"}
        if name == "Lookahead":
            return trained_by(lambda model: timm.optim.Lookahead(adamw(model), k=2))
        return trained_by(lambda model: getattr(timm.optim, kinds[name])(model.parameters(), lr=1e-2))

    return make


for _name in ("Lookahead", "adafactor", "laprop"):
    work(f"timm's {_name}", "optimizers", "timm")(_timm(_name))


@work("schedule-free AdamW", "optimizers", "schedulefree")
def _() -> Case:
    import schedulefree

    def make(model: nn.Module) -> torch.optim.Optimizer:
        optimizer = schedulefree.AdamWScheduleFree(model.parameters(), lr=1e-2)
        optimizer.train()
        return optimizer

    return trained_by(make)


# ---- Reinforcement ----


@work("PPO", "reinforcement")
def _() -> Case:
    model = nn.ModuleDict({"policy": mlp(WIDTH, 16, 4, act=nn.Tanh), "value": mlp(WIDTH, 16, 1, act=nn.Tanh)})

    def loss(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ways = torch.distributions.Categorical(logits=model["policy"](x))
        chosen, gain, old = y % 4, x[:, 0], torch.full((len(x),), math.log(0.25))
        ratio = (ways.log_prob(chosen) - old).exp()
        clipped = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        return -clipped.mean() + 0.5 * F.mse_loss(model["value"](x)[:, 0], gain) - 0.01 * ways.entropy().mean()

    return Case([Trainer(model, loss, adamw(model, 3e-4), vectors(), clip_norm=0.5)])


@work("DQN with a target net", "reinforcement")
def _() -> Case:
    model = mlp(WIDTH, 16, 4)
    target = copy.deepcopy(model)

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            goal = x[:, 0] + 0.9 * target(x.flip(0)).max(1).values
        return F.smooth_l1_loss(model(x).gather(1, (y % 4)[:, None])[:, 0], goal)

    return plain(
        model,
        vectors(),
        loss,
        others={"target ": target},
        between=lambda n: target.load_state_dict(model.state_dict()) if n % 2 else None,
    )


@work("SAC: two critics, an actor, a temperature", "reinforcement")
def _() -> Case:
    actor, critics = mlp(WIDTH, 16, 4), nn.ModuleList(mlp(WIDTH + 2, 16, 1) for _ in range(2))
    targets, heat = copy.deepcopy(critics), nn.ParameterList([nn.Parameter(torch.zeros(()))])

    def act(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log = actor(x).chunk(2, 1)
        ways = torch.distributions.Normal(mean, log.clamp(-5, 2).exp())
        drawn = ways.rsample()
        return drawn.tanh(), (ways.log_prob(drawn) - torch.log(1 - drawn.tanh().square() + 1e-6)).sum(1)

    def value(nets: Any, x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return torch.min(*(net(torch.cat([x, a], 1))[:, 0] for net in nets))

    def of_critics(critics: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            a, log = act(x.flip(0))
            goal = x[:, 0] + 0.9 * (value(targets, x.flip(0), a) - heat[0].exp() * log)
        return sum(F.mse_loss(net(torch.cat([x, x[:, :2]], 1))[:, 0], goal) for net in critics)

    def of_actor(actor: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a, log = act(x)
        return (heat[0].exp().detach() * log - value(critics, x, a)).mean()

    def of_heat(heat: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return -(heat[0] * (act(x)[1].detach() - 2)).mean()

    rows = [(critics, of_critics), (actor, of_actor), (heat, of_heat)]
    return Case(
        [Trainer(m, f, adamw(m), vectors()) for m, f in rows],
        {"targets ": targets},
        lambda number: follow(targets, critics),
    )


# ---- PEFT ----

PEFT: dict[str, tuple[str, dict[str, Any]]] = {
    "LoRA": ("LoraConfig", {"r": 2, "lora_dropout": 0.1, "target_modules": ["q_proj", "v_proj"]}),
    "DoRA": ("LoraConfig", {"r": 2, "use_dora": True, "target_modules": ["q_proj", "v_proj"]}),
    "IA3": ("IA3Config", {"target_modules": ["k_proj", "down_proj"], "feedforward_modules": ["down_proj"]}),
    "AdaLoRA": (
        "AdaLoraConfig",
        {"r": 2, "init_r": 4, "total_step": 100, "tinit": 20, "tfinal": 20, "target_modules": ["q_proj"]},
    ),
    "OFT": ("OFTConfig", {"r": 2, "oft_block_size": 0, "target_modules": ["q_proj"]}),
    "LoHa": ("LoHaConfig", {"r": 2, "target_modules": ["q_proj", "v_proj"]}),
    "LoKr": ("LoKrConfig", {"r": 2, "target_modules": ["q_proj", "v_proj"]}),
    "VB-LoRA": ("VBLoRAConfig", {"r": 2, "num_vectors": 8, "vector_length": 8, "target_modules": ["q_proj"]}),
    "C3A": ("C3AConfig", {"block_size": 8, "target_modules": ["q_proj"]}),
    "prompt tuning": ("PromptTuningConfig", {"num_virtual_tokens": 2}),
    "prefix tuning": ("PrefixTuningConfig", {"num_virtual_tokens": 2}),
    "p-tuning": ("PromptEncoderConfig", {"num_virtual_tokens": 2, "encoder_hidden_size": 8}),
    "VeRA": ("VeraConfig", {"r": 2, "target_modules": ["q_proj", "o_proj"]}),
    "RandLoRA": ("RandLoraConfig", {"r": 2, "target_modules": ["q_proj", "o_proj"]}),
    "SHiRA": ("ShiraConfig", {"r": 2, "target_modules": ["q_proj"]}),
}


def _peft(config: str, options: dict[str, Any]) -> Callable[[], Case]:
    def make() -> Case:
        import peft

        chosen = getattr(peft, config)(task_type="CAUSAL_LM", **options)
        model = peft.get_peft_model(language_model(num_key_value_heads=2), chosen)

        def loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
            return model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss

        return plain(model, texts(), loss)

    return make


for _name, (_config, _options) in PEFT.items():
    work(f"PEFT: {_name}", "adapters", "peft", "transformers")(_peft(_config, _options))


# ---- Trainers of transformers and TRL ----


def word_tokenizer() -> Any:
    import tokenizers
    import transformers as t

    words = {w: i for i, w in enumerate(["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(29))])}
    own = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    own.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return t.PreTrainedTokenizerFast(tokenizer_object=own, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def words(first: int, n: int) -> str:
    return " ".join(f"w{(first * 7 + 3 * i) % 29}" for i in range(n))


LOGGED = ("loss", "grad_norm", "learning_rate", "step")


def trained(make: Callable[[str], Any], budget: str | None) -> tuple[dict[str, Any], Any, list[float]]:
    """Trains by a trainer of transformers: what is compared, the memory, and the times of steps."""
    import transformers as t

    import neap.torch

    class Clock(t.TrainerCallback):
        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            self.began = time.perf_counter()

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            times.append(time.perf_counter() - self.began)

    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        t.set_seed(1)
        trainer = make(folder)
        for callback in (t.PrinterCallback, t.ProgressCallback):
            trainer.remove_callback(callback)
        trainer.add_callback(Clock())
        attached = neap.torch.attach(trainer, budget) if budget is not None else None
        trainer.train()
    found = {f"{k} {i}": v for i, row in enumerate(trainer.state.log_history) for k, v in row.items() if k in LOGGED}
    found |= {k: v.clone() for k, v in trainer.model.state_dict().items()}
    return found, attached and attached.memory, times


COMMON = dict(max_steps=8, per_device_train_batch_size=2, logging_steps=1, report_to=[], save_strategy="no", use_cpu=True, bf16=False, disable_tqdm=True, learning_rate=1e-2)  # fmt: skip


def _transformers(how: str) -> Callable[[str | None], Any]:
    def make(budget: str | None) -> Any:
        import transformers as t

        rates = {"factor": 1.0}

        class Own(t.Trainer):
            def compute_loss(
                self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
            ) -> Any:
                return model(**inputs).loss * rates["factor"]

        class Changes(t.TrainerCallback):
            def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
                if state.global_step == 2 and how == "a callback's hook":
                    model.lm_head.register_forward_hook(lambda module, args, out: out * 0.5)
                if state.global_step == 2:
                    rates["factor"] = 0.5

        def trainer(folder: str) -> Any:
            data = [
                {"input_ids": (ids := torch.randint(3, 32, (12,), generator=drawn(i))), "labels": ids}
                for i in range(24)
            ]
            args = t.TrainingArguments(output_dir=folder, **COMMON)
            return Own(model=language_model(), args=args, train_dataset=data, callbacks=[Changes()])

        return trained(trainer, budget)

    return make


for _name in ("a callback's hook", "a dictionary that compute_loss reads"):
    work(f"transformers: {_name}", "trainers", "transformers", "accelerate", trains=True)(_transformers(_name))


def _trl(how: str) -> Callable[[str | None], Any]:
    def make(budget: str | None) -> Any:
        import datasets
        import trl

        common = {k: v for k, v in COMMON.items()}
        pairs = [
            {"prompt": words(i, 4) + " ", "chosen": words(i + 50, 5), "rejected": words(i + 99, 5)} for i in range(16)
        ]
        table = datasets.Dataset.from_list

        def trainer(folder: str) -> Any:
            kind, _, losses = how.partition(", ")
            own = {"output_dir": folder, **common}
            more: dict[str, Any] = {"processing_class": word_tokenizer()}
            if kind == "SFT":
                args, data = trl.SFTConfig(**own, max_length=16), [{"text": words(i, 7)} for i in range(24)]
            elif kind == "DPO":
                several = {"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.5]} if losses else {}
                args, data, more = (
                    trl.DPOConfig(**own, max_length=16, **several),
                    pairs,
                    {**more, "ref_model": language_model()},
                )
            elif kind == "KTO":
                args, more = trl.KTOConfig(**own, max_length=16), {**more, "ref_model": language_model()}
                data = [
                    {"prompt": words(i, 4) + " ", "completion": words(i + 50, 5), "label": bool(i % 2)}
                    for i in range(16)
                ]
            elif kind == "reward":
                import transformers as t

                model = t.LlamaForSequenceClassification(
                    t.LlamaConfig(
                        vocab_size=32,
                        hidden_size=WIDTH,
                        intermediate_size=32,
                        num_hidden_layers=1,
                        num_attention_heads=2,
                        num_labels=1,
                        pad_token_id=0,
                    )
                )
                return trl.RewardTrainer(
                    model=model, args=trl.RewardConfig(**own, max_length=16), train_dataset=table(pairs), **more
                )
            else:
                config = {"GRPO": trl.GRPOConfig, "RLOO": trl.RLOOConfig}[kind]
                args = config(**own, num_generations=2, max_completion_length=6, beta=0.0)
                data = [{"prompt": words(i, 4)} for i in range(16)]
                more["reward_funcs"] = lambda completions, **kwargs: [float(len(set(c.split()))) for c in completions]
            return getattr(trl, f"{kind}Trainer")(model=language_model(), args=args, train_dataset=table(data), **more)

        return trained(trainer, budget)

    return make


for _name in ("SFT", "DPO", "DPO, two losses", "KTO", "GRPO", "RLOO", "reward"):
    work(f"TRL: {_name}", "trainers", "trl", "datasets", "transformers", trains=True)(_trl(_name))


# ---- Lightning, accelerate ----


def _lightning(how: str) -> Callable[[str | None], Any]:
    def make(budget: str | None) -> Any:
        import lightning.pytorch as pl

        import neap.torch

        times, kept = [], []

        class Module(pl.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.net = mlp(WIDTH, 16, WIDTH, norm=True)
                self.outs: list[torch.Tensor] = []

            def training_step(self, batch: Any, batch_idx: int) -> Any:
                loss = classify(self.net, *batch)
                if how == "losses in a list":
                    self.outs.append(loss)
                return {"loss": loss} if how == "a dictionary, with accumulation" else loss

            def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
                self.began = time.perf_counter()

            def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
                times.append(time.perf_counter() - self.began)
                kept.append(outputs["loss"].detach().clone())

            def configure_optimizers(self) -> torch.optim.Optimizer:
                return adamw(self)

        torch.manual_seed(0)
        module = Module()
        x, y = vectors(32)(0)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 4)
        ours = [] if budget is None else [neap.torch.LightningBudget(budget)]
        more = (
            [pl.callbacks.StochasticWeightAveraging(1e-2, swa_epoch_start=1)]
            if how == "StochasticWeightAveraging"
            else []
        )
        if how == "WeightAveraging":
            more = [pl.callbacks.WeightAveraging()]
        with tempfile.TemporaryDirectory() as folder:
            trainer = pl.Trainer(
                max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                accumulate_grad_batches=2 if "accumulation" in how else 1, callbacks=[*ours, *more], default_root_dir=folder,
            )  # fmt: skip
            trainer.fit(module, loader)
        found = {f"loss {i}": v for i, v in enumerate(kept)} | {
            f"out {i}": v.detach() for i, v in enumerate(module.outs)
        }
        return {**found, **module.state_dict()}, ours[0].memory if ours else None, times

    return make


for _name in (
    "plain",
    "losses in a list",
    "a dictionary, with accumulation",
    "StochasticWeightAveraging",
    "WeightAveraging",
):
    work(f"Lightning: {_name}", "trainers", "lightning", trains=True)(_lightning(_name))


@work("accelerate: prepared model, optimizer and schedule", "trainers", "accelerate")
def _() -> Case:
    import accelerate

    model = mlp(WIDTH, 16, WIDTH)
    optimizer = adamw(model)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    accelerator = accelerate.Accelerator(cpu=True)
    model, optimizer, schedule = accelerator.prepare(model, optimizer, schedule)
    return plain(model, optimizer=optimizer, between=lambda number: schedule.step())


@work("accelerate: accumulation by micro_batches", "trainers", "accelerate")
def _() -> Case:
    import accelerate

    model = mlp(WIDTH, 16, WIDTH)
    accelerator = accelerate.Accelerator(cpu=True)
    model, optimizer = accelerator.prepare(model, adamw(model))

    def eager(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = None
        for some, labels in zip(x.chunk(2), y.chunk(2), strict=True):
            loss = classify(model, some, labels) / 2
            accelerator.backward(loss)
            total = loss.detach() if total is None else total + loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        return total

    return Case([Trainer(model, classify, optimizer, vectors(), options={"micro_batches": 2}, eager=eager)])
