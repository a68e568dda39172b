"""Climate: how long do cold and warm phases last?

Run: python examples/climate.py
"""

# %%
# A proxy of temperature with two states, as in Greenland ice cores: a double well,
# slightly tilted, with noise that pushes it across now and then. One value every 20
# years.

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

import fimsde


def drift(y):
    u = (y + 41) / 2  # from the middle, in half distances of the wells
    return 8 * (u - u**3 + 0.05)


truth = fimsde.FunctionSDE(1, drift, lambda y: np.full_like(y, 2.6))
times = np.arange(4000) * 0.02
record = fimsde.simulate(truth, np.array([[-43.0]]), times, substeps=10, seed=4)
names = ["δ18O (permil)"]
obs = fimsde.read(record.values[0], times=times, names=names, time_unit="kyr")

# %%
# Fixed points of the drift: the cold state, the warm state and the threshold between
# them.

sde = fimsde.estimate(obs)
for point in sde.fixed_points():
    low, high = point.error.x.low[0], point.error.x.high[0]
    print(f"{point.kind} at {point.x[0]:.1f} permil ({low:.1f} to {high:.1f})")

# %%
# What the record is asked for: how long does a phase last, from the arrival at one
# level to the arrival at the other? The phases in the record say so directly, if there
# are enough of them; the estimate uses every step. Its interval of 90 % is that of 200
# equations that the data leave possible. Durations depend exponentially on the
# landscape, so it is wide.

COLD, WARM = -43.0, -39.0


def mean_duration(s, start, end):
    return fimsde.result(s, obs).first_passage(start, end).at(start)[0]


def seen(values, is_warm):
    """Durations of the cold or of the warm phases in the record."""
    arrivals = [(i, v > WARM) for i, v in enumerate(values) if v < COLD or v > WARM]
    changes = arrivals[:1] + [b for a, b in pairwise(arrivals) if a[1] != b[1]]
    return [0.02 * (b[0] - a[0]) for a, b in pairwise(changes) if a[1] == is_warm]


for name, is_warm, ends in (
    ("cold", False, (COLD, WARM)),
    ("warm", True, (WARM, COLD)),
):
    possible = sde.first_passage(*ends).interval(ends[0])
    low, high = possible.low[0], possible.high[0]
    phases = seen(obs.values[:, 0], is_warm)
    print(f"{name} phases, mean duration in kyr")
    print(f"  estimate {mean_duration(sde, *ends):.1f} ({low:.1f} to {high:.1f})")
    print(f"  truth    {mean_duration(truth, *ends):.1f}")
    print(f"  record   {np.mean(phases):.1f}, mean of {len(phases)}")

# %%
# The record, and the landscape behind these numbers: minus the logarithm of the
# stationary density.

box = (-44.0, -38.0)


def landscape(s):
    return fimsde.result(s, obs).potential(box)


y = landscape(sde).x
possible = sde.potential(box).interval()[1]
fig, (left, right) = plt.subplots(
    1, 2, figsize=(7.2, 2.6), width_ratios=(2, 1), layout="constrained", sharey=True
)
left.plot(obs.times, obs.values[:, 0], lw=0.4, color="#555555")
left.set(xlabel="time (kyr)", ylabel="δ18O (permil)")
right.fill_betweenx(y, possible.low, possible.high, alpha=0.2, label="90 %")
right.plot(landscape(sde).effective_potential, y, label="estimate")
right.plot(landscape(truth).effective_potential, y, "k--", label="truth")
right.set(xlabel="effective potential (no unit)", xlim=(-0.2, 5))
right.legend(frameon=False, fontsize="small")
fig.savefig("climate.png", dpi=160)
