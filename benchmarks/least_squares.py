"""What least squares reaches on the held-out contexts of the arms: how much of the drift can be seen in them at all.

    python benchmarks/least_squares.py [--store]

dy / dtau is fitted by polynomials of degree 1, 2 and 3 in y, and compared with the exact drift at the locations near
the data, as `fimsde.benchmark.scaling.judge` does. Contexts: as published; thinned as the presets thin them; and, for
comparison, as many transitions drawn at random. An answer of zero has the logarithm 0.
"""

import argparse
from dataclasses import replace
from itertools import combinations_with_replacement
from statistics import fmean

import numpy as np
from record import store

from fimsde.benchmark.scaling.judge import BATCHES, NEAR
from fimsde.data.transitions import Transitions
from fimsde.shapes import Array, Float64
from fimsde.train.config import TrainConfig
from fimsde.train.pretrain.contexts import Example
from fimsde.train.pretrain.validation import validation_stream

DEGREES = (1, 2, 3)
LEVELS = {"typical": 0.5, "easy quarter": 0.25}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    options = parser.parse_args()
    config = TrainConfig.preset("paper-0.4m")
    number = config.contexts.transitions
    whole = held_out(replace(config, contexts=replace(config.contexts, transitions=0)))
    rng = np.random.default_rng(1_000_000)
    kinds = {
        "whole contexts": whole,
        f"thinned to {number} transitions": held_out(config),
        f"{number} transitions at random": [[at_random(e, number, rng) for e in batch] for batch in whole],
    }
    rows = []
    for name, batches in kinds.items():
        found = {f"degree {d}": judged(batches, d) for d in DEGREES}
        rows.append({"contexts": name, **found})
        print(name, found)
    if options.store:
        store("least_squares", {"rows": rows})


def held_out(config: TrainConfig) -> list[list[Example]]:
    """The equations that arms are judged on."""
    stream = validation_stream(config)
    return [[read.example for read in stream.examples(index)] for index in range(BATCHES)]


def at_random(example: Example, number: int, rng: np.random.Generator) -> Example:
    """So many transitions of a context."""
    tr = example.transitions
    kept = rng.permutation(len(tr))[:number]
    return replace(example, transitions=Transitions(tr.y[kept], tr.dy[kept], tr.dtau[kept], tr.path[kept]))


def judged(batches: list[list[Example]], degree: int) -> dict[str, float]:
    """Quantiles over the equations of a batch, averaged over batches."""
    logs = [[error for e in batch if (error := log_error(e, degree)) is not None] for batch in batches]
    return {name: fmean(float(np.quantile(found, level)) for found in logs) for name, level in LEVELS.items()}


def log_error(example: Example, degree: int) -> float | None:
    """log10 of the relative error near the data; None where nothing is asked there, or the drift is zero."""
    near = (np.abs(example.x) <= NEAR).all(axis=1)
    size = (example.drift[near] ** 2).sum()
    if size == 0:
        return None
    tr = example.transitions
    weights = np.linalg.lstsq(monomials(tr.y, degree), tr.dy / tr.dtau[:, None])[0]
    miss = monomials(example.x[near], degree) @ weights - example.drift[near]
    return float(np.log10(max((miss**2).sum() / size, 1e-6)))


def monomials(x: Float64[Array, "n dim"], degree: int) -> Float64[Array, "n terms"]:
    """All up to a degree."""
    columns = [
        np.prod(x[:, list(chosen)], axis=1)
        for order in range(degree + 1)
        for chosen in combinations_with_replacement(range(x.shape[1]), order)
    ]
    return np.stack(columns, axis=1)


if __name__ == "__main__":
    main()
