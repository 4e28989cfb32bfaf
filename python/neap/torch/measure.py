"""Costs of calls: seconds, allocated bytes, and bytes outside PyTorch's allocator. Each distinct call is measured once."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import os
import platform
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import allocator, decisions, eager_formulas
from .graph import Call, CannotTrace, Graph, View, user_line

aten = torch.ops.aten

# Speeds for the costs of calls that are not run: two cores of a current processor.
FLOPS_PER_SECOND = 3e11
BYTES_PER_SECOND = 2.5e10
SECONDS_A_CALL = 5e-6

# Capturing, measuring, trials and first steps run one at a time in the process: they measure the whole process.
preparing = threading.RLock()

ALIGNMENT = 64  # of allocations
TIMED_RUNS = 4
TIMED_SECONDS = 0.04  # after this time, a call does not run again
CACHE_FILE = "torch-6.sqlite"  # the number changes with the format


@dataclasses.dataclass
class Cost:
    """The cost of one call. made: for each tensor that it makes, the number of its allocation (-1: none was seen)."""

    seconds: float
    scratch: int = 0
    made: list[int] = dataclasses.field(default_factory=list)
    bypass: int = 0  # peak bytes from the heap outside PyTorch's allocator while it runs
    retained: int = 0  # bytes that it keeps there after its first run (kernels, packed buffers)
    # Results to copy to memory of their own: they share memory with others, or their storage is larger than the view.
    copied: list[int] = dataclasses.field(default_factory=list)
    # Results that are None, though fake tensors say otherwise.
    absent: list[int] = dataclasses.field(default_factory=list)
    # Layouts of its results: position, size, strides, type. PyTorch's fake tensors are sometimes wrong about these.
    real: list[tuple[int, list[int], list[int], str]] = dataclasses.field(default_factory=list)


def _one_less(args: Any) -> None:
    """Has the mask of a masked_scatter select one element less than its source has: the gradient is then filled up with zeros."""
    gradient, mask, sizes = args
    selected = (math.prod(sizes) - 1) // max(gradient.numel() // max(mask.numel(), 1), 1)
    if 0 not in mask.stride():
        mask.copy_((torch.arange(mask.numel(), device=mask.device) < selected).view(mask.shape))


# Calls whose allocations depend on values: what has them allocate the most, by their stand-ins.
CONTENT: dict[Any, Callable[[Any], Any]] = {
    aten._embedding_bag_backward.default: lambda args: args[4].fill_(1),  # a bag of size 0 has no gradient
    aten._embedding_bag_dense_backward.default: lambda args: args[3].fill_(1),
    aten.masked_scatter_backward.default: _one_less,
    decisions.decide._opoverload: lambda args: args[0].fill_(args[2]),
    decisions.nonzero._opoverload: lambda args: decisions.select_first(args[0], args[2]),
    eager_formulas.eager_result._opoverload: lambda args: eager_formulas.fill(*args),
    eager_formulas.eager_gradients._opoverload: lambda args: eager_formulas.fill(*args[1:]),
}


def is_view(x: Any) -> bool:
    return isinstance(x, View)


def _text(x: Any) -> str:
    if isinstance(x, View):
        return f"{str(x.dtype)[6:]}{list(x.size)}{list(x.stride)}"
    if isinstance(x, torch.Tensor):
        return f"{str(x.dtype)[6:]}{list(x.shape)}{list(x.stride())}"
    if isinstance(x, (list, tuple)):
        return f"[{' '.join(map(_text, x))}]"
    if isinstance(x, dict):
        return f"{{{' '.join(f'{key}={_text(value)}' for key, value in x.items())}}}"
    if isinstance(x, torch.Generator):
        return "generator"
    return repr(x)


@functools.cache
def _defaults(target: Any) -> tuple[str, ...]:
    """Returns the texts of the defaults of an operator's arguments; "" for an argument without one."""
    schema = getattr(target, "_schema", None)
    arguments = schema.arguments if schema is not None else ()
    return tuple(repr(a.default_value) if a.has_default_value() else "" for a in arguments)


def key_of(target: Any, args: Any, kwargs: Any) -> str:
    """Returns a key that is equal for calls that do the same work. Tensors are Views or fake tensors. PyTorch drops last arguments that
    are the defaults in some of its calls."""
    texts = list(map(_text, args))
    defaults = _defaults(target)
    while texts and len(texts) <= len(defaults) and texts[-1] == defaults[len(texts) - 1]:
        texts.pop()
    return f"{target} [{' '.join(texts)}] {_text(kwargs)}"


def call_key(call: Call) -> str:
    return key_of(call.target, call.args, call.kwargs)


def is_pytorchs(call: Call) -> bool:
    """Returns whether the call's operator is PyTorch's or Neap's, and so the same in each process."""
    return getattr(call.target, "namespace", "aten") in ("aten", "prims", "neap")


def machine(device: str, threads: int) -> str:
    """Returns a description of the machine and the settings for which measured costs are valid."""
    where = _hardware(device, threads)
    if device.startswith("cuda"):  # kernels and their scratch memory are chosen by these
        cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
        chosen = (cudnn.deterministic, cudnn.benchmark, torch.are_deterministic_algorithms_enabled())
        where += f", cuda {(*chosen, cudnn.allow_tf32, matmul.allow_tf32)}"
    return where


@functools.cache
def _hardware(device: str, threads: int) -> str:
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
    """Measured costs in a file, by machine and call. Without access to the file, the cache is empty and keeps nothing."""

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
        """Returns the costs known on the machine: call -> cost, as a dict."""
        if self.file is None:
            return {}
        with contextlib.suppress(sqlite3.Error, ValueError):
            rows = self.file.execute("SELECT call, cost FROM calls WHERE machine = ?", (machine,)).fetchall()
            return {call: json.loads(cost) for call, cost in rows}
        return {}

    def costs(self, machine: str) -> dict[str, Cost]:
        """Returns the costs of calls known on the machine: call -> Cost, without those of updates."""
        return {call: Cost(**cost) for call, cost in self.find(machine).items() if not call.startswith("update ")}

    def add(self, machine: str, costs: dict[str, Any]) -> None:
        """Writes costs: call -> a dataclass."""
        if self.file is None or not costs:
            return
        rows = [(machine, call, json.dumps(dataclasses.asdict(cost))) for call, cost in costs.items()]
        with contextlib.suppress(sqlite3.Error), self.file:
            self.file.executemany("INSERT OR REPLACE INTO calls VALUES (?, ?, ?)", rows)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


# ---- By running ----


def extent(view: View) -> int:
    """Returns the number of elements from the first to the last element of a view."""
    return 1 + sum((n - 1) * s for n, s in zip(view.size, view.stride, strict=True)) if math.prod(view.size) > 0 else 0


def _lie_alike(stride: Sequence[int], view: View) -> bool:
    """Returns whether strides give each element the place that it has in the view. Dimensions of one element do not count."""
    return 0 in view.size or all(n == 1 or a == b for n, a, b in zip(view.size, stride, view.stride, strict=True))


def aligned(size: int) -> int:
    """Returns the bytes that an allocation takes."""
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def stand_in(view: View, device: torch.device, booleans: bool = True) -> torch.Tensor:
    """Returns a tensor with the view's layout and harmless content. booleans: their value; by a mask that selects all elements, calls
    allocate the most."""
    base = torch.empty(extent(view), dtype=view.dtype, device=device)
    base.fill_(
        booleans if view.dtype == torch.bool else 0.5 if view.dtype.is_floating_point or view.dtype.is_complex else 0
    )
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
def forked_draws(device: torch.device) -> Iterator[None]:
    """Restores the generators of the CPU and of the device at the end. Does not touch other devices: reading a generator of CUDA
    makes a context, which takes memory there."""
    with torch.random.fork_rng([device.index or 0] if device.type == "cuda" else []):
        yield


@contextlib.contextmanager
def heap_counted(device: torch.device) -> Iterator[Any]:
    """Counts the bytes that a step on the CPU takes from the heap outside PyTorch's allocator. Gives the library, or None if it
    cannot count. For other devices gives None: the heap is not part of the device's memory."""
    library = allocator.library() if device.type == "cpu" else None
    if library is None or not library.neap_heap_counts():
        yield None
        return
    library.neap_heap_on()
    try:
        yield library
    finally:
        library.neap_heap_off()


def _live_bytes(device: torch.device, heap: Any) -> int:
    """Returns the live bytes of CUDA's caching allocator; on the CPU, of the heap outside PyTorch's allocator."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    return heap.neap_heap_live() if heap else 0


def measured(
    run: Callable[[], Any], device: torch.device, heap: Any, made: Callable[[Any], list[int]], runs: int = TIMED_RUNS
) -> Cost:
    """Runs a call a few times and returns its cost. made(result): returns the addresses of results with storages of their own. On
    CUDA, the counters of the caching allocator give scratch and retained bytes (a workspace of cuBLAS); resets its peak."""
    clock = _clock(device)
    on_cuda = device.type == "cuda"
    before = _live_bytes(device, heap)
    result = run()  # the first run makes kernels and caches
    del result
    retained = max(_live_bytes(device, heap) - before, 0)
    best, bypass, began = math.inf, 0, clock()
    numbers: list[int] = []
    scratch = 0
    for number in range(runs):
        live = heap.neap_heap_live() if heap else 0
        if heap:
            heap.neap_heap_mark()
        if on_cuda:
            before = _live_bytes(device, heap)
            torch.cuda.reset_peak_memory_stats(device)
        with allocator.Recording(number == 0 and not on_cuda) as recording:
            start = clock()
            result = run()
            best = min(best, clock() - start)
        if heap:
            bypass = max(bypass, heap.neap_heap_peak() - live)
        if number == 0:
            addresses = {address: i for i, (_, address, freed) in enumerate(recording.rows) if not freed}
            own = made(result)
            numbers = [addresses.get(address, -1) for address in own]
            scratch = recording.scratch({n for n in numbers if n >= 0})
            if on_cuda:
                scratch = max(torch.cuda.max_memory_allocated(device) - before - _own_bytes(result, own), 0)
        del result
        if clock() - began > TIMED_SECONDS:
            break
    return Cost(best, scratch, numbers, bypass, retained)


def _own_bytes(result: Any, own: list[int]) -> int:
    """Returns the bytes of the results at the addresses `own`, in blocks of CUDA's caching allocator. A storage that several results
    share does not count: results are copied out of it, and until then it is scratch."""
    storages = {
        t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in result_tensors(result) if t is not None
    }
    return sum((storages[address] + 511) // 512 * 512 for address in {a for a in own if a in storages})


class FakeIsWrong(CannotTrace):
    """A call's results have another layout than fake tensors say, and views of them exist: the step must be traced again."""

    def __init__(self, key: str, call: Call, real: list[tuple[int, list[int], list[int], str]]):
        super().__init__(
            f"{call.target} gives {real}, but PyTorch's fake tensors say otherwise: the step cannot be planned; please report it"
        )
        self.key, self.real = key, {position: tuple(rest) for position, *rest in real}


class _Measurer:
    """Measures the calls of a graph, in their order."""

    def __init__(self, graph: Graph, device: torch.device, heap: Any, strict: bool = False):
        """strict: raises FakeIsWrong if fake tensors are wrong, so that the graph is traced again; else the graph is corrected, if
        that is possible."""
        self.strict = strict
        self.graph, self.device, self.heap = graph, device, heap
        self.views = graph.views()
        self.makers = {t: call for call in graph.calls for t in call.makes}
        self.own_integers = False  # True: stand-ins of integers are results of the calls that make them

    def _content(self, x: Any) -> Any:
        if isinstance(x, torch.Generator):
            return x.clone_state()
        if not is_view(x):
            return x
        maker = self.makers.get(x.tensor)
        seed = maker is not None and maker.random and x.dtype in (torch.int64, torch.uint64)
        integers = (
            x.dtype == torch.uint8
            or seed  # of attention: some kernels have it in CPU memory, with results on a device
            or (self.own_integers and not x.dtype.is_floating_point and not x.dtype.is_complex)
        )
        if integers and maker is not None and maker.target != torch.ops.aten.empty.memory_format:
            # Bytes that only the two operators understand: they must come from the maker.
            for view, tensor in zip(maker.results, result_tensors(self._run(maker)()), strict=False):
                if view is not None and view.tensor == x.tensor:
                    return tensor
        return stand_in(x, self.graph.storage_of(x.tensor).device, not self.own_integers)

    def _run(self, call: Call) -> Callable[[], Any]:
        args, kwargs = pytree.tree_map(self._content, (call.args, call.kwargs), is_leaf=is_view)
        if call.target in CONTENT:
            CONTENT[call.target](args)
        return lambda: call.target(*args, **kwargs)

    def cost(self, call: Call, runs: int = TIMED_RUNS) -> Cost:
        real: list[tuple[int, list[int], list[int], str]] = []

        def made(result: Any) -> list[int]:
            found: dict[int, int] = {}
            large: set[int] = set()
            for position, (view, tensor) in enumerate(zip(call.results, result_tensors(result), strict=False)):
                if view is None or view.tensor not in call.makes or tensor is None:
                    continue
                real.append((position, list(tensor.shape), list(tensor.stride()), str(tensor.dtype)[6:]))
                found.setdefault(view.tensor, tensor.untyped_storage().data_ptr())
                if aligned(tensor.untyped_storage().nbytes()) > aligned(extent(view) * view.dtype.itemsize):
                    large.add(view.tensor)
            addresses.extend(found.get(t, 0) for t in call.makes)
            copied.update(i for i, t in enumerate(call.makes) if t in large)
            absent.extend(i for i, t in enumerate(call.makes) if t not in found)
            return [0 if t in large else found.get(t, 0) for t in call.makes]

        addresses: list[int] = []
        copied: set[int] = set()
        absent: list[int] = []
        try:
            cost = measured(self._run(call), self.device, self.heap, made, runs)
        except Exception:
            cost = self._with_own_integers(call, made, runs)
        cost.real = real
        cost.copied = sorted(copied | {i for i, a in enumerate(addresses) if a != 0 and a in addresses[:i]})
        cost.absent = absent
        return cost

    def _with_own_integers(self, call: Call, made: Callable[[Any], list[int]], runs: int) -> Cost:
        """As cost, for a call that fails with other integers: runs it with those of the calls that make them (pivots, indices), and with
        masks that select nothing (a masked_scatter from few elements)."""
        self.own_integers = True
        try:
            return measured(self._run(call), self.device, self.heap, made, runs)
        except Exception as error:
            raise CannotTrace(
                f"{user_line(call.node) if call.node is not None else call.name}: {call.target} fails with stand-ins of its operands and "
                f"cannot be measured: {error}"
            ) from error
        finally:
            self.own_integers = False

    def correct(self, call: Call, cost: Cost) -> bool:
        """Corrects the graph by the operator's real results; returns whether fake tensors were wrong. Raises FakeIsWrong if other
        views of a wrong result exist."""
        crooked = bool(cost.absent)
        for i in cost.absent:
            if len(self.views.get(call.makes[i], [])) > 1:
                raise RuntimeError(
                    f"{call.target} gives None, but PyTorch's fake tensors have a tensor, which is read: the step cannot be planned; "
                    "please report it"
                )
            self.graph.storage_of(call.makes[i]).bytes = 0
        for position, size, stride, dtype in cost.real:
            view = call.results[position]
            same_type = str(view.dtype)[6:] == dtype
            if tuple(size) == view.size and _lie_alike(stride, view) and (same_type or not self.strict):
                continue
            if self.strict:
                raise FakeIsWrong(call_key(call), call, cost.real)
            for other in self.views.get(view.tensor, []):
                if other is not view and (other.size, other.stride, other.offset) != (
                    view.size,
                    view.stride,
                    view.offset,
                ):
                    raise FakeIsWrong(call_key(call), call, cost.real)
            for other in self.views.get(view.tensor, []):
                other.size, other.stride = tuple(size), tuple(stride)
            self.graph.storage_of(view.tensor).bytes = extent(view) * view.dtype.itemsize
            crooked = True
        return crooked


def measure(
    graph: Graph,
    cache: Cache,
    like: tuple[Graph, list[Cost]] | None = None,
    crooked: list[int] | None = None,
    strict: bool = False,
) -> list[Cost]:
    """Returns the cost of each call of the graph on this machine. Runs the calls that the cache does not have; those of other libraries'
    operators once for their allocations, since their code may have changed. like: a graph of the same skeleton and its costs, which give the seconds in proportion to
    bytes; calls then run for their allocations only. crooked: receives the numbers of calls for which fake tensors are wrong.
    strict: as _Measurer."""
    devices = {s.device for s in graph.storages if s.bytes > 0}
    device = next((d for d in devices if d.type != "cpu"), torch.device("cpu"))
    where = machine(str(device), torch.get_num_threads())
    known = cache.costs(where)
    fresh: dict[str, Cost] = {}
    passing: dict[str, Cost] = {}  # for this graph alone
    costs = []
    real = torch.utils._python_dispatch._disable_current_modes()  # torch.compile calls this with fake tensors on
    with real, forked_draws(device), below_autograd(), heap_counted(device) as heap:
        measurer = _Measurer(graph, device, heap, strict)
        for number, call in enumerate(graph.calls):
            key = call_key(call)
            cost = passing.get(key) or fresh.get(key) or known.get(key)
            if cost is not None and key not in passing and not is_pytorchs(call):
                passing[key] = measurer.cost(call, 1)
                passing[key].seconds = cost.seconds
                cost = passing[key]
            elif cost is None and like is not None:
                old = like[1][number]
                ratio = _moved_bytes(graph, call) / max(_moved_bytes(like[0], like[0].calls[number]), 1)
                cost = passing[key] = measurer.cost(call, 1)
                cost.seconds = old.seconds * ratio
            elif cost is None:
                cost = fresh[key] = measurer.cost(call)
            if measurer.correct(call, cost) and crooked is not None:
                crooked.append(number)
            costs.append(cost)
    cache.add(where, fresh)
    return costs


def correct(graph: Graph, calls: list[int]) -> None:
    """Corrects the results of some calls: runs them once, as `measure` does for all. Strict: if fake tensors are wrong, raises FakeIsWrong,
    so that the graph is traced again and later calls have the right operands."""
    if not calls:
        return
    device = graph.device_of(graph.calls[calls[0]])
    real = torch.utils._python_dispatch._disable_current_modes()
    with real, forked_draws(device), below_autograd():
        measurer = _Measurer(graph, device, None, True)
        for number in calls:
            measurer.correct(graph.calls[number], measurer.cost(graph.calls[number], 1))


def _moved_bytes(graph: Graph, call: Call) -> int:
    return sum(graph.storage_of(t).bytes for t in (*call.reads, *call.makes)) + 4096


@contextlib.contextmanager
def below_autograd() -> Iterator[None]:
    """Runs kernels as eager training does: gradients are enabled, which some kernels read (oneDNN's LSTM keeps its workspace only
    then), and nothing is recorded. Autocast is off, since casts are calls of the captured step."""
    with torch.enable_grad(), torch._C._AutoDispatchBelowAutograd(), torch._C._DisableAutocast():
        yield


def as_dispatched() -> Callable[[], Any]:
    """Returns a maker of contexts in which PyTorch dispatches as it does now: for an optimizer's code inside `below_autograd`."""
    include, exclude = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    return lambda: torch._C._ForceDispatchKeyGuard(include, exclude)


# ---- By counting ----


# Calls whose kernels on the CPU copy operands and results into another layout.
RELAYOUT = (aten.convolution.default, aten.convolution_backward.default)
# Calls whose scratch is as large as their first result.
TWICE = (aten.native_batch_norm_backward.default,)


def _usual_scratch(call: Call, graph: Graph) -> int:
    if call.target in RELAYOUT:
        return sum(graph.storage_of(t).bytes for t in (*call.reads, *call.makes))
    return graph.storage_of(call.makes[0]).bytes if call.target in TWICE and call.makes else 0


def estimate(graph: Graph) -> list[Cost]:
    """Returns costs by FLOPs and bytes, for tensors without memory. Scratch and heap bytes of calls that were measured on this
    machine's CPU come from the cache."""
    from torch.utils.flop_counter import flop_registry

    on_cpu = all(s.device.type in ("cpu", "meta") for s in graph.storages)
    cache = Cache()
    known = cache.costs(machine("cpu", torch.get_num_threads())) if on_cpu else {}
    cache.close()
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
        own = known.get(call_key(call))
        scratch = own.scratch if own is not None else _usual_scratch(call, graph) if on_cpu else 0
        costs.append(Cost(seconds, scratch, bypass=own.bypass if own else 0, retained=own.retained if own else 0))
    return costs
