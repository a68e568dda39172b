"""When it fails, and how you see it: data that no equation of this class describes.

Run: python examples/failures.py
"""

# %%
# Six records that look like any other in a plot. Each is estimated, and the verdict is
# printed with what it says to do.

import matplotlib.pyplot as plt
import numpy as np

import fimsde

GAP, NUM = 0.05, 3000
rng = np.random.default_rng(7)
kicks = GAP**0.5 * rng.standard_normal(NUM)
clock = GAP * np.arange(NUM)


def relaxing(inputs):
    """x' = -x + inputs, step by step."""
    x = np.zeros(len(inputs))
    for i in range(1, len(x)):
        x[i] = x[i - 1] - GAP * x[i - 1] + inputs[i]
    return x


hidden = relaxing(kicks)  # a force that remembers
jumps = (rng.random(NUM) < 0.01) * rng.standard_normal(NUM) * 3
later = clock > clock.mean()
records = {
    "nothing wrong": relaxing(kicks),
    "a yearly course": relaxing(kicks + GAP * 2 * np.sin(2 * np.pi * clock / 10)),
    "a change half-way": relaxing(kicks + GAP * 2 * later),
    "a hidden force": relaxing(GAP * 2 * hidden),
    "jumps": relaxing(kicks + jumps),
    "every 80th reading": relaxing(GAP**0.5 * rng.standard_normal(80 * NUM // 4))[::80],
}

# %%
# Without a verdict, all six equations would look equally convincing.

for name, values in records.items():
    gap = 80 * GAP if name.startswith("every") else GAP
    sde = fimsde.estimate(fimsde.read(values, dt=gap, names=["x"]))
    checks = sde.check()
    print(f"{name.upper()}\n  {checks.summary}")
    for cause in checks.causes:
        print(f"  do: {cause.next_step}")

# %%
# The records.

fig, panels = plt.subplots(3, 2, figsize=(7.2, 4.5), layout="constrained")
for panel, (name, values) in zip(panels.ravel(), records.items(), strict=True):
    panel.plot(values[:600], lw=0.7)
    panel.set_title(name, loc="left", fontsize="small")
fig.savefig("failures.png", dpi=160)
