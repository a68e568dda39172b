"""The table of spreads: factors of traits that would have made 90 % intervals hold 90 % of the truths.

Quantile regression: the 0.9 quantile of log(needed factor) is a sum over the traits of a data set. At the optimum the
share of truths inside is the level for every trait, not only for all data sets together.
"""

import json
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import minimize

from fimsde.benchmark.calibration.measure import LEVEL, Measured
from fimsde.benchmark.calibration.run import Row
from fimsde.errors import DatasetError
from fimsde.evidence.spread import PARTS, installed_table
from fimsde.shapes import Array, Float64

_SHRINK = 10.0  # data sets: what a factor of e costs, so that rare traits follow the others; by cross-validation
_ROUND = 0.02  # by which the corner of the loss is rounded
_CLIP = np.log([1e-2, 20.0])  # of needed factors: beyond, one is as good as another


def spread_table(rows: Sequence[Row], command: str) -> str:
    """The table as JSON for `fimsde.evidence.spread`. Each data set has the same weight.

    Factors of traits are drawn to those of the installed table, as far as that knows them: it was made of other data
    sets, and few new ones cannot tell all traits apart.
    """
    good = [row.measured for row in rows if row.measured.failure is None and row.case.source == "prior"]
    before, traits = installed_table(), [m.traits for m in good]
    factors = {part: fit_factors([_needed(m, part) for m in good], traits, before[part]) for part in PARTS}
    record = {"command": command, "level": LEVEL, "data_sets": len(good), "factors": factors}
    return json.dumps(record, indent=1) + "\n"


def _needed(m: Measured, part: str) -> Float64[Array, " some"]:
    """Factors that intervals would have needed without the table."""
    return np.asarray(m.needed[part]) * m.factors[part]


def fit_factors(
    needed: Sequence[Float64[Array, " _"]], traits: Sequence[tuple[str, ...]], before: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Factors of traits whose products are the 0.9 quantile of what is needed.

    Args:
        needed: Factors that intervals of each data set would have needed.
        traits: Of each data set.
        before: Factors of traits that they are drawn to; one by default. That of all data sets is free.
    """
    names = sorted({name for own in traits for name in own})
    if not names:
        return {}
    has = np.array([[name in own for name in names] for own in traits], float)  # (sets, names)
    counts = np.array([len(part) for part in needed])
    rows = np.repeat(np.arange(len(needed)), counts)
    weight = 1.0 / counts[rows]
    factors = np.nan_to_num(np.concatenate(needed), nan=np.inf)  # what is no number is in no interval
    logs = np.clip(np.log(np.maximum(factors, 1e-300)), *_CLIP)
    price = np.where(np.array(names) == "all", 0.0, _SHRINK)
    known = np.log([(before or {}).get(name, 1.0) for name in names])

    def loss(b: Float64[Array, " names"]) -> tuple[float, Float64[Array, " names"]]:
        left = logs - (has @ b)[rows]
        soft = np.logaddexp(0.0, left / _ROUND) * _ROUND  # max(left, 0), rounded
        value = float(weight @ (soft - (1.0 - LEVEL) * left) + price @ (b - known) ** 2)
        slope = weight * (1.0 / (1.0 + np.exp(-np.clip(left / _ROUND, -500, 500))) - (1.0 - LEVEL))
        by_set = np.bincount(rows, slope, len(needed))
        return value, 2.0 * price * (b - known) - has.T @ by_set

    fitted = minimize(loss, known, jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    if not fitted.success:
        raise DatasetError(f"no factors of traits fit these data sets: {fitted.message}")
    return {name: float(f"{np.exp(value):.4g}") for name, value in zip(names, fitted.x, strict=True)}
