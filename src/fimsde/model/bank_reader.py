"""The primed models' way to read: a bank of closed-form candidates and of cells, one for each context."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from fimsde.bank.bank import Bank, make_bank
from fimsde.bank.hypotheses import DIFFUSION, DRIFT, ORIGIN
from fimsde.bank.identity import Identity, identity
from fimsde.data.transitions import Transitions
from fimsde.errors import ConfigError
from fimsde.model.arrays import BANK, BANK_AXES, bank_inputs, held_box
from fimsde.model.bank_features import (
    CELL_FEATURES,
    CONTEXT_FEATURES,
    DIFFUSION_CHOICES,
    DRIFT_CHOICES,
    QUERY_FEATURES,
)
from fimsde.model.banks import Banks, to_banks
from fimsde.model.primed import CellFeatures, PrimedQueries
from fimsde.shapes import Array, Float64

MAX_DIM = 3  # of a bank: frames of places and grids of origins are laid out for three components


@dataclass(frozen=True)
class BankReader:
    """Reads a bank of candidates and cells; see `fimsde.model.reader.Reader`."""

    max_dim: int
    embed: int
    uses_origin = True
    joins_dims = False
    is_cacheable = True
    tells_error_scales = True
    num_outputs = (DRIFT_CHOICES + 1, DIFFUSION_CHOICES + 1, 2)
    axes = BANK_AXES
    token_axis = "cells"
    asks_arrays = True

    def __post_init__(self) -> None:
        if self.max_dim != MAX_DIM:
            raise ConfigError(f"max_dim is {self.max_dim}; a primed model reads up to {MAX_DIM} components.")

    @property
    def preferred_choices(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Averages over sparse fields around an origin: the best candidates alone (docs/training-log.md)."""
        drift, diffusion = (
            tuple(i for i, h in enumerate(field) if (h.fit, h.form) == ("block", ORIGIN))
            for field in (DRIFT, DIFFUSION)
        )
        return drift, diffusion

    @property
    def num_weights(self) -> int:
        """Two summaries, the token map, the query network with its norm, and the temperatures."""
        e = self.embed
        summary = (CONTEXT_FEATURES + 1) * 2 * e + (2 * e + 1) * e
        token = (CELL_FEATURES + e + 1) * e
        query = (QUERY_FEATURES + e + 1) * 3 * e + (3 * e + 1) * e + 2 * e
        return 2 * summary + token + query + 2 * (e + 1)

    @property
    def identity(self) -> Identity:
        """That of the bank."""
        return identity()

    def read_one(self, tr: Transitions, origin: Float64[Array, " dim"] | None) -> Bank:
        return make_bank(tr, origin)

    def is_finite(self, reading: Bank) -> bool:
        arrays = [getattr(part, f.name) for part in (reading, reading.cells) for f in fields(part) if f.name != "cells"]
        with np.errstate(over="ignore"):
            return all(bool(np.isfinite(np.float32(array)).all()) for array in arrays)

    def collate(self, readings: Sequence[Bank], dtype: torch.dtype) -> Banks:
        return to_banks(readings, dtype)

    def read(self, contexts: Sequence[Transitions], origin: Float64[Array, " dim"] | None, dtype: torch.dtype) -> Banks:
        banks = self.collate([self.read_one(tr, origin) for tr in contexts], dtype)
        return replace(banks, box=torch.from_numpy(np.stack([held_box(tr) for tr in contexts])).to(dtype))

    def arrays(self, tr: Transitions, origin: Float64[Array, " dim"] | None) -> dict[str, Array]:
        return bank_inputs(tr, origin)

    def source(self, arrays: Mapping[str, Tensor]) -> Banks:
        batch = {name.removeprefix(BANK): tensor[None] for name, tensor in arrays.items()}
        return Banks(**batch, mask=torch.ones_like(batch["time"], dtype=torch.bool))

    def features(self) -> CellFeatures:
        return CellFeatures(self.embed)

    def queries(self) -> PrimedQueries:
        return PrimedQueries(self.max_dim, self.embed)
