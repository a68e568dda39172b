"""Hypotheses: what each candidate of the bank assumes of a field, its name and its builder together.

`DRIFT` and `DIFFUSION` are all there are; the place of a hypothesis in its list is the index of its candidate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np

from fimsde.bank import monomials
from fimsde.bank.origin import SpikeSlabPrior, sparse_averages
from fimsde.bank.posterior import Posterior, conditioned, shrunk
from fimsde.shapes import Array, Float64

Fit = Literal["step", "block"]  # which of the two fits of `fimsde.bank.fit` a candidate starts from


@dataclass(frozen=True)
class FieldPosteriors:
    """What candidates of one field are made of.

    Attributes:
        step, block: Posteriors of the polynomial's coefficients from both fits.
        degree: Of the polynomial.
        width: Natural size of a coefficient, per component.
        origin: A place known to be special; None: unknown.
    """

    step: Posterior
    block: Posterior
    degree: int
    width: Float64[Array, " dim"]
    origin: Float64[Array, " dim"] | None


Priors = Sequence[SpikeSlabPrior]
Builder = Callable[[Posterior, FieldPosteriors, Priors], Float64[Array, "candidates dim terms"]]


@dataclass(frozen=True)
class Form:
    """A way to make candidates of a posterior.

    Attributes:
        name: Short and unique.
        build: Makes one candidate, or one for each prior.
        around_origin: Whether candidates are sparse around the origin of the equation, known or not.
        version: Changes whenever the same settings give other candidates.
    """

    name: str
    build: Builder
    around_origin: bool = False
    version: int = 1


@dataclass(frozen=True)
class Hypothesis:
    """What one candidate assumes of a field: which fit holds, the form of the field, and for sparse forms a prior."""

    fit: Fit
    form: Form
    prior: SpikeSlabPrior | None = None

    @property
    def name(self) -> str:
        """Unique among the hypotheses of a field."""
        return " ".join(str(part) for part in (self.fit, self.form.name, self.prior) if part is not None)


def _full(post: Posterior, field: FieldPosteriors, priors: Priors) -> Float64[Array, "1 dim terms"]:
    """m: all terms as they were fitted."""
    return post.mean[None]


def _ridge(post: Posterior, field: FieldPosteriors, priors: Priors) -> Float64[Array, "1 dim terms"]:
    """(P + I / width²)⁻¹ P m: all terms, none of them large without reason."""
    return shrunk(post, field.width).mean[None]


def _linear(post: Posterior, field: FieldPosteriors, priors: Priors) -> Float64[Array, "1 dim terms"]:
    """E[b | no term above degree 1], after the ridge."""
    degrees = monomials.exponents(len(post.mean), field.degree).sum(axis=1)
    return conditioned(shrunk(post, field.width), degrees <= 1)[None]


def _constant(post: Posterior, field: FieldPosteriors, priors: Priors) -> Float64[Array, "1 dim terms"]:
    """E[b | no term but the constant]."""
    degrees = monomials.exponents(len(post.mean), field.degree).sum(axis=1)
    return conditioned(post, degrees == 0)[None]


def _around_mean(post: Posterior, field: FieldPosteriors, priors: Priors) -> Float64[Array, "priors dim terms"]:
    """Averages over models that are sparse around the mean of the data."""
    return sparse_averages(post, field.degree, priors, field.width, np.zeros(len(post.mean)))


def _around_origin(parity: int | None) -> Builder:
    """Averages over models that are sparse around an origin, with terms of even (0), odd (1) or any degree (None)."""

    def build(post: Posterior, field: FieldPosteriors, priors: Priors) -> Float64[Array, "priors dim terms"]:
        return sparse_averages(post, field.degree, priors, field.width, field.origin, parity=parity)

    return build


FULL, RIDGE = Form("full", _full), Form("ridge", _ridge)
LINEAR, CONSTANT = Form("linear", _linear), Form("constant", _constant)
MEAN = Form("mean", _around_mean)
ORIGIN = Form("origin", _around_origin(None), around_origin=True)
ODD = Form("odd", _around_origin(1), around_origin=True)  # drifts that change their sign under a reflection
EVEN = Form("even", _around_origin(0), around_origin=True)  # diffusions that a reflection leaves alone
_SIZES = (1.0, 3.0, 9.0)  # docs/training-log.md, "Sizes of the equation"

STEP_FULL, BLOCK_FULL = Hypothesis("step", FULL), Hypothesis("block", FULL)
WIDE_ORIGIN = Hypothesis("block", ORIGIN, SpikeSlabPrior(0.3, _SIZES))  # the drift that others are compared with

# Probabilities of terms: docs/training-log.md, "All models instead of a few" (0.3 of any terms and 0.4 of odd ones were
# best alone on development seeds); the smaller ones are for equations of fewer terms, and learning chooses.
DRIFT: tuple[Hypothesis, ...] = (
    STEP_FULL,
    Hypothesis("step", RIDGE),
    Hypothesis("step", MEAN, SpikeSlabPrior(0.3)),
    Hypothesis("step", MEAN, SpikeSlabPrior(0.1)),
    BLOCK_FULL,
    Hypothesis("block", RIDGE),
    Hypothesis("block", LINEAR),
    Hypothesis("block", MEAN, SpikeSlabPrior(0.3)),
    Hypothesis("block", MEAN, SpikeSlabPrior(0.1)),
    Hypothesis("block", ORIGIN, SpikeSlabPrior(0.3)),
    WIDE_ORIGIN,
    Hypothesis("block", ORIGIN, SpikeSlabPrior(0.1, _SIZES)),
    Hypothesis("block", ODD, SpikeSlabPrior(0.4)),
    Hypothesis("block", ODD, SpikeSlabPrior(0.15)),
)
DIFFUSION: tuple[Hypothesis, ...] = (
    STEP_FULL,
    Hypothesis("step", CONSTANT),
    Hypothesis("step", ORIGIN, SpikeSlabPrior(0.05)),
    BLOCK_FULL,
    Hypothesis("block", CONSTANT),
    Hypothesis("block", ORIGIN, SpikeSlabPrior(0.3)),
    Hypothesis("block", ORIGIN, SpikeSlabPrior(0.05)),
    Hypothesis("block", EVEN, SpikeSlabPrior(0.1)),
)
NUM_DRIFT, NUM_DIFFUSION = len(DRIFT), len(DIFFUSION)


def candidates(hypotheses: Sequence[Hypothesis], field: FieldPosteriors) -> Float64[Array, "candidates dim terms"]:
    """The coefficients under every hypothesis, in their order.

    Neighbours with the same fit and form are built together: their averages share one search for the origin.
    """
    parts = []
    for (fit, form), group in groupby(hypotheses, key=lambda h: (h.fit, h.form)):
        post = field.step if fit == "step" else field.block
        parts.append(form.build(post, field, [h.prior for h in group if h.prior is not None]))
    return np.concatenate(parts)
