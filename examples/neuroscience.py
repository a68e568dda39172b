"""Neuroscience: nullclines and firing of a neuron.

Run: python examples/neuroscience.py
"""

# %%
# The FitzHugh-Nagumo model of a spiking neuron: a fast voltage v and a slow recovery
# w, with noise in both. The package has it among its systems; `context` observes it.

import matplotlib.pyplot as plt
import numpy as np

import fimsde
from fimsde.systems.canonical import context
from fimsde.systems.out_of_class import FITZHUGH_NAGUMO as truth

observed = context(truth, length=4000)
obs = fimsde.read(observed.values, times=observed.times, names=["v", "w"])
sde = fimsde.estimate(obs)
print(sde.equation())

# %%
# The resting point: an unstable one means that the neuron fires by itself.

for point in sde.fixed_points():
    low, high = point.error.x.low, point.error.x.high
    print(
        f"{point.kind} at v = {point.x[0]:.2f} ({low[0]:.2f} to {high[0]:.2f}), ",
        end="",
    )
    print(f"w = {point.x[1]:.2f} ({low[1]:.2f} to {high[1]:.2f})")
    print(f"  unstable with probability {1 - point.error.stable:.2f}")

# %%
# Firing: crossings of v = 1 that follow a visit below v = -1. Rate and regularity
# (coefficient of variation of the intervals) of the record, of paths of the estimated
# formula, and of paths of the truth.


def spikes(times, v):
    fired, armed = [], False
    for t, value in zip(times, v, strict=True):
        armed = armed or value < -1
        if armed and value > 1:
            fired.append(t)
            armed = False
    return fired


def firing(trains):
    intervals = np.concatenate([np.diff(train) for train in trains])
    if not len(intervals):
        return "no spikes"
    rate, cv = 1 / intervals.mean(), intervals.std() / intervals.mean()
    return f"{rate:.2f} spikes per unit of time, CV {cv:.2f}"


def simulated(s):
    grid = np.arange(1500) * 0.02
    paths = fimsde.simulate(s, obs.values[::400], grid, substeps=4, seed=0)
    return [spikes(grid, path[:, 0]) for path in paths.values]


print("record  ", firing([spikes(obs.times, obs.values[:, 0])]))
print("estimate", firing(simulated(sde.equation())))
print("truth   ", firing(simulated(truth)))

# %%
# The voltage, and the phase plane with its nullclines: the lines on which v (blue) or
# w (orange) does not change. Dashed: the truth. Away from the cycle there are no data,
# and the lines of the estimate are extrapolated.

v, w = np.meshgrid(np.linspace(-2.4, 2.4, 61), np.linspace(-0.8, 1.8, 61))
nodes = np.column_stack([v.ravel(), w.ravel()])
fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.8), layout="constrained")
left.plot(obs.times[:1500], obs.values[:1500, 0], lw=0.7, color="#555555")
left.set(xlabel="time", ylabel="v")
right.plot(*obs.values.T, ".", ms=1, color="#bbbbbb")
for drift, style in ((sde.fields(nodes)[0], "solid"), (truth.drift(nodes), "dashed")):
    for k, colour in enumerate(("#0072B2", "#D55E00")):
        field = drift[:, k].reshape(v.shape)
        right.contour(v, w, field, levels=[0], colors=colour, linestyles=style)
right.set(xlabel="v", ylabel="w")
fig.savefig("neuroscience.png", dpi=160)
