"""First steps: reading, asking, doubting, saving.

Run: python examples/zero_shot.py
"""

# %%
# **Reading.** A table with one row per observation: a column of times, the components
# of the state, and a column that tells paths apart. Three paths of a damped oscillator
# here, with 5 % of the rows missing. Nothing is filled in: a missing row is one longer
# step.

import numpy as np
import pandas as pd

import fimsde
from fimsde.systems.canonical import DAMPED_LINEAR as truth

times = np.arange(1000) * 0.02
starts = np.array([[2.5, 0.0], [0.0, 2.0], [-1.0, -2.0]])
paths = fimsde.simulate(truth, starts, times, substeps=10, seed=0)
table = pd.DataFrame(paths.values.reshape(-1, 2), columns=["u", "v"])
table["track"], table["t"] = np.repeat([0, 1, 2], 1000), np.tile(times, 3)
table = table.sample(frac=0.95, random_state=0).sort_values(["track", "t"])

obs = fimsde.read(table, time="t", values=["u", "v"], path="track")
print(f"{obs.num_points} observations in {obs.num_paths} paths")
gaps = np.diff(obs.path(0)[0])
print(f"gaps of the first path from {gaps.min():.2f} to {gaps.max():.2f}")

# %%
# **Estimating.** One call. The estimate holds the data it was made from.

sde = fimsde.estimate(obs)
print(sde)

# %%
# **Asking.** Locations are rows (queries, dim), in the units of the data. `inside`
# says where data support an answer; outside, `drift` and `diffusion` answer with a
# warning.

x = np.array([[1.0, 0.0], [0.0, 1.0], [0.3, -0.3], [9.0, 9.0]])
print("inside       ", sde.inside(x))
x = x[sde.inside(x)]
print("drift        ", sde.drift(x).round(2).tolist())
print("  of the truth", truth.drift(x).round(2).tolist())
print("diffusion    ", sde.diffusion(x).round(2).tolist())
print("  of the truth", truth.diffusion(x).round(2).tolist())

# %%
# **How sure?** `band` is where 90 % of the draws of the posterior are.

band = sde.band(x)
for place, low, high in zip(x, band.drift_low, band.drift_high, strict=True):
    print(f"drift of u at {place}: {low[0]:.2f} to {high[0]:.2f} at {band.level:.0%}")

# %%
# **A formula.** Sparse polynomials read off the fields, for a paper or a program:
# `.latex()`, `.sympy()`, `.code()`.

equation = sde.equation()
print(equation)
print(equation.latex())

# %%
# **What a formula leaves out.** The true drift of u is -0.1 u + 2 v: the oscillator is
# damped. Terms that the data cannot tell from zero are left out of the formula, which
# does not make them zero. Where v is 0, nothing but the damping moves u, so ask there.
# A band that holds 0 says: these data are too few to know. Nine bands of ten hold the
# truth; this one ends a little above it.

alone = np.array([[2.5, 0.0]])
band = sde.band(alone)
low, high = band.drift_low[0, 0], band.drift_high[0, 0]
print(f"drift of u at {alone[0]}: {low:.2f} to {high:.2f} at {band.level:.0%}")
print(f"  of the truth {truth.drift(alone)[0, 0]:.2f}; without damping 0")

# %%
# A rate of damping is known to about σ / √(T ⟨u²⟩), where T is the time observed,
# however finely: more observations in the same time do not help, a longer time does.


def known_to(data):
    duration = sum(np.ptp(data.path(k)[0]) for k in range(data.num_paths))
    return 1 / np.sqrt(duration * np.mean(data.values[:, 0] ** 2))  # σ is about 1


print(f"a rate of 0.1, known to ±{known_to(obs):.3f}")
longer = fimsde.simulate(truth, starts, np.arange(4000) * 0.1, substeps=20, seed=0)
longer = fimsde.read(list(longer.values), dt=0.1, names=["u", "v"])
print(f"twenty times as long, to ±{known_to(longer):.3f}:")
print(fimsde.estimate(longer).equation())

# %%
# **Doubting.** Verdicts, each with a number and a next step. Read them before the
# numbers above.

print(sde.check())

# %%
# **Saving.** A folder with data, weights and settings, without pickle. Loading gives
# the same answers.

sde.save("oscillator")
same = fimsde.load("oscillator")
print("the same drift:", np.allclose(same.drift(x), sde.drift(x)))

# %%
# **The picture.** Drift as streamlines, how certain it is, and both components of
# drift and diffusion; grey is where no data are.

sde.plot(resamples=10).savefig("zero-shot.png", dpi=160)
