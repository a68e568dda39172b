"""Finance: how long does a volatility shock last?

Run: python examples/finance.py
"""

# %%
# The variance of returns in Heston's model: it returns to a long-run mean, and it
# fluctuates more when it is high. Ten years of daily values, in (10 %)² per year: 4 is
# a volatility of 20 %.

import numpy as np

import fimsde

KAPPA, MEAN, XI = 6.0, 4.0, 4.0
truth = fimsde.FunctionSDE(
    dim=1,
    drift=lambda v: KAPPA * (MEAN - v),
    diffusion=lambda v: XI * np.sqrt(np.maximum(v, 0)),
)
times = np.arange(2520) / 252
variance = fimsde.simulate(truth, np.array([[4.0]]), times, substeps=10, seed=1)
names = ["variance"]
obs = fimsde.read(variance.values[0], times=times, names=names, time_unit="year")
sde = fimsde.estimate(obs)
print(sde.equation())

# %%
# Long-run mean and half-life of a shock, from the best line through the drift where
# most data are, with intervals of 90 % over 200 equations that the data leave possible.
# The drift is the hard part of every financial series: the length of the record in
# years determines it, not the number of observations.

level = np.quantile(obs.values, np.linspace(0.05, 0.95, 50))


def reversion(s):
    slope, intercept = np.polyfit(level, s.fields(level[:, None])[0][:, 0], 1)
    return -intercept / slope, 12 * np.log(2) / -slope


possible = sde.posterior().interval(lambda s: np.array(reversion(s)))
lows, highs = possible.low, possible.high
exact = (MEAN, 12 * np.log(2) / KAPPA)
for k, name in enumerate(("long-run mean", "half-life in months")):
    print(
        f"{name}: {reversion(sde)[k]:.2f} ({lows[k]:.2f} to {highs[k]:.2f}), ", end=""
    )
    print(f"truth {exact[k]:.2f}")

# %%
# How the noise depends on the level: the exponent of diffusion ~ v^gamma, one half in
# this model. Squares of increments determine it well.


def exponent(s):
    return np.polyfit(np.log(level), np.log(s.fields(level[:, None])[1][:, 0]), 1)[0]


possible = sde.posterior().interval(exponent)
print(
    f"gamma {exponent(sde):.2f} ({possible.low:.2f} to {possible.high:.2f}), ", end=""
)
print("truth 0.50")

# %%
sde.plot(truth=truth).savefig("finance.png", dpi=160)
