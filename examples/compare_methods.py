"""All methods on one data set.

Run: python examples/compare_methods.py
"""

# %%
# A double well, observed often and with measurement noise of 5 % of half the range.

import matplotlib.pyplot as plt
import numpy as np

import fimsde
from fimsde.systems.canonical import DOUBLE_WELL as truth
from fimsde.systems.canonical import context

obs = context(truth, noise_std=0.05, stride=2, length=4000)

# %%
# `compare` fits every method to four fifths of the data and scores it on the rest:
# mean log density of held-out steps (larger is better), discrepancy of simulated paths
# (0 is perfect), its p-value, and CPU seconds of the fit.

METHODS = ["fimsde", "kramers-moyal", "bisde-scaled", "sparsegp-improved"]
print(fimsde.compare(obs, METHODS))

# %%
# Mind what the likelihood sees: held-out steps carry the same noise, and a method that
# takes the noise for diffusion predicts *noisy steps* well. The truth is known here,
# so look at errors of the fields at the clean states, as a share of their size.

results = {name: fimsde.fit(obs, name) for name in METHODS[:3]}
clean = context(truth, stride=2, length=4000).values
exact = (truth.drift(clean), truth.diffusion(clean))
for name, result in results.items():
    pairs = zip(result.fields(clean), exact, strict=True)
    drift, diffusion = (
        np.sqrt(np.nanmean((f - e) ** 2) / np.mean(e**2)) for f, e in pairs
    )
    print(f"{name:15} drift off by {drift:4.0%}, diffusion by {diffusion:4.0%}")

# %%
# Every fitted method is a `Result` and can do everything an estimate can: bands, fixed
# points, exit times, reports.

x = np.linspace(-1.5, 1.5, 121)[:, None]
exact = (truth.drift(x), truth.diffusion(x))
labels = ("drift (x / time)", "diffusion √g (x / √time)")
fig, axes = plt.subplots(1, 2, figsize=(7.2, 2.8), layout="constrained")
for k, ax in enumerate(axes):
    for name, result in results.items():
        ax.plot(x, result.fields(x)[k], label=name)
    ax.plot(x, exact[k], "k--", label="truth")
    ax.set(xlabel="x", ylabel=labels[k])
axes[0].legend(frameon=False, fontsize="small")
fig.savefig("compare-methods.png", dpi=160)
