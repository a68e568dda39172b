"""Estimate a double well from one path, ask for drift and diffusion, simulate, tabulate: every step of the road.

The weights are random and the model is tiny, so the numbers mean nothing; with trained weights the same lines do.
Run: python examples/random_weights.py
"""

import numpy as np

from fimsde.estimation import estimate
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.sde import FunctionSDE
from fimsde.simulate import simulate

# Data: dx = (x - x³) dt + 0.5 dW, observed 2000 times.
double_well = FunctionSDE(dim=1, drift=lambda x: x - x**3, diffusion=lambda x: np.full_like(x, 0.5))
observations = simulate(double_well, np.ones((1, 1)), np.arange(2000) * 0.05, substeps=5, seed=0).observations()

# A model with random weights, and the equation it reads from the data.
model = FIMSDE(ModelConfig.preset("tiny"), seed=0)
sde = estimate(observations, model)
print(sde)

# Drift and diffusion where data are, in the units of the data; elsewhere `inside` says no.
x = np.linspace(-1.0, 1.0, 5)
print("x          ", x)
print("drift      ", np.round(sde.drift(x), 3), "  true:", x - x**3)
print("diffusion  ", np.round(sde.diffusion(x), 3), "  true: 0.5")
print("uncertainty", np.round(sde.uncertainty(x), 3))
print("inside     ", sde.inside(np.array([-3.0, -1.0, 0.0, 1.0, 3.0])), "at -3, -1, 0, 1, 3")

# Paths from the estimate, and the same from a table: the same noise, so the same paths up to its error.
times = np.arange(101) * 0.05
direct = sde.simulate(np.array([1.0]), times, num_paths=10, seed=1)
table = sde.tabulate()
quick = table.simulate(np.array([1.0]), times, num_paths=10, seed=1)
print(f"table of {table.num_nodes} nodes, error at most {table.error_bound:.0e} of the field;", end=" ")
print(f"paths differ by {np.nanmax(np.abs(direct.values - quick.values)):.0e}, {direct.num_diverged} diverged")
