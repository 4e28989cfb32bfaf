"""Updates by the optimizer's own code: parameter by parameter where a trial shows that this is the same, else all at once."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks
from torch.utils import _pytree as pytree

from . import allocator, measure
from .graph import View
from .trial import APART, KeptView, Verdict, copied, flags_of, held_bytes, parameters_of, plain_tensors, verdict

REFUSED = {
    "LBFGS": "it evaluates the model several times in one step",
    "SparseAdam": "it takes sparse gradients",
}
WRAPPERS = ("accelerate.", "lightning.", "pytorch_lightning.")  # trainers that put an object around PyTorch's optimizer
# Of every optimizer of the process (register_optimizer_step_pre_hook).
GLOBAL_HOOKS = (_global_optimizer_pre_hooks, _global_optimizer_post_hooks)
A_TENSOR = 512  # bytes for each parameter that hooks and clipping take: norms, and lists of them


def unwrapped(optimizer: Any) -> Any:
    """Returns PyTorch's optimizer inside a trainer's wrapper (accelerate, Lightning). An optimizer around another one is no such wrapper."""
    while type(optimizer).__module__.startswith(WRAPPERS):
        found = (getattr(optimizer, "_optimizer", None), getattr(optimizer, "optimizer", None))
        inner = next((x for x in found if isinstance(x, torch.optim.Optimizer)), None)
        if inner is None or inner is optimizer:
            break
        optimizer = inner
    return optimizer


def _inside(optimizer: torch.optim.Optimizer) -> Iterator[torch.optim.Optimizer]:
    """Yields the optimizer and those that it holds as attributes, or in lists of them."""
    seen: set[int] = set()
    waiting: list[Any] = [optimizer]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            values = [
                x for value in vars(one).values() for x in (value if isinstance(value, (list, tuple)) else [value])
            ]
            waiting += [x for x in values if isinstance(x, torch.optim.Optimizer)]


def _class_step(optimizer: torch.optim.Optimizer) -> Callable[..., Any]:
    """Returns the class's step without wrappers that profile, count steps and call hooks."""
    return inspect.unwrap(type(optimizer).step)


def _takes_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Returns whether a step needs the gradients at a second point: of the two passes of SAM, or by its signature."""
    passes = hasattr(optimizer, "first_step") and hasattr(optimizer, "second_step")
    parameters = list(inspect.signature(_class_step(optimizer)).parameters.values())[1:2]
    return passes or any(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)


def hooks_of(parameter: torch.Tensor) -> list[Callable[[torch.Tensor], Any]]:
    """Returns the hooks that a parameter calls once its gradient is complete (register_post_accumulate_grad_hook)."""
    return list((getattr(parameter, "_post_accumulate_grad_hooks", None) or {}).values())


class Updater:
    """Runs an optimizer's step, parameter by parameter or whole. States, groups and rates stay in the optimizer. Raises TypeError."""

    def __init__(self, optimizer: torch.optim.Optimizer):
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"optimizer must be a torch.optim.Optimizer (got a {type(optimizer).__name__})")
        optimizer = unwrapped(optimizer)
        for kind in (k for one in _inside(optimizer) for k in type(one).__mro__):
            if kind.__name__ in REFUSED:
                raise TypeError(f"{kind.__name__} is not supported: {REFUSED[kind.__name__]}")
        self.optimizer = optimizer
        self.is_pytorch = type(optimizer).__module__.startswith("torch.optim")
        self.takes_closure = _takes_closure(optimizer)
        self.verdict: Verdict | None = None
        self.tried: Any = None  # the settings of that verdict
        self.costs: dict[Any, Update] = {}  # of whole steps, by what they are for
        self.whole = ""  # the reason why it runs whole; empty if it is taken parameter by parameter

    # ---- The way ----

    def look(self, parameters: list[nn.Parameter]) -> tuple[Any, ...]:
        """Chooses the way by hooks, settings and a trial. Returns a key of what the plan of a step rests on: the way, and for each
        parameter its group and that group's settings."""
        self.groups_now = self.groups()
        self.settings = settings = tuple(map(flags_of, self.optimizer.param_groups))
        attributes = {
            k: v for k, v in vars(self.optimizer).items() if isinstance(v, (bool, int, float, str)) and k not in APART
        }
        tried = settings, attributes
        # An attribute or a setting that changes in each step has its optimizer run whole, for good.
        if self.verdict is None or (not self.verdict.why and tried != self.tried):
            self.verdict, self.tried = verdict(self.optimizer, trial_step, _apart), tried
            # A step that does not run without a closure, though its signature says so, is given one.
            self.takes_closure |= (
                self.verdict.failed and "closure" in inspect.signature(_class_step(self.optimizer)).parameters
            )
        self.hooked = any(map(hooks_of, parameters))
        steps = [(one, inspect.unwrap(vars(one)["step"])) for one in _inside(self.optimizer) if "step" in vars(one)]
        replaced = any(getattr(step, "__func__", step) is not _class_step(one) for one, step in steps)
        self.untried = self.hooked or replaced or _has_hooks(self.optimizer)  # code that a trial does not run
        name = type(self.optimizer).__name__
        why = self._besides(replaced) or self.verdict.why
        self.whole = f"{name}: {why}" if why else ""
        places = {id(p): i for i, group in enumerate(self.optimizer.param_groups) for p in group["params"]}
        members = tuple(places.get(id(p)) for p in parameters)
        if why:
            return True, self.hooked, members, settings
        return False, members, settings

    def _besides(self, replaced: bool) -> str:
        """Returns the reason to run whole that is not in the optimizer's code; empty if no reason is known."""
        rows = (
            (self.takes_closure, "its step evaluates the model a second time"),
            (self.hooked, "a parameter has a hook for its gradient"),
            (replaced, "its step is replaced"),
            (self.untried, "it has hooks of its step"),
        )
        return next((text for applies, text in rows if applies), "")

    def whole_for(self, parameters: list[nn.Parameter]) -> str:
        """Returns the reason to run whole in steps in which these parameters get gradients; empty if it need not."""
        if not self.whole and self.verdict.idle and len(parameters) < len(self.groups()):
            self.verdict = dataclasses.replace(self.verdict, why=self.verdict.idle)
            self.whole = f"{type(self.optimizer).__name__}: {self.verdict.why}"
        return self.whole

    def groups(self) -> dict[int, dict[str, Any]]:
        """Returns id of a parameter -> its group."""
        return {id(p): group for group in self.optimizer.param_groups for p in group["params"]}

    def has_state(self, parameter: nn.Parameter) -> bool:
        return any(x is not None for x in self.optimizer.state.get(parameter, {}).values())

    def measured(self, parameters: list[nn.Parameter], clips: bool, heap: Any) -> Update:
        """As measure_whole, once for the same parameters."""
        key = tuple(map(id, parameters)), clips, self.untried, self.settings
        if key not in self.costs:
            self.costs[key] = measure_whole(self, parameters, clips, heap)
        return self.costs[key]

    # ---- Steps ----

    def update(self, parameter: nn.Parameter, group: dict[str, Any], gradient: torch.Tensor) -> None:
        """Runs one step of the optimizer for one parameter, in place. The parameter's .grad is None afterwards."""
        _update(self.optimizer, parameter, group, gradient)

    def update_all(
        self, parameters: list[nn.Parameter], gradients: list[torch.Tensor], clip: Callable[[], None] | None, again: Again, planned: int
    ) -> int:  # fmt: skip
        """Runs the optimizer's step with all gradients, as a training loop does, with all hooks. clip: is called once the parameters'
        own hooks were. planned: bytes. Returns the bytes that it holds beyond them. Each .grad is None afterwards."""
        step = self.optimizer.step
        while getattr(step, "does_nothing", False):  # a trainer's
            step = step.__wrapped__
        held = held_bytes(self.optimizer)
        with allocator.Counted(torch.device("cpu")) as counted:

            def uncounted(gradients: list[torch.Tensor]) -> torch.Tensor:
                with counted.paused():
                    return again(gradients)

            repeat = uncounted if self.takes_closure else None
            whole_step(step, parameters, gradients, clip, repeat, self.verdict.clones)
        return max(held + counted.peak - planned, 0)

    def after_step(self) -> None:
        if hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            self.optimizer._opt_called = True  # schedulers read it


def _update(
    optimizer: torch.optim.Optimizer, parameter: nn.Parameter, group: dict[str, Any], gradient: torch.Tensor
) -> None:
    groups = optimizer.param_groups
    alone = {**group, "params": [parameter]}
    optimizer.param_groups = [alone]
    parameter.grad = gradient
    try:
        _class_step(optimizer)(optimizer)
    finally:
        parameter.grad = None
        optimizer.param_groups = groups
    for key, value in alone.items():
        if key != "params" and group.get(key) is not value:
            group[key] = value


def _apart(optimizer: Any, parameters: list[nn.Parameter], gradients: list[torch.Tensor]) -> None:
    groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    with torch.no_grad():
        for p, gradient in zip(parameters, gradients, strict=True):
            _update(optimizer, p, groups[id(p)], gradient)


def _has_hooks(optimizer: torch.optim.Optimizer) -> bool:
    """Returns whether a step of the optimizer, or of one inside it, calls hooks."""
    kinds = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")  # an optimizer may lack them
    return any(GLOBAL_HOOKS) or any(getattr(x, kind, None) for x in _inside(optimizer) for kind in kinds)


# Computes the gradients of a list once more, at the present parameters, and returns the loss.
Again = Callable[[list[torch.Tensor]], torch.Tensor]


def whole_step(
    step: Callable[..., Any], parameters: list[nn.Parameter], gradients: list[torch.Tensor], clip: Callable[[], None] | None = None,
    again: Again | None = None, clones: bool = False,
) -> None:  # fmt: skip
    """Runs a step with all gradients, and before it the parameters' hooks. again: for a step that takes a closure. A gradient that the
    optimizer or a hook keeps gets memory of its own, since the next step writes over it. clones: it gets clones of all. Raises KeptView if
    a view of one is kept otherwise."""
    given: list[weakref.ref[torch.Tensor]] = []
    own, uses = list(gradients), [_uses(g) for g in gradients]

    def give() -> None:
        for p, gradient in zip(parameters, gradients, strict=True):
            p.grad = gradient.clone(memory_format=torch.preserve_format) if clones else gradient.detach()
            given.append(weakref.ref(p.grad))
        with torch.no_grad():
            for p in parameters:
                for hook in hooks_of(p):
                    hook(p)

    def closure() -> torch.Tensor:
        loss = again(gradients)
        give()
        return loss

    try:
        give()
        if clip is not None:
            clip()
        step(*([closure] if again is not None else []))
    finally:
        for p in parameters:
            p.grad = None
    for kept in [x() for x in given]:
        if kept is not None:
            kept.set_(kept.clone(memory_format=torch.preserve_format))
    del kept
    if not clones and any(_uses(g) > before for g, before in zip(own, uses, strict=True)):
        raise KeptView(
            "the optimizer or a hook keeps a view of a gradient, whose memory the next step takes; let it keep a clone"
        )


def trial_step(
    optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter], gradients: list[torch.Tensor], clones: bool = False
) -> None:  # fmt: skip
    """Runs a whole step of a copy, without the hooks of every optimizer."""
    again = (lambda _: torch.zeros(())) if _takes_closure(optimizer) else None
    with contextlib.ExitStack() as stack:
        for hooks in GLOBAL_HOOKS:
            stack.enter_context(mock.patch.dict(hooks, clear=True))
        stack.enter_context(torch.enable_grad())
        whole_step(optimizer.step, parameters, gradients, None, again, clones)


def _uses(t: torch.Tensor) -> int:
    return torch._C._storage_Use_Count(t.untyped_storage()._cdata)


def _like(
    optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter], group: dict[str, Any]
) -> torch.optim.Optimizer:
    """Returns an optimizer of the same type and attributes over other parameters, without states."""
    trial = object.__new__(type(optimizer))
    trial.__dict__.update(optimizer.__dict__)
    trial.state = collections.defaultdict(dict)
    alone = {k: copy.deepcopy(v) for k, v in group.items() if k != "params"}
    trial.param_groups = [{**alone, "params": parameters}]
    return trial


def state_bytes(state: dict[str, Any]) -> int:
    """Returns the bytes of the tensors in an optimizer's state of a parameter."""
    tensors = [t for t in pytree.tree_leaves(state) if isinstance(t, torch.Tensor)]
    return sum(inner.untyped_storage().nbytes() for t in tensors for inner in plain_tensors(t))


@dataclasses.dataclass
class Update:
    """The cost of an update. first_kept: numbers of the allocations that stay after the step that makes the states;
    first_sizes: their bytes. state: bytes of the states. beside: of a whole step, the most bytes besides, which the heap gives it."""

    cost: measure.Cost
    first_kept: list[int]
    first_sizes: list[int]
    state: int
    beside: int = 0


def _scalar(value: Any) -> str:
    return f"tensor {value.dtype}{list(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)


def update_key(updater: Updater, parameter: nn.Parameter, group: dict[str, Any]) -> str:
    """Returns a key that is equal for updates that do the same work; it does not contain rates."""
    chosen = lambda v: isinstance(v, (bool, type(None), torch.Tensor)) or v == 0  # noqa: E731
    flags = {k: _scalar(v) for k, v in group.items() if k not in ("params", "param_names") and chosen(v)}
    return f"update {type(updater.optimizer).__module__}.{type(updater.optimizer).__name__} {parameter.dtype} {list(parameter.shape)} {list(parameter.stride())} {sorted(flags.items())}"


def measure_update(updater: Updater, parameter: nn.Parameter, group: dict[str, Any], heap: Any) -> Update:
    """Runs updates of a parameter like this one: the first, which makes the states, and later ones. Raises TypeError."""
    view = View(-1, tuple(parameter.shape), tuple(parameter.stride()), 0, parameter.dtype)
    stand_in = nn.Parameter(measure.stand_in(view, parameter.device))
    gradient = measure.stand_in(view, parameter.device)
    trial = _like(updater.optimizer, [stand_in], group)

    def run() -> None:
        _update(trial, stand_in, trial.param_groups[0], gradient)

    with allocator.Recording() as recording:
        try:
            run()
        except KeyError as missing:  # PyTorch 2.9's Adagrad
            raise TypeError(
                f"{type(updater.optimizer).__name__} takes a state ({missing}) that its first step does not make; "
                "use an optimizer that makes its states in its first step, or a newer PyTorch"
            ) from missing
    kept = [i for i, (_, _, freed) in enumerate(recording.rows) if not freed]
    sizes = [recording.rows[i][0] for i in kept]
    scratch = recording.scratch(set(kept))
    state = dict(trial.state.get(stand_in, {}))
    cost = measure.measured(run, parameter.device, heap, lambda _: [])
    # Some optimizers do other work in later steps (RAdam).
    if "step" in state:
        trial.state[stand_in]["step"] += 1000
        scratch = max(scratch, measure.measured(run, parameter.device, None, lambda _: []).scratch)
    cost.scratch = max(cost.scratch, scratch)
    return Update(cost, kept, sizes, state_bytes(state))


def _bytes_of_states(optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor]) -> int:
    """Returns the bytes that an optimizer, and those inside it, hold for some parameters."""
    held = [getattr(one, "state", None) for one in _inside(optimizer)]
    states = [state.get(p, {}) for state in held if isinstance(state, dict) for p in parameters]
    tensors = [inner for t in pytree.tree_leaves(states) if isinstance(t, torch.Tensor) for inner in plain_tensors(t)]
    storages = {s._cdata: s.nbytes() for s in (t.untyped_storage() for t in tensors)}
    return sum(map(measure.aligned, storages.values()))


def _sharing(parameters: list[nn.Parameter], device: torch.device) -> list[torch.Tensor]:
    """Returns tensors that lie as the parameters do, all of one type in one memory."""
    views = [View(-1, tuple(p.shape), tuple(p.stride()), 0, p.dtype) for p in parameters]
    bases: dict[torch.dtype, torch.Tensor] = {}
    for dtype in {v.dtype for v in views}:
        most = max(measure.extent(v) for v in views if v.dtype == dtype)
        bases[dtype] = measure.stand_in(View(-1, (most,), (1,), 0, dtype), device)
    return [bases[v.dtype].as_strided(v.size, v.stride) for v in views]


def measure_whole(updater: Updater, parameters: list[nn.Parameter], clips: bool, heap: Any) -> Update:
    """Runs whole steps of a copy for parameters like these, which share memory: only bytes and times count. Where the copy fails, the
    states are those that exist, and the first step shows what more there is. clips: whether gradients are clipped beside the step."""
    device = parameters[0].device
    gradients = _sharing(parameters, device)
    sizes = [measure.aligned(g.numel() * g.element_size()) for g in gradients]
    beside = A_TENSOR * len(sizes) if clips or updater.untried else 0
    beside += max(sizes) if updater.untried else 0  # they may copy a gradient
    cost = measure.Cost(measure.SECONDS_A_CALL + 3 * sum(sizes) / measure.BYTES_PER_SECOND)
    kept = most = held_bytes(updater.optimizer)
    some = set(map(id, parameters))
    rest = [p for p in parameters_of(updater.optimizer) if id(p) not in some]
    of_rest = _bytes_of_states(updater.optimizer, rest)
    stand_ins = {id(p): nn.Parameter(t) for p, t in zip(parameters, _sharing(parameters, device), strict=True)}
    own = list(stand_ins.values())
    with measure.forked_draws(device), contextlib.suppress(Exception):  # of the optimizer's own code
        others = [nn.Parameter(t, p.requires_grad) for p, t in zip(rest, _sharing(rest, device), strict=True)]
        trial = copied(updater.optimizer, stand_ins | {id(p): t for p, t in zip(rest, others, strict=True)})

        def held() -> int:
            """Returns the bytes that the trial holds, with the states that the rest has by now."""
            return held_bytes(trial) + max(of_rest - _bytes_of_states(trial, others), 0)

        run = lambda: trial_step(trial, own, gradients, updater.verdict.clones)  # noqa: E731
        for _ in range(updater.verdict.steps):
            before = held()
            with allocator.Counted(device) as counted:
                run()
            kept, most = max(kept, held()), max(most, before + counted.peak)
        cost = measure.measured(run, device, heap, lambda _: [], 1)
        cost.scratch = 0
    return Update(cost, [], [], kept, max(most - kept, 0) + beside)


def estimate_update(updater: Updater, parameter: nn.Parameter, group: dict[str, Any]) -> Update:
    """As measure_update, for a parameter without memory: runs on fake tensors; scratch is the peak of live new tensors."""
    tracker = _LiveBytes()
    trial = _like(updater.optimizer, [], group)
    from .trace import fake_mode_of

    mode = fake_mode_of([parameter])
    with mode, torch.no_grad():
        stand_in = nn.Parameter(
            torch.empty_strided(parameter.shape, parameter.stride(), dtype=parameter.dtype, device="cpu")
        )
        gradient = torch.empty_like(stand_in)
        trial.param_groups = [{**group, "params": [stand_in]}]
        _update(trial, stand_in, trial.param_groups[0], gradient)
        state = state_bytes(dict(trial.state.get(stand_in, {})))
        with tracker:
            _update(trial, stand_in, trial.param_groups[0], gradient)
    size = parameter.numel() * parameter.element_size()
    seconds = measure.SECONDS_A_CALL + (3 * size + 2 * state) / measure.BYTES_PER_SECOND
    return Update(measure.Cost(seconds, tracker.peak), [], [], state)


def estimate_whole(updater: Updater, parameters: list[nn.Parameter]) -> Update:
    """As measure_whole, for parameters without memory: by the share of states in a trial."""
    size = sum(p.numel() * p.element_size() for p in parameters)
    state = int(updater.verdict.share * size)
    seconds = measure.SECONDS_A_CALL * len(parameters) + (3 * size + 2 * state) / measure.BYTES_PER_SECOND
    return Update(measure.Cost(seconds), [], [], state)


class _LiveBytes(torch.utils._python_dispatch.TorchDispatchMode):
    """Measures the peak of the bytes of new tensors while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.live, self.peak, self.known = 0, 0, set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        import weakref

        result = func(*args, **(kwargs or {}))
        before = {x.untyped_storage()._cdata for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        for t in pytree.tree_leaves(result):
            if isinstance(t, torch.Tensor) and t.untyped_storage()._cdata not in before | self.known:
                storage = t.untyped_storage()
                key, size = storage._cdata, storage.nbytes()
                self.known.add(key)
                self.live += size
                self.peak = max(self.peak, self.live)

                def gone(key: int = key, size: int = size) -> None:
                    self.known.discard(key)
                    self.live -= size

                weakref.finalize(t, gone)
        return result
