"""Priming: queries that start from what closed-form statistics knows, and tokens that summarise what it leaves over.

Every component of the state is a query of its own, with the same weights: relabelling the axes relabels the answer, up
to the order in which the other axes are listed.
"""

from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from fimsde.bank import monomials
from fimsde.bank.bank import COARSE, NUM_DESCRIPTORS
from fimsde.bank.cells import BANDWIDTHS
from fimsde.bank.hypotheses import DRIFT, NUM_DIFFUSION, NUM_DRIFT, WIDE_ORIGIN
from fimsde.bank.windows import DRIFT_DEGREE
from fimsde.model.banks import Banks
from fimsde.model.config import ModelConfig

NUM_LOCAL = len(BANDWIDTHS)
DRIFT_CHOICES = NUM_DRIFT + 1 + NUM_LOCAL  # the bank, zero, and the reference with each local correction
DIFFUSION_CHOICES = NUM_DIFFUSION + 1 + NUM_LOCAL
_FREQUENCIES = (0.7, 1.5, 3.0, 6.0)  # of the places, per standard deviation
_PLACE = 3 * (1 + 2 * len(_FREQUENCIES))
_BEST = DRIFT.index(WIDE_ORIGIN)  # drift candidate the others are compared with
TRUST = -1.0  # before softplus: about a third of the log likelihood counts, before training
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
    """All choices for drift and diffusion at each location; differentiable in x."""
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
    """Around each location: time, local corrections of drift and g, and the residual in standard errors."""
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

    def prepare(self, banks: object) -> "Prepared":
        """What queries need to know of the context, made once."""
        assert isinstance(banks, Banks), "primed models read banks"
        summary = self.summary(banks)[:, None]
        learned = (banks.reference != COARSE)[:, None, None, None].to(summary)
        trust = learned * F.softplus(self.trust(summary)) + (1 - learned)
        drift_trust, diffusion_trust = trust.split(1, -1)
        # gains are marginal likelihoods and need no trust, but those of g take errors under noise for equal everywhere
        local = torch.where((banks.reference == 1)[:, None, None, None], diffusion_trust, 1.0)
        return Prepared(
            banks,
            F.linear(summary, self.widen.weight[:, QUERY_FEATURES:], self.widen.bias),
            _trusts(NUM_DRIFT + 1, drift_trust, torch.ones_like(drift_trust)) * banks.drift_evidence,
            _trusts(NUM_DIFFUSION + 1, diffusion_trust, local) * banks.diffusion_evidence,
            learned,
        )

    def forward(self, prepared: "Prepared", x: Float[Tensor, "batch queries max_dim"]) -> "Asked":
        known = answers(prepared.banks, x[..., : prepared.banks.dim])
        widened = F.linear(known.features, self.widen.weight[:, :QUERY_FEATURES]) + prepared.summary
        h = self.norm(self.narrow(F.gelu(widened)))
        return Asked(h.transpose(1, 2).flatten(0, 1), known, prepared, self.max_dim)


def _trusts(
    candidates: int, trust: Float[Tensor, "batch 1 dim 1"], local: Float[Tensor, "batch 1 dim 1"]
) -> Float[Tensor, "batch 1 dim choices"]:
    """The trust in every choice."""
    own = [part.expand(*part.shape[:-1], num) for part, num in ((trust, candidates), (local, NUM_LOCAL))]
    return torch.cat(own, -1)


@dataclass(frozen=True)
class Prepared:
    """A context as primed queries read it.

    Attributes:
        banks: The candidates.
        summary: What kind of data this is, as the first layer of the queries takes it.
        drift_evidence: How likely each choice is for the drift: its log likelihood, times the trust in it.
        diffusion_evidence: The same for g.
        learned: 0 for coarse data, which the prior does not have: likelihoods alone decide.
    """

    banks: Banks
    summary: Float[Tensor, "batch 1 dim hidden"]
    drift_evidence: Float[Tensor, "batch 1 dim choices"]
    diffusion_evidence: Float[Tensor, "batch 1 dim choices2"]
    learned: Float[Tensor, "batch 1 1 1"]


@dataclass(frozen=True)
class Asked:
    """Primed queries on their way through the stacks."""

    h: Float[Tensor, "rows queries embed"]
    known: Answers
    prepared: Prepared
    max_dim: int

    def drift(self, raw: Float[Tensor, "rows queries outputs"]) -> Float[Tensor, "batch queries max_dim"]:
        """A mixture of the choices plus a small correction of the natural size."""
        raw = self.prepared.learned * self._components(raw)
        weights = (raw[..., :-1] + self.prepared.drift_evidence).softmax(-1)
        mixed = (weights * self.known.drift).sum(-1)
        return self._padded(mixed + 0.3 * torch.tanh(raw[..., -1]) * self.known.drift_size)

    def diffusion(self, raw: Float[Tensor, "rows queries outputs"]) -> Float[Tensor, "batch queries max_dim"]:
        """A mixture of the choices, none of them negative, times a factor not far from one."""
        raw = self.prepared.learned * self._components(raw)
        weights = (raw[..., :-1] + self.prepared.diffusion_evidence).softmax(-1)
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
