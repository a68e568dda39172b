"""From a CSV file to an equation, a picture and a report.

Run: python examples/quickstart.py
"""

# %%
# A table with a column of times and one of values. Here it is simulated, so that the
# truth is known; in your case it is on your disk.

import numpy as np
import pandas as pd

import fimsde

truth = fimsde.FunctionSDE(
    dim=1, drift=lambda x: 4 * x - 4 * x**3, diffusion=lambda x: np.full_like(x, 1.2)
)
times = np.arange(2500) * 0.02
paths = fimsde.simulate(truth, x0=np.array([[1.0]]), times=times, substeps=10, seed=2)
table = pd.DataFrame({"t": times, "x": paths.values[0, :, 0]})
table.to_csv("tracks.csv", index=False)

# %%
# Reading and estimating: no download, no training, nothing to choose.

obs = fimsde.read("tracks.csv", time="t", values=["x"])
sde = fimsde.estimate(obs)
print(sde)

# %%
# Drift and diffusion anywhere, in the units of the data; `diffusion` is the square
# root of the variance rate.

x = np.linspace(-1.2, 1.2, 5)
print("x               ", x)
print("drift           ", sde.drift(x).round(2))
print("  of the truth  ", truth.drift(x).round(2))
print("diffusion       ", sde.diffusion(x).round(2))
print("  of the truth  ", truth.diffusion(x).round(2))

# %%
# The same as a formula.

print(sde.equation())

# %%
# With bands at 90 % and the truth beside it. Ticks at the lower edge are observations;
# grey is where there are none.

sde.plot(truth=truth).savefig("quickstart.png", dpi=160)

# %%
# What follows from it: fixed points, and the mean time from one well to the other, all
# with intervals of 90 %.

for point in sde.fixed_points():
    low, high = point.error.x.low[0], point.error.x.high[0]
    print(f"{point.kind} at {point.x[0]:.2f} ({low:.2f} to {high:.2f})")
passage = sde.first_passage(-1.0, 1.0)
exact = fimsde.result(truth, obs).first_passage(-1.0, 1.0).at(-1.0)[0]
ends = passage.interval(-1.0)
print(f"from -1 to 1: {passage.at(-1.0)[0]:.1f} ", end="")
print(f"({ends.low[0]:.1f} to {ends.high[0]:.1f}), truth {exact:.1f}")

# %%
# New paths of the estimated equation.

new = sde.simulate(x0=np.array([1.0]), times=times[:250], num_paths=20, seed=0)
print(new.values.shape, "states,", new.num_diverged, "paths diverged")

# %%
# Everything above on one page, with verdicts on data and estimate: `sde.check()` alone
# prints them.

sde.report("report.html")
