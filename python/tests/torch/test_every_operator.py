"""Every differentiable operator of PyTorch's own table, with its samples: compile_step has eager's bits, or refuses by name."""

from __future__ import annotations

import copy
from unittest import mock

import pytest
import torch
from fuzz_run import same
from quick import QUICK
from torch import nn
from torch.utils import _pytree as pytree

import neap.torch

# PyTorch's own tests freeze the flags of its backends, for the whole process.
with mock.patch.object(torch.backends, "disable_global_flags"):
    from torch.testing._internal import common_methods_invocations as invocations

SAMPLES = 4 if QUICK else 12
# Operators of which samples may be refused.
REFUSED = {
    # Shapes or control flow by values.
    "combinations", "corrcoef", "cov", "masked_select", "narrow", "tensor_split", "index_fill", "index_put", "repeat_interleave",
    "linalg_lstsq", "linalg_lstsq_grad_oriented",
    # Operands that stand-ins do not meet.
    "cholesky", "lu_unpack", "lu_solve", "linalg_lu_solve", "_segment_reduce_lengths", "sgn",
    # Lazy conjugates and sparse tensors.
    "polar", "fft_hfft", "fft_hfft2", "fft_hfftn", "linalg_eigvals", "to_sparse",
}  # fmt: skip
SPARSE = {"sparse_sampled_addmm", "sparse_mm_reduce"}  # take sparse tensors alone
OPERATORS = [
    o
    for o in invocations.op_db
    if o.supports_autograd and o.supported_backward_dtypes("cpu") and o.formatted_name not in SPARSE
]


class Net(nn.Module):
    """Calls an operator with parameters and buffers in place of its tensors."""

    def __init__(self, operator, sample):
        super().__init__()
        self.operator = operator
        self.leaves, self.tree = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        for i, x in enumerate(self.leaves):
            if isinstance(x, torch.Tensor):
                content = x.detach().clone(memory_format=torch.preserve_format)
                if x.requires_grad and x.numel() > 0:
                    setattr(self, f"leaf{i}", nn.Parameter(content))
                else:
                    self.register_buffer(f"leaf{i}", content)
                self.leaves[i] = None

    def forward(self, scale):
        leaves = [  # copies, since an operator may change its operands
            x if not hasattr(self, f"leaf{i}") else getattr(self, f"leaf{i}") * 1
            if isinstance(getattr(self, f"leaf{i}"), nn.Parameter) else getattr(self, f"leaf{i}").clone()
            for i, x in enumerate(self.leaves)
        ]  # fmt: skip
        first, args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        parts = []
        for t in pytree.tree_leaves(self.operator(first, *args, **kwargs)):
            if isinstance(t, torch.Tensor) and t.requires_grad and t.numel() > 0:
                t = torch.view_as_real(t) if t.is_complex() else t
                factors = torch.arange(1, t.numel() + 1, dtype=t.dtype).reshape(t.shape) / t.numel()
                parts.append((t * factors.sin()).sum().float())
        return sum(parts) * scale


def optimizer(model):
    return torch.optim.SGD(model.parameters(), 1.0)


def eager(model):
    """Returns the loss and the parameters after a step; None if PyTorch does not make one."""
    model, losses = copy.deepcopy(model), []
    torch.manual_seed(3)
    try:
        losses.append(model(torch.ones(())))
        losses[0].backward()
    except Exception:
        return None
    optimizer(model).step()
    return [losses[0].detach(), *(p.detach() for p in model.parameters())]


def samples(operator):
    """Yields nets that eager PyTorch trains, twice with the same bits."""
    for dtype in {torch.float32, torch.bfloat16} & set(operator.supported_backward_dtypes("cpu")):
        found = list(operator.sample_inputs("cpu", dtype, requires_grad=True))
        for sample in found[:: max(len(found) // SAMPLES, 1)]:
            model = Net(operator.op, sample)
            expected, again = eager(model), eager(model)
            if expected is not None and len(expected) > 1 and all(map(same, expected, again)):
                yield model, expected


@pytest.mark.parametrize(
    "operator",
    [pytest.param(o, id=o.formatted_name, marks=[pytest.mark.long] if i % 36 else []) for i, o in enumerate(OPERATORS)],
)
def test_operator(operator, monkeypatch):
    # Some of the table's operators set a seed, which a step refuses.
    monkeypatch.setattr(invocations, "wrapper_set_seed", lambda op, *args, **kwargs: op(*args, **kwargs))
    for model, expected in samples(operator):
        step = neap.torch.compile_step(model, lambda m, x: m(x), optimizer(model), budget="min")
        torch.manual_seed(3)
        try:
            loss = step(torch.ones(()))
        except neap.torch.CannotTrace as error:
            assert operator.formatted_name in REFUSED, str(error)
            continue
        for value, wanted in zip((loss, *model.parameters()), expected, strict=True):
            assert same(value.detach(), wanted)
        assert step.memory.enforced, step.memory.why
