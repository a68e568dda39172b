"""Second order: only the position is in the table, and the check says so.

Run: python examples/second_order.py
"""

# %%
# A damped oscillator kicked by noise, dx = v dt, dv = (-4 x - 0.5 v) dt + dW, of which
# only the position x was recorded.

import numpy as np

import fimsde


def drift(s):
    x, v = s[:, 0], s[:, 1]
    return np.stack([v, -4 * x - 0.5 * v], axis=1)


truth = fimsde.FunctionSDE(2, drift, lambda s: np.array([0.0, 1.0]) + 0 * s)
times = np.arange(4000) * 0.02
states = fimsde.simulate(
    truth, np.array([[0.5, 0.0]]), times, substeps=10, seed=1
).values[0]
position = fimsde.read(states[:, :1], times=times, names=["x"], time_unit="s")
sde = fimsde.estimate(position)
print(sde)

# %%
# An equation of first order for x alone cannot know in which direction x is moving.
# `check` lists the verdicts, causes first.

print(sde.check())

# %%
# The way out is a state that has the velocity. If it was measured, read it too; if not,
# differences of neighbouring positions stand in for it (clean data, short gaps). They
# average the velocity over a gap, which costs a third of its noise: g of v comes out as
# two thirds of the truth, a factor that is known, and terms of the damping may trade
# places.

velocity = np.diff(states[:, 0]) / np.diff(times)
both = fimsde.read(
    np.stack([states[:-1, 0], velocity], axis=1),
    times=times[:-1],
    names=["x", "v"],
    time_unit="s",
)
second = fimsde.estimate(both)
print(second.equation())

# %%
# Simulated paths of both, beside the data: the first jitters, the second swings.

sde.plot("paths").savefig("first_order.png", dpi=160)
second.plot("paths").savefig("second_order.png", dpi=160)
