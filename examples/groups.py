"""Comparing groups: one equation per subject, then the usual statistics.

Run: python examples/groups.py
"""

# %%
# Twelve subjects, six of them treated. Each was recorded for a minute; the treatment
# makes the return to rest half as fast. One table, as it comes from the lab.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

import fimsde

times = np.arange(1500) * 0.04
rows = []
for subject in range(12):
    treated = subject % 2 == 1
    rate = 1.0 if treated else 2.0
    truth = fimsde.FunctionSDE(1, lambda x, rate=rate: -rate * x, np.ones_like)
    values = fimsde.simulate(truth, np.zeros((1, 1)), times, substeps=5, seed=subject)
    columns = {"subject": f"s{subject:02}", "treated": treated, "t": times}
    rows.append(pd.DataFrame(columns | {"x": values.values[0, :, 0]}))
table = pd.concat(rows)
print(table.groupby("treated")["subject"].nunique())

# %%
# One equation for each. `fimsde estimate table.csv --by subject` does the same from the
# command line, and run again it goes on where it stopped.

parts = table.groupby("subject")
sets = {name: fimsde.read(part, time="t", values="x") for name, part in parts}
found = fimsde.estimate_many(sets, "groups", overwrite=True)
print(found[["data_set", "verdict", "relaxation_time"]].to_string(index=False))

# %%
# The subject is the unit of the comparison, not the observation: six against six.

found["treated"] = table.groupby("subject")["treated"].first().to_numpy()
both = [part["relaxation_time"].dropna() for _, part in found.groupby("treated")]
test = stats.mannwhitneyu(*both)
for name, of_one, true in zip(("untreated", "treated"), both, (0.5, 1), strict=True):
    ends = stats.bootstrap((of_one,), np.median, confidence_level=0.9, rng=0)
    low, high = ends.confidence_interval
    print(f"{name}: median {of_one.median():.2f} s ", end="")
    print(f"({low:.2f} to {high:.2f}), truth {true:.2f} s")
print(f"Mann-Whitney p = {test.pvalue:.3f}")

# %%
# Every subject as a point.

fig, axes = plt.subplots(figsize=(3.6, 2.6), layout="constrained")
for k, times_of in enumerate(both):
    axes.plot(np.full(len(times_of), k), times_of, "o", alpha=0.7)
    axes.hlines(times_of.median(), k - 0.2, k + 0.2)
axes.set_xticks([0, 1], ["untreated", "treated"])
axes.set(ylabel="relaxation time (s)")
fig.savefig("groups.png", dpi=160)
