"""Ecology: how resilient is a grazed pasture?

Run: python examples/ecology.py
"""

# %%
# Vegetation that grows logistically and is grazed with a saturating response (May
# 1977): over a range of grazing pressures it can be lush or barren. Growth varies with
# the weather by a share of what is there. Forty plots are observed monthly for five
# years.

import numpy as np

import fimsde


def growth(v):
    return v * (1 - v / 10) - 1.9 * v**2 / (1 + v**2)


biomass = fimsde.FunctionSDE(dim=1, drift=growth, diffusion=lambda v: 0.3 * v)
starts = np.random.default_rng(0).uniform(0.3, 9, size=(40, 1))
times = np.arange(61) / 12
plots = fimsde.simulate(biomass, starts, times, substeps=20, seed=0).values

# %%
# Biomass is positive and varies by factors, so its logarithm is the better state.
# `LogSDE` is the same equation in that variable (Ito), for the comparison with the
# truth.

obs = fimsde.read(np.log(plots), times=times, names=["ln biomass"], time_unit="year")
truth = fimsde.result(fimsde.LogSDE(biomass), obs)
sde = fimsde.estimate(obs)

# %%
# Two states with a threshold between them. The rate of recovery from a small
# disturbance is minus the eigenvalue: engineering resilience.


def span(point):
    """The interval of 90 %; the truth has none."""
    if point.error is None:
        return ""
    low, high = np.exp(point.error.x.low[0]), np.exp(point.error.x.high[0])
    return f" ({low:.2f} to {high:.2f})"


for name, s in (("estimate", sde), ("truth", truth)):
    print(name)
    for point in s.fixed_points():
        rate = f", recovery {-point.eigenvalues[0].real:.2f} per year"
        where = f"{point.kind} at {np.exp(point.x[0]):.2f}{span(point)} t/ha"
        print("  " + where + (rate if point.is_stable else ""))

# %%
# Ecological resilience: the mean time until chance alone brings a lush plot below 1
# t/ha, with its interval of 90 %. Such times depend exponentially on the fields, so the
# interval is wide.


def collapse(s):
    lush, barren = np.log(7), np.log(1)
    return fimsde.result(s, obs).first_passage(lush, barren).at(lush)[0]


ends = sde.first_passage(np.log(7), np.log(1)).interval(np.log(7))
print(f"estimate {collapse(sde):.0f} years ", end="")
print(f"({ends.low[0]:.0f} to {ends.high[0]:.0f})")
print(f"truth    {collapse(truth):.0f} years")

# %%
# Drift with its band: where the curve crosses zero, and how well the plots determine
# it.

sde.plot(truth=truth, resamples=20).savefig("ecology.png", dpi=160)
