"""A callback for Lightning: the training step of a module inside a memory budget."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from ..batch import Structure
from ..graph import CannotTrace
from ..memory import Memory
from ..report import plan
from ..updates import unwrapped
from .step import BatchesStep, Served, TrainersLoss, Unsteady, mask_facts, masks_as_eager

try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl

UNSTEADY = frozenset(
    ("global_step", "current_epoch", "callback_metrics", "logged_metrics", "progress_bar_metrics", "is_last_batch")
)
# Hooks of a module around gradients, which never exist all at once.
REFUSED_HOOKS = (
    "backward", "optimizer_step", "optimizer_zero_grad", "configure_gradient_clipping", "on_before_backward", "on_after_backward",
    "on_before_optimizer_step", "on_before_zero_grad", "training_step_end",
)  # fmt: skip
REFUSED_CALLBACKS = {
    "BatchSizeFinder": "LightningBudget.largest_batch(module, batch) gives the largest batch without trying",
    "GradientAccumulationScheduler": "set accumulate_grad_batches in the Trainer",
    "DeviceStatsMonitor": "",
}


class BatchIndex:
    """Replaces batch_idx in a captured step: it may be passed on, but not read."""

    def _read(self, *_: Any, **__: Any) -> Any:
        raise CannotTrace(
            "training_step reads batch_idx, which changes from step to step and would become a constant: read it in on_train_batch_start"
        )

    __index__ = __int__ = __float__ = __bool__ = __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __mod__ = __add__ = _read
    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __truediv__ = __format__ = __getattr__ = _read
    __hash__ = None


class Manual:
    """Replaces the optimizer of a module with manual optimization while a step is captured, and records its calls."""

    def __init__(self, optimizer: Any):
        self.optimizer, self.losses, self.steps = optimizer, [], 0
        self.clip: tuple[Any, Any] | None = None

    def step(self, closure: Any = None) -> None:
        if closure is not None:
            raise CannotTrace("optimizer.step(closure) is not supported; call manual_backward(loss), then step()")
        if len(self.losses) != 1:
            raise CannotTrace(f"optimizer.step() must follow one call of manual_backward (got {len(self.losses)})")
        self.steps += 1

    def zero_grad(self, set_to_none: bool = True) -> None:
        if self.losses and not self.steps:
            raise CannotTrace(
                "zero_grad() is called between manual_backward and step(); call it before manual_backward"
            )

    def toggle_model(self, sync_grad: bool = True) -> Any:
        return contextlib.nullcontext()

    def __getattr__(self, key: str) -> Any:
        return getattr(self.optimizer, key)


class LightningBudget(pl.Callback):
    """Trains a LightningModule inside a budget: `Trainer(callbacks=[neap.torch.LightningBudget("2GiB")])`.

    The module's training_step is the loss function. A step of the optimizer is one compiled step; with accumulate_grad_batches,
    each batch adds its gradients when it comes. Clipping is by the Trainer's gradient_clip_val and gradient_clip_algorithm. Values that
    training_step logs with self.log, or appends to a list of the module, are logged or appended after the step. Manual optimization is supported if training_step runs one step of
    one optimizer: manual_backward(loss), optionally clip_gradients, step(). options: planner, seconds, progress, replan, as for
    compile_step.

    step: the compiled step; memory: the bytes of the step. fit() raises TypeError at its start, which names an unsupported
    setting, and neap.OverBudget or neap.torch.CannotTrace before the first step changes anything."""

    def __init__(self, budget: int | str = "max", **options: Any):
        super().__init__()
        self.budget, self.options = budget, options
        self.step: BatchesStep | None = None
        self.accumulates = False  # batches of an unfinished step of the optimizer have come
        self.replaced: list[tuple[Any, str]] = []
        BatchesStep(
            nn.Identity(), len, torch.optim.SGD([nn.Parameter(torch.zeros(1))]), budget, False, **options
        )  # raises for a wrong budget or option

    @property
    def memory(self) -> Memory:
        if self.step is None:
            raise RuntimeError("nothing is compiled yet; call fit() first")
        return self.step.memory

    def largest_batch(
        self, module: pl.LightningModule, batch: Any, optimizer: Any = None, budget: int | str | None = None
    ) -> int | None:
        """Returns the largest size of dimension 0 of the batch's tensors that fits the budget, by planning, without running: replaces
        BatchSizeFinder. module needs no trainer. optimizer: as for neap.torch.plan; None: that of configure_optimizers. Raises
        CannotTrace, and InvalidArgument if the budget is a share."""
        self.module = module
        self._facts(batch)
        if optimizer is None:
            optimizer = module.configure_optimizers()
            while isinstance(optimizer, (list, tuple)):
                optimizer = optimizer[0]
            optimizer = optimizer["optimizer"] if isinstance(optimizer, dict) else optimizer
        size = budget if budget is not None else self.budget
        return plan(module, lambda m, b: self._loss()(m, b)[0], (batch,), optimizer=optimizer).largest_batch(size)

    # ---- Lightning's hooks ----

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        why = _refusal(trainer, pl_module)
        if why is not None:
            raise TypeError(f"neap.torch.LightningBudget: {why}")
        self.trainer, self.module, self.step, self.accumulates = trainer, pl_module, None, False
        loop = trainer.fit_loop.epoch_loop
        own, run = (
            (loop.automatic_optimization, self._automatic)
            if pl_module.automatic_optimization
            else (loop.manual_optimization, self._manual)
        )
        self.own_run, own.run = own.run, run
        self.replaced = [(own, "run")]

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        for owner, name in self.replaced:
            owner.__dict__.pop(name, None)
        self.replaced = []
        if self.step is not None:
            self.step.release()

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Releases the step's memory for validation."""
        if self.step is not None:
            self.step.release()

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any, **__: Any) -> None:
        if self.step is None or self.step.last is None or not trainer._logger_connector.should_update_logs:
            return
        memory = self.step.memory
        figures = {
            "neap_planned_peak_bytes": memory.planned_peak_bytes,
            "neap_measured_peak_bytes": memory.measured_peak_bytes,
            "neap_overhead": memory.overhead,
        }
        for logger in trainer.loggers:
            logger.log_metrics(figures, step=trainer.global_step)

    # ---- The loops ----

    def _automatic(self, optimizer: Any, batch_idx: int, kwargs: Any) -> dict[str, Any]:
        """Replaces the run of Lightning's automatic optimization."""
        trainer = self.trainer
        if getattr(
            trainer.fit_loop, "_skip_backward", False
        ):  # a pass for statistics alone, of StochasticWeightAveraging
            if self.step is not None:
                self.step.release()
            return self.own_run(optimizer, batch_idx, kwargs)
        begins, self.accumulates = not self.accumulates, trainer.fit_loop._should_accumulate()
        progress = trainer.fit_loop.epoch_loop.automatic_optimization.optim_progress.optimizer
        if not self.accumulates:
            progress.zero_grad.increment_ready()
            progress.zero_grad.increment_started()
            progress.zero_grad.increment_completed()
            progress.step.increment_ready()
        clip = {}
        if trainer.gradient_clip_val:
            by_value = (
                str(getattr(trainer.gradient_clip_algorithm, "value", trainer.gradient_clip_algorithm)) == "value"
            )
            clip = {"clip_value" if by_value else "clip_norm": float(trainer.gradient_clip_val)}
        n = trainer.accumulate_grad_batches
        extra = self._run(self._batch(kwargs), optimizer, n, clip, begins, not self.accumulates)
        if not self.accumulates:
            progress.step.increment_completed()
        return {"loss": extra["loss"] if n == 1 else extra["loss"] / n, **extra["returned"]}

    def _manual(self, kwargs: Any) -> dict[str, Any]:
        """Replaces the run of Lightning's manual optimization."""
        loop = self.trainer.fit_loop.epoch_loop.manual_optimization
        optimizer = self.trainer.optimizers[0]
        if self.step is None:
            self.clip = self._clip_of(self._batch(kwargs))
        loop.optim_step_progress.increment_ready()
        extra = self._run(self._batch(kwargs), optimizer, 1, self.clip, True, True)
        loop.optim_step_progress.increment_completed()
        return {"loss": extra["loss"], **extra["returned"]}

    def _batch(self, kwargs: Any) -> Any:
        if "batch" not in kwargs:
            raise CannotTrace("training_step takes a dataloader_iter; let it take a batch")
        return kwargs["batch"]

    def _facts(self, batch: Any) -> tuple[bool, bool]:
        self.facts = mask_facts(batch)
        return self.facts

    def _run(
        self, batch: Any, optimizer: Any, weight: int, clip: dict[str, float], begins: bool, ends: bool
    ) -> dict[str, Any]:
        """Runs a batch of a step of the optimizer; returns its extras. begins, ends: whether it is the first, the last of the step."""
        if self.step is None:
            self.loss = self._loss()
            self.step = BatchesStep(
                self.module,
                self.loss,
                unwrapped(optimizer),
                self.budget,
                self.trainer.accumulate_grad_batches > 1,
                **clip,
                **self.options,
            )
        self.loss.set({}, self._facts(batch))
        (extra,) = self.step.run([(batch,)], weight, begins=begins, ends=ends)
        self._log(extra["logs"])
        for name, values in zip(extra["appended"].make, extra["appended"].tensors, strict=True):
            getattr(self.module, name).append(values)
        for number, times in enumerate(extra["schedulers"]):
            for _ in range(times):
                _listed(self.module.lr_schedulers())[number].step()
        return extra

    def _log(self, logs: Served) -> None:
        """Logs the values that training_step logged."""
        module = self.module
        before, module._current_fx_name = module._current_fx_name, "training_step"
        try:
            for (name, options), value in zip(logs.make, logs.tensors, strict=True):
                module.log(name, value, **options)
        finally:
            module._current_fx_name = before

    # ---- The loss ----

    def _loss(self) -> TrainersLoss:
        return _ModulesLoss(self._compute, self._as_eager)

    def _compute(self, module: Any, batch: Any) -> tuple[torch.Tensor, dict[str, Any]]:
        """Runs training_step; returns (loss, {logged values, other returned values, steps of schedulers})."""
        logs: list[tuple[str, torch.Tensor, dict[str, Any]]] = []

        def log(name: str, value: Any, *args: Any, **options: Any) -> None:
            if not isinstance(value, (torch.Tensor, int, float)):
                raise CannotTrace(
                    f"self.log({name!r}, {type(value).__name__}) in training_step: a metric object changes its own state in each step; log a tensor, or "
                    "update it in on_train_batch_end with what training_step returns"
                )
            if args:
                options = dict(zip(("prog_bar", "logger", "on_step", "on_epoch"), args, strict=False)) | options
            logs.append((name, torch.as_tensor(value).detach(), options))

        manual = Manual(self._optimizer(module)) if not module.automatic_optimization else None
        schedulers = (
            [_Counted() for _ in _listed(module.lr_schedulers())]
            if manual is not None and module._trainer is not None
            else []
        )
        own: dict[str, Any] = {"log": log}
        if manual is not None:
            own |= {
                "optimizers": lambda *_, **__: manual, "manual_backward": lambda loss, *_, **__: manual.losses.append(loss),
                "toggle_optimizer": lambda *_: None, "untoggle_optimizer": lambda *_: None,
                "lr_schedulers": lambda: None if not schedulers else schedulers[0] if len(schedulers) == 1 else schedulers,
                "clip_gradients": lambda _, gradient_clip_val=None, gradient_clip_algorithm=None: setattr(manual, "clip", (gradient_clip_val, gradient_clip_algorithm)),
            }  # fmt: skip
        with _own(module, own):
            trainer = module._trainer
            module.__dict__["_trainer"] = Unsteady(trainer, "trainer", UNSTEADY) if trainer is not None else None
            context = (
                trainer.strategy.precision_plugin.train_step_context()
                if trainer is not None
                else contextlib.nullcontext()
            )
            try:
                with context:
                    result = module.training_step(*((batch, BatchIndex()) if _takes_index(module) else (batch,)))
            finally:
                module.__dict__["_trainer"] = trainer
        self.seen = manual
        loss, returned = _taken(result, manual)
        logged = Served([value for _, value, _ in logs], [(name, options) for name, _, options in logs])
        return loss, {"logs": logged, "returned": returned, "schedulers": [s.steps for s in schedulers]}

    def _optimizer(self, module: Any) -> Any:
        return module._trainer.optimizers[0] if module._trainer is not None else None

    def _clip_of(self, batch: Any) -> dict[str, float]:
        """Returns the arguments of clip_gradients in training_step, by capturing it once."""
        from ..trace import trace_step

        self._facts(batch)
        structure = Structure(((batch,), {}))
        trace_step(self.module, self._loss(), structure, structure.leaves)
        if self.seen.clip is None or not self.seen.clip[0]:
            return {}
        value, how = self.seen.clip
        return {"clip_value" if str(getattr(how, "value", how)) == "value" else "clip_norm": float(value)}

    @contextlib.contextmanager
    def _as_eager(self) -> Iterator[None]:
        with masks_as_eager(*self.facts):
            yield


class _ModulesLoss(TrainersLoss):
    __slots__ = ()

    def __call__(self, model: nn.Module, batch: Any, **_: Any) -> tuple[torch.Tensor, dict[str, Any]]:
        lists = {name: (x, len(x)) for name, x in vars(model).items() if type(x) is list}
        with self.eagerly():
            loss, extras = self.compute(model, batch)
        # What training_step appended to a list of the module is appended again in each step, with its values.
        appended = [
            (name, x.detach()) for name, (own, n) in lists.items() for x in own[n:] if isinstance(x, torch.Tensor)
        ]
        for own, n in lists.values():
            own[n:] = [x for x in own[n:] if not isinstance(x, torch.Tensor)]
        return loss, {
            "loss": loss,
            "appended": Served([x for _, x in appended], [name for name, _ in appended]),
            **extras,
        }


class _Counted:
    """Replaces a scheduler while a step is captured; counts its steps."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self, *args: Any) -> None:
        if args:
            raise CannotTrace(
                "a scheduler's step(metric) in training_step is not supported; call it in on_train_epoch_end"
            )
        self.steps += 1


def _listed(x: Any) -> list[Any]:
    return [] if x is None else list(x) if isinstance(x, (list, tuple)) else [x]


@contextlib.contextmanager
def _own(module: nn.Module, values: dict[str, Any]) -> Iterator[None]:
    """While entered, the module has these methods."""
    before = {name: module.__dict__[name] for name in values if name in module.__dict__}
    module.__dict__.update(values)
    try:
        yield
    finally:
        for name in values:
            module.__dict__.pop(name, None)
        module.__dict__.update(before)


def _takes_index(module: Any) -> bool:
    import inspect

    return len(inspect.signature(module.training_step).parameters) > 1


def _taken(result: Any, manual: Manual | None) -> tuple[torch.Tensor, dict[str, Any]]:
    returned = dict(result) if isinstance(result, dict) else {}
    loss = returned.pop("loss", None) if isinstance(result, dict) else result
    if manual is not None:
        if manual.steps != 1:
            raise CannotTrace(
                f"training_step must run one step of its optimizer (got {manual.steps}): for more, call neap.torch.compile_step for each loss"
            )
        loss = manual.losses[0]
    if loss is None:
        raise CannotTrace(
            "training_step returns no loss, and a captured step cannot be skipped: return a loss in each step"
        )
    return loss, returned


def _refusal(trainer: Any, module: Any) -> str | None:
    backend = 'compile the module with module.compile(backend="neap") in place of this callback'
    hook = next((name for name in REFUSED_HOOKS if _is_overridden(name, module)), None)
    callback = next(
        (c for c in trainer.callbacks if type(c).__name__ in REFUSED_CALLBACKS and REFUSED_CALLBACKS[type(c).__name__]),
        None,
    )
    strategy = type(trainer.strategy).__name__
    rows: list[tuple[Any, Callable[[], str]]] = [
        (strategy != "SingleDeviceStrategy", lambda: f"strategy {strategy} runs several processes or devices: {backend}"),
        (getattr(trainer.precision_plugin, "scaler", None) is not None, lambda: "16-mixed trains with a GradScaler, which skips steps by the values of gradients; use bf16-mixed"),
        (len(trainer.optimizers) != 1, lambda: f"the module has {len(trainer.optimizers)} optimizers, and a compiled step has one; call neap.torch.compile_step for each in training_step"),
        (hook, lambda: f"{type(module).__name__}.{hook} is overridden, and a planned step does not call it: {backend}"),
        (callback, lambda: f"{type(callback).__name__} is not supported: {REFUSED_CALLBACKS[type(callback).__name__]}"),
        (trainer.detect_anomaly if hasattr(trainer, "detect_anomaly") else trainer._detect_anomaly, lambda: "detect_anomaly reads backward passes, which a planned step does not have; leave it out"),
    ]  # fmt: skip
    return next((text() for applies, text in rows if applies), None)


def _is_overridden(name: str, module: Any) -> bool:
    base = getattr(pl.LightningModule, name, None)
    own = getattr(type(module), name, None)
    return (
        own is not None
        and own is not base
        and not getattr(own, "__module__", "").startswith(("lightning.", "pytorch_lightning."))
    )
