"""The Trainer of transformers, and its subclasses in TRL, inside a memory budget."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from ..holders import SIMPLE
from ..memory import Memory
from ..updates import unwrapped
from .step import COUNT, BatchesStep, TrainersLoss, Unsteady, mask_facts, masks_as_eager

UNSTEADY = frozenset(
    ("global_step", "epoch", "num_input_tokens_seen", "total_flos", "log_history", "best_metric", "best_global_step")
)
# Attributes of a Trainer that change during training, which its own losses do not read.
CHANGING = {"current_flos", "is_in_train", "current_gradient_accumulation_steps", "model_preparation_time"}
NEEDED = (
    "get_batch_samples",
    "training_step",
    "_clip_grad_norm",
    "_get_grad_norm",
    "compute_loss",
    "compute_loss_context_manager",
)


def attach(trainer: Any, budget: int | str = "max", **options: Any) -> Attached:
    """Makes a transformers Trainer (or one of TRL: SFT, DPO, KTO, reward, GRPO, RLOO) train inside `budget` bytes.

        trainer = SFTTrainer(model=model, args=args, train_dataset=data)
        neap.torch.attach(trainer, budget="2GiB")
        trainer.train()

    A step of the optimizer is one compiled step (neap.torch.compile_step): the batches of the gradient accumulation, the trainer's
    own compute_loss, clipping to max_grad_norm, the update. Schedules, callbacks, logs, evaluation, checkpoints and resuming are
    unchanged, except that callbacks find no gradients (`.grad` is None). budget and options (planner, seconds, progress, replan,
    clip_value, chunk_head, fuse): as for compile_step. The logs get neap_planned_peak_bytes, neap_measured_peak_bytes and neap_overhead.

    Returns an Attached; its detach() restores the trainer. Raises TypeError or ValueError, which name an unsupported setting;
    train() raises neap.OverBudget or neap.torch.CannotTrace before the first step changes anything."""
    return Attached(trainer, budget, options)


def _refusal(trainer: Any) -> str | None:
    """Returns the reason why a trainer is not supported, and what to do; None if it is."""
    missing = [name for name in NEEDED if not hasattr(trainer, name)]
    if missing:
        return f"the trainer has no {missing[0]}; give a transformers.Trainer (transformers 5)"
    args, accelerator = trainer.args, trainer.accelerator
    step = inspect.unwrap(type(trainer).training_step)
    is_own = step.__module__.startswith(("transformers.", "trl."))
    parallel = str(getattr(accelerator, "distributed_type", "NO")).rsplit(".", 1)[-1]
    backend = 'compile the model with torch.compile(model, backend="neap") in place of attach'
    offload = getattr(trainer, "maybe_activation_offload_context", None)
    rows = [
        (not is_own, f"{type(trainer).__name__}.training_step is overridden, and Neap replaces it; move its code to compute_loss"),
        (is_own and not _wraps(trainer) and "compute_loss" not in inspect.getsource(step) and "maybe_activation_offload" not in inspect.getsource(step),
         f"{type(trainer).__name__} does more in training_step than compute a loss: {backend}"),
        (args.fp16 or getattr(accelerator, "scaler", None) is not None, "fp16 trains with a GradScaler, which skips steps by the values of gradients; use bf16=True"),
        (getattr(trainer, "is_deepspeed_enabled", False), "DeepSpeed has its own engine and optimizer; use Neap without it"),
        (getattr(trainer, "is_fsdp_enabled", False), f"FSDP divides parameters among processes: {backend}"),
        (args.n_gpu > 1, "DataParallel would use several GPUs; make one visible (CUDA_VISIBLE_DEVICES=0)"),
        (args.world_size > 1 or parallel not in ("NO", "MULTI_CPU"), f"training is distributed ({parallel}, {args.world_size} processes): {backend}"),
        (args.torch_compile, "torch_compile=True gives the model to another compiler; leave it out"),
        (offload is not None and not isinstance(offload, contextlib.nullcontext), "activation_offloading moves tensors that Neap plans; leave it out"),
        (str(getattr(args.optim, "value", args.optim)).endswith("lomo"), f"optim={args.optim} updates inside the backward pass; use another optimizer"),
    ]  # fmt: skip
    return next((text for applies, text in rows if applies), None)


def _wraps(trainer: Any) -> bool:
    """Returns whether the trainer's training_step is the usual one with some work around it, such as counting steps (TRL's GRPO and RLOO)."""
    step = inspect.unwrap(type(trainer).training_step)
    return step.__module__.startswith("trl.") and "super().training_step(" in inspect.getsource(step)


def _around(kind: type, inner: Callable[..., Any]) -> type:
    """Returns a class of trainers like `kind`, in which super().training_step is `inner`."""
    from transformers import Trainer

    usual = type("Trainer", (Trainer,), {"training_step": lambda _self, *args, **named: inner(*args, **named)})
    return type(kind.__name__, (kind, usual), {"__module__": kind.__module__, "__doc__": kind.__doc__})


class Attached:
    """A trainer inside a budget. step: its compiled step, None before the first step of train(). memory: the bytes of the step."""

    def __init__(self, trainer: Any, budget: int | str, options: dict[str, Any]):
        why = _refusal(trainer)
        if why is not None:
            raise TypeError(f"neap.torch.attach({type(trainer).__name__}): {why}")
        owned = {"micro_batches": "gradient_accumulation_steps", "clip_norm": "max_grad_norm"}
        for name in owned.keys() & options.keys():
            raise ValueError(f"neap.torch.attach: {name} is unexpected; set {owned[name]} in the trainer's arguments")
        self.trainer, self.budget, self.options = trainer, budget, options
        self.step: BatchesStep | None = None
        self.loss = TrainersLoss(self._compute, self._as_eager, trainer)
        BatchesStep(
            nn.Identity(), self.loss, torch.optim.SGD([nn.Parameter(torch.zeros(1))]), budget, False, **options
        )  # raises for a wrong budget or option
        self.batches: list[Any] = []  # of this step of the optimizer, from the loop
        self.number: Any = None
        self.losses: list[torch.Tensor] = []  # of batches for which training_step was not called yet
        self.norm: Any = None
        self.optimizer: Any = None  # whose step() does nothing
        self.replaced = {
            "get_batch_samples": self._get_batch_samples,
            "training_step": self._training_step,
            "_clip_grad_norm": lambda model: self.norm,
            "_get_grad_norm": lambda model, grad_norm=None: self.norm,
            "evaluate": self._released("evaluate"),
            "predict": self._released("predict"),
            "log": self._log,
        }
        self.kind = type(trainer)
        if _wraps(trainer):
            trainer.__class__ = _around(self.kind, self.replaced.pop("training_step"))
        self.before = {name: getattr(trainer, name) for name in self.replaced}
        for name, value in self.replaced.items():
            setattr(trainer, name, value)

    @property
    def memory(self) -> Memory:
        if self.step is None:
            raise RuntimeError("nothing is compiled yet; call train() first")
        return self.step.memory

    def detach(self) -> None:
        """Restores the trainer to its state before attach, and releases the step's memory."""
        for name in self.replaced:
            self.trainer.__dict__.pop(name, None)
            if getattr(self.trainer, name) != self.before[name]:  # the instance had its own
                setattr(self.trainer, name, self.before[name])
        self.trainer.__class__ = self.kind
        self._give_back_optimizer()
        if self.step is not None:
            self.step.release()

    # ---- Replacements of the trainer's methods ----

    def _get_batch_samples(self, epoch_iterator: Iterator[Any], num_batches: int, device: Any) -> tuple[list[Any], Any]:
        self.batches, self.number = self.before["get_batch_samples"](epoch_iterator, num_batches, device)
        self.losses = []
        return self.batches, self.number

    def _training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Returns the loss of one batch. The first call for a step of the optimizer runs the whole step."""
        batches = self.batches if any(inputs is x for x in self.batches) else [inputs]
        if not self.losses or batches is not self.batches:
            self.losses = self._step(model, batches, num_items_in_batch)
        return self.losses.pop(0)

    def _step(self, model: nn.Module, batches: list[Any], number: Any) -> list[torch.Tensor]:
        trainer = self.trainer
        model.train()
        self._take_optimizer()
        if callable(getattr(trainer.optimizer, "train", None)):
            trainer.optimizer.train()
        step = self._compiled(model)
        prepared = self._prepared(batches)
        facts = [mask_facts(x) for x in prepared]
        named = {} if number is None else {COUNT: number}
        weight = 1 if self._is_scaled(number) else trainer.current_gradient_accumulation_steps
        # Micro-batches must have one kind: if one has padding, all have masks.
        self.facts = all(full for full, _ in facts), any(packed for _, packed in facts)
        self.loss.set(self._settings(), self.facts)
        extras = step.run([(x,) for x in prepared], weight, **named)
        for batch, extra in zip(prepared, extras, strict=True):
            self.loss.after(model, dict(batch), extra, **named)
        self.norm = step.gradient_norm
        losses = [extra["loss"] for extra in extras]
        return losses if weight == 1 else [loss / weight for loss in losses]

    def _prepared(self, batches: list[Any]) -> list[Any]:
        """Returns the inputs of each batch. A trainer that counts its calls of training_step takes them by that count."""
        trainer, prepared = self.trainer, []
        count = getattr(trainer, "_step", None)
        for i, batch in enumerate(batches):
            if count is not None:
                trainer._step = count + i
            prepared.append(trainer._prepare_inputs(batch))
        if count is not None:
            trainer._step = count
        return prepared

    def _is_scaled(self, number: Any) -> bool:
        """Returns whether the loss already counts all batches of the accumulation, as the trainer decides it."""
        trainer = self.trainer
        if getattr(trainer, "loss_is_scaled_for_ga", None) is not None:
            return trainer.loss_is_scaled_for_ga
        return (trainer.model_accepts_loss_kwargs and number is not None) or trainer.compute_loss_func is not None

    def _released(self, name: str) -> Callable[..., Any]:
        """Returns the trainer's method, which first releases the step's memory for evaluation."""

        def run(*args: Any, **kwargs: Any) -> Any:
            if self.step is not None:
                self.step.release()
            return self.before[name](*args, **kwargs)

        return run

    def _log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        if "loss" in logs and self.step is not None and self.step.last is not None:
            memory = self.step.memory
            logs["neap_planned_peak_bytes"] = memory.planned_peak_bytes
            logs["neap_measured_peak_bytes"] = memory.measured_peak_bytes
            logs["neap_overhead"] = memory.overhead
        self.before["log"](logs, *args, **kwargs)

    # ---- The step ----

    def _compiled(self, model: nn.Module) -> BatchesStep:
        args = self.trainer.args
        cut = args.gradient_accumulation_steps > 1
        clip = args.max_grad_norm if args.max_grad_norm and args.max_grad_norm > 0 else None
        optimizer, step = unwrapped(self.trainer.optimizer), self.step
        same = step is not None and step.model is model and step.optimizer is optimizer
        if not same or (step.micro_batches > 1) != cut or step.clip_norm != clip:
            why = _refusal(self.trainer)  # arguments may have changed since attach
            if why is not None:
                raise TypeError(f"neap.torch.attach({type(self.trainer).__name__}): {why}")
            if step is not None:
                step.release()
            self.step = BatchesStep(model, self.loss, optimizer, self.budget, cut, clip_norm=clip, **self.options)
        return self.step

    def _compute(self, model: nn.Module, batch: Any, **named: Any) -> torch.Tensor:
        trainer = self.trainer
        with trainer.compute_loss_context_manager():
            return trainer.compute_loss(model, batch, num_items_in_batch=named.get(COUNT))

    @contextlib.contextmanager
    def _as_eager(self) -> Iterator[None]:
        trainer = self.trainer
        state = trainer.state
        trainer.state = Unsteady(state, "trainer.state", UNSTEADY)
        try:
            with masks_as_eager(*self.facts):
                yield
        finally:
            trainer.state = state

    def _settings(self) -> dict[str, Any]:
        """Returns numbers and texts that a user's compute_loss may read from the trainer."""
        return {
            k: v
            for k, v in vars(self.trainer).items()
            if isinstance(v, SIMPLE) and not k.startswith("_") and k not in CHANGING
        }

    def _take_optimizer(self) -> None:
        """Makes the loop's optimizer.step() do nothing, since the compiled step updates the parameters."""
        optimizer = self.trainer.optimizer
        if optimizer is self.optimizer and "step" in vars(optimizer):
            return
        self._give_back_optimizer()
        inner = unwrapped(optimizer)

        def done(closure: Any = None) -> None:
            inner._opt_called = optimizer._opt_called = True

        done._wrapped_by_lr_sched = True  # schedulers read it
        done.__wrapped__, done.does_nothing = optimizer.step, True
        self.optimizer, self.optimizers_own = optimizer, vars(optimizer).get("step")
        optimizer.step = done

    def _give_back_optimizer(self) -> None:
        if self.optimizer is None:
            return
        vars(self.optimizer).pop("step", None)
        if self.optimizers_own is not None:
            self.optimizer.step = self.optimizers_own
        self.optimizer = None
