"""How many steps a gap between observations takes: as few as data cannot tell from twice as many.

An equation that is learnt through steps that are too long is that of the steps, not of the process.
"""

from dataclasses import dataclass
from math import inf, isfinite, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from fimsde.train.finetune.data import Windows
from fimsde.train.finetune.losses import FieldFunction, predict, window_nll

_MOST = 8  # steps per gap; by hand: each asks the model three times, see `predict`
_TELLS = 0.5  # nats over all data, up to which numbers of steps count as alike: d standard errors cost d**2 / 2, so one
# standard deviations by which one Euler step must predict better for the equation to be that of its chain; by chance in
# 0.13 % of data. Three standard errors that ignore the law of the ratio missed oil: docs/finetuning.md, "Measured".
_PROVEN = 3.0
_STARTS, _JUDGED = 256, 1024  # at which laws are compared, and predictions; by hand: bounds seconds


@dataclass(frozen=True)
class Steps:
    """Steps per gap, and why so many."""

    number: int
    reason: str


@torch.no_grad()
def steps_per_gap(fields: FieldFunction, windows: Windows, noise_var: Float[Tensor, " dim"]) -> Steps:
    """The smallest power of two such that twice as many steps predict the same, as far as so many data can tell.

    Two laws of the next observation are compared by what it costs to take one for the other, under the equation that
    the model reads from the data. One Euler step is kept if the data are more likely under it than chance allows where
    finer steps are right: then the equation is that of a chain whose state is forgotten within a gap.

    Args:
        fields: Of the model before finetuning.
        windows: All data, one observation ahead.
        noise_var: Variance of the measurement noise.
    """
    number, in_all = 1, []
    while number < _MOST:
        in_all.append(len(windows.steps) * _divergence(fields, windows, noise_var, number))
        if in_all[-1] <= _TELLS:
            break
        number *= 2
    if number == 1:
        return Steps(1, "one Euler step per gap predicts the same as finer ones")
    scored = windows.spread(_JUDGED).to(noise_var.device)
    one, many = (window_nll(fields, scored, noise_var, substeps=n)[0].double() for n in (1, number))
    share = len(windows.steps) / len(one)
    gained = share * float((one - many).sum())
    # whichever law is right, the ratio of likelihoods has a variance of twice its mean, for laws that are close
    if not isfinite(gained) or gained < -_PROVEN * sqrt(2 * share * in_all[0]):
        return Steps(1, "one Euler step per gap predicts better than finer ones")
    return Steps(number, f"gaps are long: the data tell one Euler step from finer ones, by {in_all[0]:.2g} nats in all")


def _divergence(fields: FieldFunction, windows: Windows, noise_var: Float[Tensor, " dim"], number: int) -> float:
    """Kullback-Leibler divergence of a gap in so many steps from one in twice as many, in nats per transition."""
    starts = windows.spread(_STARTS).to(noise_var.device)
    noise = torch.diag(noise_var)
    mean = starts.start[..., : len(noise_var)]
    covariance = noise.expand(*mean.shape, len(noise_var))
    found = []
    for n in (2 * number, number):
        end, spread = predict(fields, mean, covariance, starts.gaps[..., 0], starts.start.shape[-1], n)
        found.append((end.double(), (spread + noise).double()))
    (right, right_cov), (taken, taken_cov) = found
    away = (taken - right)[..., None]
    root, failed = torch.linalg.cholesky_ex(taken_cov)
    ratio = torch.cholesky_solve(torch.cat([right_cov, away], dim=-1), root)  # (batch, starts, dim, dim + 1)
    trace = torch.diagonal(ratio[..., :-1], dim1=-2, dim2=-1).sum(-1)
    square = (away[..., 0] * ratio[..., -1]).sum(-1)
    nats = 0.5 * (trace - len(noise_var) + square + torch.logdet(taken_cov) - torch.logdet(right_cov))
    mean_nats = float(torch.where(failed > 0, torch.nan, nats).mean())
    return mean_nats if isfinite(mean_nats) else inf
