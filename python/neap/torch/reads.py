"""What the code of a step reads: the functions that ran while it was captured, and the names that they load."""

from __future__ import annotations

import dis
import functools
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
import torch

# Folders whose code keeps no settings of the user, but those that `kinds.modes` compares: PyTorch, NumPy, Neap and Python's own library.
_PACKAGES = (*(str(Path(m.__file__).parent) + "/" for m in (torch, numpy)), str(Path(__file__).parents[1]) + "/")
_STANDARD = tuple(sysconfig.get_path(name) + "/" for name in ("stdlib", "platstdlib"))
_INSTALLED = ("/site-packages/", "/dist-packages/")
_QUIET = {"CACHE", "COPY", "COPY_FREE_VARS", "DUP_TOP", "EXTENDED_ARG", "NOP", "PRECALL", "PUSH_NULL", "ROT_TWO", "SWAP"}  # fmt: skip
_LOADS = (
    "LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT", "LOAD_SUPER", "IMPORT_FROM",
)  # fmt: skip
_IN_BACKWARD = {"register_hook", "register_multi_grad_hook", "register_post_accumulate_grad_hook"}
# Functions that read attributes by any text.
_ANY_NAME = {"getattr", "vars", "attrgetter", "__dict__", "__getattribute__"}


def is_installed_file(filename: str) -> bool:
    """Returns whether a file is of an installed package."""
    return any(folder in filename for folder in _INSTALLED)


@functools.cache
def _is_closed(filename: str) -> bool:
    standard = filename.startswith(_STANDARD) and not is_installed_file(filename)
    return standard or filename.startswith((*_PACKAGES, "<frozen"))


class _Names:
    """The names that a piece of code loads, and those of them that it reads: it may only append or add to the others."""

    def __init__(self, code: types.CodeType):
        self.code = code
        self.names = {x for x in code.co_consts if isinstance(x, str)}  # getattr(x, "name"), x["name"]
        self.loaded = {*self.names, *code.co_names}
        for x in code.co_consts:
            if isinstance(x, types.CodeType):
                self.names |= names_in(x)
                self.loaded |= loaded_in(x)
        steps = [i for i in dis.get_instructions(code) if i.opname not in _QUIET]
        for i, step in enumerate(steps):
            if step.opname.startswith(_LOADS) and not _only_adds(step.argval, steps[i + 1 : i + 4]):
                self.names.add(step.argval)


def _only_adds(name: Any, then: list[dis.Instruction]) -> bool:
    """Returns whether what was loaded gets an item at its end, or a constant is added to it and it is stored again."""
    if then and then[0].opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
        return then[0].argval == "append"
    adds = len(then) == 3 and then[0].opname == "LOAD_CONST" and then[1].opname in ("BINARY_OP", "INPLACE_ADD")
    return adds and then[1].argrepr in ("+=", "") and then[2].opname.startswith("STORE_") and then[2].argval == name


_known: dict[int, _Names] = {}  # by the id of the code, which its value keeps


def _of(code: types.CodeType) -> _Names:
    found = _known.get(id(code))
    if found is None:
        found = _known[id(code)] = _Names(code)
    return found


def names_in(code: types.CodeType) -> set[str]:
    """Returns the names of globals, attributes and variables of closures that a function and those inside it read, and their texts."""
    return _of(code).names


def loaded_in(code: types.CodeType) -> set[str]:
    """Returns these names, and those that are only appended to or added to."""
    return _of(code).loaded


class Reads:
    """The functions that ran while a step was captured, but for those of PyTorch, NumPy, Neap and Python."""

    def __init__(self) -> None:
        self.ran: dict[int, tuple[types.CodeType, dict[str, Any], Any]] = {}  # code, its globals, its first argument
        self.seen: dict[int, types.CodeType] = {}
        self.ignored: set[str] = set()  # holders of libraries that changed often and were not read
        self.in_backward = False  # whether functions of the user may run in the backward pass

    def add(self, other: Reads) -> None:
        self.ran |= other.ran
        self.ignored |= other.ignored

    @property
    def names(self) -> set[str]:
        return {name for code, _, _ in self.ran.values() for name in names_in(code)}

    @property
    def any_name(self) -> bool:
        """Returns whether a function of the user may read attributes of any name."""
        return any(not is_installed_file(c.co_filename) and names_in(c) & _ANY_NAME for c, _, _ in self.ran.values())

    def _note(self, frame: types.FrameType, event: str, _argument: Any) -> Any:
        code = frame.f_code
        if id(code) not in self.seen:
            self.seen[id(code)] = code
            if not _is_closed(code.co_filename):
                first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
                self.in_backward |= isinstance(first, torch.autograd.function.FunctionCtx)
                own = first if code.co_varnames[:1] in (("self",), ("cls",)) else None
                self.ran[id(code)] = code, frame.f_globals, own
        return self.before(frame, event, _argument) if self.before is not None else None

    @contextmanager
    def watching(self, wanted: bool = True) -> Iterator[None]:
        """While entered, functions that this thread runs are noted if `wanted`."""
        self.before = sys.gettrace()
        if wanted:
            sys.settrace(self._note)
        try:
            yield
        finally:
            sys.settrace(self.before)

    def forget(self, what: Callable[[Any], bool]) -> None:
        """Forgets objects of which `what` is true."""
        for key, (code, values, first) in self.ran.items():
            if first is not None and what(first):
                self.ran[key] = code, values, None

    def run_in_backward(self, model: torch.nn.Module) -> bool:
        """Returns whether functions of the user may run in the backward pass, once the forward pass was watched."""
        hooked = any(m._backward_hooks or m._backward_pre_hooks for m in model.modules())
        return self.in_backward or hooked or bool(self.names & _IN_BACKWARD)

    def call(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Returns function(*args, **kwargs), whose functions are not noted."""
        if sys.gettrace() != self._note:
            return function(*args, **kwargs)
        sys.settrace(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(self._note)
