"""Ready-made models of sequences beside the same networks written in PyTorch: logits, losses, gradients, and weights after
some steps of an optimizer. The oracle is PyTorch in double precision, whose weights and batches are the library's.

NEAP_TEST_MODELS=all also takes large ones (minutes)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import attention_patterns
import native
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

# Of the largest element; of weights, of how far they have moved.
TOLERANCES = {"logits": 1e-5, "loss": 1e-5, "gradients": 2e-5, "weights": 1e-4}
Values = dict[str, np.ndarray]
ALL = os.environ.get("NEAP_TEST_MODELS") == "all"


# ---- The networks ----
# NAMES says what the library calls their parameters; several of one name are parts of one there, in their order.


class Transformer(nn.Module):
    """Pre-LN block; attention is PyTorch's own."""

    def __init__(self, width: int, heads: int, gelu: str):
        super().__init__()
        self.heads, self.sees = heads, None
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.hidden, self.gelu, self.output = nn.Linear(width, 4 * width), nn.GELU(gelu), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=self.sees, is_causal=self.sees is None)
        x = x + self.projection(a.transpose(1, 2).flatten(2))
        return x + self.output(self.gelu(self.hidden(self.norm2(x))))


class GPT(nn.Module):
    """Radford et al. 2018, 2019; in the second the head has the embedding's weights."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, context: int, second: bool = False):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Transformer(width, heads, "tanh" if second else "none") for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = None if second else nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.blocks(self.token(tokens) + self.position.weight[: tokens.shape[1]]))
        return F.linear(x, self.token.weight if self.head is None else self.head.weight)


class LlamaBlock(nn.Module):
    """Touvron et al. 2023, as its public implementations have it."""

    def __init__(self, width: int, heads: int, key_heads: int):
        super().__init__()
        self.heads, self.sees = heads, None
        self.sizes, self.repeats, hidden = (-1, width // heads), heads // key_heads, -(-8 * width // 3 // 256) * 256
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        keys = width // heads * key_heads
        self.query, self.key, self.value, self.projection = (
            nn.Linear(width, outputs, bias=False) for outputs in (width, keys, keys, width)
        )
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.output = nn.Linear(hidden, width, bias=False)

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        frequencies = 10000.0 ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
        angles = torch.outer(torch.arange(x.shape[-2]), frequencies).repeat(1, 2).to(x)
        a, b = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-b, a], -1) * angles.sin()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        q, k, v = (layer(y).unflatten(-1, self.sizes).transpose(1, 2) for layer in (self.query, self.key, self.value))
        k, v = (t.repeat_interleave(self.repeats, 1) for t in (self.turned(k), v))
        sees = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril() if self.sees is None else self.sees
        scores = (self.turned(q) @ k.mT / self.sizes[1] ** 0.5).masked_fill(~sees, -torch.inf)
        x = x + self.projection((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.output(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Sequential):
    def __init__(self, layers: int, width: int, heads: int, key_heads: int, vocabulary: int):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(LlamaBlock(width, heads, key_heads) for _ in range(layers)))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocabulary, bias=False)


class Encoder(nn.TransformerEncoderLayer):
    """With a mask of its own, [heads, T, T]: True where a token sees another."""

    def __init__(self, width: int, heads: int, **options: Any):
        super().__init__(width, heads, 4 * width, **options)
        self.heads, self.sees = heads, None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x, None if self.sees is None else ~self.sees.repeat(len(x), 1, 1))


class GlobalEncoder(Encoder):
    """Beltagy et al. 2020: the first tokens attend to all, with projections of their own."""

    def __init__(self, width: int, heads: int, first: int, **options: Any):
        super().__init__(width, heads, **options)
        self.first = first
        self.global_query, self.global_key, self.global_value = (nn.Linear(width, width) for _ in range(3))

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sees: torch.Tensor | None) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=sees).transpose(1, 2).flatten(2)

    def _sa_block(self, x: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        q, k, v = F.linear(x, self.self_attn.in_proj_weight, self.self_attn.in_proj_bias).chunk(3, -1)
        rest = self.attend(q, k, v, self.sees)[:, self.first :]
        first = self.attend(self.global_query(x[:, : self.first]), self.global_key(x), self.global_value(x), None)
        return self.self_attn.out_proj(torch.cat([first, rest], 1))


class BERT(nn.Module):
    """Devlin et al. 2019: PyTorch's own encoder; all tokens are of the first segment."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, attention: str = ""):
        super().__init__()
        self.token, self.position, self.segment = (nn.Embedding(rows, width) for rows in (vocabulary, 512, 2))
        self.embedding_norm = nn.LayerNorm(width, eps=1e-12)
        options = {"dropout": 0, "activation": "gelu", "layer_norm_eps": 1e-12, "batch_first": True}
        first = [attention_patterns.global_tokens(attention, i) if attention else 0 for i in range(layers)]
        self.blocks = nn.Sequential(
            *(GlobalEncoder(width, heads, n, **options) if n else Encoder(width, heads, **options) for n in first)
        )
        self.dense, self.norm = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places, segments = torch.arange(tokens.shape[1]), torch.zeros_like(tokens)
        x = self.embedding_norm(self.token(tokens) + self.position(places) + self.segment(segments))
        return F.linear(self.norm(F.gelu(self.dense(self.blocks(x)))), self.token.weight, self.bias)


class Recurrent(nn.Module):
    """PyTorch's LSTM over vectors, or over tokens, of which there are this many."""

    def __init__(self, layers: int, width: int, classes: int, tokens: int = 0):
        super().__init__()
        self.token = nn.Embedding(tokens, width) if tokens else None
        self.lstm = nn.LSTM(width if tokens else 50, width, layers, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x if self.token is None else self.token(x))[0])


NAMES = [
    (r"^blocks\.(\d+)\.", lambda m: f"block{int(m[1]) + 1}."),
    (r"^lstm\.(\w+)_l(\d+)", lambda m: f"lstm{int(m[2]) + 1}.{m[1]}"),
    (r"self_attn\.in_proj_", "qkv."),
    (r"self_attn\.out_proj", "projection"),
    (r"(?<!global_)(query|key|value)", "qkv"),
    (r"gate|up|linear1", "hidden"),
    (r"linear2", "output"),
    (r"^embedding_norm", "embedding.norm1"),
    (r"^norm", "head.norm1"),
    (r"^dense", "head.dense"),
    (r"^bias", "head.bias"),
    (r"norm(\d)\.weight", r"row_norm\1.gamma"),
    (r"norm(\d)\.bias", r"row_norm\1.beta"),
]


def by_name(network: nn.Module) -> dict[str, list[nn.Parameter]]:
    """The parameters by the library's names."""
    found: dict[str, list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        for pattern, other in NAMES:
            name = re.sub(pattern, other, name)
        found.setdefault(name, []).append(parameter)
    return found


# ---- The cases ----


@dataclass(frozen=True)
class Case:
    model: str
    make: Callable[[], nn.Module]
    batch: int
    length: int
    classes: int
    tokens: int = 0  # 0: vectors of 50 elements
    smoothing: float = 0.0
    masked: float = 0.0  # the share of labels that do not count
    steps: int = 20
    optimizer: str = "SGD"
    attention: str = ""  # patterns
    rate: float = 2.0**-2  # at which weights move far beyond the rounding of f32

    def __str__(self) -> str:
        return ", ".join(
            [
                self.model,
                self.optimizer,
                *(["smoothing"] if self.smoothing else []),
                *([self.attention] * bool(self.attention)),
            ]
        )

    def options(self) -> dict[str, Any]:
        shape = {name: getattr(self, name) for name in ("batch", "length", "classes", "smoothing")}
        return {**shape, **({"attention": self.attention.encode()} if self.attention else {})}

    def network(self) -> nn.Module:
        network, causal = self.make(), not self.model.startswith("bert")
        for layer, block in enumerate(network.blocks if self.attention else []):
            block.sees = attention_patterns.mask(self.attention, layer, block.heads, self.length, causal)
        return network

    def draw(self, random: np.random.Generator) -> Values:
        shape = (self.batch, self.length)
        label = random.integers(0, self.classes, shape)
        label[random.random(shape) < self.masked] = -1
        x = random.integers(0, self.tokens, shape) if self.tokens else random.standard_normal((*shape, 50))
        name, dtype = ("tokens", np.int32) if self.tokens else ("sequence", np.float32)
        return {name: x.astype(dtype), "label": label.astype(np.int32)}

    def trained_by(self) -> dict[str, Any]:
        """The options of a session."""
        other = MOMENTUM if self.optimizer == "SGD" else DECAY
        return {"optimizer": native.OPTIMIZERS.index(self.optimizer), **other}

    def trainer(self, parameters: Any) -> torch.optim.Optimizer:
        if self.optimizer == "SGD":
            return torch.optim.SGD(parameters, lr=self.rate, **MOMENTUM)
        decay, epsilon = DECAY["weight_decay"], DECAY["epsilon"]
        return torch.optim.AdamW(parameters, lr=self.rate, weight_decay=decay, eps=epsilon)


MOMENTUM = {"momentum": 0.9}
# With the usual epsilon of 1e-8 the update of an element whose gradient is a rounding is one, too.
DECAY = {"weight_decay": 0.125, "epsilon": 2.0**-13}


def gpt(layers: int, width: int, heads: int, **options: Any) -> Case:
    def make() -> nn.Module:
        return GPT(layers, width, heads, options["tokens"], options["length"])

    return Case(f"gpt-{layers}x{width}x{heads}", make, classes=options["tokens"], **options)


def llama(layers: int, width: int, heads: int, key_heads: int, **options: Any) -> Case:
    def make() -> nn.Module:
        return Llama(layers, width, heads, key_heads, options["tokens"])

    return Case(f"llama-{layers}x{width}x{heads}x{key_heads}", make, classes=options["tokens"], **options)


def bert(layers: int, width: int, heads: int, **options: Any) -> Case:
    def make() -> nn.Module:
        return BERT(layers, width, heads, options["tokens"], options.get("attention", ""))

    return Case(f"bert-{layers}x{width}x{heads}", make, classes=options["tokens"], **options)


def lstm(layers: int, width: int, classes: int, **options: Any) -> Case:
    def make() -> nn.Module:
        return Recurrent(layers, width, classes, options.get("tokens", 0))

    return Case(f"{'char-' if 'tokens' in options else ''}lstm-{layers}x{width}", make, classes=classes, **options)


ADAMW = {"optimizer": "AdamW", "rate": 2.0**-10}
CASES = [
    gpt(3, 48, 4, batch=4, length=33, tokens=256),
    gpt(2, 30, 3, batch=3, length=17, tokens=61, smoothing=0.1, masked=0.2),
    llama(2, 64, 4, 2, batch=4, length=33, tokens=199),
    llama(2, 64, 4, 2, batch=4, length=33, tokens=199, **ADAMW),
    # More logits than are kept: the loss makes them in blocks.
    llama(1, 32, 2, 1, batch=4, length=33, tokens=32003, steps=5),
    bert(2, 64, 4, batch=4, length=33, tokens=211, masked=0.85),
    bert(1, 32, 2, batch=2, length=512, tokens=8201, masked=0.85, smoothing=0.1, steps=5),
    gpt(3, 48, 4, batch=3, length=70, tokens=61, attention="window:8;[strided:6;fixed:9,2]"),
    llama(2, 64, 4, 2, batch=3, length=70, tokens=61, attention="[fixed:11,3;dense;dilated:4,5]"),
    bert(2, 64, 4, batch=3, length=70, tokens=61, masked=0.5, attention="dilated:5,3;fixed:8,1"),
    # Its global queries and keys have small gradients, by which SGD moves them little beyond the rounding of f32.
    bert(
        3, 64, 4, batch=3, length=70, tokens=61, masked=0.5, attention="window:6,global=3;fixed:8,1;global=60", **ADAMW
    ),
    # In parts of eight times, and of one part.
    lstm(2, 32, 500, batch=64, length=20, rate=2),
    lstm(2, 32, 61, batch=64, length=20, smoothing=0.1, masked=0.2, **ADAMW),
    lstm(2, 32, 256, batch=64, length=20, tokens=256, rate=32),
    lstm(3, 24, 67, batch=5, length=33, tokens=67, rate=32),
]
LARGE = [
    gpt(12, 384, 6, batch=2, length=256, tokens=256, steps=5),
    # Of 1024 places the first 32 are used.
    Case("gpt2", lambda: GPT(12, 768, 12, 50257, 1024, True), 1, 32, 50257, 50257, steps=2),
    bert(12, 768, 12, batch=2, length=128, tokens=30522, masked=0.85, steps=2),
    llama(4, 256, 8, 2, batch=2, length=256, tokens=32000, steps=3),
    lstm(2, 256, 5000, batch=64, length=64, rate=2),
]


# ---- The tests ----


def relative(got: np.ndarray, wanted: np.ndarray, of: np.ndarray) -> float:
    """The largest difference, of the largest element of the third."""
    return float(np.abs(got.astype(np.float64) - wanted).max() / max(np.abs(of).max(), np.finfo(np.float64).tiny))


@dataclass
class Oracle:
    case: Case
    network: nn.Module
    parameters: dict[str, list[nn.Parameter]]

    def __init__(self, case: Case):
        self.case = case
        self.network = case.network().double()
        self.parameters = by_name(self.network)

    def begin(self, values: Values) -> None:
        with torch.no_grad():
            for name, parts in self.parameters.items():
                rows = [len(p) for p in parts]
                for p, value in zip(parts, torch.tensor(values[name]).split(rows), strict=True):
                    p.copy_(value)

    def logits(self, batch: Values) -> torch.Tensor:
        x = torch.tensor(next(iter(batch.values())))
        return self.network(x if self.case.tokens else x.double())

    def loss(self, batch: Values, smoothing: float = 0) -> torch.Tensor:
        """The held-out loss, or, with the case's smoothing, that of training."""
        labels = torch.tensor(batch["label"]).flatten().long()
        logits = self.logits(batch).flatten(0, 1)
        return F.cross_entropy(logits, labels, ignore_index=-1, label_smoothing=smoothing)

    def values(self, what: Callable[[nn.Parameter], torch.Tensor] = lambda p: p) -> Values:
        return {n: torch.cat([what(p).detach() for p in parts]).numpy() for n, parts in self.parameters.items()}


def fill(s: native.Session, batch: Values) -> None:
    for name, value in batch.items():
        s.fill(name, value)


def write(s: native.Session, values: Values) -> None:
    for name, value in values.items():
        s.write(name, value)


def first_values(s: native.Session, random: np.random.Generator) -> Values:
    """Those of the library, moved, so that no bias is 0 and no factor 1."""
    return {
        entry.name: (s.read(entry.name) + 0.0625 * random.standard_normal(entry.dims)).astype(np.float32)
        for entry in s.of_kind(native.PARAMETER)
    }


def beside(name: str) -> str:
    """The parameter that says how large an error is: a bias of keys moves no softmax, so its gradient is zeros but for rounding."""
    return name.replace("global_key.bias", "global_key.weight")


def gradients(s: native.Session, oracle: Oracle, begin: Values, batch: Values) -> float:
    """The largest difference; a step of plain SGD moves by the gradient, at a rate of 2^n, which rounds nothing."""
    write(s, begin)
    fill(s, batch)
    oracle.begin(begin)
    oracle.loss(batch, oracle.case.smoothing).backward()
    wanted = oracle.values(lambda p: torch.zeros_like(p) if p.grad is None else p.grad)
    rate = 2.0 ** np.ceil(-np.log2(min(np.abs(wanted[beside(name)]).max() for name in wanted)))
    s.step(rate)
    got = {name: (begin[name] - s.read(name).astype(np.float64)) / rate for name in wanted}
    return max(relative(got[name], g, wanted[beside(name)]) for name, g in wanted.items())


def losses(s: native.Session, oracle: Oracle, batches: list[Values]) -> float:
    """The largest difference of a loss before each step, and of the last batch's after all."""
    optimizer, differences = oracle.case.trainer(oracle.network.parameters()), []
    for batch in batches:
        fill(s, batch)
        optimizer.zero_grad()
        loss = oracle.loss(batch, oracle.case.smoothing)
        loss.backward()
        optimizer.step()
        differences.append(abs(s.step(oracle.case.rate).loss / loss.item() - 1))
    evaluated = s.evaluate()
    with torch.no_grad():
        assert evaluated.correct == (oracle.logits(batch).argmax(-1).numpy() == batch["label"]).sum()
        return max(*differences, abs(evaluated.loss / oracle.loss(batch).item() - 1))


def predicted(library: native.Library, graph: int, oracle: Oracle, values: Values, batch: Values) -> float:
    """The largest difference of a logit."""
    oracle.begin(values)
    with native.session(library, graph, predict=True) as s, torch.no_grad():
        write(s, values)
        fill(s, {name: value for name, value in batch.items() if name != "label"})
        s.predict()
        wanted = oracle.logits(batch).numpy()
        return relative(s.output("logits"), wanted, wanted)


def compare(library: native.Library, case: Case) -> dict[str, float]:
    """The largest difference of each kind, of the largest element."""
    random, oracle = np.random.default_rng(7), Oracle(case)
    batches = [case.draw(random) for _ in range(case.steps)]
    with native.model(library, case.model, **case.options()) as graph:
        with native.session(library, graph) as s:
            begin = first_values(s, random)
            assert begin.keys() == oracle.parameters.keys()
            found = {"gradients": gradients(s, oracle, begin, batches[0])}
        with native.session(library, graph, **case.trained_by()) as s:
            write(s, begin)
            found["loss"] = losses(s, oracle, batches)
            after = {name: s.read(name) for name in begin}
            wanted = oracle.values()
            moved = {name: wanted[beside(name)] - begin[beside(name)] for name in wanted}
            found["weights"] = max(relative(after[name], w, moved[name]) for name, w in wanted.items())
        found["logits"] = predicted(library, graph, oracle, after, batches[0])
    return found


@pytest.mark.parametrize("case", CASES + LARGE if ALL else CASES, ids=str)
def test_model(library: native.Library, case: Case) -> None:
    found = compare(library, case)
    for what, difference in found.items():
        assert difference <= TOLERANCES[what], f"{what}: off by {difference:.3g}"


@pytest.mark.parametrize("case", {case.model: case for case in CASES}.values(), ids=str)
def test_dropout_is_left_out(library: native.Library, case: Case) -> None:
    """Of evaluation and prediction."""
    random, oracle = np.random.default_rng(7), Oracle(case)
    batch = case.draw(random)
    with native.model(library, case.model, dropout=0.5, **case.options()) as graph, native.session(library, graph) as s:
        begin = first_values(s, random)
        write(s, begin)
        fill(s, batch)
        assert predicted(library, graph, oracle, begin, batch) <= TOLERANCES["logits"]
        expected = oracle.loss(batch).item()
        assert s.evaluate().loss == pytest.approx(expected, rel=TOLERANCES["loss"])
        assert s.step(0).loss != pytest.approx(expected, rel=TOLERANCES["loss"])
