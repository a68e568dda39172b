"""The closed-form candidates on the canonical systems, without any learning: errors beside the published FIM-SDE.

    python benchmarks/bank_canonical.py [--repetitions 5]

Development seeds; the paper's grids. For each candidate: mean square error per system, and the geometric mean of the
ratios to the published model. "told" is the sparse candidates told that zero is a special place, as dictionaries of
monomials assume.
"""

import argparse

import numpy as np

from fimsde.bank.bank import ask, make_bank
from fimsde.bank.hypotheses import DIFFUSION, DRIFT
from fimsde.data.normalise import fit_normaliser
from fimsde.data.transitions import to_transitions
from fimsde.systems.canonical import CANONICAL, DEV_SEED, context, grid

PUBLISHED = {  # the paper's FIM-SDE: drift and diffusion errors, systems in the order of CANONICAL
    (0.0, 0.002): (
        [8.34, 1150, 1.16, 1.83, 6.25, 81.6, 9.66],
        [0.0209, 0.349, 0.0111, 0.00619, 0.0945, 0.112, 0.114],
    ),
    (0.0, 0.02): ([4.83, 453, 0.180, 0.437, 1.04, 14.0, 8.10], [0.0334, 0.268, 0.0177, 0.127, 0.128, 0.123, 0.106]),
    (0.05, 0.002): ([50.6, 746, 3.57, 10.9, 89.0, 110, 99.2], [1.26, 2.19, 2.87, 0.825, 2.33, 0.224, 0.252]),
    (0.05, 0.02): ([2.31, 489, 0.297, 0.591, 5.87, 30.1, 6.77], [0.0371, 0.733, 2.07, 0.334, 2.50, 0.171, 0.129]),
}


def errors(noise_std: float, stride: int, repetition: int, system) -> dict[str, float]:
    """Mean square error of every candidate on the system's grid."""
    obs = context(system, repetition, noise_std=noise_std, stride=stride, seed=DEV_SEED)
    tr = to_transitions(obs)
    normaliser = fit_normaliser(tr)
    x = grid(system)
    drift, diffusion = system.drift(x), system.diffusion(x)
    out = {}
    for origin_known, origin in ((False, None), (True, normaliser.states(np.zeros(system.dim)))):
        primed = ask(make_bank(normaliser.transitions(tr), origin), normaliser.states(x))
        for k, hypothesis in enumerate(DRIFT):
            if not origin_known or hypothesis.form.around_origin:
                out[f"drift {hypothesis.name}{' told' if origin_known else ''}"] = np.mean(
                    (normaliser.undo_drift(primed.drift[..., k]) - drift) ** 2
                )
    for k, hypothesis in enumerate(DIFFUSION):
        found = normaliser.undo_diffusion(np.sqrt(primed.diffusion_sq[..., k]))
        out[f"diffusion {hypothesis.name}"] = np.mean((found - diffusion) ** 2)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    repetitions = parser.parse_args().repetitions
    for (noise_std, gap), published in PUBLISHED.items():
        cells = [[errors(noise_std, round(gap / 0.002), r, system) for r in range(repetitions)] for system in CANONICAL]
        print(f"\nnoise {noise_std:g}, gap {gap:g}: {', '.join(s.name for s in CANONICAL)} | ÷ published")
        for name in cells[0][0]:
            means = np.array([np.mean([run[name] for run in runs]) for runs in cells])
            ratio = np.exp(np.mean(np.log(means / published[name.startswith("diffusion")])))
            print(f"{name:28s}" + " ".join(f"{m:9.3g}" for m in means) + f" | {ratio:.3f}")


if __name__ == "__main__":
    main()
