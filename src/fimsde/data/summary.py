"""Observations in five lines: what there is, when, which values, what to keep in mind, what to do next."""

import numpy as np

from fimsde.data.health import Health, Seen, health
from fimsde.data.lines import Line

_WORDS = {  # units of dates, as people say them
    "ns": "nanoseconds",
    "us": "microseconds",
    "ms": "milliseconds",
    "s": "seconds",
    "min": "minutes",
    "h": "hours",
    "D": "days",
    "W": "weeks",
    "month": "months",
    "year": "years",
}


def in_words(time_unit: str | None) -> str:
    """A unit of time in the plural."""
    return "time units" if time_unit is None else _WORDS.get(time_unit, time_unit)


def summary(observations: Seen) -> tuple[Line, ...]:
    """What a person wants to see of a data set before anything is computed from it."""
    found = health(observations)
    names = ", ".join(observations.names)
    return (
        Line("Data", f"{count(len(observations.values), 'observation')} of {names} in {paths(observations)}"),
        Line("Time", f"{covered(observations, found)}; from {_number(observations.times.min())} to "
             f"{_number(observations.times.max())}"),
        Line("Values", "\n".join(_values(observations, found))),
        Line("Remarks", "\n".join(found.remarks) or "nothing about the data calls for caution",
             "caution" if found.remarks else "good"),
        Line("Next", "sde = fimsde.estimate(obs)"),
    )  # fmt: skip


def covered(observations: Seen, found: Health) -> str:
    """Length of the record and time between observations, with their unit."""
    unit = in_words(observations.time_unit)
    low, middle, high = (f"{gap:.4g}" for gap in found.gaps)
    gap = f"one every {middle}" if low == high else f"one every {middle} in the median ({low} to {high})"
    return f"{_number(found.span)} {unit} in all, {gap}"


def paths(observations: Seen) -> str:
    """How many paths."""
    return count(len(observations.path_starts) - 1, "path")


def count(number: int, noun: str) -> str:
    """A number of things."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _values(observations: Seen, found: Health) -> list[str]:
    low, _, median, _, high = found.quantiles
    return [
        f"{name}: {_number(low[j])} to {_number(high[j])}, median {_number(median[j])}, "
        f"standard deviation {_number(found.deviations[j])}"
        for j, name in enumerate(observations.names)
    ]


def _number(value: float | np.float64) -> str:
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"  # no exponent where people write none
