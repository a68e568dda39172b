"""Priming: queries that start from what closed-form statistics knows, and tokens that summarise what it leaves over.

Every component of the state is a query of its own, with the same weights: relabelling the axes relabels the answer, up
to the order in which the other axes are listed.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from fimsde.bank.bank import COARSE
from fimsde.bank.hypotheses import NUM_DIFFUSION, NUM_DRIFT
from fimsde.model.bank_features import (
    CELL_FEATURES,
    CONTEXT_FEATURES,
    NUM_LOCAL,
    QUERY_FEATURES,
    Answers,
    answers,
    cell_features,
    context_features,
)
from fimsde.model.banks import Banks
from fimsde.model.reader import Limits, Queries

TEMPERATURE = -1.0  # before softplus: about a third of the log likelihood counts, before training
_OWN_DRIFT = 0.3  # of the natural size: the largest correction of the drift that is no mixture
_OWN_DIFFUSION = 0.5  # log of the largest factor on the diffusion


class ContextSummary(nn.Module):
    """One vector per system and component that says what kind of data this is."""

    def __init__(self, embed: int) -> None:
        super().__init__()
        self.widen = nn.Linear(CONTEXT_FEATURES, 2 * embed)
        self.narrow = nn.Linear(2 * embed, embed)

    def forward(self, banks: Banks) -> Float[Tensor, "batch dim embed"]:
        return self.narrow(F.gelu(self.widen(context_features(banks))))


class CellFeatures(nn.Module):
    """One token per cell and component: a system of dimension d is d rows of tokens."""

    def __init__(self, embed: int) -> None:
        super().__init__()
        self.summary = ContextSummary(embed)
        self.token = nn.Linear(CELL_FEATURES + embed, embed)

    def forward(self, banks: Banks) -> tuple[Float[Tensor, "rows n embed"], Bool[Tensor, "rows n"]]:
        cells = cell_features(banks)
        summary = self.summary(banks)[:, :, None].expand(*cells.shape[:-1], -1)
        tokens = self.token(torch.cat([cells, summary], -1)).flatten(0, 1)
        return tokens, banks.mask.repeat_interleave(banks.dim, 0)


class PrimedQueries(Queries):
    """Queries that carry the candidates at their location, and the way from a stack's numbers to the fields."""

    def __init__(self, max_dim: int, embed: int) -> None:
        super().__init__()
        self.max_dim = max_dim
        self.summary = ContextSummary(embed)
        self.widen = nn.Linear(QUERY_FEATURES + embed, 3 * embed)
        self.narrow = nn.Linear(3 * embed, embed)
        self.norm = nn.LayerNorm(embed)
        self.trust = nn.Linear(embed, 2)  # `likelihood_temperature`: the name is that of tensors in files, and stays

    @property
    def likelihood_temperature(self) -> nn.Linear:
        """The map from a summary to the powers of the likelihoods in the mixtures of drift and diffusion."""
        return self.trust

    def prepare(self, source: Banks) -> "PrimedContext":
        """T log p(data | choice): the log likelihood of every choice, times a learned temperature T of the likelihood.

        Coarse data, which no training has seen, have T = 1. Gains of local corrections are marginal likelihoods and
        have T = 1, too; but those of g take errors under noise for equal everywhere, and keep T there.
        """
        summary = self.summary(source)[:, None]
        learned = (source.reference != COARSE)[:, None, None, None].to(summary)
        temperature = learned * F.softplus(self.likelihood_temperature(summary)) + (1 - learned)
        of_drift, of_diffusion = temperature.split(1, -1)
        local = torch.where((source.reference == 1)[:, None, None, None], of_diffusion, 1.0)
        return PrimedContext(
            source,
            F.linear(summary, self.widen.weight[:, QUERY_FEATURES:], self.widen.bias),
            _of_choices(NUM_DRIFT + 1, of_drift, torch.ones_like(of_drift)) * source.drift_evidence,
            _of_choices(NUM_DIFFUSION + 1, of_diffusion, local) * source.diffusion_evidence,
            learned,
        )

    def limits(self, source: Banks) -> Limits:
        """The box of the data, if the source has one; components that are padded have no limits."""
        if source.box is None:
            return Limits()
        low, high = (source.box[:, k] for k in (0, 1))
        width = (0, self.max_dim - source.dim)
        return Limits(torch.stack([F.pad(low, width, value=-torch.inf), F.pad(high, width, value=torch.inf)], 1))

    def forward(self, prepared: "PrimedContext", x: Float[Tensor, "batch queries max_dim"]) -> "PrimedQueryState":
        known = answers(prepared.banks, x[..., : prepared.banks.dim])
        widened = F.linear(known.features, self.widen.weight[:, :QUERY_FEATURES]) + prepared.summary
        h = self.norm(self.narrow(F.gelu(widened)))
        return PrimedQueryState(h.transpose(1, 2).flatten(0, 1), known, prepared, self.max_dim)


def _of_choices(
    num: int, temperature: Float[Tensor, "batch 1 dim 1"], local: Float[Tensor, "batch 1 dim 1"]
) -> Float[Tensor, "batch 1 dim choices"]:
    """The temperature of every choice: of candidates and of zero, then of local corrections."""
    own = [part.expand(*part.shape[:-1], n) for part, n in ((temperature, num), (local, NUM_LOCAL))]
    return torch.cat(own, -1)


@dataclass(frozen=True)
class PrimedContext:
    """A context as primed queries read it.

    Attributes:
        banks: The candidates.
        summary: What kind of data this is, as the first layer of the queries takes it.
        drift_evidence: How likely each choice is for the drift: its log likelihood, times the temperature.
        diffusion_evidence: The same for g.
        learned: 0 for coarse data, which the prior does not have: likelihoods alone decide.
    """

    banks: Banks
    summary: Float[Tensor, "batch 1 dim hidden"]
    drift_evidence: Float[Tensor, "batch 1 dim choices"]
    diffusion_evidence: Float[Tensor, "batch 1 dim choices2"]
    learned: Float[Tensor, "batch 1 1 1"]


@dataclass(frozen=True)
class PrimedQueryState:
    """Primed queries on their way through the stacks."""

    h: Float[Tensor, "rows queries embed"]
    known: Answers
    prepared: PrimedContext
    max_dim: int

    def drift(self, raw: Float[Tensor, "rows queries outputs"]) -> Float[Tensor, "batch queries max_dim"]:
        """f = sum_c w_c f_c + 0.3 tanh(a) s with w = softmax(r + evidence).

        f_c are the choices at the location, r and a the numbers of the stack, and s is the natural size of the drift.
        """
        raw = self.prepared.learned * self._components(raw)
        weights = (raw[..., :-1] + self.prepared.drift_evidence).softmax(-1)
        mixed = (weights * self.known.drift).sum(-1)
        return self._padded(mixed + _OWN_DRIFT * torch.tanh(raw[..., -1]) * self.known.drift_size)

    def diffusion(self, raw: Float[Tensor, "rows queries outputs"]) -> Float[Tensor, "batch queries max_dim"]:
        """sqrt(g) = exp(tanh(a) / 2) sum_c w_c sqrt(g_c) with w = softmax(r + evidence).

        sqrt(g_c) are the choices at the location, none of them negative; r and a are the numbers of the stack.
        """
        raw = self.prepared.learned * self._components(raw)
        weights = (raw[..., :-1] + self.prepared.diffusion_evidence).softmax(-1)
        mixed = (weights * self.known.diffusion).sum(-1)
        return self._padded(mixed * torch.exp(_OWN_DIFFUSION * torch.tanh(raw[..., -1])))

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
