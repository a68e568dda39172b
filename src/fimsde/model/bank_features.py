"""What primed models see of a bank: its answers at locations, its cells and its kind of data, as features.

Nothing here has weights.
"""

from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from fimsde.bank import monomials
from fimsde.bank.bank import NUM_DESCRIPTORS
from fimsde.bank.cells import BANDWIDTHS
from fimsde.bank.hypotheses import DRIFT, NUM_DIFFUSION, NUM_DRIFT, WIDE_ORIGIN
from fimsde.bank.windows import DRIFT_DEGREE
from fimsde.model.banks import Banks

NUM_LOCAL = len(BANDWIDTHS)
DRIFT_CHOICES = NUM_DRIFT + 1 + NUM_LOCAL  # the bank, zero, and the reference with each local correction
DIFFUSION_CHOICES = NUM_DIFFUSION + 1 + NUM_LOCAL
# Numbers in the features only bring inputs to order one; weights were trained with them, and they stay as they are.
_FREQUENCIES = (0.7, 1.5, 3.0, 6.0)  # of the places, per standard deviation
_PLACE = 3 * (1 + 2 * len(_FREQUENCIES))
_BEST = DRIFT.index(WIDE_ORIGIN)  # drift candidate the others are compared with
_NOTHING = 1e-30  # in place of zero under a square root, whose slope there would be infinite
_FAINTEST = -80.0  # exponent of the smallest weight of a cell: beyond it float32 has slow numbers only
_FAR = 8.0  # standard deviations at which places are told apart no longer
QUERY_FEATURES = DRIFT_CHOICES + NUM_DRIFT + 2 + 4 * NUM_LOCAL + DIFFUSION_CHOICES + 2 + _PLACE
CONTEXT_FEATURES = NUM_DESCRIPTORS + 2 * NUM_DRIFT + 2 * NUM_DIFFUSION + 2 * NUM_LOCAL
CELL_FEATURES = 5 + _PLACE


@dataclass(frozen=True)
class Answers:
    """The bank at locations, and the natural sizes of the fields there."""

    features: Float[Tensor, "batch queries dim features"]
    drift: Float[Tensor, "batch queries dim choices"]
    diffusion: Float[Tensor, "batch queries dim choices2"]
    drift_size: Float[Tensor, "batch queries dim"]
    diffusion_size: Float[Tensor, "batch queries dim"]


def answers(banks: Banks, x: Float[Tensor, "batch queries dim"]) -> Answers:
    """f_c(x) and sqrt(g_c(x)) for every choice c, and features of them in natural units; differentiable in x.

    Choices are the candidates b' φ(x), zero, and the full fit that holds for the data plus each local correction.
    Natural sizes are speed (1 + |x|²)^(3/4) for the drift and sqrt(rate) (1 + |x|²)^(1/4) for the diffusion: they grow
    more slowly than the polynomials of the bank, so that asinh and logarithms of ratios stay of order one.
    """
    square = (x * x).sum(-1, keepdim=True)
    size = banks.speed[:, None] * (1 + square) ** 0.75
    rough = banks.rate[:, None].sqrt() * (1 + square) ** 0.25
    cubic = _monomials(x, DRIFT_DEGREE)
    quadratic = cubic[..., : banks.diffusion_sq.shape[-1]]  # lower degrees come first
    each = (*x.shape, -1)
    drift = (cubic @ banks.drift_choices).view(each)
    g = (quadratic @ banks.diffusion_choices).view(each).clamp_min(_NOTHING)
    forms = (cubic @ banks.error_forms).view(*x.shape, 2, -1)
    error = (forms * cubic[:, :, None, None]).sum(-1).clamp_min(0).sqrt()
    time, residual, excess, score = _local(banks, x)
    zero = torch.zeros_like(x)[..., None]
    drift = torch.cat([drift[..., :NUM_DRIFT], zero, drift[..., NUM_DRIFT:] + residual], -1)
    local = (g[..., NUM_DIFFUSION:] + excess).clamp_min(_NOTHING)
    diffusion = torch.cat([g[..., :NUM_DIFFUSION].sqrt(), zero, local.sqrt()], -1)
    own, own2, rate = size[..., None], rough[..., None], banks.rate[:, None, :, None]
    signed = torch.asinh(torch.cat([drift / own, residual / own, score, excess / rate], -1))
    choices, corrections, scores, excesses = signed.split([DRIFT_CHOICES, NUM_LOCAL, NUM_LOCAL, NUM_LOCAL], -1)
    apart = (drift[..., :NUM_DRIFT] - drift[..., _BEST, None]).abs()
    features = [
        choices,
        0.3 * torch.log(torch.cat([apart, error], -1) / own + 1e-4),
        corrections,
        scores,
        0.3 * torch.log(time * banks.speed[:, None, :, None] + 1e-3),
        torch.log(diffusion / own2 + 0.02),
        excesses,
        x[..., None],
        torch.log1p(square)[..., None].expand(*x.shape, 1),
        _waves(_frames(x.clamp(-_FAR, _FAR))),
    ]
    return Answers(torch.cat(features, -1), drift, diffusion, size, rough)


def _local(banks: Banks, x: Float[Tensor, "batch queries dim"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """sum_c exp(-|x - place_c|² / (2 b²)) s_c for every bandwidth b around each location.

    s are times, weights of the corrections of drift and g, and residuals; the latter over sqrt(rate time).
    """
    dim = banks.dim
    distance = sum((x[:, :, None, j] - banks.place[:, None, :, j]) ** 2 for j in range(dim))  # (batch, queries, cells)
    sharpness = torch.tensor([-0.5 / b**2 for b in BANDWIDTHS], dtype=x.dtype, device=x.device)
    exponent = (sharpness[:, None, None, None] * distance).clamp_min(_FAINTEST)
    near = torch.exp(exponent) @ banks.local_sums
    time, residual, drift, g = near.permute(1, 2, 3, 0).split([1, dim, dim, dim], dim=2)
    score = residual / (banks.rate[:, None, :, None] * time + 1e-6).sqrt()
    return time.expand_as(residual), drift, g, score


def context_features(banks: Banks) -> Float[Tensor, "batch dim features"]:
    """What kind of data this is, and how far each candidate is from both fits."""
    misfits = [
        0.2 * torch.log1p(m.clamp_min(0)).transpose(1, 2).flatten(2) for m in (banks.misfit, banks.diffusion_misfit)
    ]
    gains = [0.3 * torch.asinh(gain) for gain in (banks.gain, banks.diffusion_gain)]
    return torch.cat([0.3 * banks.descriptors, *misfits, *gains], -1)


def cell_features(banks: Banks) -> Float[Tensor, "batch dim cells features"]:
    """One token per cell and component."""
    speed, rate, time = banks.speed[:, None], banks.rate[:, None], banks.time[..., None]
    spread = 0.02 * rate * time + 1e-9
    features = torch.stack(
        [
            0.3 * torch.log(time * speed + 1e-3),
            torch.asinh(banks.residual / (rate * time + 1e-6).sqrt()),
            torch.asinh(banks.residual / (time + 1e-9) / speed),
            torch.log((banks.variation.clamp_min(0) + spread) / (banks.expected + spread)),
            torch.log((banks.expected + 1e-3 * rate * time + 1e-9) / (rate * time + 1e-9)),
        ],
        -1,
    )
    return torch.cat([features, _waves(_frames(banks.place))], -1).transpose(1, 2)


def _frames(x: Float[Tensor, "*lead dim"]) -> Float[Tensor, "*lead dim 3"]:
    """The place as each component sees it: itself first, then the others in cyclic order, padded to three."""
    dim = x.shape[-1]
    turned = torch.stack([torch.roll(x, -d, -1) for d in range(dim)], -2)
    return F.pad(turned, (0, 3 - dim))


def _waves(places: Float[Tensor, "*lead 3"]) -> Float[Tensor, "*lead features"]:
    phase = places[..., None] * torch.tensor(_FREQUENCIES, dtype=places.dtype, device=places.device)
    return torch.cat([places, torch.sin(phase).flatten(-2), torch.cos(phase).flatten(-2)], -1)


def _monomials(x: Float[Tensor, "batch queries dim"], degree: int) -> Float[Tensor, "batch queries terms"]:
    powers = torch.stack([x**p for p in range(degree + 1)], -1)  # (batch, queries, dim, degree + 1)
    columns = _columns(x.shape[-1], degree)
    out = powers[..., 0, :][..., columns[0]]
    for j in range(1, x.shape[-1]):
        out = out * powers[..., j, :][..., columns[j]]
    return out


@cache
def _columns(dim: int, degree: int) -> Tensor:
    return torch.from_numpy(monomials.exponents(dim, degree).T.copy())
