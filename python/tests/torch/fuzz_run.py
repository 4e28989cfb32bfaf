"""Trains a program eagerly and by a door of neap.torch, and compares every bit."""

from __future__ import annotations

import linecache
import re
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

DOORS = ("step", "backend", "fuse")

# What a program's SETTINGS say: rows and steps, and these. `more`: rows more than `rows`, each in a step of its own; `lengths`: they
# are prepared together, and the backend's shapes are dynamic. `evaluate`: "between" steps, or all later ones in that "mode". `schedule`:
# rates halve. `whole`: the backend compiles loss_fn, not the model. `number`: the extras have a number. A budget below 1 is a place
# between least and everything.
PLAIN = {
    "micro_batches": 1, "clip_norm": None, "clip_value": None, "more": [], "lengths": False, "evaluate": "", "schedule": False, "whole": False,
    "number": False, "budget": "max", "steps": 1,
}  # fmt: skip
_count = 0


class Fault(Exception):
    """What a door must not do: (kind, detail)."""


class RefusedByName(Exception):
    """The step was refused before it began, with nothing changed."""


def load(source: str) -> dict[str, Any]:
    """The names of a program, its lines known to tracebacks."""
    global _count
    _count += 1
    name = f"<program {_count}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict[str, Any] = {"__name__": f"program_{_count}", "HALF": "bfloat16" in source or "float16" in source}
    exec(compile(source, name, "exec"), scope)
    return scope


# ---- What is compared ----


def same(a: Any, b: Any) -> bool:
    """Whether two values have the same bits (two NaN are equal)."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return a == b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    if not a.is_floating_point():
        return torch.equal(a, b)
    equal = (a == b) & (torch.signbit(a) == torch.signbit(b))
    return bool((equal | (a.isnan() & b.isnan())).all())


def kept(t: Any) -> Any:
    return t.detach().clone() if isinstance(t, torch.Tensor) else t


def state(model: Any, optimizer: Any, batch: Any) -> dict[str, Any]:
    """All that a step may change, by name, copied."""
    found = {f"parameter {n}": kept(p) for n, p in model.named_parameters()}
    found |= {f"buffer {n}": kept(b) for n, b in model.named_buffers()}
    for n, p in model.named_parameters():
        for key, value in optimizer.state.get(p, {}).items():
            found[f"state {key} of {n}"] = kept(value)
    found |= {f"batch {i}": t.detach().clone() for i, t in enumerate(batch)}
    found["strides"] = {n: t.stride() for n, t in (*model.named_parameters(), *model.named_buffers())}
    found["random state"] = torch.get_rng_state()
    found["training"] = [m.training for m in model.modules()]
    found["requires_grad"] = [p.requires_grad for p in model.parameters()]
    found["attributes"] = sorted(
        f"{n}.{k}" for n, m in model.named_modules() for k in (*m.__dict__, *m._buffers, *m._parameters) if k[0] != "_"
    )
    return found


def difference(got: dict[str, Any], expected: dict[str, Any]) -> str:
    """The first names whose values differ; empty where none does."""
    if got.keys() != expected.keys():
        return f"names {sorted(got.keys() ^ expected.keys())}"
    names = [n for n in expected if not same(got[n], expected[n])]
    if not names:
        return ""
    a, b = got[names[0]], expected[names[0]]
    how = ""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.shape == b.shape and a.dtype == b.dtype:
            how = f": by {(a.double() - b.double()).abs().max().item():.3g}" if not a.is_complex() else ""
        else:
            how = f": {tuple(a.shape)} {a.dtype} for {tuple(b.shape)} {b.dtype}"
    elif isinstance(a, dict):
        how = f": { ({k: v for k, v in a.items() if v != b.get(k)}) } for {b}"
    return ", ".join(names[:4]) + how


# ---- Training ----


class Trained:
    """A model in training, and what each step gave.

    compiled: as the backend's comparison needs it: each step begins with a random state of its own, and where it ends does not
    count (AOTAutograd leaves out random calls whose results nobody reads). zeros: for each step the parameters whose missing
    gradients are taken as zeros."""

    def __init__(self, scope: dict[str, Any], compiled: bool = False, zeros: list[list[str]] | None = None):
        self.scope, self.settings, self.compiled = scope, {**PLAIN, **scope["SETTINGS"]}, compiled
        self.zeros, self.none, self.zero = zeros or [], [], []
        torch.manual_seed(0)
        self.model = scope["Net"]()
        self.optimizer = scope["optimizer"](self.model)
        torch.manual_seed(5)
        self.record: list[dict[str, Any]] = []

    def batches(self) -> list[tuple[Any, ...]]:
        s = self.settings
        rows = [s["rows"]] * s["steps"]
        rows[1:1] = [s["rows"] + n for n in s["more"]]
        return [self.scope["batch"](i, n * s["micro_batches"]) for i, n in enumerate(rows)]

    def between(self, number: int, batch: Any) -> None:
        """What is done between steps: an evaluation, another rate."""
        if number == 0 and self.settings["evaluate"]:
            self.model.eval()
            if self.settings["evaluate"] == "between":
                with torch.no_grad():
                    self.scope["loss_fn"](self.model, *[t.clone() for t in batch])
                self.model.train()
        if self.settings["schedule"]:
            for group in self.optimizer.param_groups:
                group["lr"] = group["lr"] * 0.5

    def note(self, result: Any, batch: Any) -> None:
        loss, extras = result if isinstance(result, tuple) else (result, None)
        self.record.append(
            {"loss": loss.detach().clone(), **self.extras(extras), **state(self.model, self.optimizer, batch)}
        )
        if self.compiled:
            del self.record[-1]["random state"]

    def extras(self, extras: Any) -> dict[str, Any]:
        parts = extras if isinstance(extras, list) else [extras]
        return {
            f"extra {k} {i}": v.detach().clone() if torch.is_tensor(v) else v
            for i, e in enumerate(parts)
            if e
            for k, v in e.items()
        }

    def eager(self, model: Any = None, loss_fn: Any = None) -> Trained:
        """The usual loop."""
        model = self.model if model is None else model
        loss_fn = self.scope["loss_fn"] if loss_fn is None else loss_fn
        for number, batch in enumerate(self.batches()):
            if self.compiled:
                torch.manual_seed(number)
            self.note(self.eager_step(model, loss_fn, batch), batch)
            self.between(number, batch)
        return self

    def eager_step(self, model: Any, loss_fn: Any, batch: Any) -> Any:
        k, total, extras = self.settings["micro_batches"], None, []
        for i in range(k):
            rows = batch[0].shape[0] // k
            part = [t.narrow(0, i * rows, rows) for t in batch] if k > 1 else batch
            result = loss_fn(model, *part)
            loss, extra = result if isinstance(result, tuple) else (result, None)
            loss = loss / k if k > 1 else loss
            loss.backward()
            total = loss.detach() if total is None else total + loss.detach()
            if extra is not None:
                extras.append({n: v.detach().clone() if torch.is_tensor(v) else v for n, v in extra.items()})
        named = [(n, p) for n, p in self.model.named_parameters() if p.requires_grad]
        self.none.append([n for n, p in named if p.grad is None])
        self.zero.append([n for n, p in named if p.grad is not None and not p.grad.any()])
        for n, p in named:
            if self.zeros and n in self.zeros[len(self.none) - 1] and p.grad is None:
                p.grad = torch.zeros_like(p)
        if self.settings["clip_norm"] is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings["clip_norm"])
        if self.settings["clip_value"] is not None:
            torch.nn.utils.clip_grad_value_(self.model.parameters(), self.settings["clip_value"])
        self.optimizer.step()
        self.optimizer.zero_grad()
        return (total, extras if k > 1 else extras[0]) if extras else total


def trains(program: Any) -> bool:
    """Whether eager PyTorch trains a parameter of a program, twice with the same bits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            scope = load(program.source())
            first = Trained(scope).eager()
            learns = len(first.none[0]) < sum(p.requires_grad for p in first.model.parameters())
            finite = bool(first.record[-1]["loss"].isfinite())
            return learns and finite and not _differs(Trained(scope).eager().record, first.record)
        except Exception:
            return False


def _differs(got: list[dict[str, Any]], expected: list[dict[str, Any]]) -> str:
    for number, (a, b) in enumerate(zip(got, expected, strict=True)):
        text = difference(a, b)
        if text:
            return f"step {number}: {text}"
    return ""


# ---- The doors ----


def refusal(error: BaseException) -> str:
    """A refusal's reason in a line, without what differs between programs."""
    text = " ".join(str(error).split())
    text = re.sub(r"<program \d+>, line \d+: .*? (?=cannot be captured|asks for|makes a)", "", text)
    return f"{type(error).__name__}: " + re.sub(r"\b[vmpb]\d+\b|\d+", "N", text)[:160]


def _by_step(scope: dict[str, Any], notes: dict[str, Any], **settings: Any) -> list[dict[str, Any]]:
    import neap
    import neap.torch

    run = Trained(scope)
    s = run.settings | {k: settings[k] for k in settings.keys() & {"budget"}}
    options = {k: s[k] for k in ("micro_batches", "clip_norm", "clip_value")} | {"fuse": settings.get("fuse", False)}

    def made(budget: Any) -> Any:
        return neap.torch.compile_step(run.model, scope["loss_fn"], run.optimizer, budget=budget, **options)

    known: set[Any] = set()
    step: Any = None
    batches = run.batches()
    largest = max(batches, key=lambda b: b[0].shape[0])
    for number, batch in enumerate(batches):
        signature = (batch[0].shape, run.model.training)
        before = state(run.model, run.optimizer, batch)
        try:
            if step is None:
                step = _with_budget(made, s["budget"], largest)
                if s["lengths"] and s["more"]:
                    step.prepare(*batch, lengths=range(batch[0].shape[0], largest[0].shape[0] + 1), dim=0)
                if changed := difference(state(run.model, run.optimizer, batch), before):
                    raise Fault("prepare changed something", changed)
            result = step(*batch)
        except (neap.torch.CannotTrace, TypeError, ValueError, neap.OverBudget) as error:
            if changed := difference(state(run.model, run.optimizer, batch), before):
                raise Fault(
                    f"refused with something changed ({type(error).__name__})", f"{changed}; {error}"
                ) from error
            if signature in known:
                raise Fault("refused in a later step", refusal(error)) from error
            raise RefusedByName(refusal(error)) from error
        known.add(signature)
        left = [n for n, p in run.model.named_parameters() if p.grad is not None]
        if left:
            raise Fault("gradients are left", ", ".join(left))
        run.note(result, batch)
        check_memory(step.memory, notes)
        run.between(number, batch)
    return run.record


def _by_fused_step(scope: dict[str, Any], notes: dict[str, Any], eager: Trained) -> str:
    """Inductor's bits are the same at every budget; they are near eager's after the first step."""
    whole = _by_step(scope, notes, fuse=True, budget="max")
    text = _differs(_by_step(scope, notes, fuse=True), whole)
    if text:
        return f"{text} beside keeping everything"
    first, wanted = whole[0], eager.record[0]
    for name, b in wanted.items():
        a = first[name]
        if torch.is_tensor(b) and b.is_floating_point() and not _near(a, b, 0.2 if scope["HALF"] else 1e-3):
            return f"step 0: {name}: by {(a.double() - b.double()).abs().max().item():.3g}"
    return ""


def _near(a: torch.Tensor, b: torch.Tensor, coarse: float) -> bool:
    """Whether nearly all of the values are: a comparison or a rounding may fall to the other side."""
    gap = (a.double() - b.double()).norm()
    return bool(gap <= coarse * b.double().norm() + 1e-5 * b.numel() ** 0.5 or not gap.isfinite())


def _with_budget(made: Any, budget: Any, batch: Any) -> Any:
    """A step with a budget; where that is a number, it means a place between the least and keeping everything."""
    import neap

    if isinstance(budget, float):
        memory = made("min").prepare(*batch)
        budget = memory.planned_peak_bytes + int(budget * max(memory.keep_all_bytes - memory.planned_peak_bytes, 0))
        step = made(budget)
        planned = step.prepare(*batch)
        if planned.planned_peak_bytes > budget:
            raise Fault("planned above the budget", f"{planned.planned_peak_bytes} of {budget}")
        return step
    step = made(budget)
    try:
        step.prepare(*batch)
    except neap.OverBudget as error:
        if budget == "min" or budget == "max":
            raise Fault("OverBudget where the budget is as good as any", str(error)) from error
        step = made(error.smallest)
        step.prepare(*batch)
    return step


def check_memory(memory: Any, notes: dict[str, Any]) -> None:
    if memory.measured_peak_bytes > memory.planned_peak_bytes:
        raise Fault(
            "memory above the plan", f"{memory.measured_peak_bytes - memory.planned_peak_bytes} bytes; {memory.why}"
        )
    if not memory.enforced:
        if not memory.why:
            raise Fault("not enforced without a reason", str(memory))
        notes["unenforced"] = re.sub(r"\d+", "N", memory.why)
    notes["recomputed"] = max(notes.get("recomputed", 0), memory.recomputed)


def _compiled(
    scope: dict[str, Any], backend: Any, options: dict[str, Any] | None, zeros: list[list[str]] | None = None
) -> Trained:
    torch._dynamo.reset()
    run = Trained(scope, True, zeros)
    model, loss_fn = run.model, scope["loss_fn"]
    dynamic = backend == "neap" and bool(run.settings["lengths"] and run.settings["more"])
    how = {"backend": backend, "options": options, "dynamic": dynamic}
    if run.settings["whole"]:
        return run.eager(loss_fn=torch.compile(loss_fn, **how))
    return run.eager(model=torch.compile(model, **how))


def _by_neap(scope: dict[str, Any], notes: dict[str, Any]) -> Trained:
    import neap.torch

    budget = {**PLAIN, **scope["SETTINGS"]}["budget"]
    if isinstance(budget, float):
        budget = f"{max(int(100 * budget), 1)}%"
    try:
        got = _compiled(scope, "neap", {"budget": budget})
    except Exception as error:
        if type(getattr(error, "inner_exception", error)).__name__ != "OverBudget":
            raise
        got = _compiled(scope, "neap", {"budget": "min"})
    notes["recomputed"] = max((m.recomputed for m in neap.torch.last_plans()), default=0)
    return got


def _by_backend(scope: dict[str, Any], notes: dict[str, Any], eager: Trained) -> str:
    """What is wrong by torch.compile. As with each backend of AOTAutograd, an unused output's parameters have gradients of zeros
    where eager has none: then the usual loop with those zeros is the oracle. Where bits are still others, or it fails,
    AOTAutograd's own backends are run: what one of them does just so comes of its decompositions, and is noted."""
    try:
        got = _by_neap(scope, notes)
    except Exception as error:
        if type(getattr(error, "inner_exception", error)).__name__ == "CannotTrace":
            raise RefusedByName(refusal(getattr(error, "inner_exception", error))) from error
        try:
            _compiled(scope, "aot_eager", None)
        except Exception as other:
            raise RefusedByName(f"as aot_eager: {refusal(other)}") from error
        raise Fault(f"{type(error).__name__} by the backend", refusal(error)) from error
    text = _differs(got.record, eager.record)
    zeros = [sorted({*none} & {*zero}) for none, zero in zip(eager.none, got.zero, strict=True)]
    if text and any(zeros):
        filled = _differs(got.record, Trained(scope, True, zeros).eager().record)
        notes["known"] = "zero gradients for none"
        if not filled:
            return ""
        text = filled
    if not text:
        return ""
    apart = ""
    for reference in ("aot_eager", "aot_eager_default_partitioner"):
        try:
            other = _compiled(scope, reference, None, got.zero)
        except Exception as error:
            raise Fault(f"{reference} fails", f"{type(error).__name__}: {error}; neap: {text}") from error
        apart = _differs(got.record, other.record)
        if not apart:
            notes["known"] = "as AOTAutograd"
            notes["apart"] = text
            return ""
    return f"{text}; aot_eager's: {apart}"


def _by_door(scope: dict[str, Any], notes: dict[str, Any], eager: Trained) -> str:
    if notes["door"] == "step":
        return _differs(_by_step(scope, notes), eager.record)
    return (_by_backend if notes["door"] == "backend" else _by_fused_step)(scope, notes, eager)


def outcome_of(compare: Callable[[], str]) -> dict[str, Any]:
    """What a comparison finds: equal if its text is empty, refused, or a fault, which an error is, too."""
    try:
        text = compare()
        return {"outcome": "fault", "kind": "other bits", "detail": text} if text else {"outcome": "equal"}
    except RefusedByName as error:
        return {"outcome": "refused", "kind": str(error)}
    except Fault as error:
        return {"outcome": "fault", "kind": error.args[0], "detail": error.args[1]}
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rpartition('/')[2]}, line {where.lineno} {where.name}"
        detail = f"{' '.join(str(error).split())[:400]} ({place})"
        return {"outcome": "fault", "kind": f"{type(error).__name__} in a step", "detail": detail}


def examine(source: str, door: str) -> dict[str, Any]:
    """{"outcome": "equal" | "refused" | "fault", ...} of a program's source by one door."""
    scope = load(source)
    notes: dict[str, Any] = {"door": door}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            eager = Trained(scope, door == "backend").eager()
        except Exception as error:
            return {**notes, "outcome": "invalid", "kind": "eager fails", "detail": f"{type(error).__name__}: {error}"}
        found = outcome_of(lambda: _by_door(scope, notes, eager))
        if found["outcome"] == "fault" and _differs(Trained(scope, door == "backend").eager().record, eager.record):
            found = {"outcome": "invalid", "kind": "eager differs from itself", "detail": found["detail"]}
    replanned = [str(w.message) for w in caught if str(w.message).startswith("neap: more was allocated")]
    if replanned:
        notes["replanned"] = re.sub(r"\d+", "N", replanned[0])
    return {**notes, **found}


def report(scope: dict[str, Any]) -> str:
    """By each door, of the module that is run as a script."""
    source = Path(scope["__file__"]).read_text()
    return "\n".join(str(examine(source, door)) for door in DOORS)
