"""What calls cost: seconds, what they allocate, and what bypasses PyTorch's allocator; each distinct call once."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import os
import platform
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import allocator
from .graph import Call, Graph, View

# Costs of calls that are not run: two cores of a current processor.
FLOPS_PER_SECOND = 3e11
BYTES_PER_SECOND = 2.5e10
SECONDS_A_CALL = 5e-6

TIMED_RUNS = 4
TIMED_SECONDS = 0.04  # no further run of a call after so long
CACHE_FILE = "torch-1.sqlite"  # another number for another form of what is in it


@dataclasses.dataclass
class Cost:
    """Of one call. `made`: which allocation of the call each result of its own is (-1: none was seen)."""

    seconds: float
    scratch: int = 0
    made: list[int] = dataclasses.field(default_factory=list)
    bypass: int = 0  # bytes that it takes at most from the heap beside PyTorch's allocator, while it runs
    retained: int = 0  # and keeps afterwards, from the first time on (kernels, packed buffers)
    copied: list[int] = dataclasses.field(
        default_factory=list
    )  # which of its results share memory with others: to be copied
    # How its results lie: position, size, strides. PyTorch's fake tensors are not always right about it.
    real: list[tuple[int, list[int], list[int]]] = dataclasses.field(default_factory=list)


def is_view(x: Any) -> bool:
    return isinstance(x, View)


def _text(x: Any) -> Any:
    if isinstance(x, View):
        return f"{str(x.dtype)[6:]}{list(x.size)}{list(x.stride)}"
    return repr(x)


def call_key(call: Call) -> str:
    """Equal for calls that do the same work."""
    leaves, tree = pytree.tree_flatten((call.args, call.kwargs), is_leaf=is_view)
    return f"{call.target} {' '.join(_text(x) for x in leaves)} {hash_of(str(tree))}"


@functools.cache
def hash_of(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:12]


@functools.cache
def machine(device: str, threads: int) -> str:
    """What measured costs hold for."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    if device.startswith("cuda"):
        name = torch.cuda.get_device_name(device)
    kind = torch.backends.cpu.get_cpu_capability()
    return f"{name}, {kind}, {threads} threads, torch {torch.__version__}, steer {int(allocator.library() is not None)}"


class Cache:
    """Measured costs in a file, by machine and call; where it cannot be used, as if there were none."""

    def __init__(self) -> None:
        self.file: sqlite3.Connection | None = None
        with contextlib.suppress(OSError, sqlite3.Error):
            folder = allocator.cache_directory()
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self.file = sqlite3.connect(folder / CACHE_FILE, timeout=5)
            with self.file:
                self.file.execute(
                    "CREATE TABLE IF NOT EXISTS calls (machine TEXT NOT NULL, call TEXT NOT NULL, cost TEXT NOT NULL,"
                    " PRIMARY KEY (machine, call)) WITHOUT ROWID"
                )

    def find(self, machine: str) -> dict[str, Any]:
        """What is known on the machine: call -> its cost, as a dict."""
        if self.file is None:
            return {}
        with contextlib.suppress(sqlite3.Error, ValueError):
            rows = self.file.execute("SELECT call, cost FROM calls WHERE machine = ?", (machine,)).fetchall()
            return {call: json.loads(cost) for call, cost in rows}
        return {}

    def add(self, machine: str, costs: dict[str, Any]) -> None:
        """costs: call -> a dataclass."""
        if self.file is None or not costs:
            return
        rows = [(machine, call, json.dumps(dataclasses.asdict(cost))) for call, cost in costs.items()]
        with contextlib.suppress(sqlite3.Error), self.file:
            self.file.executemany("INSERT OR REPLACE INTO calls VALUES (?, ?, ?)", rows)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


# ---- By running ----


def _extent(view: View) -> int:
    """Elements from the first to the last that a view shows."""
    return 1 + sum((n - 1) * s for n, s in zip(view.size, view.stride, strict=True)) if math.prod(view.size) > 0 else 0


def _lie_alike(stride: Sequence[int], view: View) -> bool:
    """Whether each element is where the view has it: the stride of a dimension of one element does not count."""
    return 0 in view.size or all(n == 1 or a == b for n, a, b in zip(view.size, stride, view.stride, strict=True))


def stand_in(view: View, device: torch.device) -> torch.Tensor:
    """A tensor that lies as the view does, with harmless content."""
    base = torch.empty(_extent(view), dtype=view.dtype, device=device)
    base.fill_(0.5 if view.dtype.is_floating_point or view.dtype.is_complex else 0)
    return base.as_strided(view.size, view.stride)


def result_tensors(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _clock(device: torch.device) -> Callable[[], float]:
    if device.type != "cuda":
        return time.perf_counter

    def clock() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return clock


@contextlib.contextmanager
def heap_counted() -> Iterator[Any]:
    """Counts what bypasses PyTorch's allocator, where that can be done: gives the library, or None."""
    library = allocator.library()
    if library is None or not library.neap_heap_counts():
        yield None
        return
    library.neap_heap_on()
    try:
        yield library
    finally:
        library.neap_heap_off()


def measured(run: Callable[[], Any], device: torch.device, heap: Any, made: Callable[[Any], list[int]]) -> Cost:
    """Runs a call a few times. made(result): the addresses of the results that have storages of their own."""
    clock = _clock(device)
    live = heap.neap_heap_live() if heap else 0
    result = run()  # the first run makes kernels and caches
    del result
    retained = max(heap.neap_heap_live() - live, 0) if heap else 0
    best, bypass, began = math.inf, 0, clock()
    numbers: list[int] = []
    scratch = 0
    for number in range(TIMED_RUNS):
        live = heap.neap_heap_live() if heap else 0
        if heap:
            heap.neap_heap_mark()
        with allocator.Recording(number == 0) as recording:
            start = clock()
            result = run()
            best = min(best, clock() - start)
        if heap:
            bypass = max(bypass, heap.neap_heap_peak() - live)
        if number == 0:
            addresses = {address: i for i, (_, address, freed) in enumerate(recording.rows) if not freed}
            numbers = [addresses.get(address, -1) for address in made(result)]
            scratch = recording.scratch({n for n in numbers if n >= 0})
        del result
        if clock() - began > TIMED_SECONDS:
            break
    return Cost(best, scratch, numbers, bypass, retained)


class _Measurer:
    """Measures the calls of a graph, in their order."""

    def __init__(self, graph: Graph, device: torch.device, heap: Any):
        self.graph, self.device, self.heap = graph, device, heap
        self.views = graph.views()
        self.makers = {t: call for call in graph.calls for t in call.makes}

    def _content(self, x: Any) -> Any:
        if not is_view(x):
            return x
        maker = self.makers.get(x.tensor)
        if x.dtype == torch.uint8 and maker is not None and maker.target != torch.ops.aten.empty.memory_format:
            # Bytes that only the two operators understand: they have to be the maker's own.
            for view, tensor in zip(maker.results, result_tensors(self._run(maker)()), strict=False):
                if view is not None and view.tensor == x.tensor:
                    return tensor
        return stand_in(x, self.device)

    def _run(self, call: Call) -> Callable[[], Any]:
        args, kwargs = pytree.tree_map(self._content, (call.args, call.kwargs), is_leaf=is_view)
        return lambda: call.target(*args, **kwargs)

    def cost(self, call: Call) -> Cost:
        real: list[tuple[int, list[int], list[int]]] = []

        def made(result: Any) -> list[int]:
            found: dict[int, int] = {}
            for position, (view, tensor) in enumerate(zip(call.results, result_tensors(result), strict=False)):
                if view is None or view.tensor not in call.makes or tensor is None:
                    continue
                real.append((position, list(tensor.shape), list(tensor.stride())))
                found.setdefault(view.tensor, tensor.untyped_storage().data_ptr())
            addresses.extend(found.get(t, 0) for t in call.makes)
            return addresses

        addresses: list[int] = []
        cost = measured(self._run(call), self.device, self.heap, made)
        cost.real = real
        cost.copied = [i for i, a in enumerate(addresses) if a != 0 and a in addresses[:i]]
        return cost

    def correct(self, call: Call, cost: Cost) -> None:
        """The graph as the operator really is. Only what is passed on whole can be corrected."""
        for position, size, stride in cost.real:
            view = call.results[position]
            if tuple(size) == view.size and _lie_alike(stride, view):
                continue
            for other in self.views.get(view.tensor, []):
                if other is not view and (other.size, other.stride, other.offset) != (
                    view.size,
                    view.stride,
                    view.offset,
                ):
                    raise RuntimeError(
                        f"{call.target} gives a tensor of {size} with strides {stride} where PyTorch's fake tensors have "
                        f"{list(view.size)}, {list(view.stride)}, and a view of it is taken: the step cannot be planned; please report it"
                    )
            for other in self.views.get(view.tensor, []):
                other.size, other.stride = tuple(size), tuple(stride)
            self.graph.storage_of(view.tensor).bytes = _extent(view) * view.dtype.itemsize


def measure(graph: Graph, cache: Cache) -> list[Cost]:
    """The cost of each call of the graph, on this machine; what the cache does not have is run once."""
    devices = {s.device for s in graph.storages if s.bytes > 0}
    device = next((d for d in devices if d.type != "cpu"), torch.device("cpu"))
    where = machine(str(device), torch.get_num_threads())
    known = {call: Cost(**cost) for call, cost in cache.find(where).items() if not call.startswith("update ")}
    fresh: dict[str, Cost] = {}
    costs = []
    real = torch.utils._python_dispatch._disable_current_modes()  # torch.compile calls while fake tensors are on
    with real, torch.random.fork_rng(), below_autograd(), heap_counted() as heap:
        measurer = _Measurer(graph, device, heap)
        for call in graph.calls:
            key = call_key(call)
            if key not in known:
                known[key] = fresh[key] = measurer.cost(call)
            measurer.correct(call, known[key])
            costs.append(known[key])
    cache.add(where, fresh)
    return costs


@contextlib.contextmanager
def below_autograd() -> Iterator[None]:
    """As kernels run in eager training: gradients are enabled, which some kernels ask for (oneDNN's LSTM keeps its workspace
    only then), and nothing is recorded. What was cast when the step was captured is not cast again."""
    with torch.enable_grad(), torch._C._AutoDispatchBelowAutograd(), torch._C._DisableAutocast():
        yield


# ---- By counting ----


def estimate(graph: Graph) -> list[Cost]:
    """Costs from FLOPs and bytes alone, for tensors that are not there."""
    from torch.utils.flop_counter import flop_registry

    costs = []
    for call in graph.calls:
        flops = 0
        formula = flop_registry.get(getattr(call.target, "overloadpacket", call.target))
        if formula is not None:
            args, kwargs = torch.fx.node.map_arg((call.node.args, call.node.kwargs), lambda n: n.meta.get("val"))
            with contextlib.suppress(Exception):
                flops = formula(*args, **kwargs, out_val=call.node.meta.get("val"))
        moved = sum(graph.storage_of(t).bytes for t in (*call.reads, *call.makes))
        seconds = SECONDS_A_CALL + max(flops / FLOPS_PER_SECOND, moved / BYTES_PER_SECOND)
        costs.append(Cost(seconds))
    return costs
