"""Real series: what the literature says, and what is found here.

Run: python examples/real_series.py
"""

# %%
# Three of these are part of the package; the others come with statsmodels (the extra
# `datasets`) and PyDaddy, and are read from where these are installed.

import matplotlib.pyplot as plt

import fimsde

for name, about in fimsde.datasets.names().items():
    print(f"{name:14} {about}")

# %%
# **VIX.** The volatility index returns to a mean, its noise grows with its level, and
# its volatility has a volatility. The first two are in the equation; the third is the
# verdict, because no equation for the VIX alone can have it.

print(fimsde.estimate(fimsde.datasets.load("vix")))

# %%
# **Exchange rate.** Dollars per euro walk at random: no drift is seen in 22 years.
# The noise is nearly proportional to the rate, as in geometric Brownian motion, and
# comes in quiet and wild times.

print(fimsde.estimate(fimsde.datasets.load("exchange-rate")))

# %%
# **Interest rates.** In Vasicek's equation the strength of the noise is constant, in
# that of Cox, Ingersoll and Ross it grows with the square root of the rate. The pull
# back to a mean is too weak for sixty years to show it.

print(fimsde.estimate(fimsde.datasets.load("treasury-rate")))

# %%
# The same for three-month bills, once a quarter.

print(fimsde.estimate(fimsde.datasets.load("interest-rate")))

# %%
# **The Nile.** A hundred yearly flows, the textbook case of a slowly wandering level
# under large errors of measurement (Durbin and Koopman: 123 and 38, the standard
# deviations of the error and of the yearly change).

print(fimsde.estimate(fimsde.datasets.load("nile")))

# %%
# **Sunspots.** A cycle of eleven years. One number per year holds no velocity, so no
# equation of first order can swing. The verdict says so, and how it would swing: the
# factor of x in x'' is the square of 2 pi over the period.

print(fimsde.estimate(fimsde.datasets.load("sunspots")))

# %%
# **CO₂.** A yearly course on a steady rise; neither is a function of the
# concentration. The verdict names the year.

print(fimsde.estimate(fimsde.datasets.load("co2")))

# %%
# The series.

shown = ("vix", "exchange-rate", "treasury-rate", "nile", "sunspots", "co2")
fig, panels = plt.subplots(len(shown), 1, figsize=(7.2, 7.5), layout="constrained")
for panel, name in zip(panels, shown, strict=True):
    obs = fimsde.datasets.load(name)
    panel.plot(obs.times, obs.values[:, 0], lw=0.7)
    panel.set(ylabel=obs.names[0])
    panel.set_title(name, loc="left", fontsize=9)
panels[-1].set(xlabel="year")
fig.savefig("real_series.png", dpi=160)
