"""Priming: queries that start from what closed-form statistics knows, and tokens that summarise what it leaves over.

Every component of the state is a query of its own, with the same weights: relabelling the axes relabels the answer, up
to the order in which the other axes are listed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from fimsde.model.config import ModelConfig
from fimsde.priming import monomials
from fimsde.priming.candidates import (
    COARSE,
    DIFFUSION_KINDS,
    DRIFT_KINDS,
    NUM_DESCRIPTORS,
    NUM_DIFFUSION,
    NUM_DRIFT,
    Bank,
)
from fimsde.priming.cells import BANDWIDTHS
from fimsde.priming.windows import DIFFUSION_DEGREE, DRIFT_DEGREE

NUM_LOCAL = len(BANDWIDTHS)
DRIFT_CHOICES = NUM_DRIFT + 1 + NUM_LOCAL  # the bank, zero, and the reference with each local correction
DIFFUSION_CHOICES = NUM_DIFFUSION + 1 + NUM_LOCAL
_FREQUENCIES = (0.7, 1.5, 3.0, 6.0)  # of the places, per standard deviation
_PLACE = 3 * (1 + 2 * len(_FREQUENCIES))
_BEST = DRIFT_KINDS.index("block origin 4")  # drift candidate the others are compared with
_BLOCK, _BLOCK_DIFFUSION = DRIFT_KINDS.index("block full"), DIFFUSION_KINDS.index("block full")
TRUST = -1.0  # before softplus: about a third of the log likelihood counts, before training
_LARGEST_MISFIT = 200.0  # chi-square above which candidates are equally hopeless
_FAR = 8.0  # standard deviations at which places are told apart no longer
QUERY_FEATURES = DRIFT_CHOICES + NUM_DRIFT + 2 + 4 * NUM_LOCAL + DIFFUSION_CHOICES + 2 + _PLACE
CONTEXT_FEATURES = NUM_DESCRIPTORS + 2 * NUM_DRIFT + 2 * NUM_DIFFUSION + 2 * NUM_LOCAL
CELL_FEATURES = 5 + _PLACE


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

    @property
    def dim(self) -> int:
        """State dimension of all systems in the batch."""
        return self.speed.shape[1]

    def to(self, device: torch.device) -> "Banks":
        """The same on another device."""
        return Banks(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})


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


@dataclass(frozen=True)
class Answers:
    """The bank at locations, and the natural sizes of the fields there."""

    features: Float[Tensor, "batch queries dim features"]
    drift: Float[Tensor, "batch queries dim choices"]
    diffusion: Float[Tensor, "batch queries dim choices2"]
    drift_evidence: Float[Tensor, "batch 1 dim choices"]
    diffusion_evidence: Float[Tensor, "batch 1 dim choices2"]
    drift_size: Float[Tensor, "batch queries dim"]
    diffusion_size: Float[Tensor, "batch queries dim"]


def answers(banks: Banks, x: Float[Tensor, "batch queries dim"]) -> Answers:
    """All choices for drift and diffusion at each location, with evidence; differentiable in x."""
    square = (x * x).sum(-1, keepdim=True)
    size = banks.speed[:, None] * (1 + square) ** 0.75
    rough = banks.rate[:, None].sqrt() * (1 + square) ** 0.25
    cubic, quadratic = _monomials(x, DRIFT_DEGREE), _monomials(x, DIFFUSION_DEGREE)
    drift = torch.einsum("bqt,bcdt->bqdc", cubic, banks.drift)
    error = torch.einsum("bqs,bfdst,bqt->bqdf", cubic, banks.covariance, cubic).clamp_min(0).sqrt()
    g = torch.einsum("bqt,bcdt->bqdc", quadratic, banks.diffusion_sq).clamp_min(0)
    time, residual, excess, score = _local(banks, x)
    noisy = (banks.reference == 1).to(torch.int64)
    drift_reference, g_reference = (
        torch.gather(values, -1, (noisy * block)[:, None, None, None].expand(*values.shape[:-1], 1))
        for values, block in ((drift, _BLOCK), (g, _BLOCK_DIFFUSION))
    )
    choices = torch.cat([drift, torch.zeros_like(drift_reference), drift_reference + residual], -1)
    choices2 = torch.cat([g.sqrt(), torch.zeros_like(g_reference), (g_reference + excess).clamp_min(0).sqrt()], -1)
    own, own2 = size[..., None], rough[..., None]
    features = [
        torch.asinh(choices / own),
        0.3 * torch.log((drift - drift[..., _BEST, None]).abs() / own + 1e-4),
        0.3 * torch.log(error / own + 1e-4),
        torch.asinh(residual / own),
        torch.asinh(score),
        0.3 * torch.log(time * banks.speed[:, None, :, None] + 1e-3),
        torch.log(choices2 / own2 + 0.02),
        torch.asinh(excess / banks.rate[:, None, :, None]),
        x[..., None],
        torch.log1p(square)[..., None].expand(*x.shape, 1),
        _waves(_frames(x.clamp(-_FAR, _FAR))),
    ]
    evidence = _evidence(banks.misfit, banks.gain, banks.reference)
    evidence2 = _evidence(banks.diffusion_misfit, banks.diffusion_gain, banks.reference)
    return Answers(torch.cat(features, -1), choices, choices2, evidence, evidence2, size, rough)


def _evidence(
    misfit: Float[Tensor, "batch candidates dim 2"],
    gain: Float[Tensor, "batch dim widths"],
    reference: Int[Tensor, " batch"],
) -> Float[Tensor, "batch 1 dim choices"]:
    """Log likelihood of each candidate under the fit that holds for these data, and what local corrections gain.

    All relative to the full fit. The choice of zero has none, and is none for coarse data.
    """
    valid = torch.where(reference[:, None, None] == 1, misfit[..., 1], misfit[..., 0])
    lost = -0.5 * valid.clamp(0.0, _LARGEST_MISFIT).transpose(1, 2)
    gained = gain.clamp(-0.5 * _LARGEST_MISFIT, 0.5 * _LARGEST_MISFIT)
    zero = torch.where(reference[:, None, None] == COARSE, -_LARGEST_MISFIT, 0.0).expand_as(lost[..., :1]).to(lost)
    return torch.cat([lost, zero, gained], -1)[:, None]


def _local(banks: Banks, x: Float[Tensor, "batch queries dim"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Around each location: time, local corrections of drift and g, and the residual in standard errors."""
    dim = banks.dim
    distance = ((x[:, :, None] - banks.place[:, None]) ** 2).sum(-1)  # (batch, queries, cells)
    near = []
    for width, bandwidth in enumerate(BANDWIDTHS):
        own = (banks.local_drift[..., width], banks.local_diffusion_sq[..., width])
        sums = torch.cat([banks.time[..., None], banks.residual, *own], -1)
        near.append(torch.exp(-distance / (2 * bandwidth**2)) @ sums)
    time, residual, drift, g = torch.stack(near, -1).split([1, dim, dim, dim], dim=2)
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


class ContextSummary(nn.Module):
    """One vector per system and component that says what kind of data this is."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.widen = nn.Linear(CONTEXT_FEATURES, 2 * config.embed)
        self.narrow = nn.Linear(2 * config.embed, config.embed)

    def forward(self, banks: Banks) -> Float[Tensor, "batch dim embed"]:
        return self.narrow(F.gelu(self.widen(context_features(banks))))


class CellFeatures(nn.Module):
    """One token per cell and component: a system of dimension d is d rows of tokens."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.summary = ContextSummary(config)
        self.token = nn.Linear(CELL_FEATURES + config.embed, config.embed)

    def forward(self, banks: Banks) -> tuple[Float[Tensor, "rows n embed"], Bool[Tensor, "rows n"]]:
        cells = cell_features(banks)
        summary = self.summary(banks)[:, :, None].expand(*cells.shape[:-1], -1)
        tokens = self.token(torch.cat([cells, summary], -1)).flatten(0, 1)
        return tokens, banks.mask.repeat_interleave(banks.dim, 0)


class PrimedQueries(nn.Module):
    """Queries that carry the candidates at their location, and the way from a stack's numbers to the fields."""

    drift_outputs, diffusion_outputs, log_variance_outputs = DRIFT_CHOICES + 1, DIFFUSION_CHOICES + 1, 2

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.max_dim = config.max_dim
        self.summary = ContextSummary(config)
        self.widen = nn.Linear(QUERY_FEATURES + config.embed, 3 * config.embed)
        self.narrow = nn.Linear(3 * config.embed, config.embed)
        self.norm = nn.LayerNorm(config.embed)
        self.trust = nn.Linear(config.embed, 2)

    @classmethod
    def num_outputs(cls) -> int:
        """Numbers that the three stacks give for each query."""
        return cls.drift_outputs + cls.diffusion_outputs + cls.log_variance_outputs

    def forward(self, banks: Banks, x: Float[Tensor, "batch queries max_dim"]) -> "Asked":
        known = answers(banks, x[..., : banks.dim])
        summary = self.summary(banks)[:, None]
        learned = (banks.reference != COARSE)[:, None, None, None].to(summary)
        trust = learned * F.softplus(self.trust(summary)) + (1 - learned)
        drift_trust, diffusion_trust = trust.split(1, -1)
        # gains are marginal likelihoods and need no trust, but those in g do not know how noise correlates cells
        local = torch.where((banks.reference == 1)[:, None, None, None], diffusion_trust, 1.0)
        summary = summary.expand(*known.features.shape[:-1], -1)
        h = self.norm(self.narrow(F.gelu(self.widen(torch.cat([known.features, summary], -1)))))
        return Asked(
            h.transpose(1, 2).flatten(0, 1),
            known,
            _trusts(NUM_DRIFT + 1, drift_trust, torch.ones_like(drift_trust)),
            _trusts(NUM_DIFFUSION + 1, diffusion_trust, local),
            learned,
            self.max_dim,
        )


def _trusts(
    candidates: int, trust: Float[Tensor, "batch 1 dim 1"], local: Float[Tensor, "batch 1 dim 1"]
) -> Float[Tensor, "batch 1 dim choices"]:
    """The trust in every choice."""
    own = [part.expand(*part.shape[:-1], num) for part, num in ((trust, candidates), (local, NUM_LOCAL))]
    return torch.cat(own, -1)


@dataclass(frozen=True)
class Asked:
    """Primed queries on their way through the stacks."""

    h: Float[Tensor, "rows queries embed"]
    known: Answers
    drift_trust: Float[Tensor, "batch 1 dim choices"]  # how much the log likelihood of each choice counts
    diffusion_trust: Float[Tensor, "batch 1 dim choices2"]
    learned: Float[Tensor, "batch 1 1 1"]  # 0 for coarse data, which the prior does not have: likelihoods alone decide
    max_dim: int

    def drift(self, raw: Float[Tensor, "rows queries outputs"]) -> Float[Tensor, "batch queries max_dim"]:
        """A mixture of the choices plus a small correction of the natural size."""
        raw = self.learned * self._components(raw)
        weights = (raw[..., :-1] + self.drift_trust * self.known.drift_evidence).softmax(-1)
        mixed = (weights * self.known.drift).sum(-1)
        return self._padded(mixed + 0.3 * torch.tanh(raw[..., -1]) * self.known.drift_size)

    def diffusion(self, raw: Float[Tensor, "rows queries outputs"]) -> Float[Tensor, "batch queries max_dim"]:
        """A mixture of the choices, none of them negative, times a factor not far from one."""
        raw = self.learned * self._components(raw)
        weights = (raw[..., :-1] + self.diffusion_trust * self.known.diffusion_evidence).softmax(-1)
        mixed = (weights * self.known.diffusion).sum(-1)
        return self._padded(mixed * torch.exp(0.5 * torch.tanh(raw[..., -1])))

    def log_variance(self, raw: Float[Tensor, "rows queries outputs"]) -> Float[Tensor, "batch queries"]:
        """Mean over components, drift and diffusion, of the log variances relative to the natural sizes."""
        return 2.0 * self._components(raw).mean((-1, -2))

    def log_scales(self, raw: Float[Tensor, "rows queries outputs"]) -> Float[Tensor, "batch queries dim 2"]:
        """Log scales of the errors of drift and diffusion relative to their natural sizes, for each component."""
        return self._components(raw)

    def _components(self, raw: Float[Tensor, "rows queries outputs"]) -> Float[Tensor, "batch queries dim outputs"]:
        return raw.unflatten(0, (-1, self.known.drift.shape[2])).transpose(1, 2)

    def _padded(self, values: Float[Tensor, "batch queries dim"]) -> Float[Tensor, "batch queries max_dim"]:
        return F.pad(values, (0, self.max_dim - values.shape[-1]))


def num_map_parameters(embed: int) -> int:
    """Weights of the maps before encoder and stacks: two summaries, the token map, the query network and its norm."""
    summary = (CONTEXT_FEATURES + 1) * 2 * embed + (2 * embed + 1) * embed
    token = (CELL_FEATURES + embed + 1) * embed
    query = (QUERY_FEATURES + embed + 1) * 3 * embed + (3 * embed + 1) * embed + 2 * embed
    return 2 * summary + token + query + 2 * (embed + 1)
