"""A first guess of the correction in closed form: Gauss-Newton steps on what the model's predictions miss.

Only coefficients that the data prove wrong are moved. What the model shrank for want of evidence stays as it was.
"""

from dataclasses import replace
from math import inf, isfinite

import torch
from jaxtyping import Float
from torch import Tensor

from fimsde.model.correction import Correction
from fimsde.model.fim import Context
from fimsde.train.finetune.data import Windows
from fimsde.train.finetune.losses import advance, filtered_nll, predict
from fimsde.train.finetune.parameters import Learner
from fimsde.train.losses import ScoredSteps

_STARTS, _FEW = 4096, 1024  # transitions looked at, the fewer where each is dear; by hand: bounds seconds
_ROUNDS = 4  # through sub-steps the answer to a change of the drift is known roughly only; by hand
_PROVEN = 9.0  # chi-square from which on a coefficient counts: three standard errors, by chance one term in 370
_FACTORS = (-7.0, 7.0)  # log of the factor on the diffusion: a thousand up or down; by hand
_FLOOR = 1e-3  # of the mean variance of a step, added so that no start gets all the weight; by hand
_TINIEST = 1e-30  # variance: a factor on none at all would be infinite; float32 ends at 1e-38
# rounds of Fisher scoring, and the largest change of a log in each: 8 * 0.3 lets it move by a factor of 11; by hand
_SCORINGS, _STEP = 8, 0.3
_SILENT = 0.01  # share of the errors explained by the diffusion, below which it counts as absent; by hand
_SHARES = (0.0, 1e-3, 1e-2, 1e-1, 1.0)  # of the errors that an absent diffusion may explain: none, and every decade
# windows, and observations in each, that choose among them: noise is told by several; by hand, bounds seconds
_FOLLOWED, _AHEAD = 256, 8


@torch.no_grad()
def first_guess(learner: Learner, context: Context, windows: Windows, substeps: int) -> None:
    """Set the drift coefficients and the level of the diffusion from errors of predictions over a gap.

    Where data are exact, the errors give a factor on the diffusion or, if that fits better, a constant to
    add, and how both vary from place to place. Otherwise a diffusion that is all but absent becomes the constant with
    the largest likelihood.

    Args:
        learner: Its correction is changed in place.
        context: What the model has read.
        windows: The data to learn from.
        substeps: Steps per gap, as in `filtered_nll`.
    """
    model, dim = learner.model, windows.steps.dim
    correction = model.correction
    assert correction is not None, "only a model with a correction has one to guess"
    steps = windows.spread(_STARTS).to(correction.low.device)
    for _ in range(_ROUNDS if substeps > 1 else 1):
        _move_drift(learner, context, steps, substeps)
    if learner.noise is None:  # otherwise errors are not due to the diffusion alone
        few = steps if substeps == 1 else windows.spread(_FEW).to(correction.low.device)
        _set_level(correction, *_law_errors(learner, context, few, substeps, dim), few.gaps[0, :, :1].double())
        _shape(learner, context, few, substeps, dim)
        _move_drift(learner, context, steps, substeps)  # with weights that are right now
        _shape(learner, context, few, substeps, dim)
        return
    miss, variance = _errors(learner, context, steps, substeps, dim)
    if (variance.mean(0) < _SILENT * miss.square().mean(0)).all():
        rate = (miss.square() / steps.gaps[0, :, :1]).mean(0)
        _lift(learner, context, replace(windows, look_ahead=_AHEAD), rate, substeps)


def _move_drift(learner: Learner, context: Context, steps: ScoredSteps, substeps: int) -> None:
    """One Gauss-Newton step of the coefficients of the drift."""
    correction, dim = learner.model.correction, int(steps.dims.sum())
    assert correction is not None, "checked by the caller"
    miss, variance = _errors(learner, context, steps, substeps, dim)
    variance = variance + 2 * learner.noise_var(dim).double()
    correction.add_drift(_coefficients(correction, steps, miss, variance))


def _set_level(
    correction: Correction,
    miss: Float[Tensor, "starts dim"],
    variance: Float[Tensor, "starts dim"],
    gap: Float[Tensor, "starts 1"],
) -> None:
    """A factor or a constant for every component, whichever makes the errors more likely."""
    variance = variance.clamp_min(_TINIEST)
    log_factor = 0.5 * torch.log((miss.square() / variance).mean(0)).clamp(*_FACTORS)
    constant = (miss.square() / gap).mean(0).sqrt()
    scaled, raised = variance * torch.exp(2 * log_factor), (variance.sqrt() + constant * gap.sqrt()).square()
    nll = [(miss.square() / var + torch.log(var)).mean(0) for var in (scaled, raised)]
    add = nll[1] < nll[0]
    correction.scale_diffusion(torch.where(add, 0.0, log_factor))
    correction.add_diffusion(torch.where(add, constant, 0.0))


def _shape(learner: Learner, context: Context, steps: ScoredSteps, substeps: int, dim: int) -> None:
    """Fisher scoring of the log of the factor; its information is twice the identity in these coordinates.

    The variance after a gap is taken to grow with the factor at its start.
    """
    correction = learner.model.correction
    assert correction is not None, "checked by the caller"
    features = correction.diffusion_features(steps.start)[0].double()  # (starts, terms)
    miss, variance = _law_errors(learner, context, steps, substeps, dim)
    ratio = miss.square() / variance.clamp_min(_TINIEST)
    found = features.new_zeros(features.shape[1], dim)
    for _ in range(_SCORINGS):
        excess = ratio * torch.exp(-2 * features @ found) - 1
        each = features[:, :, None] * excess[:, None, :]  # (starts, terms, dim)
        score = each.mean(0)
        proven = score.square() * len(each) > _PROVEN * each.square().mean(0)
        found += torch.where(proven, 0.5 * score, 0.0).clamp(-_STEP, _STEP)
    correction.shape_diffusion(found)


def _lift(learner: Learner, context: Context, windows: Windows, rate: Float[Tensor, " dim"], substeps: int) -> None:
    """Add the constant diffusion under which a few windows are most likely; none, if none helps."""
    model, correction, dim = learner.model, learner.model.correction, len(rate)
    assert correction is not None, "checked by the caller"
    steps = windows.spread(_FOLLOWED).to(correction.low.device)
    noise_var = learner.noise_var(dim)
    found = []
    for share in _SHARES:
        correction.add_diffusion((share * rate).sqrt())
        nll = float(filtered_nll(lambda x: model.evaluate(context, x), steps, noise_var, substeps=substeps))
        found.append(nll if isfinite(nll) else inf)
    correction.add_diffusion((_SHARES[found.index(min(found))] * rate).sqrt())


def _errors(
    learner: Learner, context: Context, steps: ScoredSteps, substeps: int, dim: int
) -> tuple[Float[Tensor, "starts dim"], Float[Tensor, "starts dim"]]:
    """What paths without noise miss after one gap, and the variance of one Euler step over it."""
    model, end = learner.model, steps.start
    for _ in range(substeps):
        ahead, _ = advance(lambda x: model.evaluate(context, x), end, steps.gaps[..., :1] / substeps, substeps > 1)
        end = torch.where(steps.dims[:, None], ahead, 0.0)
    _, diffusion = model.evaluate(context, steps.start)
    variance = diffusion.double().square() * steps.gaps[..., :1]
    return (steps.target[:, :, 0] - end).double()[0, :, :dim], variance[0, :, :dim]


def _law_errors(
    learner: Learner, context: Context, steps: ScoredSteps, substeps: int, dim: int
) -> tuple[Float[Tensor, "starts dim"], Float[Tensor, "starts dim"]]:
    """What predictions miss after one gap, and their variance: dearer, and right also where noise is moved along."""
    if substeps == 1:
        return _errors(learner, context, steps, substeps, dim)
    model, mean = learner.model, steps.start[..., :dim]
    end, covariance = predict(
        lambda x: model.evaluate(context, x),
        mean,
        mean.new_zeros(*mean.shape, dim),
        steps.gaps[..., 0],
        steps.start.shape[-1],
        substeps,
    )
    variance = torch.diagonal(covariance, dim1=-2, dim2=-1)
    return (steps.target[..., 0, :dim] - end).double()[0], variance.double()[0]


def _coefficients(
    correction: Correction,
    steps: ScoredSteps,
    miss: Float[Tensor, "starts dim"],
    variance: Float[Tensor, "starts dim"],
) -> Float[Tensor, "terms dim"]:
    """Weighted least squares of the errors on the polynomials, one component after the other, proven terms only."""
    answers = (correction.drift_features(steps.start) * steps.gaps[..., :1]).double()[0]  # (starts, terms)
    found = answers.new_zeros(answers.shape[1], miss.shape[1])
    for d in range(miss.shape[1]):
        weight = 1 / (variance[:, d] + _FLOOR * miss[:, d].square().mean())
        design = answers * correction.size[d].double()
        # errors beyond the stated variance make all coefficients less certain
        excess = (weight * miss[:, d].square()).mean().clamp_min(1.0)
        precision = (design.mT * weight) @ design / excess
        right = design.mT @ (weight * miss[:, d]) / excess
        found[:, d] = _proven(precision, right)
    return found


def _proven(precision: Float[Tensor, "terms terms"], right: Float[Tensor, " terms"]) -> Float[Tensor, " terms"]:
    """Backward elimination: the least certain term goes until all that are left are proven."""
    kept = torch.diagonal(precision) > 1e-9 * torch.diagonal(precision).max().clamp_min(1e-300)
    out = torch.zeros_like(right)
    while kept.any():
        rows = torch.nonzero(kept)[:, 0]
        covariance = torch.linalg.inv(precision[rows][:, rows] + torch.eye(len(rows), dtype=precision.dtype))
        value = covariance @ right[rows]
        score = value.square() / torch.diagonal(covariance)
        if score.min() > _PROVEN:
            out[rows] = value
            break
        kept[rows[score.argmin()]] = False
    return out
