"""What exported graphs take: a data set as named arrays. Needs numpy and numba, no torch.

Axis names are those of the package: `n` transitions or `cells` of the state space are what may differ in number.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fimsde.bank.bank import Bank, make_bank
from fimsde.bank.cells import Cells
from fimsde.data.transitions import Transitions
from fimsde.shapes import Array, Float64

TOKEN_AXES = {"y": "n max_dim", "dy": "n max_dim", "dtau": "n"}
BANK = "bank_"  # names of what a bank holds begin with this
_CELLS = "cells"  # the field of a bank that is not an array


@dataclass(frozen=True)
class Input:
    """One array that a graph takes.

    Attributes:
        name: Of the array.
        axes: Names of its axes, separated by spaces; empty for a single number.
        dtype: "float32" or "int64".
    """

    name: str
    axes: str
    dtype: str = "float32"


def token_inputs(tr: Transitions, max_dim: int) -> dict[str, Array]:
    """What the encoder of the paper's architecture takes.

    Args:
        tr: Normalised transitions (`Normaliser.transitions`).
        max_dim: Components of the model; missing ones are filled with zeros.
    """

    def padded(values: Float64[Array, "n dim"]) -> Array:
        return np.pad(values, ((0, 0), (0, max_dim - values.shape[1]))).astype(np.float32)

    return {"y": padded(tr.y), "dy": padded(tr.dy), "dtau": tr.dtau.astype(np.float32)}


def bank_inputs(tr: Transitions, origin: Float64[Array, " dim"] | None = None) -> dict[str, Array]:
    """What encoder and query head of the primed architecture take: the bank of candidates with its cells.

    Args:
        tr: Normalised transitions (`Normaliser.transitions`).
        origin: A place known to be special, in normalised coordinates; see `fimsde.estimate`.
    """
    bank = make_bank(tr, origin)
    found = {name: getattr(bank, name) for name in _plain(Bank)}
    found |= {name: getattr(bank.cells, name) for name in _plain(Cells)}
    return {BANK + name: np.asarray(value, _dtype(value)) for name, value in found.items()}


def describe(arrays: Mapping[str, Array]) -> tuple[Input, ...]:
    """Names, axes and types of the arrays that one of the functions above made."""
    axes = TOKEN_AXES | {BANK + name: axes for name, axes in (_plain(Bank) | _plain(Cells)).items()}
    return tuple(Input(name, axes[name], str(value.dtype)) for name, value in arrays.items())


def _plain(record: type) -> dict[str, str]:
    """Fields that are arrays or numbers, with the axes their annotation names."""
    return {f.name: getattr(f.type, "dim_str", "") for f in fields(record) if f.name != _CELLS}


def _dtype(value: Any) -> str:
    return "int64" if isinstance(value, int) else "float32"
