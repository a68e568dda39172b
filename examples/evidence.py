"""A double well under measurement noise: hypotheses, weighed by evidence.

Run: python examples/evidence.py
"""

# %%
# dx = (4 x - 4 x³) dt + 1.2 dW, observed 5000 times. The variance of the noise is 1.4
# times what diffusion adds from one observation to the next.

import matplotlib.pyplot as plt
import numpy as np

import fimsde

truth = fimsde.FunctionSDE(
    dim=1, drift=lambda x: 4 * x - 4 * x**3, diffusion=lambda x: np.full_like(x, 1.2)
)
times = np.arange(5000) * 0.02
path = fimsde.simulate(truth, np.array([[1.0]]), times, substeps=10, seed=5).values[0]
noise = 0.2 * np.random.default_rng(5).standard_normal(path.shape)
obs = fimsde.read(path + noise, times=times, names=["x"])

# %%
# No network, no weights: every hypothesis has a posterior in closed form, and a
# probability.

sde = fimsde.fit(obs, "evidence")
found = sde.sde
print(f"noise {found.noise_std[0]:.3f} (truth 0.2)")
for part, probabilities in found.probabilities.items():
    likely = sorted(probabilities.items(), key=lambda item: -item[1][0])[:4]
    print(part + ":", ", ".join(f"{name} {p[0]:.2f}" for name, p in likely))

# %%
# The answer is their average.

x = np.linspace(-1.2, 1.2, 7)
print("x         ", x.round(2))
print("drift     ", sde.drift(x).round(2))
print("  truth   ", truth.drift(x).round(2))
print("diffusion ", sde.diffusion(x).round(2))
print(sde.equation())

# %%
# The probabilities of all hypotheses about the drift. Before the data they had a third
# each: sparse polynomials around zero, around an unknown place, and all the others.

weights = {name: p[0] for name, p in found.probabilities["drift"].items()}
fig, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
ax.barh(list(weights), list(weights.values()), color="C0")
ax.invert_yaxis()
ax.set(xlabel="probability given the data", xlim=(0, 1))
ax.tick_params(axis="y", labelsize="x-small")
fig.savefig("evidence-weights.png", dpi=160)

# %%
# Least squares on the same data take the noise for a strong pull and for diffusion.

plain = fimsde.fit(obs, "kramers-moyal")
fig, axes = plt.subplots(1, 2, figsize=(7.2, 2.6), layout="constrained")
x = np.linspace(-1.4, 1.4, 101)
for ax, what in zip(axes, ("drift", "diffusion"), strict=True):
    for label, s in (("truth", truth), ("evidence", sde), ("least squares", plain)):
        ax.plot(x, getattr(s, what)(x), "k--" if s is truth else "-", label=label)
    ax.set(xlabel="x", ylabel=what)
axes[0].set_ylim(-12, 12)
axes[1].set_ylim(0, None)
axes[0].legend(frameon=False, fontsize="small")
fig.savefig("evidence.png", dpi=160)
