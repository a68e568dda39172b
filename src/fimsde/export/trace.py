"""Graphs become programs of torch and of ONNX that take any number of transitions, cells and locations."""

import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from fimsde.errors import ConfigError
from fimsde.shapes import Array

Format = Literal["onnx", "torch"]
SUFFIX: dict[Format, str] = {"onnx": ".onnx", "torch": ".pt2"}
_LENGTHS = ("n", "cells", "queries")  # axes of any length
_EXTRA = ("onnx", "onnxruntime", "onnxscript")

Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Graph:
    """A module that takes arrays by name, with what its arrays are called.

    Attributes:
        name: Of the graph: the beginning of its file names.
        module: Takes one dictionary of tensors, gives a tuple of them.
        inputs: Axes of every input, separated by spaces.
        outputs: The same for the outputs.
    """

    name: str
    module: nn.Module
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]

    def __call__(self, arrays: Arrays) -> list[Array]:
        """What the module itself says."""
        return _answers(self.module, arrays)


@dataclass(frozen=True)
class Program:
    """A graph in the form in which it leaves: the content of its file, and a function that runs it."""

    content: bytes
    run: Callable[[Arrays], list[Array]]


def require_extra() -> None:
    """Refuse before any work is done if the packages of ONNX are missing."""
    missing = [name for name in _EXTRA if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"ONNX needs {', '.join(missing)}, which this Python does not have. Install the extra: "
            "pip install 'fimsde[export]'."
        )


def trace(graph: Graph, example: Arrays) -> ExportedProgram:
    """The graph for any lengths, from an example whose lengths are all above one (torch takes 1 for a constant)."""
    lengths = {name: Dim(name, min=1) for name in _LENGTHS}
    shapes = {
        name: {i: lengths[axis] for i, axis in enumerate(axes.split()) if axis in lengths}
        for name, axes in graph.inputs.items()
    }
    with torch.no_grad(), _quiet():
        graph.module({name: torch.from_numpy(example[name]) for name in graph.inputs})  # fills caches with real tensors
        return torch.export.export(
            graph.module,
            ({name: torch.from_numpy(example[name]) for name in graph.inputs},),
            dynamic_shapes={"inputs": shapes},
            strict=False,
        )


def to_program(traced: ExportedProgram, graph: Graph, kind: Format) -> Program:
    """The file of a traced graph, and the function in it."""
    return _torch_program(traced) if kind == "torch" else _onnx_program(traced, graph)


def _torch_program(traced: ExportedProgram) -> Program:
    target = io.BytesIO()
    with _quiet():
        torch.export.save(traced, target)
    module = traced.module()
    return Program(target.getvalue(), lambda arrays: _answers(module, arrays))


def _onnx_program(traced: ExportedProgram, graph: Graph) -> Program:
    import onnxruntime

    with torch.no_grad(), _quiet():
        made = torch.onnx.export(
            traced, dynamo=True, verbose=False, input_names=list(graph.inputs), output_names=list(graph.outputs)
        )
    assert made is not None, "this exporter returns what it made"
    proto = made.model_proto
    _name_axes(proto, graph)
    content = proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return Program(content, lambda arrays: session.run(list(graph.outputs), dict(arrays)))


def _name_axes(proto: Any, graph: Graph) -> None:
    """Lengths that may vary are called by the names of their axes in place of s1, s2, ..."""
    known = {}
    for value in proto.graph.input:
        for size, axis in zip(value.type.tensor_type.shape.dim, graph.inputs[value.name].split(), strict=True):
            if size.dim_param:
                known[size.dim_param] = axis
    for value in (*proto.graph.input, *proto.graph.value_info, *proto.graph.output):
        for size in value.type.tensor_type.shape.dim:
            if size.dim_param in known:
                size.dim_param = known[size.dim_param]


def _answers(module: Callable[..., Any], arrays: Arrays) -> list[Array]:
    with torch.no_grad():
        return [t.numpy() for t in module({name: torch.from_numpy(a) for name, a in arrays.items()})]


def difference(found: Sequence[Array], expected: Sequence[Array]) -> float:
    """Largest difference between two answers, each in units of its largest value; infinity if one is not finite."""
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
            return np.inf
        worst = max(worst, float(np.abs(a - b).max() / max(np.abs(b).max(), np.finfo(np.float32).tiny)))
    return worst


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporters of torch warn about themselves and about packages that nobody asked for."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
