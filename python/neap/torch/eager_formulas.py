"""Functions whose results or gradients PyTorch computes by another formula while a step is captured.

Some of PyTorch's formulas ask whether a mode or a tensor subclass is there: then they do not read values, and do not change tensors in
place. In a capture both are there, and the bits are others than eager's. So a captured step calls other functions in their place, or operators
which run the function on plain tensors, as eager does."""

from __future__ import annotations

import dataclasses
import functools
import operator
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.fx import GraphModule
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from .graph import CannotTrace


def _dispatch() -> tuple[Any, Any]:
    """Returns how PyTorch dispatches outside all contexts: as in a new thread."""
    found: list[tuple[Any, Any]] = []
    sets = torch._C._dispatch_tls_local_include_set, torch._C._dispatch_tls_local_exclude_set
    thread = threading.Thread(target=lambda: found.append((sets[0](), sets[1]())))
    thread.start()
    thread.join()
    return found[0]


_DISPATCH = _dispatch()


@dataclasses.dataclass
class Use:
    """A use of a function: its arguments without the tensors, and what it reads of its surroundings."""

    name: str  # of the function
    tree: Any  # of (args, kwargs)
    rest: list[Any]  # leaves; None in place of tensors
    tensors: list[int]  # positions of the tensors among the leaves
    wanted: list[int]  # positions among the tensors, of those that require a gradient
    with_gradients: bool
    device: str
    autocast: tuple[bool, torch.dtype]

    def __call__(self, tensors: Any) -> torch.Tensor:
        leaves = list(self.rest)
        for i, t in zip(self.tensors, tensors, strict=True):
            leaves[i] = t
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        return _BY_NAME[self.name](*args, **kwargs)

    def apart(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Returns the tensors, as leaves of a graph of their own."""
        return [t.detach().requires_grad_(i in self.wanted) for i, t in enumerate(tensors)]

    def result(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        enabled, dtype = self.autocast
        with torch.set_grad_enabled(self.with_gradients), torch.autocast(self.device, dtype, enabled):
            return self(tensors)

    def gradients(self, gradient: torch.Tensor, tensors: list[torch.Tensor], again: bool) -> list[torch.Tensor]:
        """Returns the gradients of the tensors that want one. again: so that they can be differentiated."""
        result = self.result(tensors)
        return list(torch.autograd.grad(result, [tensors[i] for i in self.wanted], gradient, create_graph=again))


# ---- Which functions ----


def _always(use: Use, tensors: list[torch.Tensor]) -> bool:
    return True


def _again(use: Use, tensors: list[torch.Tensor]) -> bool:
    """A function whose second derivatives alone are others."""
    return True


def _mixed(use: Use, tensors: list[torch.Tensor]) -> bool:
    """A formula that works in place rounds to another type than one that does not."""
    return len({t.dtype for t in tensors}) > 1


def _mixed_apart(use: Use, tensors: list[torch.Tensor]) -> bool:
    """A linear layer that is not one product and sum: its input is not contiguous."""
    apart = tensors[0].dim() > 2 and not tensors[0].is_contiguous()
    return len(tensors) == 3 and apart and not use.autocast[0] and _mixed(use, tensors)


def _by_autocast(use: Use, tensors: list[torch.Tensor]) -> bool:
    """A kernel that calls operators which autocast casts, inside the kernel, too."""
    return use.autocast[0]


def _of_all(use: Use, tensors: list[torch.Tensor]) -> bool:
    """A reduction of all elements."""
    return len(use.rest) == 1


def _of_the_value(use: Use, tensors: list[torch.Tensor]) -> bool:
    return len(tensors) == 3 and 2 in use.wanted


def _of_weighted_classes(use: Use, tensors: list[torch.Tensor]) -> bool:
    """A cross entropy with label smoothing and weights, of class numbers."""
    args, kwargs = pytree.tree_unflatten(use.rest, use.tree)
    smoothing = kwargs.get("label_smoothing", args[7] if len(args) > 7 else 0)
    return bool(smoothing) and len(tensors) == 3 and not tensors[1].is_floating_point()


def _of_one_matrix(use: Use, tensors: list[torch.Tensor]) -> bool:
    """A product of a batch of matrices and of a matrix (as a batch of one) that requires no gradient."""
    if len(tensors) != 2 or any(t.dim() != 3 for t in tensors):
        return False
    ones = [i for i, t in enumerate(tensors) if t.shape[0] == 1]
    return len(ones) == 1 and ones[0] not in use.wanted


def _of_values_alone(use: Use, tensors: list[torch.Tensor]) -> bool:
    """Singular values or eigenvalues, whose vectors no gradient needs."""
    return not use.wanted


def _by_singular_values(use: Use, tensors: list[torch.Tensor]) -> bool:
    args, kwargs = pytree.tree_unflatten(use.rest, use.tree)
    order = kwargs.get("ord", kwargs.get("p", args[1] if len(args) > 1 else None))
    dims = kwargs.get("dim", args[2] if len(args) > 2 else None)
    of_matrices = (dims is None and tensors[0].dim() >= 2) or (isinstance(dims, (tuple, list)) and len(dims) == 2)
    return not use.wanted and of_matrices and order in ("nuc", 2, -2)


# ---- What a capture and a measurement need of them ----


def _batches(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Returns a product of batches as eager computes it."""
    batch = max(a.shape[0], b.shape[0])
    return torch.bmm(a.expand(batch, *a.shape[1:]), b.expand(batch, *b.shape[1:]))


def _product_and_sum(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.matmul(x, weight.t()).add_(bias)


def _is_reduced(use: Use) -> bool:
    """Returns whether a loss whose sixth argument is its reduction is one number."""
    args, kwargs = pytree.tree_unflatten(use.rest, use.tree)
    return kwargs.get("reduction", args[5] if len(args) > 5 else "mean") not in ("none", 0)


def _loss_of_texts(use: Use, tensors: list[torch.Tensor]) -> torch.Tensor:
    return tensors[0].new_empty(() if _is_reduced(use) else tensors[0].shape[1:-1])


def _loss_of_values(use: Use, tensors: list[torch.Tensor]) -> torch.Tensor:
    shape = torch.broadcast_shapes(tensors[0].shape, tensors[1].shape)
    return tensors[0].new_empty(() if _is_reduced(use) else shape)


def _grid(use: Use, tensors: list[torch.Tensor]) -> torch.Tensor:
    args, kwargs = pytree.tree_unflatten(use.rest, use.tree)
    size = kwargs.get("size", args[1] if len(args) > 1 else None)
    return tensors[0].new_empty((size[0], *size[2:], len(size) - 2), dtype=use.autocast[1])


def _as_captured(use: Use, tensors: list[torch.Tensor]) -> torch.Tensor:
    return use.result(tensors)


def _keep(tensors: list[torch.Tensor]) -> None:
    pass


def _one_zero(tensors: list[torch.Tensor]) -> None:
    """Has a product take the longest way to its gradients."""
    if tensors[0].numel() > 0:
        tensors[0][(0,) * tensors[0].dim()] = 0


def _longest(tensors: list[torch.Tensor]) -> None:
    """Gives a CTC loss the longest texts that have a finite loss. Of targets in one row, the first text has as many as it may."""
    if len(tensors) < 4:  # the lengths are numbers
        return
    log_probs, targets, lengths, target_lengths = tensors
    lengths.fill_(log_probs.shape[0])
    target_lengths.fill_(targets.shape[-1] if targets.dim() == 2 else 0)
    if targets.dim() == 1 and target_lengths.numel() > 0:
        target_lengths.view(-1)[0] = min(targets.shape[0], log_probs.shape[0])


@dataclasses.dataclass(frozen=True)
class Rule:
    """when(use, tensors): whether bits are others in a capture, or it fails there.

    instead: a function of the tensors that has eager's bits in a capture; without one, operators run the function. result: its result
    has other bits, too. again: whether gradients that are differentiated again have eager's bits in a capture. arguments: names of its
    first arguments, by which keywords are put in order. reads: positions of the tensors that its gradients read; None: of all.
    like(use, tensors): returns a tensor that lies as the result, of fake ones. fill(tensors): gives the stand-ins of a measurement
    what makes the function allocate the most."""

    when: Callable[[Use, list[torch.Tensor]], bool]
    instead: Callable[..., torch.Tensor] | None = None
    result: bool = False
    again: bool = False
    arguments: str = ""
    reads: tuple[int, ...] | None = None
    like: Callable[[Use, list[torch.Tensor]], torch.Tensor] = _as_captured
    fill: Callable[[list[torch.Tensor]], None] = _keep


_ROWS = (
    ("torch.prod torch.Tensor.prod torch.cumprod torch.Tensor.cumprod", Rule(_always, fill=_one_zero)),
    ("torch.det torch.Tensor.det torch.linalg.det", Rule(_again)),
    ("torch.max torch.Tensor.max torch.min torch.Tensor.min", Rule(_of_all)),
    ("torch.median torch.Tensor.median torch.nanmedian torch.Tensor.nanmedian", Rule(_of_all)),
    ("torch.masked_fill torch.Tensor.masked_fill", Rule(_of_the_value, arguments="input self mask value", reads=(1,))),
    (
        "torch.nn.functional.binary_cross_entropy_with_logits torch.binary_cross_entropy_with_logits",
        Rule(_mixed, again=True),
    ),
    ("torch.nn.functional.binary_cross_entropy torch._C._nn.binary_cross_entropy", Rule(_mixed)),
    ("torch.nn.functional.linear", Rule(_mixed_apart, _product_and_sum, arguments="input weight bias")),
    ("torch.nn.functional.bilinear torch.bilinear", Rule(_by_autocast, result=True)),
    ("torch.nn.functional.affine_grid torch.affine_grid_generator", Rule(_by_autocast, result=True, like=_grid)),
    (
        "torch.nn.functional.cross_entropy",
        Rule(_of_weighted_classes, result=True, arguments="input target weight"),
    ),
    (
        "torch.nn.functional.ctc_loss torch.ctc_loss",  # it asks for lengths
        Rule(
            _always,
            result=True,
            arguments="log_probs targets input_lengths target_lengths",
            like=_loss_of_texts,
            fill=_longest,
        ),
    ),
    (
        "torch.nn.functional.gaussian_nll_loss",  # it checks the variances
        Rule(_always, result=True, arguments="input target var", like=_loss_of_values),
    ),
    (
        "torch.matmul torch.Tensor.matmul torch.Tensor.__matmul__ torch.linalg.matmul operator.matmul",
        Rule(_of_one_matrix, _batches, arguments="input self other"),
    ),
    ("torch.linalg.svdvals torch.linalg.eigvalsh torch.linalg.cond", Rule(_of_values_alone, result=True)),
    ("torch.linalg.matrix_norm torch.linalg.norm torch.norm torch.Tensor.norm", Rule(_by_singular_values, result=True)),
)
_ROOTS = {"torch": torch, "operator": operator}


def _by_name(name: str) -> Any:
    root, *rest = name.split(".")
    return functools.reduce(getattr, rest, _ROOTS[root])


_BY_NAME = {name: _by_name(name) for names, _ in _ROWS for name in names.split()}
FUNCTIONS: dict[Any, tuple[str, Rule]] = {
    _BY_NAME[name]: (name, rule) for names, rule in reversed(_ROWS) for name in reversed(names.split())
}
_RULES = {name: rule for names, rule in _ROWS for name in names.split()}
_T = torch.Tensor
# Functions in place whose gradients are others, and what to write.
_IN_PLACE = {_T.cumprod_: "cumprod", _T.masked_fill_: "masked_fill"}
_NORMS = {F.layer_norm, F.group_norm, F.batch_norm, F.instance_norm, torch.layer_norm, torch.group_norm}
_NORMS |= {torch.batch_norm, torch.instance_norm}


def use_of(name: str, rule: Rule, args: Any, kwargs: Any) -> tuple[Use, list[torch.Tensor]] | None:
    """Returns a use of a function and its tensors, in the order of its arguments; None if it has no tensors, a symbolic size, or a tensor
    for its result."""
    order = [n for n in rule.arguments.split() if n in kwargs]
    kwargs = {n: kwargs[n] for n in [*order, *(n for n in kwargs if n not in order)]}
    leaves, tree = pytree.tree_flatten((args, kwargs))
    positions = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    symbolic = any(isinstance(x, (torch.SymInt, torch.SymFloat)) for x in leaves)
    if not positions or symbolic or kwargs.get("out") is not None:
        return None
    tensors = [leaves[i] for i in positions]
    enabled = torch.is_grad_enabled()
    wanted = [i for i, t in enumerate(tensors) if t.requires_grad and enabled]
    rest = [None if isinstance(x, torch.Tensor) else x for x in leaves]
    device = tensors[0].device.type
    autocast = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    return Use(name, tree, rest, positions, wanted, enabled, device, autocast), tensors


# ---- Operators ----

_uses: dict[str, Use] = {}  # by their text


def _own(result: torch.Tensor, others: list[torch.Tensor]) -> torch.Tensor:
    """Returns a result, in memory of its own."""
    shared = any(result.untyped_storage().data_ptr() == t.untyped_storage().data_ptr() for t in others)
    return torch.empty_like(result).copy_(result) if shared else result.detach()


@torch.library.custom_op("neap::eager_result", mutates_args=())
def eager_result(tensors: list[torch.Tensor], use: str) -> torch.Tensor:
    """Returns the result of a use of a function."""
    with torch._C._ForceDispatchKeyGuard(*_DISPATCH):
        return _own(_uses[use].result(_uses[use].apart(tensors)), tensors)


@eager_result.register_fake
def _(tensors: list[torch.Tensor], use: str) -> torch.Tensor:
    return _RULES[_uses[use].name].like(_uses[use], tensors)


@torch.library.custom_op("neap::eager_gradients", mutates_args=())
def eager_gradients(gradient: torch.Tensor, tensors: list[torch.Tensor], use: str) -> list[torch.Tensor]:
    """Returns the gradients of a use of a function."""
    with torch._C._ForceDispatchKeyGuard(*_DISPATCH):
        found = _uses[use].gradients(gradient, _uses[use].apart(tensors), again=False)
    return [_own(g, [gradient, *tensors, *found[:i]]) for i, g in enumerate(found)]


@eager_gradients.register_fake
def _(gradient: torch.Tensor, tensors: list[torch.Tensor], use: str) -> list[torch.Tensor]:
    return [torch.empty_like(tensors[i]) for i in _uses[use].wanted]


@torch.library.custom_op("neap::require", mutates_args=())
def require(valid: torch.Tensor, message: str) -> None:
    """Raises ValueError with the message if `valid` is False."""
    if not bool(valid):
        raise ValueError(message)


@require.register_fake
def _(valid: torch.Tensor, message: str) -> None:
    pass


torch.fx.node.has_side_effect(require._opoverload)


def fill(tensors: list[torch.Tensor], use: str) -> None:
    """Gives the stand-ins of a call's tensors what makes it allocate the most."""
    _RULES[_uses[use].name].fill(tensors)


class _Function(torch.autograd.Function):
    """A use of a function, with eager's gradients."""

    @staticmethod
    def forward(ctx: Any, text: str, result: bool, *tensors: torch.Tensor) -> torch.Tensor:
        ctx.text = text
        reads = _RULES[_uses[text].name].reads
        shapes = [t if reads is None or i in reads else t.new_zeros(()).expand(t.shape) for i, t in enumerate(tensors)]
        ctx.save_for_backward(*shapes)
        return eager_result(list(tensors), text) if result else _uses[text](tensors)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        use, tensors = _uses[ctx.text], list(ctx.saved_tensors)
        if not torch.is_grad_enabled():
            found = eager_gradients(gradient, tensors, ctx.text)
        elif _RULES[use.name].again:
            found = use.gradients(gradient, tensors, again=True)
        else:
            raise CannotTrace(
                f"{use.name}: its gradients are differentiated again (create_graph=True), by a formula that a captured step "
                "cannot repeat; compute this part without create_graph, or train it in eager PyTorch"
            )
        results: list[Any] = [None] * len(tensors)
        for i, g in zip(use.wanted, found, strict=True):
            results[i] = g
        return None, None, *results


def _in_transform(use: Use, rule: Rule, tensors: list[torch.Tensor]) -> bool:
    """Returns whether a transform of torch.func runs. Inside, eager takes most of a capture's formulas, too. Raises CannotTrace for the
    others."""
    if torch._C._functorch.peek_interpreter_stack() is None:
        return False
    if use.with_gradients and rule.when in (_always, _mixed) and rule.when(use, tensors):
        raise CannotTrace(
            f"{use.name} in a transform of torch.func: in a capture PyTorch computes its gradients by another formula; call it outside"
        )
    return True


def as_eager(function: Any, args: Any, kwargs: Any) -> torch.Tensor | None:
    """Returns function(*args, **kwargs) with eager's bits; None if those of a capture are the same. Raises CannotTrace."""
    if function in _NORMS and forward_ad._current_level >= 0:
        raise CannotTrace(
            f"{function.__name__} in forward-mode differentiation (jvp): in a capture PyTorch computes its tangents by another formula, with "
            "other last bits; train this part in eager PyTorch"
        )
    if function in _IN_PLACE:
        name = f"torch.Tensor.{_IN_PLACE[function]}"
        rule = _RULES[name]
        found = use_of(name, rule, args, kwargs)
        if found is not None and found[0].wanted and rule.when(*found):
            raise CannotTrace(
                f"{function.__name__}: in a capture PyTorch computes its gradients by another formula; use {_IN_PLACE[function]}"
            )
        return None
    if function not in FUNCTIONS:
        return None
    name, rule = FUNCTIONS[function]
    found = use_of(name, rule, args, kwargs)
    if found is None:
        return None
    use, tensors = found
    if _in_transform(use, rule, tensors):
        return None
    if not (use.wanted or rule.result or rule.instead) or not rule.when(use, tensors):
        return None
    if rule.instead is not None:
        return rule.instead(*tensors)
    text = f"{name} {use.rest} {use.tensors} {use.wanted} {use.with_gradients} {use.device} {use.autocast} {use.tree}"
    _uses[text] = use
    return _Function.apply(text, rule.result, *tensors) if use.wanted else eager_result(tensors, text)


# ---- Graphs of torch.compile ----


_CALLED = {str(f): f for f in (*FUNCTIONS, *_IN_PLACE, *_NORMS)}


def _called(name: str, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Returns the result of a function, by its text."""
    result = as_eager(_CALLED[name], args, kwargs)
    return result if result is not None else _CALLED[name](*args, **kwargs)


def place(module: GraphModule) -> None:
    """Has a graph of torch.compile, and those inside, call such functions as eager does."""
    for inside in [m for m in module.modules() if isinstance(m, GraphModule)]:
        for node in inside.graph.nodes:
            target = getattr(_T, node.target, None) if node.op == "call_method" else node.target
            if node.op in ("call_method", "call_function") and str(target) in _CALLED:
                node.op, node.target, node.args = "call_function", _called, (str(target), *node.args)
        inside.recompile()
