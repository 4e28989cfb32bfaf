"""The binding of libneap_plan by ctypes: its structures (include/neap_plan.h), and its statuses as exceptions."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_bool, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_uint64, c_void_p
from pathlib import Path

import numpy as np

from ._errors import BadFormat, Error, Interrupted, InvalidArgument, InvalidPlan, OverBudget

HERE = Path(__file__).resolve().parent
SOURCE_TREE = HERE.parent.parent

BUDGET_MIN = 0
BUDGET_MAX = 2**64 - 1

# neap_status, in its order.
(
    OK,
    INVALID_ARGUMENT,
    OUT_OF_MEMORY,
    TOO_LARGE,
    IO_FAILED,
    BAD_FORMAT,
    OVER_BUDGET,
    INVALID_PLAN,
    UNSUPPORTED,
    INTERRUPTED,
    INTERNAL,
    DIVERGED,
) = range(12)

ROLES = ("value", "input", "parameter", "state")  # neap_role
PASSES = ("forward", "backward", "update")  # neap_pass
KINDS = (  # neap_memory_kind
    "parameters",
    "states",
    "inputs",
    "gradients",
    "kept activations",
    "recomputed activations",
    "workspace",
)


class Lists(ctypes.Structure):
    _fields_ = [("start", c_void_p), ("ids", c_void_p)]


class StepArrays(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("tensor_count", c_int32),
        ("node_count", c_int32),
        ("step_output_count", c_int32),
        ("tensor_bytes", c_void_p),
        ("tensor_roles", c_void_p),
        ("tensor_names", POINTER(c_char_p)),
        ("node_costs", c_void_p),
        ("node_workspaces", c_void_p),
        ("node_passes", c_void_p),
        ("node_repeatable", c_void_p),
        ("node_names", POINTER(c_char_p)),
        ("node_operators", POINTER(c_char_p)),
        ("inputs", Lists),
        ("outputs", Lists),
        ("updates", Lists),
        ("step_outputs", c_void_p),
        ("inplace_count", c_int64),
        ("inplace", c_void_p),
    ]


class StepInfo(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("tensors", c_int32),
        ("nodes", c_int32),
        ("resident_bytes", c_uint64),
        ("base_cost", c_double),
        ("parameter_bytes", c_uint64),
        ("trained_bytes", c_uint64),
        ("state_bytes", c_uint64),
    ]


class PlanInfo(ctypes.Structure):
    _fields_ = [
        ("graph", c_char_p),
        ("planner", c_char_p),
        ("peak_bytes", c_uint64),
        ("resident_bytes", c_uint64),
        ("arena_bytes", c_uint64),
        ("lower_bound_bytes", c_uint64),
        ("cost", c_double),
        ("base_cost", c_double),
        ("seconds", c_double),
        ("cost_lower_bound", c_double),
        ("length", c_int64),
        ("recomputed", c_int64),
        ("proven_optimal", c_bool),
    ]


class PlanProgress(ctypes.Structure):
    _fields_ = [("seconds", c_double), ("cost", c_double), ("fits", c_bool)]


ProgressFunction = ctypes.CFUNCTYPE(None, POINTER(PlanProgress), c_void_p)


class PlanOptions(ctypes.Structure):
    _fields_ = [
        ("planner", c_char_p),
        ("quick", c_bool),
        ("seconds", c_double),
        ("least_work", c_int64),
        ("progress", ProgressFunction),
        ("context", c_void_p),
        ("stop", POINTER(c_int)),
    ]


class PlanArrays(ctypes.Structure):
    _fields_ = [
        ("graph", c_char_p),
        ("planner", c_char_p),
        ("schedule", c_void_p),
        ("length", c_int64),
        ("instances", c_void_p),
        ("instance_count", c_int64),
        ("resident_bytes", c_uint64),
        ("live_peak_bytes", c_uint64),
        ("arena_bytes", c_uint64),
        ("cost", c_double),
        ("base_cost", c_double),
    ]


class CheckResult(ctypes.Structure):
    _fields_ = [
        ("valid", c_bool),
        ("live_peak_bytes", c_uint64),
        ("cost", c_double),
        ("position", c_int64),
        ("reason", c_char * 256),
        ("stored_bytes", c_uint64),
        ("restored_bytes", c_uint64),
    ]


class LayoutResult(ctypes.Structure):
    _fields_ = [("height", c_uint64), ("lower_bound", c_uint64), ("proven_optimal", c_bool)]


class Row(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("summary", c_char_p),
        ("source", c_char_p),
        ("graphs", c_char_p),
        ("promise", c_char_p),
        ("auto_limit", c_int32),
        ("types", POINTER(c_char_p)),
    ]


# The NumPy types of neap_instance, neap_placement, neap_buffer and neap_inplace.
INSTANCE = np.dtype(
    [
        ("tensor", np.int32),
        ("first", np.int32),
        ("last", np.int32),
        ("in_place", np.bool_),
        ("kind", np.int32),
        ("offset", np.uint64),
        ("bytes", np.uint64),
    ],
    align=True,
)
PLACEMENT = np.dtype([("at", np.int32), ("tensor", np.int32), ("offset", np.uint64), ("bytes", np.uint64)], align=True)
BUFFER = np.dtype([("lower", np.int64), ("upper", np.int64), ("size", np.uint64), ("offset", np.uint64)], align=True)
INPLACE = np.dtype([("node", np.int32), ("output", np.int32), ("input", np.int32)], align=True)

# Name: (type of the result, types of the arguments).
FUNCTIONS = {
    "neap_version": (c_char_p, []),
    "neap_error_message": (c_char_p, []),
    "neap_budget_parse": (c_int, [c_char_p, POINTER(c_uint64), POINTER(c_double)]),
    "neap_budget_share": (c_uint64, [c_double, c_uint64]),
    "neap_step_create": (c_int, [POINTER(StepArrays), POINTER(c_void_p)]),
    "neap_step_free": (None, [c_void_p]),
    "neap_step_describe": (None, [c_void_p, POINTER(StepInfo)]),
    "neap_step_keep_all_bytes": (c_int, [c_void_p, POINTER(c_uint64)]),
    "neap_plan_make_with": (
        c_int,
        [c_void_p, c_uint64, POINTER(PlanOptions), POINTER(c_uint64), POINTER(c_void_p)],
    ),
    "neap_plan_create": (c_int, [POINTER(PlanArrays), POINTER(c_void_p)]),
    "neap_plan_free": (None, [c_void_p]),
    "neap_plan_describe": (None, [c_void_p, POINTER(PlanInfo)]),
    "neap_plan_schedule": (c_void_p, [c_void_p, POINTER(c_int64)]),
    "neap_plan_check": (c_int, [c_void_p, c_void_p, POINTER(CheckResult)]),
    "neap_plan_instances": (c_int, [c_void_p, c_void_p, POINTER(c_void_p), POINTER(c_int64)]),
    "neap_plan_profile": (c_int, [c_void_p, c_void_p, c_void_p]),
    "neap_layout_solve": (c_int, [c_void_p, c_int64, c_uint64, POINTER(LayoutResult)]),
    "neap_planner_at": (c_bool, [c_int32, POINTER(Row)]),
}


def _find() -> str:
    named = os.environ.get("NEAP_PLAN_LIBRARY")
    if named:
        return named
    for path in (HERE / "libneap_plan.so", SOURCE_TREE / "build" / "libneap_plan.so"):
        if path.is_file():
            return str(path)
    raise ImportError(
        "neap: libneap_plan.so is missing; install the package (pip install ./python), build it in the source tree "
        "(make), or set NEAP_PLAN_LIBRARY to its path"
    )


def _load() -> ctypes.CDLL:
    path = _find()
    try:
        library = ctypes.CDLL(path)
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise ImportError(f"neap: cannot use {path}: {error}") from error
    return library


lib = _load()

_free = ctypes.CDLL(None).free  # frees arrays that the library returns
_free.restype, _free.argtypes = None, [c_void_p]


def exception_of(status: int, message: str) -> BaseException:
    """Returns the exception for a failure."""
    if status == OUT_OF_MEMORY:
        return MemoryError(message)
    if status == IO_FAILED:
        return OSError(message)
    if status == OVER_BUDGET:
        return OverBudget(message)
    if status == INVALID_PLAN:
        return InvalidPlan(message)
    kinds = {INVALID_ARGUMENT: InvalidArgument, TOO_LARGE: InvalidArgument, BAD_FORMAT: BadFormat}
    return {**kinds, INTERRUPTED: Interrupted}.get(status, Error)(message)


def error_message() -> str:
    """Returns the message of the calling thread's last failure."""
    return lib.neap_error_message().decode(errors="replace")


def check_status(status: int) -> None:
    if status != OK:
        raise exception_of(status, error_message())


def address(array: np.ndarray | None) -> int | None:
    """Returns the address of a contiguous array's first element; NULL for None and for an empty array."""
    return None if array is None or array.size == 0 else array.ctypes.data


def strings(texts: list[str] | None) -> ctypes.Array | None:
    if texts is None:
        return None
    return (c_char_p * max(len(texts), 1))(*[text.encode(errors="replace") for text in texts])


def copy_array(pointer: int | None, count: int, dtype: np.dtype) -> np.ndarray:
    """Returns a copy of an array at an address."""
    if not pointer or count == 0:
        return np.empty(0, dtype)
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer((c_char * size).from_address(pointer), dtype, count).copy()


def take_array(pointer: int | None, count: int, dtype: np.dtype) -> np.ndarray:
    """As copy_array, for an array that the library returned; frees it."""
    try:
        return copy_array(pointer, count, dtype)
    finally:
        _free(pointer)
