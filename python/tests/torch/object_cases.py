"""Models for test_objects.py: name -> a function that makes one. Their objects are shared, tied, wrapped, or lie outside the model."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import cases
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize, prune

WIDTH = 8


@dataclasses.dataclass
class Objects:
    """others: modules and containers that the loss function reaches. trained: parameters of the optimizer; None: the model's."""

    model: nn.Module
    loss_fn: Callable[..., torch.Tensor] = cases.classify
    batch: tuple[torch.Tensor, ...] = ()
    others: tuple[Any, ...] = ()
    trained: list[nn.Parameter] | None = None

    def __post_init__(self) -> None:
        if not self.batch:
            self.batch = (torch.randn(4, WIDTH), torch.randint(WIDTH, (4,)))
        if self.trained is None:
            self.trained = [p for p in self.model.parameters() if p.requires_grad]


def linear() -> nn.Linear:
    return nn.Linear(WIDTH, WIDTH)


class Net(nn.Module):
    """Has attributes and a forward pass of its own."""

    def __init__(self, run: Callable[[Any, torch.Tensor], torch.Tensor], **attributes: Any):
        super().__init__()
        for name, value in attributes.items():
            setattr(self, name, value)
        self.run = run

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(self, x)


# ---- Shared modules ----


def twice_in_a_sequence() -> Objects:
    layer = linear()
    return Objects(nn.Sequential(layer, nn.ReLU(), layer))


def three_times_in_a_list() -> Objects:
    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        for layer in m.layers:
            x = torch.tanh(layer(x))
        return x

    return Objects(Net(run, layers=nn.ModuleList([linear()] * 3)))


def siamese() -> Objects:
    tower = nn.Sequential(linear(), nn.Tanh())
    return Objects(Net(lambda m, x: m.left(x) - m.right(x.flip(0)), left=tower, right=tower))


def backbone_in_a_sequence() -> Objects:
    backbone = nn.Sequential(linear(), nn.ReLU())
    return Objects(Net(lambda m, x: m.net(x), backbone=backbone, net=nn.Sequential(backbone, linear())))


def batch_norm_twice() -> Objects:
    norm = nn.BatchNorm1d(WIDTH)
    return Objects(nn.Sequential(linear(), norm, nn.ReLU(), norm))


def two_keys_of_a_dict() -> Objects:
    layer = linear()
    return Objects(Net(lambda m, x: m.d["b"](torch.tanh(m.d["a"](x))), d=nn.ModuleDict({"a": layer, "b": layer})))


def inside_two_containers() -> Objects:
    layer = linear()
    return Objects(nn.Sequential(nn.Sequential(layer, nn.Tanh()), nn.Sequential(nn.Sequential(layer), linear())))


# ---- Tied tensors ----


def tied_head() -> Objects:
    tokens = torch.randint(WIDTH, (4, 3))
    model = Net(
        lambda m, x: F.linear(m.head(m.embed(x)), m.out.weight)[:, 0],
        embed=nn.Embedding(WIDTH, WIDTH),
        head=linear(),
        out=linear(),
    )
    model.out.weight = model.embed.weight
    return Objects(model, batch=(tokens, torch.randint(WIDTH, (4,))))


def tied_bias() -> Objects:
    model = nn.Sequential(linear(), nn.Tanh(), linear())
    model[2].bias = model[0].bias
    return Objects(model)


def tied_buffer() -> Objects:
    model = nn.Sequential(nn.BatchNorm1d(WIDTH), linear(), nn.BatchNorm1d(WIDTH))
    model[2].running_mean = model[0].running_mean
    return Objects(model)


def two_names_of_a_parameter() -> Objects:
    model = Net(lambda m, x: x @ m.a + torch.tanh(x @ m.b), a=nn.Parameter(torch.randn(WIDTH, WIDTH)))
    model.b = model.a
    return Objects(model)


def parameters_in_a_plain_list() -> Objects:
    model = Net(lambda m, x: x @ m.all[0] @ m.all[1]["w"], a=nn.Parameter(torch.randn(WIDTH, WIDTH)), b=linear())
    model.all = [model.a, {"w": model.b.weight}]
    return Objects(model)


# ---- Parametrizations and norms of weights ----


class Symmetric(nn.Module):
    def forward(self, w: torch.Tensor) -> torch.Tensor:
        return w.triu() + w.triu(1).t()


def shared_parametrization() -> Objects:
    model, symmetric = nn.Sequential(linear(), nn.Tanh(), linear()), Symmetric()
    for layer in (model[0], model[2]):
        parametrize.register_parametrization(layer, "weight", symmetric)
    return Objects(model)


def wrapped(wrap: Callable[..., Any]) -> Callable[[], Objects]:
    def make() -> Objects:
        model = nn.Sequential(linear(), nn.Tanh(), linear())
        wrap(model[0])
        return Objects(model)

    return make


# ---- Adapters ----


def adapter(name: str, targets: tuple[str, ...] = ("0", "2"), **options: Any) -> Callable[[], Objects]:
    def make() -> Objects:
        import peft

        model = nn.Sequential(linear(), nn.Tanh(), linear(), nn.Tanh(), linear())
        config = getattr(peft, f"{name}Config")(target_modules=list(targets), **options)
        return Objects(peft.get_peft_model(model, config))

    return make


def prompt_tuning() -> Objects:
    import peft
    import transformers

    config = transformers.GPT2Config(
        vocab_size=16, n_embd=8, n_layer=1, n_head=2, n_positions=16, bos_token_id=1, eos_token_id=1
    )
    model = peft.get_peft_model(
        transformers.GPT2LMHeadModel(config), peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    )
    tokens = torch.randint(2, 16, (2, 5))
    return Objects(model, lambda m, x: m(input_ids=x, labels=x).loss, (tokens,))


# ---- Buffers, containers, recurrences ----


def moved_buffer() -> Objects:
    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        h = m.layer(x)
        m.mean.mul_(0.9).add_(h.detach().mean(0), alpha=0.1)
        m.steps.add_(1)
        return h - m.mean

    model = Net(run, layer=linear())
    model.register_buffer("mean", torch.zeros(WIDTH))
    model.register_buffer("steps", torch.zeros((), dtype=torch.int64), persistent=False)
    return Objects(model)


def lists_and_dicts_of_parameters() -> Objects:
    weights = nn.ParameterList([torch.randn(WIDTH, WIDTH) for _ in range(2)])
    return Objects(
        Net(lambda m, x: x @ m.w[0] @ m.w[1] + m.d["b"], w=weights, d=nn.ParameterDict({"b": torch.zeros(WIDTH)}))
    )


def recurrent(kind: str) -> Callable[[], Objects]:
    return lambda: Objects(Net(lambda m, x: m.r(x[None])[0][0], r=getattr(nn, kind)(WIDTH, WIDTH, 2, dropout=0.1)))


def attention() -> Objects:
    return Objects(Net(lambda m, x: m.a(x, x, x, need_weights=False)[0], a=nn.MultiheadAttention(WIDTH, 2)))


def frozen_parts() -> Objects:
    model = nn.Sequential(linear(), nn.BatchNorm1d(WIDTH), nn.Dropout(0.3), linear(), nn.LayerNorm(WIDTH))
    model[0].requires_grad_(False)
    model[4].bias.requires_grad_(False)
    return Objects(model)


def part_in_eval_mode() -> Objects:
    model = nn.Sequential(linear(), nn.BatchNorm1d(WIDTH), nn.Dropout(0.3), linear())
    model[1].eval()
    return Objects(model)


def checkpointed() -> Objects:
    run = lambda m, x: torch.utils.checkpoint.checkpoint(m.body, x, use_reentrant=False)  # noqa: E731
    return Objects(Net(run, body=nn.Sequential(linear(), nn.Dropout(0.2), linear())))


def moved_to_where_it_is() -> Objects:
    return Objects(Net(lambda m, x: m.layer.to("cpu").float()(x), layer=linear()))


# ---- Modules outside the model ----


def normed() -> nn.Module:
    return nn.Sequential(linear(), nn.BatchNorm1d(WIDTH), nn.Dropout(0.2), linear())


def teacher_in_eval_mode() -> Objects:
    model, teacher = normed(), normed().eval().requires_grad_(False)
    return Objects(model, lambda m, x, y: F.mse_loss(m(x), teacher(x)), others=(teacher,))


def teacher_in_train_mode() -> Objects:
    model = normed()
    teacher = copy.deepcopy(model).requires_grad_(False)
    return Objects(model, lambda m, x, y: F.mse_loss(m(x), teacher(x)) + F.cross_entropy(m(x), y), others=(teacher,))


def generator_and_discriminator() -> Objects:
    generator, discriminator = (
        normed(),
        nn.Sequential(nn.utils.spectral_norm(linear()), nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 1)),
    )
    return Objects(generator, lambda m, x, y: F.softplus(-discriminator(m(x))).mean(), others=(discriminator,))


class Engine:
    """Holds a module as an attribute."""

    def __init__(self, target: nn.Module):
        self.parts = {"target": (target,)}

    def loss(self, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return -F.cosine_similarity(model(x), self.parts["target"][0](x).detach()).mean()


def method_of_an_object() -> Objects:
    engine = Engine(normed())
    return Objects(normed(), engine.loss, others=(engine.parts["target"][0],))


class Shared:
    """Holds a module as an attribute of the class."""

    target: Any = None

    @classmethod
    def loss(cls, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(model(x), cls.target(x).detach())


def method_of_a_class() -> Objects:
    kind = type("Shared", (Shared,), {"target": normed()})
    return Objects(normed(), kind.loss, others=(kind.target,))


class Margin(nn.Module):
    """A loss with parameters of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(x) * self.scale, y)


def loss_with_parameters() -> Objects:
    model, loss = nn.Sequential(linear()), Margin()
    return Objects(model, loss, others=(loss,), trained=[*model.parameters(), *loss.parameters()])


def parameter_of_a_closure() -> Objects:
    model, scale = nn.Sequential(linear()), nn.Parameter(torch.ones(WIDTH))
    holder = [scale]
    loss = lambda m, x, y: F.cross_entropy(m(x) * holder[0], y)  # noqa: E731
    return Objects(model, loss, others=(holder,), trained=[*model.parameters(), scale])


def tensor_of_a_closure_that_moves() -> Objects:
    """As the center of DINO."""
    center = torch.zeros(WIDTH)

    def loss(m: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = m(x)
        center.mul_(0.9).add_(h.detach().mean(0), alpha=0.1)
        return F.cross_entropy(h - center, y)

    return Objects(nn.Sequential(linear()), loss, others=([center],))


def average_in_the_loss() -> Objects:
    """The teacher's weights follow the model's."""
    model = normed()
    teacher = copy.deepcopy(model).requires_grad_(False)

    def loss(m: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for a, b in zip(teacher.parameters(), m.parameters(), strict=True):
                a.lerp_(b, 0.1)
        return F.mse_loss(m(x), teacher(x))

    return Objects(model, loss, others=(teacher,))


# ---- What a forward pass leaves behind ----


def features_of_a_hook() -> Objects:
    model, features = nn.Sequential(linear(), nn.Tanh(), linear()), {}
    model[0].register_forward_hook(lambda module, args, result: features.update(a=result))

    def loss(m: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(m(x), y) + features["a"].square().mean()

    return Objects(model, loss, others=(features,))


def tensor_on_the_model() -> Objects:
    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        m.last = m.layer(x)
        return torch.tanh(m.last)

    return Objects(Net(run, layer=linear()))


def losses_in_a_list() -> Objects:
    losses: list[torch.Tensor] = []

    def loss(m: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        losses.append(F.cross_entropy(m(x), y))
        return losses[-1]

    return Objects(nn.Sequential(linear()), loss, others=(losses,))


def length_that_is_kept() -> Objects:
    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        if m.most < len(x):
            m.most = len(x)
        return m.layer(x) / m.most

    return Objects(Net(run, layer=linear(), most=0))


MODELS: dict[str, Callable[[], Objects]] = {
    "twice in a sequence": twice_in_a_sequence,
    "three times in a list": three_times_in_a_list,
    "siamese": siamese,
    "backbone in a sequence": backbone_in_a_sequence,
    "batch norm twice": batch_norm_twice,
    "two keys of a dict": two_keys_of_a_dict,
    "inside two containers": inside_two_containers,
    "tied head": tied_head,
    "tied bias": tied_bias,
    "tied buffer": tied_buffer,
    "two names of a parameter": two_names_of_a_parameter,
    "parameters in a plain list": parameters_in_a_plain_list,
    "shared parametrization": shared_parametrization,
    "weight norm": wrapped(parametrizations.weight_norm),
    "spectral norm": wrapped(parametrizations.spectral_norm),
    "orthogonal": wrapped(parametrizations.orthogonal),
    "weight norm of hooks": wrapped(nn.utils.weight_norm),
    "spectral norm of hooks": wrapped(nn.utils.spectral_norm),
    "pruned": wrapped(lambda layer: prune.l1_unstructured(layer, "weight", 0.5)),
    "LoRA": adapter("Lora", r=2, lora_dropout=0.1),
    "DoRA": adapter("Lora", r=2, use_dora=True),
    "IA3": adapter("IA3", feedforward_modules=["2"]),
    "VeRA": adapter("Vera", r=2),
    "FourierFT": adapter("FourierFT", n_frequency=4),
    "OFT": adapter("OFT", oft_block_size=4),
    "prompt tuning": prompt_tuning,
    "moved buffer": moved_buffer,
    "lists and dicts of parameters": lists_and_dicts_of_parameters,
    "LSTM": recurrent("LSTM"),
    "GRU": recurrent("GRU"),
    "attention": attention,
    "frozen parts": frozen_parts,
    "part in eval mode": part_in_eval_mode,
    "checkpointed": checkpointed,
    "moved to where it is": moved_to_where_it_is,
    "teacher in eval mode": teacher_in_eval_mode,
    "teacher in train mode": teacher_in_train_mode,
    "generator and discriminator": generator_and_discriminator,
    "method of an object": method_of_an_object,
    "method of a class": method_of_a_class,
    "loss with parameters": loss_with_parameters,
    "parameter of a closure": parameter_of_a_closure,
    "tensor of a closure that moves": tensor_of_a_closure_that_moves,
    "average in the loss": average_in_the_loss,
    "features of a hook": features_of_a_hook,
    "tensor on the model": tensor_on_the_model,
    "losses in a list": losses_in_a_list,
    "length that is kept": length_that_is_kept,
}
# One of each kind, for a quick pass.
QUICK = (
    "twice in a sequence", "batch norm twice", "tied head", "parameters in a plain list", "shared parametrization", "spectral norm of hooks",
    "VeRA", "prompt tuning", "moved buffer", "LSTM", "frozen parts", "teacher in train mode", "generator and discriminator",
    "parameter of a closure",
    "tensor of a closure that moves", "features of a hook", "losses in a list", "length that is kept",
)  # fmt: skip
