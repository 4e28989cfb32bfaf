"""Trials of an optimizer on copies: whether its step is the same parameter by parameter, and the bytes that it takes as a whole."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .allocator import Counted
from .holders import SIMPLE
from .measure import aligned, forked_draws, preparing

STEPS = 12
MAGNITUDES = (1e-3, 1.0, 1e3)  # of gradients: a limit on their norm is below one of them
MOST_ELEMENTS = 4096  # of a stand-in
ALIKE = 2  # groups with the same settings, and parameters of one rank and type in a group, that take part
MOST_LEAVES = 100_000  # that an optimizer may hold for a trial
HOOKS = (
    "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks", "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks",
)  # fmt: skip
# Attributes of an optimizer that neither its step reads nor a trial copies. A scheduler puts its own `step` around the class's.
APART = {"step", "_opt_called", "_zero_grad_profile_name", *HOOKS}
Path = tuple[Any, ...]


IDLE = "idle"  # the name of a parameter without a gradient


class CannotTry(Exception):
    """The optimizer cannot be copied for a trial; the message says why."""


class KeptView(RuntimeError):
    """The optimizer, or a hook, keeps a view of a gradient."""


def flags_of(group: dict[str, Any]) -> tuple[Any, ...]:
    """Returns the settings of a group that choose what a step does and takes, without the values of rates."""
    rate = [("lr", type(group.get("lr")))] if isinstance(group.get("lr"), torch.Tensor) else []
    chosen = ((k, v) for k, v in group.items() if k not in ("params", "param_names", "lr", "initial_lr"))
    flags = [(k, v) for k, v in chosen if isinstance(v, (bool, str, type(None))) or (is_number(v) and v == 0)]
    return tuple(rate + flags)


def is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


# ---- What an optimizer holds ----


def leaves_of(x: Any, names: dict[int, Any] | None = None) -> Iterator[tuple[Path, Any]]:
    """Yields (path, leaf) of the tensors, numbers, texts and functions that an optimizer holds: in attributes, groups, states, and in the
    optimizers and objects inside it, each object once; without hooks. names: of parameters by id, which are no leaves."""
    seen: set[int] = set()
    named = names or {}

    def walk(path: Path, x: Any) -> Iterator[tuple[Path, Any]]:
        if id(x) in named:
            yield path, ("parameter", named[id(x)])
        elif isinstance(x, (*SIMPLE, torch.Tensor, nn.Module, type)):
            yield path, x
        elif id(x) not in seen:
            seen.add(id(x))
            if isinstance(x, types.FunctionType):
                yield path, x
            elif isinstance(x, types.MethodType):
                yield from walk((*path, "self"), x.__self__)
            elif isinstance(x, functools.partial):
                yield from walk((*path, "partial"), [x.func, x.args, x.keywords])
            elif isinstance(x, (dict, collections.UserDict)):
                for key, value in list(x.items()):
                    yield from walk((*path, named.get(id(key), key if isinstance(key, SIMPLE) else id(key))), value)
            elif isinstance(x, (list, tuple, set, frozenset, collections.deque)):
                yield path, len(x)
                for i, value in enumerate(list(x)):
                    yield from walk((*path, i), value)
            elif hasattr(x, "__dict__") and not isinstance(x, types.ModuleType):
                for key, value in list(vars(x).items()):
                    if not (isinstance(x, torch.optim.Optimizer) and key in APART):
                        yield from walk((*path, key), value)

    return walk((), x)


def plain_tensors(t: torch.Tensor) -> list[torch.Tensor]:
    """Returns the plain tensors that a tensor consists of."""
    if type(t) in (torch.Tensor, nn.Parameter) or not is_traceable_wrapper_subclass(t):
        return [t]
    keys, _ = t.__tensor_flatten__()
    return [inner for key in keys for inner in plain_tensors(getattr(t, key))]


def tensors_of(optimizer: Any) -> list[torch.Tensor]:
    """Returns the plain tensors that an optimizer holds besides parameters."""
    names = {id(p): i for i, p in enumerate(parameters_of(optimizer))}
    found = (x for _, x in itertools.islice(leaves_of(optimizer, names), MOST_LEAVES) if isinstance(x, torch.Tensor))
    return [inner for t in found for inner in plain_tensors(t)]


def held_bytes(optimizer: Any) -> int:
    """Returns the bytes of those tensors, each storage once."""
    storages = {s._cdata: s.nbytes() for s in (t.untyped_storage() for t in tensors_of(optimizer))}
    return sum(map(aligned, storages.values()))


def parameters_of(optimizer: Any) -> list[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


# ---- Copies ----


def _check_copyable(optimizer: Any) -> None:
    """Raises CannotTry for an optimizer whose copy could reach the user's own objects, or would be large."""
    own = {id(p): i for i, p in enumerate(parameters_of(optimizer))}
    leaves = list(itertools.islice(leaves_of(optimizer, own), MOST_LEAVES))
    if len(leaves) == MOST_LEAVES:
        raise CannotTry("it holds very many objects")
    for path, x in leaves:
        where = ".".join(map(str, path))
        if isinstance(x, nn.Module):
            raise CannotTry(f"it holds a module ({where})")
        if isinstance(x, types.FunctionType):
            held = [*(cell.cell_contents for cell in x.__closure__ or ()), *(x.__defaults__ or ())]
            if any(not isinstance(value, SIMPLE) for value in held):
                raise CannotTry(f"it holds a function with a closure ({where})")


def copied(optimizer: Any, stand_ins: dict[int, nn.Parameter]) -> Any:
    """Returns a copy of an optimizer, and of all that it holds, over other parameters (by the id of its own), without states and hooks.
    Raises CannotTry."""
    _check_copyable(optimizer)

    def copy_one(self: Any, memo: dict[int, Any]) -> Any:
        new = memo[id(self)] = object.__new__(type(self))
        for key, value in vars(self).items():
            if key in HOOKS:
                vars(new)[key] = collections.OrderedDict()
            elif key == "state":
                vars(new)[key] = memo.setdefault(id(value), collections.defaultdict(dict))
            elif key not in APART:
                vars(new)[key] = copy.deepcopy(value, memo)
        return new

    try:
        with mock.patch.object(torch.optim.Optimizer, "__deepcopy__", copy_one, create=True):
            return copy.deepcopy(optimizer, dict(stand_ins))
    except Exception as error:  # the user's objects may raise anything
        raise CannotTry(f"it cannot be copied: {error}") from error


def _content(numel: int, shift: int) -> torch.Tensor:
    """Returns numbers of both signs, some of them 0: from 0, the least step shows in any type."""
    numbers = torch.arange(numel, dtype=torch.float64).add_(shift)
    return torch.sin(numbers * 1.7).mul_(numbers % 3 != 0)


def _small(shape: torch.Size) -> list[int]:
    """Returns a shape of the same rank with few elements."""
    sizes, room = [], MOST_ELEMENTS
    for i, n in enumerate(shape):
        left = sum(m > 1 for m in shape[i + 1 :])
        sizes.append(min(n, max(room >> (3 * left), 1)))
        room //= max(sizes[-1], 1)
    return sizes


def _stand_in(p: torch.Tensor, shape: Any, content: torch.Tensor) -> nn.Parameter:
    device = p.device if p.device.type != "meta" and not _is_fake(p) else torch.device("cpu")
    new = nn.Parameter(content.reshape(shape).to(device, p.dtype))
    vars(new).update({k: v for k, v in vars(p).items() if isinstance(v, SIMPLE)})  # what some optimizers choose by
    return new


def _is_fake(t: torch.Tensor) -> bool:
    return isinstance(t, torch._subclasses.fake_tensor.FakeTensor)


def _choice(groups: list[dict[str, Any]]) -> list[tuple[int, list[int]]]:
    """Returns (group, its members that take part) of some groups: a few of each settings, and in them a few parameters of each kind."""
    chosen = []
    alike: collections.Counter[Any] = collections.Counter()
    for number, group in enumerate(groups):
        settings, members = flags_of(group), []
        alike[settings] += 1
        for i, p in enumerate(group["params"]) if alike[settings] <= ALIKE else ():
            kind = number, p.dim(), p.dtype, tuple(n == 1 for n in p.shape)
            alike[kind] += 1
            if alike[kind] <= ALIKE:
                members.append(i)
        if members:
            chosen.append((number, members))
    return chosen


Step = Callable[[Any, list[nn.Parameter], list[torch.Tensor]], None]


class _Trial:
    """Some steps of a copy of an optimizer over a few small parameters."""

    def __init__(self, optimizer: Any, idle: bool = False):
        """idle: whether it has one more parameter, which gets no gradient."""
        choice = _choice(optimizer.param_groups)
        parameters = [[group["params"][i] for i in members] for group, members in _rows(optimizer, choice)]
        rest = nn.Parameter(torch.zeros(()))
        stand_ins = {id(p): rest for p in parameters_of(optimizer)}
        for i, p in enumerate(p for some in parameters for p in some):
            shape = torch.Size(_small(p.shape))
            stand_ins[id(p)] = _stand_in(p, shape, _content(shape.numel(), i))
        self.optimizer = copied(optimizer, stand_ins)
        groups = self.optimizer.param_groups
        for group, members in _rows(self.optimizer, choice):
            for key in {"params", "param_names"} & group.keys():
                group[key] = [group[key][i] for i in members]
            rate = group.get("lr")
            if isinstance(rate, torch.Tensor):
                rate.masked_fill_(rate == 0, 1e-3)
            elif rate == 0:
                group["lr"] = 1e-3
        groups[:] = [group for group, _ in _rows(self.optimizer, choice)]
        self.parameters = [p for group in groups for p in group["params"]]
        self.names = {id(p): i for i, p in enumerate(self.parameters)}
        if idle:
            self.idle = nn.Parameter(torch.ones_like(self.parameters[0]))
            self.names[id(self.idle)] = IDLE
            groups[0]["params"].append(self.idle)
        self.gradients: list[torch.Tensor] = []

    def run(self, step: Step) -> None:
        """Runs the steps. Notes what the optimizer holds before them, after the first and after the last; the tensors that it holds after
        the second; whether it draws random numbers; and the most bytes that it takes, and after how many steps."""
        self.before, self.bytes, self.steps = self.held(), 0, 0
        state = torch.get_rng_state()
        for number in range(STEPS):
            given = [_gradient(p, number, i) for i, p in enumerate(self.parameters)]
            self.gradients += given
            before = held_bytes(self.optimizer)
            with Counted(given[0].device) as counted:
                step(self.optimizer, self.parameters, given)
            most = max(before + counted.peak, held_bytes(self.optimizer))
            if most > self.bytes:
                self.bytes, self.steps = most, number + 1
            if number == 0:
                self.first = self.held()
            if number == 1:
                self.tensors = dict(self.storages())
                self.kept = tensors_of(self.optimizer)  # so that nothing else gets their memory
        self.draws = not torch.equal(torch.get_rng_state(), state)
        self.last = self.held()

    def held(self) -> dict[Path, Any]:
        """Returns the parameters and what the optimizer holds, copied."""
        values = ((("value", i), p) for i, p in enumerate(self.parameters))
        leaves = itertools.chain(leaves_of(self.optimizer, self.names), values)
        return {
            path: [t.detach().clone() for t in plain_tensors(x)] if isinstance(x, torch.Tensor) else x for path, x in leaves
        }  # fmt: skip

    def storages(self) -> Iterator[tuple[Path, tuple[int, ...]]]:
        for path, x in leaves_of(self.optimizer, self.names):
            if isinstance(x, torch.Tensor):
                yield path, tuple(t.untyped_storage()._cdata for t in plain_tensors(x))

    def attributes(self, held: dict[Path, Any]) -> dict[Path, Any]:
        return {path: x for path, x in held.items() if not {"state", "param_groups", "value"} & set(path)}


def _rows(optimizer: Any, choice: list[tuple[int, list[int]]]) -> list[tuple[dict[str, Any], list[int]]]:
    return [(optimizer.param_groups[number], members) for number, members in choice]


def _gradient(p: torch.Tensor, step: int, number: int) -> torch.Tensor:
    content = _content(p.numel(), 5 * step + 3 * number + 1) * MAGNITUDES[step % len(MAGNITUDES)]
    return content.reshape(p.shape).to(p.device, p.dtype)


# ---- Verdicts ----


def _bits(t: torch.Tensor) -> torch.Tensor:
    return t.resolve_conj().resolve_neg().reshape(-1).contiguous().view(torch.uint8)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        alike = [(x.shape, x.dtype) for x in a] == [(x.shape, x.dtype) for x in b]
        return alike and all(torch.equal(_bits(x), _bits(y)) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and (a == b or (a != a and b != b))


def _differing(a: dict[Path, Any], b: dict[Path, Any]) -> str | None:
    """Returns the name of a leaf that is not the same in both; None if all are."""
    found = next((p for p in (*a, *b) if p not in a or p not in b or not _same(a[p], b[p])), None)
    return None if found is None else _name(found)


def _name(path: Path) -> str:
    return ".".join(map(str, path))


@dataclasses.dataclass(frozen=True)
class Verdict:
    """why: the reason why the optimizer runs whole; empty if it is taken parameter by parameter. steps: after how many steps of a
    trial it has taken the most bytes. share: these bytes for each byte of parameters. clones: it must be given clones of gradients. failed:
    a step fails since it has no closure."""

    why: str
    steps: int = 2
    share: float = 0.0
    clones: bool = False
    failed: bool = False
    idle: str = ""  # the reason to run whole where some parameters get no gradients


def verdict(optimizer: Any, whole: Step, apart: Step) -> Verdict:
    """Tries an optimizer on copies, in steps with gradients of several magnitudes. whole(copy, parameters, gradients) runs one step;
    apart runs it parameter by parameter. Touches neither the optimizer nor its parameters, and restores random numbers."""
    try:
        together, single = _Trial(optimizer), _Trial(optimizer)
        with preparing, forked_draws(together.parameters[0].device):
            together.run(whole)
            why = _coupled(together)
            if not why:
                try:
                    single.run(lambda copy, parameters, gradients: apart(copy, parameters[::-1], gradients[::-1]))
                    why = _inseparable(together, single)
                except Exception as error:
                    why = f"its step for one parameter fails ({type(error).__name__}: {error})"
    except CannotTry as error:
        return Verdict(str(error))
    except KeptView:
        return Verdict("it keeps views of gradients", clones=True)
    except Exception as error:  # the optimizer's own code, which may need what a trial does not give
        return Verdict(f"a trial of its steps fails ({type(error).__name__}: {error})", failed="NoneType" in str(error))
    size = sum(p.numel() * p.element_size() for p in together.parameters)
    idle = "" if why else _idle_changed(optimizer, whole)
    return Verdict(why, max(together.steps, 2), together.bytes / max(size, 1), idle=idle)


def _idle_changed(optimizer: Any, whole: Step) -> str:
    """Returns the reason why steps also do something to a parameter without a gradient; empty if they do not."""
    if type(optimizer).__module__.startswith("torch.optim"):
        return ""
    try:
        trial = _Trial(optimizer, True)
        with preparing, forked_draws(trial.parameters[0].device):
            trial.run(whole)
    except Exception as error:  # as above
        return f"its step fails where a parameter has no gradient ({type(error).__name__}: {error})"
    changed = bool((trial.idle != 1).any()) or any("state" in path and IDLE in path for path in trial.last)
    return "its step changes parameters that have no gradient, or makes states for them" if changed else ""


def _coupled(together: _Trial) -> str:
    """Returns the reason why whole steps are not those of single parameters; empty if none shows."""
    changed = _differing(together.attributes(together.first), together.attributes(together.last))
    if changed is not None:
        return f"its attribute {changed} changes in each step"
    if together.draws:
        return "it draws random numbers"
    values = [("value", i) for i, p in enumerate(together.parameters) if p.numel()]
    if any(_same(together.before[path], together.last[path]) for path in values):
        return f"{STEPS} steps of a trial did not change each parameter"
    return ""


def _inseparable(together: _Trial, single: _Trial) -> str:
    """Returns the reason why steps parameter by parameter are not the whole ones, or cannot have planned addresses; empty if none shows."""
    differing = _differing(together.last, single.last)
    if differing is not None:
        return f"its step for all parameters differs from one step for each ({differing})"
    now = dict(single.storages())
    made = next((path for path in now if now[path] != single.tensors.get(path)), None)
    if made is not None:
        return f"it makes new states in each step ({_name(made)})"
    given = {g.untyped_storage()._cdata for g in single.gradients}
    if any(given & set(storages) for storages in now.values()):
        return "it keeps the gradient itself"
    return ""
