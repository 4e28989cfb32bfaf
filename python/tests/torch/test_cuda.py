"""What can be said of CUDA if none exists: names of arguments, devices, and how tensors are dropped at their last read."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import neap.torch
from neap.torch import allocator, backend, measure
from neap.torch.captured import Steps
from neap.torch.graph import NOT_READ, STATISTICS


def test_running_statistics_are_where_the_tables_have_them():
    tables = [(op, positions) for op, positions in STATISTICS.items()]
    tables += [(op, positions) for op, (positions, _) in NOT_READ.items()]
    assert len(tables) == 6
    for op, positions in tables:
        names = [op._schema.arguments[i].name for i in positions]
        assert names == ["running_mean", "running_var"], op
    for op, (_, training) in NOT_READ.items():
        assert training is None or op._schema.arguments[training].name == "train", op


def test_heap_of_the_cpu_is_no_memory_of_a_device():
    with measure.heap_counted(torch.device("cuda", 0)) as heap:
        assert heap is None


def test_measuring_on_the_cpu_asks_for_no_generator_of_cuda(monkeypatch):
    def refused(*_):
        raise AssertionError("a context of CUDA was made")

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_rng_state", refused)
    before = torch.get_rng_state()
    with measure.forked_draws(torch.device("cpu")):
        torch.rand(3)
    assert torch.equal(before, torch.get_rng_state())


def test_a_seed_is_the_one_that_the_random_call_gave():
    """Attention's gradient takes the seed that its forward pass drew: a made-up one, on another device, is read as an address."""
    seen = []

    @torch.library.custom_op("neap_test::drawn", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
    def drawn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, torch.full((), 77)

    @torch.library.custom_op("neap_test::drawn_backward", mutates_args=())
    def drawn_backward(gradient: torch.Tensor, seed: torch.Tensor) -> torch.Tensor:
        seen.append(int(seed))
        return gradient * 2

    drawn.register_fake(lambda x: (torch.empty_like(x), x.new_empty((), dtype=torch.int64)))
    drawn_backward.register_fake(lambda gradient, seed: torch.empty_like(gradient))
    drawn.register_autograd(
        lambda ctx, gradient, _: torch.ops.neap_test.drawn_backward(gradient, ctx.saved_tensors[0]),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output[1]),
    )
    model = nn.Linear(4, 4)
    step = neap.torch.compile_step(
        model, lambda m, x: drawn(m(x))[0].square().mean(), torch.optim.SGD(model.parameters(), lr=0.1), budget="max"
    )
    step.prepare(torch.randn(2, 4))
    assert seen
    assert set(seen) == {77}


@pytest.fixture
def dropping(monkeypatch):
    """Steps drop tensors at their last read, as on CUDA."""
    gc.collect()  # steps of other tests give their memory back while the allocator is there
    monkeypatch.setattr(allocator, "_library", None)
    monkeypatch.setattr(allocator, "_reason", "a test")


@pytest.mark.filterwarnings("ignore:neap")
def test_gradients_are_dropped_at_their_update(dropping, monkeypatch):
    gradients: list[weakref.ref[torch.Tensor]] = []
    held = []
    take = Steps.take

    def watched(self, work, some, *scale):
        gradients.extend(weakref.ref(gradient) for gradient in some)
        return take(self, work, some, *scale)

    monkeypatch.setattr(Steps, "take", watched)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    step = neap.torch.compile_step(
        model, lambda m, x, y: F.cross_entropy(m(x), y), torch.optim.SGD(model.parameters(), lr=0.1), budget="max"
    )
    batch = torch.randn(4, 8), torch.randint(2, (4,))
    step._run(batch, lambda _: held.append(sum(g() is not None for g in gradients)))
    assert len(gradients) == 6
    assert max(held) == 0
    assert not step.memory.enforced


class Living(TorchDispatchMode):
    """Counts the bytes of the storages that operators read or make and that are still there: `peak` is the most behind an operator."""

    def __init__(self):
        super().__init__()
        self.storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for t in torch.utils._pytree.tree_leaves((args, kwargs, result)):
            if isinstance(t, torch.Tensor):
                storage = t.untyped_storage()
                self.storages[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.storages = {k: (r, n) for k, (r, n) in self.storages.items() if not r.expired()}
        self.peak = max(self.peak, sum(n for _, n in self.storages.values()))
        return result


def pointwise_net():
    """Its peak lies at a pointwise call at any budget."""
    layers = [m for _ in range(4) for m in (nn.Linear(16, 512), nn.GELU(), nn.Linear(512, 16), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(16, 2))


@pytest.mark.filterwarnings("ignore:neap")
@pytest.mark.parametrize("budget", ["max", "70%", "min"])
def test_a_result_beside_its_operand_is_planned(budget, dropping):
    """Nothing has a planned address there, so that no pointwise call writes over its operand."""
    torch.manual_seed(0)
    model = pointwise_net()
    step = neap.torch.compile_step(
        model, lambda m, x, y: F.cross_entropy(m(x), y), torch.optim.SGD(model.parameters(), lr=0.1), budget=budget
    )
    batch = torch.randn(600, 16), torch.randint(2, (600,))
    step(*batch)
    step(*batch)  # which compares the capture
    with Living() as living:
        step(*batch)
    least = 600 * 512 * 4 * 2  # the operand and the result of one GELU
    assert least < living.peak <= step.memory.planned_peak_bytes
    assert step.memory.measured_peak_bytes <= step.memory.planned_peak_bytes


def test_the_backend_plans_a_result_beside_its_operand(monkeypatch):
    planned = []
    plan = backend.cached_plan

    def watched(step, *rest):
        planned.append(step)
        return plan(step, *rest)

    monkeypatch.setattr(backend, "cached_plan", watched)
    model = torch.compile(pointwise_net(), backend="neap", options={"budget": "80%"})
    model(torch.randn(64, 16)).sum().backward()
    assert [len(step.inplace) for step in planned] == [0]


class Counters:
    """Those of CUDA's caching allocator, of which a call takes `peak` bytes at most."""

    def __init__(self, peak):
        self.peak = peak

    def memory_allocated(self, device=None):
        return 4096

    def max_memory_allocated(self, device=None):
        return 4096 + self.peak

    def reset_peak_memory_stats(self, device=None):
        pass

    def synchronize(self, device=None):
        pass


@pytest.mark.parametrize("shared", [False, True])
def test_a_storage_that_results_share_is_scratch(shared, monkeypatch):
    """They are copied out of it while it is there."""
    nbytes = 3 * 1000 * 4
    counters = Counters(nbytes + 512)
    for name in ("memory_allocated", "max_memory_allocated", "reset_peak_memory_stats", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, getattr(counters, name))
    monkeypatch.setattr(measure, "_clock", lambda device: iter(range(100)).__next__)

    def run():
        return torch.zeros(3, 1000).unbind() if shared else tuple(torch.zeros(1024) for _ in range(3))

    def made(result):
        return [0] * 3 if shared else [t.data_ptr() for t in result]

    cost = measure.measured(run, torch.device("cuda", 0), None, made)
    assert cost.scratch == (nbytes + 512 if shared else max(nbytes + 512 - 3 * 4096, 0))
