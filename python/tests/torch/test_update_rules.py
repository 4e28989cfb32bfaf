"""Update rules of matrices beside torch.optim, or the authors' formulas in float64, over twenty steps of a perceptron and of a
small Llama; and their bits at two budgets, and in micro-batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import native
import numpy as np
import pytest
import torch
from torch.nn import functional as F

SGD, ADAMW = 0, 1
RULES = {
    "lomo": 5, "adalomo": 6, "adafactor": 7, "apollo": 8, "apollo-mini": 9, "adam-mini": 10, "muon": 11, "galore": 12,
    "fira": 13,
}  # fmt: skip
STEPS, RATE, DECAY, EPSILON, RANK, EVERY, SEED = 20, 2.0**-6, 0.125, 2.0**-7, 4, 7, 3
BATCH, FEATURES, CLASSES = 8, 12, 11
TIMES, WIDTH, HEADS, KEY_HEADS, FEED, TOKENS = 6, 16, 4, 2, 24, 13
BETA1, BETA2 = 0.9, 0.999
BACKENDS = {"cpu": native.CPU, "reference": native.REFERENCE}
Weights = dict[str, torch.Tensor]


# ---- Networks, in the library and in PyTorch ----


def perceptron(n: native.Network) -> int:
    x, label = n.input(b"x", native.F32, (BATCH, FEATURES)), n.input(b"label", native.I32, (BATCH,))
    for i, (size, of) in enumerate(((24, FEATURES), (20, 24), (CLASSES, 20))):
        weight, bias = n.parameter(f"l{i}.weight".encode(), (size, of)), n.parameter(f"l{i}.bias".encode(), (size,))
        x = n.linear_with(x, weight, bias)
        x = n.gelu(x) if i < 2 else x
    return n.softmax_cross_entropy(x, label, 0.0)


def perceptron_loss(w: Weights, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    for i in range(3):
        x = F.linear(x, w[f"l{i}.weight"], w[f"l{i}.bias"])
        x = F.gelu(x) if i < 2 else x
    return F.cross_entropy(x, label)


LINEARS = {
    "q": (WIDTH, WIDTH), "k": (WIDTH // HEADS * KEY_HEADS, WIDTH), "v": (WIDTH // HEADS * KEY_HEADS, WIDTH), "o": (WIDTH, WIDTH),
    "gate": (FEED, WIDTH), "up": (FEED, WIDTH), "down": (WIDTH, FEED), "head": (TOKENS, WIDTH),
}  # fmt: skip


def llama(n: native.Network) -> int:
    x, label = n.input(b"x", native.I32, (BATCH, TIMES)), n.input(b"label", native.I32, (BATCH * TIMES,))

    def linear(x: int, name: str) -> int:
        return n.linear_with(x, n.parameter(f"{name}.weight".encode(), LINEARS[name]), -1)

    def heads(x: int, count: int) -> int:
        return n.reshape(x, (BATCH, TIMES, count, WIDTH // HEADS))

    x = n.gather(n.parameter(b"table", (TOKENS, WIDTH)), x)
    y = n.rms_norm(x, 1e-5)
    q, k = (n.rotary(heads(linear(y, name), count), 0, 0.0, 0) for name, count in (("q", HEADS), ("k", KEY_HEADS)))
    y = n.attention(q, k, heads(linear(y, "v"), KEY_HEADS), -1, causal=True)
    x = n.add(x, linear(n.reshape(y, (BATCH, TIMES, WIDTH)), "o"))
    y = n.rms_norm(x, 1e-5)
    x = n.add(x, linear(n.multiply(n.silu(linear(y, "gate")), linear(y, "up")), "down"))
    return n.softmax_cross_entropy(n.reshape(linear(n.rms_norm(x, 1e-5), "head"), (BATCH * TIMES, TOKENS)), label, 0.0)


def rotate(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    angles = torch.arange(TIMES)[:, None] * 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def llama_loss(w: Weights, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    norms = iter([name for name in w if "rms" in name or "norm" in name])

    def norm(x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (WIDTH,), w[next(norms)], 1e-5)

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x, w[f"{name}.weight"])

    def heads(x: torch.Tensor, count: int) -> torch.Tensor:
        return x.view(BATCH, TIMES, count, -1)

    h = w["table"][x]
    y = norm(h)
    q, k = rotate(heads(linear(y, "q"), HEADS)), rotate(heads(linear(y, "k"), KEY_HEADS))
    v = heads(linear(y, "v"), KEY_HEADS)
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)
    h = h + linear(y.reshape(BATCH, TIMES, WIDTH), "o")
    y = norm(h)
    h = h + linear(F.silu(linear(y, "gate")) * linear(y, "up"), "down")
    return F.cross_entropy(linear(norm(h), "head").view(-1, TOKENS), label)


def batch_of(random: np.random.Generator, name: str) -> dict[str, np.ndarray]:
    if name == "perceptron":
        x = random.standard_normal((BATCH, FEATURES)).astype(np.float32)
        return {"x": x, "label": random.integers(0, CLASSES, BATCH, dtype=np.int32)}
    x = random.integers(0, TOKENS, (BATCH, TIMES), dtype=np.int32)
    return {"x": x, "label": ((3 * x + 1) % TOKENS).reshape(-1).astype(np.int32)}


NETWORKS: dict[str, tuple[Callable[[native.Network], int], Callable[..., torch.Tensor], set[str]]] = {
    "perceptron": (perceptron, perceptron_loss, {"l0.weight", "l1.weight"}),
    "llama": (llama, llama_loss, {f"{name}.weight" for name in LINEARS if name != "head"}),
}

# ---- Rules, in float64 ----


def philox(seed: int, stream: int, counter: np.ndarray) -> np.ndarray:
    """Words of Philox4x32-10 (Salmon and others 2011), [counters, 4]."""
    mask = np.uint64(0xFFFFFFFF)
    c = [counter.astype(np.uint64) & mask, counter.astype(np.uint64) >> np.uint64(32)]
    c += [np.full_like(c[0], stream & 0xFFFFFFFF), np.full_like(c[0], stream >> 32)]
    for r in range(10):
        k0, k1 = (seed + r * 0x9E3779B9) & 0xFFFFFFFF, ((seed >> 32) + r * 0xBB67AE85) & 0xFFFFFFFF
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            (b >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            b & mask,
            (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            a & mask,
        ]
    return np.stack(c, -1)


def normals(seed: int, stream: int, count: int) -> np.ndarray:
    words = philox(seed, stream, np.arange(0, count + count % 2, 2)).astype(np.float64)
    radius, angle = np.sqrt(-2 * np.log((words[:, 0] + 1) / 2**32)), 2 * np.pi * words[:, 1] / 2**32
    return np.stack((radius * np.cos(angle), radius * np.sin(angle)), -1).reshape(-1)[:count].astype(np.float32)


def drawn(name: str, rank: int, shorter: int, t: int) -> torch.Tensor:
    """APOLLO's projection [rank, shorter]."""
    seed = 14695981039346656037
    for byte in name.encode():
        seed = (seed ^ byte) * 1099511628211 & (2**64 - 1)
    rows = [normals((SEED ^ seed) + r & (2**64 - 1), (t - 1) // EVERY, shorter) for r in range(rank)]
    return torch.from_numpy(np.stack(rows).astype(np.float64) / math.sqrt(rank))


class Adam:
    """AdamW, and states for those that change it."""

    def __init__(self, decay_last: bool = False):
        self.states: dict[str, list[torch.Tensor]] = {}
        self.limits: dict[str, float] = {}

    def moments(self, name: str, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        m, v = self.states.setdefault(name, [torch.zeros_like(g), torch.zeros_like(g)])
        m.mul_(BETA1).add_(g, alpha=1 - BETA1)
        v.mul_(BETA2).addcmul_(g, g, value=1 - BETA2)
        return m, v

    def adamw(self, name: str, w: torch.Tensor, g: torch.Tensor, t: int) -> None:
        m, v = self.moments(name, g)
        w.mul_(1 - RATE * DECAY)
        w.sub_(RATE * m / (1 - BETA1**t) / (v.sqrt() / math.sqrt(1 - BETA2**t) + EPSILON))

    def limited(self, name: str, g: torch.Tensor) -> torch.Tensor:
        norm = g.norm().item()
        limit = 1.0
        if name in self.limits:
            limit = max(norm / (self.limits[name] + 1e-8), 1.01) / 1.01
        self.limits[name] = norm / limit
        return g / limit


def step_size(t: int) -> float:
    return RATE * math.sqrt(1 - BETA2**t) / (1 - BETA1**t)


def factors(n: torch.Tensor, r: torch.Tensor, whole: bool) -> torch.Tensor:
    if whole:
        return n.norm() / (r.norm() + 1e-8)
    dim = 0 if n.shape[0] < n.shape[1] else 1
    return n.norm(dim=dim, keepdim=True) / (r.norm(dim=dim, keepdim=True) + 1e-8)


def projections(p: torch.Tensor, g: torch.Tensor) -> tuple[Any, Any]:
    """What projects, and what projects back; p: [rank, shorter]."""
    if g.shape[0] >= g.shape[1]:
        return (lambda g: g @ p.T), (lambda r: r @ p)
    return (lambda g: p @ g), (lambda r: p.T @ r)


class Rule(Adam):
    """One step of a rule of hidden matrices; `p`: the projection that the session has."""

    def __init__(self, rule: str):
        super().__init__()
        self.rule = rule

    def step(self, name: str, w: torch.Tensor, g: torch.Tensor, t: int, p: torch.Tensor | None) -> None:
        mini = self.rule == "apollo-mini"
        if p is None:
            p = drawn(name, 1 if mini else RANK, min(g.shape), t)
        there, back = projections(p, g)
        r = there(g)
        m, v = self.moments(name, r)
        n = m / (v.sqrt() + EPSILON)
        if self.rule == "galore":
            by = 0.25 * back(n)
        elif self.rule == "fira":
            by = back(n) + self.limited(name, (g - back(r)) * factors(n, r, False))
        else:
            by = self.limited(name, g * factors(n, r, mini)) * math.sqrt(128 if mini else 1)
        w.sub_(step_size(t) * by)
        w.sub_(RATE * DECAY * w)


def adam_mini(states: dict[str, list[torch.Tensor]], name: str, w: torch.Tensor, g: torch.Tensor, t: int) -> None:
    """Blocks as in the authors' code: heads of queries and keys, rows, whole norms."""
    depth = WIDTH // HEADS
    blocks = (
        g.reshape(-1, depth * WIDTH) if name in ("q.weight", "k.weight") else g.reshape(1, -1) if "norm" in name else g
    )
    blocks = blocks.reshape(len(blocks), -1)
    m, v = states.setdefault(name, [torch.zeros_like(g), torch.zeros(len(blocks), 1, dtype=g.dtype)])
    m.lerp_(g, 1 - BETA1)
    v.mul_(BETA2).add_(blocks.square().mean(1, keepdim=True), alpha=1 - BETA2)
    h = v.sqrt() / math.sqrt(1 - BETA2**t) + EPSILON
    w.mul_(1 - RATE * DECAY)
    w.sub_(RATE / (1 - BETA1**t) * (m.reshape(blocks.shape) / h).reshape(w.shape))


def adalomo(states: dict[str, list[torch.Tensor]], name: str, w: torch.Tensor, g: torch.Tensor, t: int) -> None:
    beta, square = 1 - t**-0.8, g.square() + 1e-30
    if g.dim() > 1:
        rows, columns = states.setdefault(name, [torch.zeros_like(g[:, 0]), torch.zeros_like(g[0])])
        rows.mul_(beta).add_(square.mean(-1), alpha=1 - beta)
        columns.mul_(beta).add_(square.mean(-2), alpha=1 - beta)
        u = g * (rows / rows.mean()).rsqrt()[:, None] * columns.rsqrt()
    else:
        (v,) = states.setdefault(name, [torch.zeros_like(g)])
        v.mul_(beta).add_(square, alpha=1 - beta)
        u = g * v.rsqrt()
    u /= max(1.0, u.norm().item() / math.sqrt(u.numel()))
    rate = RATE * max(1e-3, w.norm().item() / math.sqrt(w.numel()))
    w.mul_(1 - rate * DECAY).sub_(rate * u)


def orthogonal(g: torch.Tensor) -> torch.Tensor:
    """Newton and Schulz's iteration as in torch.optim.Muon, which rounds to bf16."""
    x = g.T if g.shape[0] > g.shape[1] else g
    x = x / max(x.norm().item(), 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if g.shape[0] > g.shape[1] else x


def train(
    rule: str, loss: Callable[..., torch.Tensor], hidden: set[str], first: dict[str, np.ndarray],
    batches: list[dict[str, np.ndarray]], found: list[dict[str, np.ndarray]],
) -> dict[str, np.ndarray]:  # fmt: skip
    """The weights after all batches; `found`: the projections that the session had in each step."""
    w = {name: torch.from_numpy(values.astype(np.float64)).requires_grad_() for name, values in first.items()}
    made = Rule(rule)
    states: dict[str, list[torch.Tensor]] = {}
    adafactor = torch.optim.Adafactor(w.values(), lr=RATE, weight_decay=DECAY, eps=(2.0**-23, 1e-3))
    for t, (batch, projection) in enumerate(zip(batches, found, strict=True), 1):
        x = torch.from_numpy(batch["x"])
        value = loss(w, x.double() if x.is_floating_point() else x.long(), torch.from_numpy(batch["label"]).long())
        gradients = torch.autograd.grad(value, list(w.values()))
        for (name, parameter), g in zip(w.items(), gradients, strict=True):
            p = parameter.data
            if rule == "lomo":
                p.mul_(1 - RATE * DECAY).sub_(RATE * g)
            elif rule == "adafactor":
                parameter.grad = g
            elif rule == "adalomo":
                adalomo(states, name, p, g, t)
            elif rule == "adam-mini":
                adam_mini(states, name, p, g, t)
            elif name not in hidden:
                made.adamw(name, p, g, t)
            elif rule == "muon":
                (b,) = states.setdefault(name, [torch.zeros_like(g)])
                b.lerp_(g, 1 - 0.95)
                p.mul_(1 - RATE * DECAY)
                p.sub_(RATE * 0.2 * math.sqrt(max(p.shape)) * orthogonal(g.lerp(b, 0.95)))
            else:
                kept = projection.get(name)
                made.step(name, p, g, t, None if kept is None else torch.from_numpy(kept.astype(np.float64)))
        if rule == "adafactor":
            adafactor.step()
    return {name: parameter.detach().numpy() for name, parameter in w.items()}


# ---- Sessions ----


def options_of(rule: str) -> dict[str, Any]:
    given: dict[str, Any] = {"optimizer": RULES[rule], "weight_decay": DECAY, "seed": SEED}
    if rule not in ("lomo", "adalomo", "adafactor"):
        given |= {"epsilon": EPSILON}
    if rule in ("apollo", "galore", "fira"):
        given |= {"projection_rank": RANK}
    if rule in ("apollo", "apollo-mini", "galore", "fira"):
        given |= {"projection_every": EVERY}
    if rule == "muon":
        given |= {"momentum": 0.95}
    return given


def run(
    library: native.Library, network: str, rule: str, **options: Any
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], list[dict[str, np.ndarray]], list[dict[str, np.ndarray]]]:
    """First and last weights, batches, and the projections after each step."""
    random = np.random.default_rng(5)
    batches = [batch_of(random, network) for _ in range(STEPS)]
    with (
        native.network(library) as n,
        native.finished(library, n, NETWORKS[network][0](n)) as graph,
        native.session(library, graph, **options_of(rule), **options) as s,
    ):
        first = {}
        for entry in s.of_kind(native.PARAMETER):
            size = entry.dims[-1] if len(entry.dims) > 1 else 16
            values = random.standard_normal(entry.dims) / math.sqrt(size) + (1 if "norm" in entry.name else 0)
            first[entry.name] = values.astype(np.float32)
            s.write(entry.name, first[entry.name])
        found = []
        for batch in batches:
            for name, values in batch.items():
                s.fill(name, values)
            s.step(RATE)
            found.append({e.name.removesuffix(".projection"): s.read(e.name) for e in s.variables.values()
                          if e.name.endswith(".projection")})  # fmt: skip
        return first, {name: s.read(name) for name in first}, batches, found


@pytest.fixture(scope="module")
def library() -> native.Library:
    return native.Library(native.LIBRARY)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("rule", RULES)
def test_formula(library: native.Library, rule: str, network: str, backend: str) -> None:
    first, last, batches, found = run(library, network, rule, backend=BACKENDS[backend])
    _, loss, hidden = NETWORKS[network]
    wanted = train(rule, loss, hidden, first, batches, found)
    for name, values in last.items():
        moved = np.abs(wanted[name] - first[name]).max()
        assert moved > 1e-3, name
        assert np.abs(values - wanted[name]).max() < 2e-4 * moved + 1e-6, (
            name,
            np.abs(values - wanted[name]).max(),
            moved,
        )


@pytest.mark.parametrize("rule", ["galore", "fira"])
def test_subspace(library: native.Library, rule: str) -> None:
    """The projection is orthonormal, and keeps what singular vectors keep of the first gradient."""
    first, _, batches, found = run(library, "llama", rule)
    w = {name: torch.from_numpy(values.astype(np.float64)).requires_grad_() for name, values in first.items()}
    llama_loss(w, torch.from_numpy(batches[0]["x"]).long(), torch.from_numpy(batches[0]["label"]).long()).backward()
    assert set(found[0]) == NETWORKS["llama"][2]
    for name, p in found[0].items():
        g, kept = w[name].grad.numpy(), np.linalg.svd(w[name].grad.numpy(), compute_uv=False)
        assert np.abs(p @ p.T - np.eye(RANK)).max() < 1e-5
        projected = g @ p.T if g.shape[0] >= g.shape[1] else p @ g
        assert np.square(projected).sum() > 0.98 * np.square(kept[:RANK]).sum(), name
    assert all(
        (found[0][name] == found[EVERY - 1][name]).all() and (found[0][name] != found[EVERY][name]).any()
        for name in found[0]
    )


@pytest.mark.parametrize("rule", RULES)
def test_bits(library: native.Library, rule: str) -> None:
    """Bits do not depend on the budget."""
    most, least = (run(library, "llama", rule, budget=budget, planner=b"evict")[1] for budget in (native.BUDGET_MAX, 0))
    assert all((most[name] == least[name]).all() for name in most)


def test_muon_beside_torch(library: native.Library) -> None:
    """torch.optim.Muon computes in bf16: steps agree as far as that goes."""
    first, last, _, _ = run(library, "perceptron", "muon")
    random = np.random.default_rng(5)
    batches = [batch_of(random, "perceptron") for _ in range(STEPS)]
    w = {name: torch.from_numpy(values.astype(np.float64)).requires_grad_() for name, values in first.items()}
    hidden = [w[name] for name in ("l0.weight", "l1.weight")]
    muon = torch.optim.Muon(hidden, lr=RATE, weight_decay=DECAY, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    rest = torch.optim.AdamW(
        [w[n] for n in w if n not in ("l0.weight", "l1.weight")], lr=RATE, weight_decay=DECAY, eps=EPSILON
    )
    for batch in batches:
        muon.zero_grad(), rest.zero_grad()
        perceptron_loss(w, torch.from_numpy(batch["x"]).double(), torch.from_numpy(batch["label"]).long()).backward()
        muon.step(), rest.step()
    for name in ("l0.weight", "l1.weight"):
        moved = w[name].detach().numpy() - first[name]
        assert np.linalg.norm(last[name] - first[name] - moved) < 0.05 * np.linalg.norm(moved)
