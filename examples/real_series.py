"""Real series: what the literature says, and what is found here.

Run: python examples/real_series.py
"""

# %%
# All of these come with statsmodels (the extra `datasets`) and are read from where it
# is installed.

import matplotlib.pyplot as plt

import fimsde

series = {name: fimsde.datasets.load(name) for name in fimsde.datasets.names()}
for name, about in fimsde.datasets.names().items():
    print(f"{name:14} {about}")

# %%
# **The Nile.** A hundred yearly flows, the textbook case of a slowly wandering level
# under large errors of measurement (Durbin and Koopman: 123 and 38, the standard
# deviations of the error and of the yearly change).

print(fimsde.estimate(series["nile"]))

# %%
# **Interest rates.** Vasicek's equation has noise of constant strength, that of Cox,
# Ingersoll and Ross noise that grows with the square root of the rate. The pull back to
# a mean is weak, and fifty years are too short to see it (a unit root is not rejected).

print(fimsde.estimate(series["interest-rate"]))

# %%
# **Sunspots.** A cycle of eleven years. One number per year holds no velocity, so no
# equation of first order can swing: the verdict names the period.

print(fimsde.estimate(series["sunspots"]))

# %%
# **CO₂.** A yearly course on a steady rise; neither is a function of the
# concentration. The verdict names the year.

print(fimsde.estimate(series["co2"]))

# %%
# The series.

fig, panels = plt.subplots(5, 1, figsize=(7.2, 6.5), layout="constrained")
for panel, obs in zip(panels, series.values(), strict=True):
    panel.plot(obs.times, obs.values[:, 0], lw=0.7)
    panel.set(ylabel=obs.names[0])
panels[-1].set(xlabel="year")
fig.savefig("real_series.png", dpi=160)
