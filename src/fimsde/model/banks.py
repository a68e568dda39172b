"""Banks: closed-form candidates of several systems as tensors, and what every query reads of them, made once."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from math import inf

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fimsde.bank.bank import COARSE, Bank
from fimsde.bank.cells import BANDWIDTHS
from fimsde.bank.hypotheses import BLOCK_FULL, DIFFUSION, DRIFT

_BLOCK, _BLOCK_DIFFUSION = DRIFT.index(BLOCK_FULL), DIFFUSION.index(BLOCK_FULL)
_LARGEST_MISFIT = 200.0  # chi-square above which candidates are equally hopeless
# Chi-square above which no learned temperature saves a drift: docs/training-log.md, "No trust for what the data
# exclude". Errors of g are known less well than this asks.
_EXCLUDED = 2e4
_ENORMOUS = 1e9  # larger ones count as this: products with a temperature must stay finite


@dataclass(frozen=True)
class Banks:
    """Banks of several systems of one dimension as tensors; cells are padded to one number."""

    drift: Float[Tensor, "batch candidates dim terms"]
    diffusion_sq: Float[Tensor, "batch candidates2 dim terms2"]
    misfit: Float[Tensor, "batch candidates dim 2"]
    diffusion_misfit: Float[Tensor, "batch candidates2 dim 2"]
    covariance: Float[Tensor, "batch 2 dim terms terms"]
    reference: Int[Tensor, " batch"]
    speed: Float[Tensor, "batch dim"]
    rate: Float[Tensor, "batch dim"]
    descriptors: Float[Tensor, "batch dim descriptors"]
    place: Float[Tensor, "batch cells dim"]
    time: Float[Tensor, "batch cells"]
    residual: Float[Tensor, "batch cells dim"]
    variation: Float[Tensor, "batch cells dim"]
    expected: Float[Tensor, "batch cells dim"]
    local_drift: Float[Tensor, "batch cells dim widths"]
    local_diffusion_sq: Float[Tensor, "batch cells dim widths"]
    gain: Float[Tensor, "batch dim widths"]
    diffusion_gain: Float[Tensor, "batch dim widths"]
    mask: Bool[Tensor, "batch cells"]
    box: Float[Tensor, "batch 2 dim"] | None = None  # beyond it fields are held constant; None: nowhere

    @property
    def dim(self) -> int:
        """State dimension of all systems in the batch."""
        return self.speed.shape[1]

    @cached_property
    def drift_choices(self) -> Float[Tensor, "batch terms columns"]:
        """Coefficients of the choices of the drift that are not zero, without local corrections, by component."""
        return _columns(self.drift, self.reference, _BLOCK)

    @cached_property
    def diffusion_choices(self) -> Float[Tensor, "batch terms2 columns"]:
        """The same for g."""
        return _columns(self.diffusion_sq, self.reference, _BLOCK_DIFFUSION)

    @cached_property
    def error_forms(self) -> Float[Tensor, "batch terms columns"]:
        """The covariances of both full drift fits side by side."""
        return self.covariance.permute(0, 3, 2, 1, 4).flatten(2)

    @cached_property
    def local_sums(self) -> Float[Tensor, "widths batch cells sums"]:
        """What kernels around a location add up: time, residuals, and both corrections, for every bandwidth."""
        shared = torch.cat([self.time[..., None], self.residual], -1).expand(len(BANDWIDTHS), -1, -1, -1)
        own = [part.permute(3, 0, 1, 2) for part in (self.local_drift, self.local_diffusion_sq)]
        return torch.cat([shared, *own], -1)

    @cached_property
    def drift_evidence(self) -> Float[Tensor, "batch 1 dim choices"]:
        """log p(data | choice) of each choice of the drift, relative to the full fit."""
        return _evidence(self.misfit, self.gain, self.reference, excluded=_EXCLUDED)

    @cached_property
    def diffusion_evidence(self) -> Float[Tensor, "batch 1 dim choices2"]:
        """Log likelihood of each choice of g."""
        return _evidence(self.diffusion_misfit, self.diffusion_gain, self.reference, excluded=inf)

    def to(self, device: torch.device) -> "Banks":
        """The same on another device."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return Banks(**{name: part.to(device) for name, part in parts.items() if part is not None})


def to_banks(banks: Sequence[Bank], dtype: torch.dtype = torch.float32) -> Banks:
    """Stack banks of systems of one dimension."""
    most = max(len(b.cells.time) for b in banks)

    def stacked(name: str) -> Tensor:
        return torch.from_numpy(np.stack([getattr(b, name) for b in banks])).to(dtype)

    def padded(rows: Sequence[np.ndarray]) -> Tensor:
        out = np.zeros((len(rows), most, *rows[0].shape[1:]))
        for k, row in enumerate(rows):
            out[k, : len(row)] = row
        return torch.from_numpy(out).to(dtype)

    plain = ("drift", "diffusion_sq", "misfit", "diffusion_misfit", "covariance", "speed", "rate", "descriptors")
    gains = ("gain", "diffusion_gain")
    local = ("local_drift", "local_diffusion_sq")
    cells = ("place", "time", "residual", "variation", "expected")
    number = torch.tensor([len(b.cells.time) for b in banks])
    return Banks(
        **{name: stacked(name) for name in plain + gains},
        **{name: padded([getattr(b.cells, name) for b in banks]) for name in cells},
        **{name: padded([getattr(b, name) for b in banks]) for name in local},
        reference=torch.tensor([b.reference for b in banks]),
        mask=torch.arange(most)[None] < number[:, None],
    )


def _columns(
    candidates: Float[Tensor, "batch candidates dim terms"], reference: Int[Tensor, " batch"], block: int
) -> Float[Tensor, "batch terms columns"]:
    """The candidates, and the full fit that holds for these data once for each local correction."""
    full = torch.where((reference == 1)[:, None, None], candidates[:, block], candidates[:, 0])[:, None]
    choices = torch.cat([candidates, full.expand(-1, len(BANDWIDTHS), -1, -1)], 1)
    return choices.permute(0, 3, 2, 1).flatten(2)


def _evidence(
    misfit: Float[Tensor, "batch candidates dim 2"],
    gain: Float[Tensor, "batch dim widths"],
    reference: Int[Tensor, " batch"],
    excluded: float,
) -> Float[Tensor, "batch 1 dim choices"]:
    """-χ² / 2 for candidates, 0 for the choice of zero, and log marginal likelihoods gained by local corrections.

    χ² is the misfit to the fit that holds for these data, up to 200; what it exceeds `excluded` by counts once more.
    All are relative to the full fit. Zero is no choice for coarse data. Gains are bounded like misfits.
    """
    valid = torch.where(reference[:, None, None] == 1, misfit[..., 1], misfit[..., 0])
    hopeless = (valid.clamp(max=_ENORMOUS) - excluded).clamp(min=0.0)
    lost = -0.5 * (valid.clamp(0.0, _LARGEST_MISFIT) + hopeless).transpose(1, 2)
    gained = gain.clamp(-0.5 * _LARGEST_MISFIT, 0.5 * _LARGEST_MISFIT)
    zero = torch.where(reference[:, None, None] == COARSE, -_LARGEST_MISFIT, 0.0).expand_as(lost[..., :1]).to(lost)
    return torch.cat([lost, zero, gained], -1)[:, None]
