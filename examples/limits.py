"""How errors depend on the amount of data, the gap and the noise.

Run: python examples/limits.py
"""

# %%
# A double well that forgets a displacement inside a well in 1/8 of a unit of time (the
# drift has slope -8 there), observed in different ways. The error is that of drift or
# diffusion at the observed states, root mean square, as a share of the root mean
# square of the field; median of five data sets. Unless varied: 1500 observations, gap
# 0.16 memories, no noise.

import matplotlib.pyplot as plt
import numpy as np

import fimsde

MEMORY = 1 / 8
truth = fimsde.FunctionSDE(
    dim=1, drift=lambda x: 4 * x - 4 * x**3, diffusion=lambda x: 1.2 + 0.3 * x
)


def share(found, exact):
    return np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2))


def errors(number=1500, gap=0.16, noise=0.0):
    """Median errors of drift and diffusion; gap in memories, noise in half ranges."""
    times = np.arange(number) * gap * MEMORY
    paths = fimsde.simulate(truth, np.ones((5, 1)), times, dt=0.0125, seed=0).values
    dirt = np.random.default_rng(0).standard_normal(paths.shape)
    found = []
    for clean, one in zip(paths, dirt, strict=True):
        seen = clean + noise * np.ptp(clean) / 2 * one
        drift, diffusion = fimsde.estimate(fimsde.read(seen, times=times)).fields(clean)
        found.append(
            (share(drift, truth.drift(clean)), share(diffusion, truth.diffusion(clean)))
        )
    return np.median(found, axis=0)


studies = {
    "number": ("observations", (200, 500, 1500, 5000)),
    "gap": ("gap / memory", (0.02, 0.1, 0.5, 2.0)),
    "noise": ("noise / half range", (0.0, 0.05, 0.1, 0.2)),
}
results = {
    what: np.array([errors(**{what: value}) for value in values])
    for what, (_, values) in studies.items()
}
for what, (title, values) in studies.items():
    print(f"{title:>20} drift  diffusion")
    for value, (drift, diffusion) in zip(values, results[what], strict=True):
        print(f"{value:>20g} {drift:5.0%} {diffusion:9.1%}")

# %%
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.5), layout="constrained", sharey=True)
for ax, (what, (title, values)) in zip(axes, studies.items(), strict=True):
    ax.plot(values, results[what][:, 0], "o-", label="drift")
    ax.plot(values, results[what][:, 1], "s-", label="diffusion")
    ax.set(xlabel=title, xscale="linear" if what == "noise" else "log")
    ax.set_xticks(values, [f"{value:g}" for value in values])
    ax.minorticks_off()
axes[0].set(ylabel="error / size of the field", yscale="log", ylim=(0.005, 3))
axes[0].legend(frameon=False, fontsize="small")
fig.savefig("limits.png", dpi=160)
