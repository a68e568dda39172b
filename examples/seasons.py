"""Seasons: a yearly course is named, taken out, and what is left is estimated.

Run: python examples/seasons.py
"""

# %%
# Monthly sea surface temperature off Peru since 1950 (from statsmodels, the extra
# `datasets`). Estimated as it is, the year is in the way, and the verdict says so.

import matplotlib.pyplot as plt
import numpy as np

import fimsde

obs = fimsde.datasets.load("el-nino")
print(fimsde.estimate(obs))

# %%
# Subtract the mean course over the year. What is left are anomalies: El Niño and La
# Niña.

month = np.round((obs.times % 1) * 12).astype(int) % 12
course = np.array([obs.values[month == k, 0].mean() for k in range(12)])
anomaly = obs.values[:, 0] - course[month]
left = fimsde.read(anomaly, times=obs.times, names=["anomaly (°C)"], time_unit="year")
sde = fimsde.estimate(left)
print(sde)

# %%
# How far a forecast is worth anything: from the warmest month on, the spread of the
# future grows to that of the whole record within about two relaxation times.

ahead = sde.forecast(np.arange(1, 25) / 12, x0=[anomaly.max()])
fig, (one, two) = plt.subplots(1, 2, figsize=(7.2, 2.6), layout="constrained")
one.plot(obs.times, anomaly, lw=0.6, color="#555555")
one.set(xlabel="year", ylabel="anomaly (°C)")
two.fill_between(
    ahead["time"], ahead["q0.05"], ahead["q0.95"], alpha=0.2, label="nine tenths"
)
two.plot(ahead["time"], ahead["q0.5"], label="median")
two.set(xlabel="years after the warmest month", ylabel="anomaly (°C)")
two.legend(frameon=False, fontsize="small")
fig.savefig("seasons.png", dpi=160)
