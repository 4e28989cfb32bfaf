"""libneap by ctypes: graphs built by its operators, and sessions that run them (include/neap_graph.h, neap_operators.h, neap_session.h)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, c_bool, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

NAMED = os.environ.get("NEAP_LIBRARY")
LIBRARY = Path(NAMED) if NAMED else Path(__file__).resolve().parents[3] / "build" / "libneap.so"

F32, I32, U8, F64, BIT, BF16, F16, U16, BLOCK = range(9)  # neap_dtype
CPU, REFERENCE = range(2)  # neap_backend
CONVOLUTIONS = ("auto", "direct", "winograd")  # neap_convolution
OPTIMIZERS = ("SGD", "AdamW", "Adam", "RMSprop", "Lion")  # neap_optimizer
PARAMETER, STATE, RUNNING_STATISTIC = range(3)  # neap_variable_kind
BUDGET_MIN, BUDGET_MAX = 0, 2**64 - 1
INVALID_ARGUMENT = 1
DTYPES = {"float32": F32, "int32": I32, "uint8": U8}

Tensor = c_int32
Dims = POINTER(c_int64)
Axes = POINTER(c_int)
Tensors = POINTER(Tensor)


class ParameterOptions(ctypes.Structure):
    _fields_ = [("initial", c_int), ("scale", c_float), ("frozen", c_bool), ("dtype", c_int)]


class ConvOptions(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("filters", "size", "stride", "padding", "dilation", "groups")),
        ("bias", c_bool),
        *((name, c_int64) for name in ("kernel_height", "kernel_width", "padding_height", "padding_width")),
    ]


class ConvTransposedOptions(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("filters", "size", "stride", "padding", "output_padding")),
        ("bias", c_bool),
    ]


class BatchNormOptions(ctypes.Structure):
    _fields_ = [("epsilon", c_float), ("momentum", c_float)]


class ResponseNormOptions(ctypes.Structure):
    _fields_ = [("size", c_int64), ("alpha", c_float), ("beta", c_float), ("k", c_float)]


class PoolOptions(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("size", "stride", "padding")),
        ("ceil", c_bool),
        ("count_padding", c_bool),
    ]


class CropOptions(ctypes.Structure):
    _fields_ = [(name, c_int64) for name in ("top", "left", "height", "width")]


class TakeOptions(ctypes.Structure):
    _fields_ = [
        ("first", c_int64),
        ("step", c_int64),
        ("divisor", c_int64),
        ("border", c_int),
        ("value", c_float),
    ]


class AttentionOptions(ctypes.Structure):
    _fields_ = [
        ("key_heads", c_int64),
        ("causal", c_bool),
        ("window", c_int64),
        ("scale", c_float),
        ("dropout", c_float),
        ("cap", c_float),
        ("pattern", c_char_p),
        ("layer", c_int64),
    ]


class LinearCrossEntropyOptions(ctypes.Structure):
    _fields_ = [("smoothing", c_float), ("first", c_int64), ("before", c_int32), ("by_time", c_bool)]


class RecurrentState(ctypes.Structure):
    _fields_ = [("h", c_int32), ("c", c_int32)]


class RecurrentOptions(ctypes.Structure):
    _fields_ = [
        ("width", c_int64),
        ("layers", c_int),
        ("dropout", c_float),
        ("initial", POINTER(RecurrentState)),
        ("last", POINTER(RecurrentState)),
        ("weights", c_void_p),
    ]


class ModelOptions(ctypes.Structure):
    _fields_ = [
        ("batch", c_int64),
        ("image", c_int64 * 3),
        ("classes", c_int64),
        ("smoothing", c_float),
        ("length", c_int64),
        ("dropout", c_float),
        ("source_length", c_int64),
        ("decode", c_int64),
        ("regression", c_bool),
        ("window", c_int64),
        ("head", c_int),
        ("packed", c_bool),
        ("beta", c_float),
        ("side", c_int64),
        ("attention", c_char_p),
    ]


class ParameterGroup(ctypes.Structure):
    _fields_ = [("pattern", c_char_p), ("rate", c_float), ("weight_decay", c_float)]


class ByteInput(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("mean", c_float * 4), ("deviation", c_float * 4)]


class SessionOptions(ctypes.Structure):
    _fields_ = [
        ("budget", c_uint64),
        ("budget_fraction", c_double),
        ("process_budget", c_uint64),
        ("planner", c_char_p),
        ("plan_file", c_char_p),
        ("plan_quick", c_bool),
        ("plan_seconds", c_double),
        ("plan_progress", c_void_p),
        ("plan_context", c_void_p),
        ("plan_stop", c_void_p),
        ("optimizer", c_int),
        ("momentum", c_float),
        ("weight_decay", c_float),
        ("nesterov", c_bool),
        ("beta1", c_float),
        ("beta2", c_float),
        ("epsilon", c_float),
        ("clip_value", c_float),
        ("clip_norm", c_float),
        ("gradient_norm", c_bool),
        ("class_weights", c_bool),
        ("mixed_labels", c_bool),
        ("ema", c_float),
        ("groups", POINTER(ParameterGroup)),
        ("group_count", c_int),
        ("convolution", c_int),
        ("bits", c_int),
        ("backend", c_int),
        ("costs", c_int),
        ("variant", c_int),
        ("threads", c_int),
        ("seed", c_uint64),
        ("predict", c_bool),
        ("micro_batches", c_int32),
        ("collective", c_void_p),
        ("precision", c_int),
        ("master", c_bool),
        ("loss_scale", c_float),
        ("dynamic_loss_scale", c_bool),
        ("sparse_density", c_double),
        ("sparse_layers", c_char_p),
        ("sparse_positions", c_int),
        ("freeze", c_char_p),
        ("store", c_char_p),
        ("base", c_char_p),
        ("save_sparse", c_bool),
        ("lora", c_int32),
        ("lora_alpha", c_float),
        ("lora_dropout", c_float),
        ("lora_layers", c_char_p),
        ("save_trained", c_bool),
        ("byte_input", ByteInput),
        ("base_on_disk", c_int),
        ("disk", c_char_p),
        ("disk_for", c_int),
        ("disk_bytes", c_uint64),
        ("shard", c_int),
        ("pipeline", c_int32),
        ("pipeline_way", c_char_p),
        ("projection_rank", c_int32),
        ("projection_every", c_int32),
        ("projection_scale", c_float),
        ("states_8bit", c_bool),
        ("states_f32", c_char_p),
        ("lora_dora", c_bool),
        ("lora_rs", c_bool),
        ("lora_plus", c_float),
        ("mezo", c_bool),
        ("mezo_epsilon", c_float),
        ("compress", c_char_p),
        ("backprop_share", c_float),
    ]


class StepResult(ctypes.Structure):
    _fields_ = [
        ("loss", c_double),
        ("gradient_norm", c_double),
        ("skipped", c_bool),
        ("correct", c_int64),
        ("counted", c_int64),
    ]


class Variable(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("kind", c_int),
        ("rank", c_int),
        ("dims", c_int64 * 8),
        ("elements", c_int64),
        ("dtype", c_int),
        ("frozen", c_bool),
    ]


# Operators: what each takes after the builder. All but split, lstm and gru, which are functions below, give a tensor.
OPERATORS: dict[str, list[Any]] = {
    "input": [c_char_p, c_int, c_int, Dims],
    "parameter": [c_char_p, c_int, Dims, ParameterOptions],
    "conv": [Tensor, ConvOptions],
    "conv_with": [Tensor, Tensor, Tensor, ConvOptions],
    "conv_transposed": [Tensor, ConvTransposedOptions],
    "batch_norm": [Tensor, BatchNormOptions],
    "layer_norm": [Tensor, c_float],
    "rms_norm": [Tensor, c_float],
    "group_norm": [Tensor, c_int64, c_float],
    **{
        name: [Tensor]
        for name in ("relu", "relu6", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "exp", "log", "erf", "sqrt")
    },
    "power": [Tensor, c_float],
    "clip": [Tensor, c_float, c_float],
    "scale": [Tensor, c_float, c_float],
    "cast": [Tensor, c_int],
    **{name: [Tensor, Tensor] for name in ("add", "subtract", "multiply", "divide")},
    "where": [Tensor, Tensor, Tensor],
    "masked_fill": [Tensor, Tensor, c_float],
    "sum": [Tensor, Axes, c_int, c_bool],
    "mean": [Tensor, Axes, c_int, c_bool],
    "expand": [Tensor, c_int, Dims],
    "softmax": [Tensor, c_int],
    "transpose": [Tensor, Axes],
    "gather": [Tensor, Tensor],
    "embedding": [Tensor, c_int64, c_int64],
    **{name: [Tensor] for name in ("glu", "swiglu", "geglu")},
    "sequence_conv": [Tensor, Tensor, c_int64],
    "sequence_conv_from": [Tensor, Tensor, c_int64, c_int64],
    "attention": [Tensor, Tensor, Tensor, Tensor, AttentionOptions],
    "rotary": [Tensor, c_int64, c_float, c_int64],
    "sequence_mask": [Tensor, Tensor],
    "sequence_lengths": [Tensor],
    "positions": [c_int64, c_int64, c_int64],
    "matmul": [Tensor, Tensor, c_bool, c_bool],
    "cholesky": [Tensor],
    "triangular_solve": [Tensor, Tensor, c_bool, c_bool],
    "concat": [Tensors, c_int, c_int],
    "slice": [Tensor, c_int, c_int64, c_int64],
    "take": [Tensor, c_int, c_int64, TakeOptions],
    "local_response_norm": [Tensor, ResponseNormOptions],
    "max_pool": [Tensor, PoolOptions],
    "average_pool": [Tensor, PoolOptions],
    "global_average_pool": [Tensor],
    "adaptive_average_pool": [Tensor, c_int64],
    "crop": [Tensor, CropOptions],
    "resize": [Tensor, c_int64, c_int64, c_bool],
    "linear": [Tensor, c_int64, c_bool],
    "linear_with": [Tensor, Tensor, Tensor],
    "reshape": [Tensor, c_int, Dims],
    "flatten": [Tensor],
    "dropout": [Tensor, c_float],
    "softmax_cross_entropy": [Tensor, Tensor, c_float],
    "softmax_cross_entropy_ignoring": [Tensor, Tensor, c_float, c_int32],
    "softmax_cross_entropy_weighted": [Tensor, Tensor, Tensor, c_float],
    "softmax_cross_entropy_mixed": [Tensor, Tensor, Tensor, Tensor, c_float],
    "linear_cross_entropy": [Tensor, Tensor, Tensor, Tensor, LinearCrossEntropyOptions],
    **{name: [Tensor, Tensor] for name in ("mse_loss", "l1_loss", "binary_cross_entropy")},
    "smooth_l1_loss": [Tensor, Tensor, c_float],
}

# The rest of what is called here: what it returns, and what it takes.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "error_message": (c_char_p, []),
    "builder_create": (c_void_p, [c_char_p]),
    "builder_free": (None, [c_void_p]),
    "builder_finish": (c_int, [c_void_p, Tensor, POINTER(c_void_p)]),
    "graph_free": (None, [c_void_p]),
    "shape": (c_int, [c_void_p, Tensor, Dims]),
    "freeze": (None, [c_void_p, c_bool]),
    "scope": (None, [c_void_p, c_char_p]),
    "output": (None, [c_void_p, c_char_p, Tensor]),
    "split": (None, [c_void_p, Tensor, c_int, c_int, Tensors]),
    **{name: (None, [c_void_p, Tensors, c_int, RecurrentOptions, Tensors]) for name in ("lstm", "gru")},
    "model_open": (c_int, [c_char_p, POINTER(c_void_p)]),
    "model_close": (None, [c_void_p]),
    "model_build": (c_int, [c_void_p, POINTER(ModelOptions), POINTER(c_void_p)]),
    "model_load": (c_int, [c_void_p, POINTER(ModelOptions), c_void_p]),
    "session_create": (c_int, [c_void_p, POINTER(SessionOptions), POINTER(c_uint64), POINTER(c_void_p)]),
    "session_free": (None, [c_void_p]),
    "session_input": (c_void_p, [c_void_p, c_char_p]),
    "session_initialise": (c_int, [c_void_p, c_char_p, c_char_p, c_void_p]),
    "session_step": (c_int, [c_void_p, c_float, POINTER(StepResult)]),
    "session_evaluate": (c_int, [c_void_p, POINTER(StepResult)]),
    "session_predict": (c_int, [c_void_p]),
    "session_save": (c_int, [c_void_p, c_char_p]),
    "session_variable_count": (c_int32, [c_void_p]),
    "session_variable": (c_int, [c_void_p, c_int32, POINTER(Variable)]),
    "session_read": (c_int, [c_void_p, c_int32, c_void_p]),
    "session_write": (c_int, [c_void_p, c_int32, c_void_p]),
    "session_output": (c_int, [c_void_p, c_char_p, POINTER(Variable), c_void_p]),
    **{name: (Tensor, [c_void_p, *arguments]) for name, arguments in OPERATORS.items()},
}


class Failed(Exception):
    """A status other than NEAP_OK, with the library's message."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


class Library:
    """The functions by name, without their prefix."""

    def __init__(self, path: Path):
        loaded = ctypes.CDLL(str(path))
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(loaded, f"neap_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def check(self, status: int) -> None:
        if status:
            raise Failed(status, self.error_message().decode())


def array(values: Sequence[int] | None, pointer: Any) -> Any:
    """A C array of what the type points to; NULL for None."""
    return None if values is None else (pointer._type_ * len(values))(*values)


class Network:
    """A builder whose methods are the operators. A sequence (or None, for NULL) means an array and its count, wherever
    the count stands; keywords are the fields of the options, an operator's last argument."""

    def __init__(self, library: Library):
        self.library = library
        self.builder = library.builder_create(b"network")

    def __getattr__(self, name: str) -> Any:
        types = OPERATORS[name]
        function = getattr(self.library, name)

        def call(*arguments: Any, **options: Any) -> int:
            given, values = list(arguments), []
            at = 0
            while at < len(types):
                following = types[at + 1] if at + 1 < len(types) else None
                if issubclass(types[at], ctypes.Structure):
                    values.append(types[at](**options))
                elif types[at] is c_int and following is Dims:
                    dims = given.pop(0)
                    values += [len(dims), array(dims, Dims)]
                    at += 1
                elif types[at] in (Axes, Tensors):
                    listed = given.pop(0)
                    values.append(array(listed, types[at]))
                    if following is c_int:
                        values.append(0 if listed is None else len(listed))
                        at += 1
                else:
                    values.append(given.pop(0))
                at += 1
            assert not given, f"{name} takes {len(given)} arguments fewer"
            return function(self.builder, *values)

        return call

    def split(self, x: int, axis: int, count: int) -> list[int]:
        parts = (Tensor * max(count, 1))(*[0] * max(count, 1))
        self.library.split(self.builder, x, axis, count, parts)
        return list(parts)

    def lstm(self, x: Sequence[int], width: int, **options: Any) -> tuple[list[int], list[tuple[int, int]]]:
        return self._recurrent("lstm", x, width, **options)

    def gru(self, x: Sequence[int], width: int, **options: Any) -> tuple[list[int], list[tuple[int, int]]]:
        return self._recurrent("gru", x, width, **options)

    def _recurrent(
        self, name: str, x: Sequence[int], width: int, layers: int = 1, initial: Sequence[tuple[int, int]] = ()
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """What the layers give for each part, and the states [layer] after the last one. States are h and c."""
        first = (RecurrentState * layers)(*initial) if initial else None
        last = (RecurrentState * layers)()
        made = (Tensor * len(x))()
        options = RecurrentOptions(width=width, layers=layers, initial=first, last=last)
        getattr(self.library, name)(self.builder, array(x, Tensors), len(x), options, made)
        return list(made), [(state.h, state.c) for state in last]

    def shape(self, x: int) -> tuple[int, ...]:
        dims = (c_int64 * 8)()
        return tuple(dims[: self.library.shape(self.builder, x, dims)])

    def scope(self, name: str | None) -> None:
        self.library.scope(self.builder, None if name is None else name.encode())

    def freeze(self, frozen: bool) -> None:
        self.library.freeze(self.builder, frozen)

    def output(self, name: str, x: int) -> None:
        self.library.output(self.builder, name.encode(), x)

    def finish(self, loss: int) -> int:
        graph = c_void_p()
        self.library.check(self.library.builder_finish(self.builder, loss, ctypes.byref(graph)))
        return graph.value

    def free(self) -> None:
        self.library.builder_free(self.builder)


@dataclass
class Entry:
    """A variable of a session."""

    index: int
    name: str
    kind: int
    dims: tuple[int, ...]


class Session:
    """Inputs and variables by name, as NumPy arrays."""

    def __init__(self, library: Library, graph: int, options: dict[str, Any]):
        self.library = library
        handle = c_void_p()
        made = SessionOptions(**{"budget": BUDGET_MAX, "threads": 2, **options})
        library.check(library.session_create(graph, ctypes.byref(made), None, ctypes.byref(handle)))
        self.handle = handle.value
        self.variables: dict[str, Entry] = {}
        for index in range(library.session_variable_count(self.handle)):
            found = Variable()
            library.check(library.session_variable(self.handle, index, ctypes.byref(found)))
            name = found.name.decode()
            self.variables[name] = Entry(index, name, found.kind, tuple(found.dims[: found.rank]))

    def of_kind(self, kind: int) -> list[Entry]:
        return [entry for entry in self.variables.values() if entry.kind == kind]

    def fill(self, name: str, values: np.ndarray) -> None:
        place = self.library.session_input(self.handle, name.encode())
        assert place, f"no input {name}"
        ctypes.memmove(place, np.ascontiguousarray(values).ctypes.data, values.nbytes)

    def write(self, name: str, values: np.ndarray) -> None:
        entry = self.variables[name]
        assert values.shape == entry.dims and values.dtype == np.float32, (name, values.shape, entry.dims)
        data = np.ascontiguousarray(values)
        self.library.check(self.library.session_write(self.handle, entry.index, data.ctypes.data))

    def read(self, name: str) -> np.ndarray:
        entry = self.variables[name]
        data = np.empty(entry.dims, np.float32)
        self.library.check(self.library.session_read(self.handle, entry.index, data.ctypes.data))
        return data

    def initialise(self, path: Path, names: str | None = None) -> None:
        made = None if names is None else names.encode()
        self.library.check(self.library.session_initialise(self.handle, str(path).encode(), made, None))

    def step(self, rate: float) -> StepResult:
        result = StepResult()
        self.library.check(self.library.session_step(self.handle, rate, ctypes.byref(result)))
        return result

    def evaluate(self) -> StepResult:
        result = StepResult()
        self.library.check(self.library.session_evaluate(self.handle, ctypes.byref(result)))
        return result

    def predict(self) -> None:
        self.library.check(self.library.session_predict(self.handle))

    def output(self, name: str) -> np.ndarray:
        shape = Variable()
        self.library.check(self.library.session_output(self.handle, name.encode(), ctypes.byref(shape), None))
        data = np.empty(tuple(shape.dims[: shape.rank]), np.float32)
        self.library.check(self.library.session_output(self.handle, name.encode(), None, data.ctypes.data))
        return data

    def free(self) -> None:
        self.library.session_free(self.handle)


@contextmanager
def network(library: Library) -> Iterator[Network]:
    made = Network(library)
    try:
        yield made
    finally:
        made.free()


@contextmanager
def session(library: Library, graph: int, **options: Any) -> Iterator[Session]:
    made = Session(library, graph, options)
    try:
        yield made
    finally:
        made.free()


@contextmanager
def finished(library: Library, n: Network, loss: int) -> Iterator[int]:
    """The graph of a loss; -1: one that only predicts."""
    graph = n.finish(loss)
    try:
        yield graph
    finally:
        library.graph_free(graph)


@contextmanager
def opened(library: Library, name: str) -> Iterator[c_void_p]:
    """A model, ready-made or a file's."""
    made = c_void_p()
    library.check(library.model_open(name.encode(), ctypes.byref(made)))
    try:
        yield made
    finally:
        library.model_close(made)


@contextmanager
def model(library: Library, name: str, **options: Any) -> Iterator[int]:
    """The graph of a model."""
    graph = c_void_p()
    with opened(library, name) as made:
        library.check(library.model_build(made, ctypes.byref(ModelOptions(**options)), ctypes.byref(graph)))
    try:
        yield graph.value
    finally:
        library.graph_free(graph)


def load(library: Library, name: str, session: Session, **options: Any) -> None:
    """Gives the session the weights of a model's file."""
    with opened(library, name) as made:
        shape = ModelOptions(**options)
        library.check(library.model_load(made, ctypes.byref(shape), c_void_p(session.handle)))
