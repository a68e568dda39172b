"""The authors' pre-processing, restated for the parity tests; nothing of it is part of the package.

Masked observations are back-filled with the next observed point, after the last observed one with that one. So a path
that ends in masked points has one spurious step of length zero, which is attended to. Statistics run over observed
points with a floor of 1e-6 on the standard deviation.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fimsde.model.paper import Tokens


@dataclass(frozen=True)
class Prepared:
    """Padded, back-filled observations, values (batch, paths, times, 3) and times (batch, paths, times); scales."""

    times: Tensor
    values: Tensor
    mask: Tensor
    mean: Tensor
    std: Tensor
    time_scale: Tensor

    def states(self, x):
        x = torch.nn.functional.pad(x, (0, 3 - x.shape[-1]))
        lead = (len(x),) + (1,) * (x.ndim - 2) + (3,)
        return (x - self.mean.view(lead)) / self.std.view(lead)

    def tokens(self):
        z, s = self.states(self.values), self.times * self.time_scale[:, None, None]
        dz, ds = z.diff(dim=2), s.diff(dim=2)
        return Tokens(
            z[:, :, :-1].flatten(1, 2), dz.flatten(1, 2), ds.flatten(1, 2), self.mask[:, :, :-1].flatten(1, 2)
        )


def prepare(case, dtype):
    """From the inputs of a fixture case."""
    times, values = case["obs_times"][..., 0].to(dtype), case["obs_values"].to(dtype)
    mask = case["obs_mask"][..., 0].bool() if "obs_mask" in case else torch.ones_like(times, dtype=torch.bool)
    times, values = _back_fill(times[..., None], mask)[..., 0], _back_fill(values, mask)
    values = torch.nn.functional.pad(values, (0, 3 - values.shape[-1]))
    weight = mask[..., None].to(dtype)
    count = weight.sum(dim=(1, 2))
    mean = (values * weight).sum(dim=(1, 2)) / count
    variance = ((values - mean[:, None, None]) ** 2 * weight).sum(dim=(1, 2)) / count
    gaps = times.diff(dim=2)
    used = mask[:, :, :-1] & (gaps > 0)
    mean_log = torch.where(used, gaps.clamp(min=1e-30).log(), 0).sum(dim=(1, 2)) / used.sum(dim=(1, 2))
    return Prepared(times, values, mask, mean, variance.sqrt().clamp(min=1e-6), 0.01 * torch.exp(-mean_log))


def _back_fill(x, mask):
    """The next observed row of each path; behind the last observed row, that one."""
    filled = x.clone()
    for b in range(len(x)):
        for p in range(x.shape[1]):
            seen = mask[b, p].nonzero()[:, 0]
            for t in range(x.shape[2]):
                later = seen[seen >= t]
                filled[b, p, t] = x[b, p, later[0] if len(later) else seen[-1]]
    return filled
