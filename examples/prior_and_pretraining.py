"""The synthetic prior, and pretraining at toy scale.

Run: python examples/prior_and_pretraining.py
"""

# %%
# **The prior.** Random equations, their paths, and how they are observed. Item i is a
# function of (settings, seed, i) alone.

from itertools import islice
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import fimsde
from fimsde.prior.config import PriorConfig
from fimsde.prior.equation import stream
from fimsde.train.config import TrainConfig
from fimsde.train.log import read_log
from fimsde.train.pretrain.run import pretrain

prior = PriorConfig().restrict(dims=[1], gaps=[0.01])
equations = list(islice(stream(prior, seed=0), 3))
for equation in equations:
    obs = equation.observations()
    low, high = obs.values.min(), obs.values.max()
    print(f"{obs.num_paths} paths, {obs.num_points} observations, ", end="")
    print(f"states from {low:.1f} to {high:.1f}")

# %%
# Each comes with its exact drift and diffusion: what a model has to answer from the
# paths alone.

fig, axes = plt.subplots(2, 3, figsize=(7.2, 3.6), layout="constrained")
for (above, below), equation in zip(axes.T, equations, strict=True):
    seen = np.where(equation.mask[..., None], equation.values, np.nan)[:5, :, 0]
    above.plot(equation.times, seen.T, lw=0.5)
    above.set(xlabel="time")
    x = np.linspace(np.nanmin(seen), np.nanmax(seen), 100)[:, None]
    below.plot(x, equation.sde.drift(x), label="drift")
    below.plot(x, equation.sde.diffusion(x), label="diffusion")
    below.set(xlabel="x")
axes[0, 0].set(ylabel="five of the paths")
axes[1, 0].set(ylabel="the answer")
axes[1, 0].legend(frameon=False, fontsize="small")
fig.savefig("prior.png", dpi=160)

# %%
# **Pretraining.** A preset for tests: a very small model and a few steps. It shows how
# a run goes, not how good a model gets. The bundled weights come from the preset
# `primed`, the published model from `paper`.

pretrain(TrainConfig.preset("primed-tiny"), Path("run"))
for row in read_log(Path("run")):
    print(f"step {row['step']}: loss {row['loss']:.2f}")
print(sorted(file.name for file in Path("run").iterdir()))

# %%
# **Using it.** The folder `weights` is all there is to hand on: numbers and settings,
# no code.

model = fimsde.FIMSDE.from_pretrained("run/weights")
print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
equation = equations[0]
obs = equation.observations()
x = np.quantile(obs.values, np.linspace(0.1, 0.9, 5))
print("drift, truth  ", equation.sde.drift(x[:, None])[:, 0].round(2))
print("drift, bundled", fimsde.estimate(obs, "bundled").drift(x).round(2))
print("drift, toy    ", fimsde.estimate(obs, model).drift(x).round(2))
