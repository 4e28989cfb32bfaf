"""Updates of one parameter at a time, by the optimizer's own code."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from . import allocator, measure
from .graph import View
from .swap import generators_kept
from .trial import trial_of

REFUSED = {
    "LBFGS": "it evaluates the model several times in one step",
    "SparseAdam": "it takes sparse gradients",
}


def unwrapped(optimizer: Any) -> Any:
    """Returns PyTorch's optimizer inside a trainer's wrapper (accelerate, Lightning): the one that holds the parameter groups."""
    while isinstance(getattr(type(optimizer), "param_groups", None), property) or "param_groups" not in vars(optimizer):
        inner = next(
            (
                x
                for x in (getattr(optimizer, "_optimizer", None), getattr(optimizer, "optimizer", None))
                if isinstance(x, torch.optim.Optimizer)
            ),
            None,
        )
        if inner is None or inner is optimizer:
            break
        optimizer = inner
    return optimizer


class Updater:
    """Runs an optimizer's step for single parameters. States, groups and rates stay in the optimizer. Raises TypeError."""

    def __init__(self, optimizer: torch.optim.Optimizer):
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"optimizer must be a torch.optim.Optimizer (got a {type(optimizer).__name__})")
        optimizer = unwrapped(optimizer)
        for kind in type(optimizer).__mro__:
            if kind.__name__ in REFUSED:
                raise TypeError(f"{kind.__name__} cannot be split by parameter: {REFUSED[kind.__name__]}")
        self.optimizer = optimizer
        self.is_pytorch = type(optimizer).__module__.startswith("torch.optim")
        if not self.is_pytorch:
            with generators_kept():
                _check_separable(optimizer)
        # Without wrappers that profile and count steps: these are called once a step, not once a parameter.
        self.run_step = inspect.unwrap(type(optimizer).step)

    def groups(self) -> dict[int, dict[str, Any]]:
        """Returns id of a parameter -> its group."""
        return {id(p): group for group in self.optimizer.param_groups for p in group["params"]}

    def has_state(self, parameter: nn.Parameter) -> bool:
        return bool(self.optimizer.state.get(parameter))

    def update(self, parameter: nn.Parameter, group: dict[str, Any], gradient: torch.Tensor) -> None:
        """Runs one step of the optimizer for one parameter, in place. The parameter's .grad is None afterwards."""
        optimizer = self.optimizer
        groups = optimizer.param_groups
        alone = {**group, "params": [parameter]}
        optimizer.param_groups = [alone]
        parameter.grad = gradient
        try:
            self.run_step(optimizer)
        finally:
            parameter.grad = None
            optimizer.param_groups = groups
        for key, value in alone.items():
            if key != "params" and group.get(key) is not value:
                group[key] = value

    def before_step(self) -> None:
        for hook in list(self.optimizer._optimizer_step_pre_hooks.values()):
            hook(self.optimizer, (), {})

    def after_step(self) -> None:
        for hook in list(self.optimizer._optimizer_step_post_hooks.values()):
            hook(self.optimizer, (), {})
        self.optimizer._opt_called = True  # learning-rate schedulers read it


def _check_separable(optimizer: torch.optim.Optimizer) -> None:
    """Raises TypeError if a step for all parameters differs from one step for each. PyTorch's own optimizers need no check."""
    run = inspect.unwrap(type(optimizer).step)
    results = []
    for apart in (False, True):
        parameters = [nn.Parameter(torch.linspace(-1, 1, n)) for n in (6, 4)]
        trial = trial_of(optimizer, parameters, optimizer.param_groups[0])
        group = trial.param_groups[0]
        for i in range(3):
            for p in parameters:
                p.grad = torch.linspace(0.5 - i, 2.0, p.numel())
            with torch.no_grad():
                for some in [[p] for p in parameters] if apart else [parameters]:
                    group["params"] = some
                    try:
                        run(trial)
                    except Exception as error:
                        raise TypeError(
                            f"{type(optimizer).__name__} cannot be split by parameter: its step, tried on copies, raises {type(error).__name__}: {error}. "
                            "A step that needs a closure (SAM) evaluates the model several times; use an optimizer that does not"
                        ) from error
            group["params"] = parameters
        results.append(([p.detach() for p in parameters], {k: str(v) for k, v in group.items() if k != "params"}))
    if not all(map(torch.equal, results[0][0], results[1][0])) or results[0][1] != results[1][1]:
        raise TypeError(
            f"{type(optimizer).__name__} cannot be split by parameter: its step for all parameters differs from one step for each"
        )


def _inner(t: torch.Tensor, name: str = "") -> list[tuple[str, torch.Tensor]]:
    """Returns the plain tensors that a tensor consists of, with their names."""
    if type(t) in (torch.Tensor, nn.Parameter) or not is_traceable_wrapper_subclass(t):
        return [(name, t)]
    keys, _ = t.__tensor_flatten__()
    return [pair for key in keys for pair in _inner(getattr(t, key), f"{name}.{key}")]


def state_bytes(state: dict[str, Any]) -> int:
    """Returns the bytes of the tensors in an optimizer's state of a parameter."""
    tensors = [t for t in pytree.tree_leaves(state) if isinstance(t, torch.Tensor)]
    return sum(inner.untyped_storage().nbytes() for t in tensors for _, inner in _inner(t))


def _places(state: dict[str, Any]) -> dict[str, int]:
    """Returns the address of each tensor of a state that has more than one element."""
    found = [pair for k, v in state.items() if isinstance(v, torch.Tensor) and v.numel() > 1 for pair in _inner(v, k)]
    return {name: t.untyped_storage().data_ptr() for name, t in found}


@dataclasses.dataclass
class Update:
    """The cost of updating a parameter. first_kept: numbers of the allocations that stay after the step that makes the states;
    first_sizes: their bytes. state: bytes of the states."""

    cost: measure.Cost
    first_kept: list[int]
    first_sizes: list[int]
    state: int


def _scalar(value: Any) -> str:
    return f"tensor {value.dtype}{list(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)


def update_key(updater: Updater, parameter: nn.Parameter, group: dict[str, Any]) -> str:
    """Returns a key that is equal for updates that do the same work; it does not contain rates."""
    flags = {k: _scalar(v) for k, v in group.items() if k != "params" and (isinstance(v, (bool, type(None))) or v == 0)}
    return f"update {type(updater.optimizer).__module__}.{type(updater.optimizer).__name__} {parameter.dtype} {list(parameter.shape)} {list(parameter.stride())} {sorted(flags.items())}"


def measure_update(updater: Updater, parameter: nn.Parameter, group: dict[str, Any], heap: Any) -> Update:
    """Runs updates of a parameter like this one: the first, which makes the states, and later ones. Raises TypeError."""
    view = View(-1, tuple(parameter.shape), tuple(parameter.stride()), 0, parameter.dtype)
    stand_in = nn.Parameter(measure.stand_in(view, parameter.device))
    gradient = measure.stand_in(view, parameter.device)
    trial = trial_of(updater.optimizer, [stand_in], group)
    own = Updater.__new__(Updater)
    own.optimizer, own.run_step = trial, updater.run_step

    def run() -> None:
        own.update(stand_in, trial.param_groups[0], gradient)

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
    places = _places(state)
    cost = measure.measured(run, parameter.device, heap, lambda _: [])
    kept_gradient = gradient.untyped_storage().data_ptr() in places.values()
    if kept_gradient or _places(trial.state.get(stand_in, {})) != places:
        raise TypeError(
            f"{type(updater.optimizer).__name__} {'keeps the gradient itself' if kept_gradient else 'makes new states in each step'}; "
            "states must be tensors of its own that it changes in place"
        )
    # Some optimizers do other work in later steps (RAdam).
    if "step" in state:
        trial.state[stand_in]["step"] += 1000
        scratch = max(scratch, measure.measured(run, parameter.device, None, lambda _: []).scratch)
    cost.scratch = max(cost.scratch, scratch)
    return Update(cost, kept, sizes, state_bytes(state))


def estimate_update(updater: Updater, parameter: nn.Parameter, group: dict[str, Any]) -> Update:
    """As measure_update, for a parameter without memory: runs on fake tensors; scratch is the peak of live new tensors."""
    from .trace import fake_mode_of

    tracker = _LiveBytes()
    mode = fake_mode_of([parameter])
    with mode:
        stand_in = nn.Parameter(
            torch.empty_strided(parameter.shape, parameter.stride(), dtype=parameter.dtype, device="cpu")
        )
    trial = trial_of(updater.optimizer, [stand_in], group)
    own = Updater.__new__(Updater)
    own.optimizer, own.run_step = trial, updater.run_step
    with mode, torch.no_grad():
        gradient = torch.empty_like(stand_in)
        own.update(stand_in, trial.param_groups[0], gradient)
        state = state_bytes(dict(trial.state.get(stand_in, {})))
        with tracker:
            own.update(stand_in, trial.param_groups[0], gradient)
    size = parameter.numel() * parameter.element_size()
    seconds = measure.SECONDS_A_CALL + (3 * size + 2 * state) / measure.BYTES_PER_SECOND
    return Update(measure.Cost(seconds, tracker.peak), [], [], state)


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
