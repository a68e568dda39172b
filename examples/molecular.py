"""Molecules: free energy and rates along a reaction coordinate.

Run: python examples/molecular.py
"""

# %%
# A collective variable of a molecule, as ten simulations give it, half of them started
# on either side: overdamped motion in a free energy F(q) with mobility D. In units of
# kT the drift is -D F' and the variance rate is 2 D.

import matplotlib.pyplot as plt
import numpy as np

import fimsde


def free_energy(q):
    return 2.25 * (q**2 - 1) ** 2 + 0.5 * q  # kT


def force(q):
    return -(9 * (q**3 - q) + 0.5)


MOBILITY = 1.5  # nm² per ns
truth = fimsde.FunctionSDE(
    dim=1,
    drift=lambda q: MOBILITY * force(q),
    diffusion=lambda q: np.full_like(q, np.sqrt(2 * MOBILITY)),
)
times = np.arange(800) * 0.01
starts = np.repeat([[-1.0], [1.0]], 5, axis=0)
runs = fimsde.simulate(truth, starts, times, substeps=10, seed=0)
obs = fimsde.read(runs.values, times=times, names=["q (nm)"], time_unit="ns")
sde = fimsde.estimate(obs)
print(sde.equation())

# %%
# The effective potential is minus the logarithm of the stationary density: the free
# energy in kT.

box = (-1.4, 1.4)
q = sde.potential(box).x


def barriers(curve):
    top = curve[np.abs(q) < 0.5].max()
    return top - curve[q < 0].min(), top - curve[q > 0].min()


curves = {"estimate": sde.potential(box).effective_potential, "truth": free_energy(q)}
for name, curve in curves.items():
    left, right = barriers(curve)
    print(f"{name:8} {left:.1f} kT from the left, {right:.1f} kT from the right")
for barrier in sde.potential(box).barriers():
    ends = barrier.effective_interval
    print(
        f"from the well at {barrier.well:+.2f} nm: {barrier.effective:.1f} kT ", end=""
    )
    print(f"({ends.low:.1f} to {ends.high:.1f})")

# %%
# Rates: mean first passage times by the backward equation, with intervals of 90 %.


def passage(s, start, end):
    return fimsde.result(s, obs).first_passage(start, end).at(start)[0]


for ends in ((-1.0, 1.0), (1.0, -1.0)):
    possible = sde.first_passage(*ends).interval(ends[0])
    low, high = possible.low[0], possible.high[0]
    found, exact = passage(sde, *ends), passage(truth, *ends)
    print(f"from {ends[0]:+.0f} to {ends[1]:+.0f} nm: {found:.1f} ns ", end="")
    print(f"({low:.1f} to {high:.1f}), truth {exact:.1f} ns")

# %%
# Free energy and mobility along the coordinate, with intervals of 90 %.


def profiles(s):
    r = fimsde.result(s, obs)
    return r.potential(box).effective_potential, r.fields(q[:, None])[1][:, 0] ** 2 / 2


possible = sde.posterior(100).interval(lambda s: np.array(profiles(s)))
exact = (free_energy(q) - free_energy(q).min(), np.full_like(q, MOBILITY))
labels = ("free energy (kT)", "mobility (nm² / ns)")
fig, axes = plt.subplots(1, 2, figsize=(7.2, 2.7), layout="constrained")
for k, ax in enumerate(axes):
    ax.fill_between(q, possible.low[k], possible.high[k], alpha=0.2, label="90 %")
    ax.plot(q, profiles(sde)[k], label="estimate")
    ax.plot(q, exact[k], "k--", label="truth")
    ax.set(xlabel="q (nm)", ylabel=labels[k], ylim=(0, None))
axes[0].legend(frameon=False, fontsize="small")
fig.savefig("molecular.png", dpi=160)
