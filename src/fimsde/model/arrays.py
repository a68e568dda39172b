"""What exported graphs take: a data set as named arrays. Needs numpy and numba, no torch.

Axis names are those of the package: `n` transitions or `cells` of the state space are what may differ in number.
"""

from dataclasses import fields
from typing import Any

import numpy as np

from fimsde.bank.bank import Bank, make_bank
from fimsde.bank.cells import Cells
from fimsde.data.transitions import Transitions
from fimsde.shapes import Array, Float64

BANK = "bank_"  # names of what a bank holds begin with this
_BOX = "box"
_CELLS = "cells"  # the field of a bank that is not an array
_REACH = 1.0  # ranges of the data; no path of the damped cubic system is lost then (docs/training-log.md, "far away")


def _plain(record: type) -> dict[str, str]:
    """Fields that are arrays or numbers, with the axes their annotation names."""
    return {f.name: getattr(f.type, "dim_str", "") for f in fields(record) if f.name != _CELLS}


TOKEN_AXES = {"y": "n max_dim", "dy": "n max_dim", "dtau": "n"}
BANK_AXES = {BANK + name: axes for name, axes in (_plain(Bank) | _plain(Cells) | {_BOX: "2 dim"}).items()}


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
    """What encoder and query head of the primed architecture take: the bank of candidates with its cells, and a box.

    Args:
        tr: Normalised transitions (`Normaliser.transitions`).
        origin: A place known to be special, in normalised coordinates; see `fimsde.estimate`.
    """
    bank = make_bank(tr, origin)
    found = {name: getattr(bank, name) for name in _plain(Bank)}
    found |= {name: getattr(bank.cells, name) for name in _plain(Cells)}
    found[_BOX] = held_box(tr)
    return {BANK + name: np.asarray(value, _dtype(value)) for name, value in found.items()}


def held_box(tr: Transitions) -> Float64[Array, "2 dim"]:
    """low - (high - low) and high + (high - low): corners beyond which fields are held constant along each axis.

    low and high bound the states of the data. Powers of the state would only explode farther out.
    """
    low, high = tr.y.min(axis=0), tr.y.max(axis=0)
    reach = _REACH * (high - low)
    return np.stack([low - reach, high + reach])


def _dtype(value: Any) -> str:
    return "int64" if isinstance(value, int) else "float32"
