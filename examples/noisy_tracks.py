"""Noisy tracks: the noise of the instrument is told apart from the noise of the system.

Run: python examples/noisy_tracks.py
"""

# %%
# Twenty particles in an optical trap, tracked with a camera: a spring pulls them back,
# heat kicks them, and every position is read with an error of 15 nm. The truth is
# dx = -x dt + sqrt(0.02) dW in units of micrometres and seconds.

import matplotlib.pyplot as plt
import numpy as np

import fimsde

truth = fimsde.FunctionSDE(1, lambda x: -x, lambda x: np.full_like(x, 0.02**0.5))
times = np.arange(250) * 0.02
paths = fimsde.simulate(truth, np.zeros((20, 1)), times, substeps=5, seed=2)
noise = 0.015 * np.random.default_rng(3).standard_normal(paths.values.shape)
obs = fimsde.read(paths.values + noise, times=times, names=["x (µm)"], time_unit="s")
print(obs)

# %%
# The answer in five lines: equation, verdict, what was found, how much data, what next.

sde = fimsde.estimate(obs)
print(sde)

# %%
# A method that takes every step for motion finds far too much noise in the system: an
# error of reading adds twice its variance to every step, and divided by a short gap
# that is a lot.

plain = fimsde.fit(obs, "kramers-moyal")
for name, result in (("fimsde", sde), ("Kramers-Moyal", plain)):
    band = result.band(0.0)
    low, high = band.diffusion_low[0, 0] ** 2, band.diffusion_high[0, 0] ** 2
    print(f"{name:14} g at 0: {result.diffusion_sq(0.0):.3f} ", end="")
    print(f"({low:.3f} to {high:.3f}) µm²/s")
print(f"{'truth':14} g at 0: 0.020 µm²/s")

# %%
# Drift and diffusion with the truth.

sde.plot(truth=truth, resamples=20).savefig("noisy_tracks.png", dpi=160)
plt.close("all")
