"""Cells: preferred speed and persistence of migrating cells.

Run: python examples/cells.py
"""

# %%
# Velocities of crawling cells: each cell speeds up when slow and slows down when fast,
# and its direction diffuses (Schienbein and Gruler 1993). Thirty tracks of unequal
# length, one velocity every six minutes, in a table with a column that tells tracks
# apart.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import fimsde

SPEED = 25.0  # µm/h


def drift(v):
    return 2 * v * (1 - (v**2).sum(axis=1, keepdims=True) / SPEED**2)


truth = fimsde.FunctionSDE(2, drift, diffusion=lambda v: np.full_like(v, 25.0))
rng = np.random.default_rng(0)
starts = rng.normal(0, 20, size=(30, 2))
grids = [np.arange(n) * 0.1 for n in rng.integers(50, 150, size=30)]
tracks = fimsde.simulate(truth, starts, grids, substeps=10, seed=0)
rows = []
for k, seen in enumerate(tracks.mask):
    vx, vy = tracks.values[k, seen].T
    hours = tracks.times[k, seen]
    rows.append(pd.DataFrame({"cell": k, "hours": hours, "vx": vx, "vy": vy}))
table = pd.concat(rows, ignore_index=True)
print(table.head(3).round(2).to_string())

# %%
# No step joins two tracks.

obs = fimsde.read(table, time="hours", values=["vx", "vy"], path="cell", time_unit="h")
sde = fimsde.estimate(obs)
print(f"{obs.num_paths} tracks, {obs.num_transitions} steps")

# %%
# The acceleration along the direction of motion, averaged over directions, changes
# sign at the preferred speed.

angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
directions = np.column_stack([np.cos(angles), np.sin(angles)])
speeds = np.linspace(2, 45, 44)


def acceleration(s):
    where = speeds[:, None, None] * directions  # (speeds, directions, 2)
    drift = fimsde.result(s).fields(where.reshape(-1, 2))[0]
    return (drift.reshape(where.shape) * directions).sum(axis=2).mean(axis=1)


def preferred(s):
    return speeds[np.argmax(acceleration(s) < 0)]


ends = sde.posterior(50).interval(preferred)
print(f"preferred speed {preferred(sde):.0f} µm/h ", end="")
print(f"({ends.low:.0f} to {ends.high:.0f}), truth {SPEED:.0f} µm/h")

# %%
# Persistence: the time after which the velocity has forgotten its direction, in
# simulated paths of the estimate and of the truth.


def persistence(s):
    """Time at which the autocorrelation of the velocity has fallen to 1/e."""
    grid = np.arange(0, 5, 0.1)
    starts = obs.values[:: len(obs.values) // 100]
    v = fimsde.simulate(s, starts, grid, seed=1).values
    correlation = (v * v[:, :1]).sum(axis=2).mean(axis=0)
    return grid[np.argmax(correlation < correlation[0] / np.e)]


ends = sde.posterior(30).interval(persistence)
print(
    f"persistence {persistence(sde):.1f} h ({ends.low:.1f} to {ends.high:.1f}), ",
    end="",
)
print(f"truth {persistence(truth):.1f} h")

# %%
# Acceleration against speed, with its interval of 90 % at each of them.

ends = sde.posterior(50).interval(acceleration)
fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.8), layout="constrained")
left.plot(*obs.values.T, ".", ms=1, color="#555555")
left.set(xlabel="vx (µm/h)", ylabel="vy (µm/h)", aspect="equal")
right.fill_between(speeds, ends.low, ends.high, alpha=0.2, label="90 %")
right.plot(speeds, acceleration(sde), label="estimate")
right.plot(speeds, acceleration(truth), "k--", label="truth")
right.axhline(0, lw=0.7, color="#999999")
right.set(xlabel="speed (µm/h)", ylabel="acceleration along\nthe motion (µm/h²)")
right.legend(frameon=False, fontsize="small")
fig.savefig("cells.png", dpi=160)
