"""Keep an arm of `fimsde bench ablation --arms` in the repository: its weights with a card, and what it resumes from.

    python benchmarks/paper_arm.py ARM STEP --work runs

Writes benchmarks/weights/ARM (config, weights, training record, README.md with the numbers of its learning curve) and
benchmarks/weights/resume (last checkpoint of an arm that is not at its end, and its clock, as --work has them). To go
on:

    cp -r benchmarks/weights/resume runs
    fimsde bench ablation --arms ARM --minutes 60 --work runs --out benchmarks/results
"""

import argparse
import shutil
from pathlib import Path

from fimsde.benchmark.scaling.arms import Arm, all_arms, chosen_arms
from fimsde.benchmark.scaling.curves import Point, curve_file, read_curve
from fimsde.benchmark.scaling.tables import text
from fimsde.benchmark.scaling.train import kept_weights, steps_done
from fimsde.train.run_folder import CHECKPOINTS

WEIGHTS = Path(__file__).parent / "weights"
RESULTS = Path(__file__).parent / "results"
RESUME = "resume"
ROWS = {
    "drift, near the data": "drift",
    "diffusion, near the data": "diffusion",
    "drift, near the data, easy quarter": "easy_drift",
    "diffusion, near the data, easy quarter": "easy_diffusion",
    "drift, farther away": "far_drift",
    "diffusion, farther away": "far_diffusion",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arm", choices=[arm.name for arm in all_arms()])
    parser.add_argument("step", type=int, help="a milestone at which weights were kept")
    parser.add_argument("--work", type=Path, default=Path("runs"))
    options = parser.parse_args()
    (arm,) = chosen_arms([options.arm])
    keep_weights(arm, options.step, options.work)
    if steps_done(options.work, arm) < arm.config.loop.steps:  # nothing to go on with otherwise
        keep_checkpoint(arm, options.work)


def keep_weights(arm: Arm, step: int, work: Path) -> None:
    """Copy the weights of a milestone and give them a card."""
    curve = read_curve(curve_file(RESULTS, arm.name))
    (point,) = (point for point in curve.judged if point.step == step)
    folder = WEIGHTS / arm.name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(kept_weights(work, arm, step), folder)
    (folder / "README.md").write_text(card(arm, point, curve.parameters), encoding="utf-8")
    print(f"{folder}: {sum(file.stat().st_size for file in folder.iterdir()) / 1e6:.1f} MB")


def keep_checkpoint(arm: Arm, work: Path) -> None:
    """Copy the last checkpoint and the clock: all that the same command needs to go on to the same bytes."""
    folder, last = WEIGHTS / RESUME, f"step-{steps_done(work, arm):09d}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(work / arm.name / CHECKPOINTS / last, folder / arm.name / CHECKPOINTS / last)
    for file in (work / arm.name).iterdir():
        if file.is_file() and not file.name.startswith("."):
            shutil.copy(file, folder / arm.name)
    shutil.copy(work / f"{arm.name}.curve.jsonl", folder)
    print(f"{folder}: {sum(file.stat().st_size for file in folder.rglob('*') if file.is_file()) / 1e6:.1f} MB")


def card(arm: Arm, point: Point, parameters: int) -> str:
    """What the weights are and are not, with the numbers of their curve."""
    rows = "\n".join(f"| {title} | {text(point, name)} |" for title, name in ROWS.items())
    assert point.judgement is not None, "only judged points have cards"
    batches = len(point.judgement.drift)
    return f"""---
library_name: fimsde
license: mit
tags: [fimsde, stochastic-differential-equations, in-context-learning]
---

# {arm.name}: a small model of the paper's architecture, early in its training

**What it is.** The architecture, prior and loss of "In-Context Learning of Stochastic Differential Equations with
Foundation Inference Models" (NeurIPS 2025) with {parameters:,} weights in place of 20 million, after {point.step:,}
steps of 16 equations ({point.cpu_seconds:.0f} CPU-seconds on one core) in place of 1.3 million steps of 64. It shows
how far the recipe gets with that. What differs from the published recipe, its errors and discrepancies of paths on the
paper's tasks, and other sizes are in `docs/scaling.md`.

**What it is not.** Not the published model, not an estimator to use on data, and not fimsde's default:
`fimsde.estimate(observations)` without a second argument is many times more accurate, and comes with error bars and
verdicts. What this model says of its own uncertainty (U) is too small: gradients of large errors were held in training.

```python
import fimsde
from fimsde.benchmark.scaling.reading import as_trained

result = fimsde.estimate(as_trained(observations), "benchmarks/weights/{arm.name}")
```

It was trained on contexts that were thinned in time. `as_trained` makes of each path several ones with gaps like those.
Without it the same call works, but is worse for thousands of observations at short gaps.

## How good it is

log10 of the error relative to an answer of zero (0: no better than that; −1: a tenth of the square), for the typical
one of {16 * batches} equations of the paper's prior that it was not trained on; mean ± standard error over {batches}
batches. Near the data: within three standard deviations of the context in every component. Easy quarter: the lower
quartile of errors.

| field | log10 error |
|---|--:|
{rows}

Written by `python benchmarks/paper_arm.py {arm.name} {point.step}`. Settings and seed: training.json.
"""


if __name__ == "__main__":
    main()
