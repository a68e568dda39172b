"""Numbers inside sentences: the first word of a marker names a function here, the others are its arguments."""

import json
from collections.abc import Callable
from math import prod

import numpy as np
from out_of_class_ratios import log_ratios, mean_ratio

from fimsde.estimation import BUNDLED
from fimsde.model.weights import TENSORS
from pages.canonical import better
from pages.formats import in_words, listed, two_digits
from pages.paths import OUT_OF_CLASS, SERIES, context, lorenz, series
from pages.stored import SETTINGS, Stored


def better_cells(stored: Stored, method: str) -> str:
    """55 of 56."""
    return "{} of {}".format(*better(stored, method))


def better_count(stored: Stored, method: str) -> str:
    """54."""
    return str(better(stored, method)[0])


def drift_ratios(stored: Stored, method: str) -> str:
    """Geometric means of the drift by setting."""
    return listed([two_digits(stored.mean_ratio(method, "drift", setting)) for setting in SETTINGS])


def ratio(stored: Stored, method: str, field: str, system: str, setting: str) -> str:
    """One cell, divided by the published one."""
    return two_digits(stored.ratio(method, field, system, setting))


def paths_better(stored: Stored, *methods: str) -> str:
    """In how many cells the discrepancy is at most the published one, said once if the same for all methods."""
    return _once(stored, methods, lambda cells: f"{sum(c.mean <= c.published.mean for c in cells)} of {len(cells)}")


def paths_lost(stored: Stored, *methods: str) -> str:
    """No run of 140."""
    return _once(stored, methods, lambda cells: f"{_lost(cells) or 'no'} run of {sum(c.runs for c in cells)}")


def paths_failed(stored: Stored, *methods: str) -> str:
    """140 runs, none failed."""
    return _once(stored, methods, lambda cells: f"{sum(c.runs for c in cells)} runs, {_lost(cells) or 'none'} failed")


def _lost(cells: list) -> int:
    return sum(c.failures for c in cells)


def _once(stored: Stored, methods: tuple[str, ...], say: Callable[[list], str]) -> str:
    of = {m: [c for c in stored.cells("canonical") if (c.method, c.measure) == (m, "mmd")] for m in methods}
    return listed(list(dict.fromkeys(say(cells) for cells in of.values())))


def lorenz_mmd(stored: Stored, method: str) -> str:
    """From N(0,1), N(0,2) and (1,1,1)."""
    return " / ".join(f"{lorenz(stored, method, law).mean:.3f}" for law in ("N(0,1)", "N(0,2)", "(1,1,1)"))


def mmd(stored: Stored, method: str, name: str) -> str:
    """Of a real series, one step per observation."""
    return f"{series(stored, method, name).mean:.3f}"


def all_mmd(stored: Stored, method: str) -> str:
    """Of wind, oil, Facebook and Tesla."""
    return ", ".join(mmd(stored, method, name) for name in SERIES)


def finetuned_kept(stored: Stored) -> str:
    """In which folds of the real series finetuning changed the answer."""
    of = {(r.method, r.task.system, r.task.repetition): r.likelihood for r in stored.results("real-world")}
    folds = {name: sum(of["ours", name, n] != of["ours-finetuned", name, n] for n in range(5)) for name in SERIES}
    names = {"wind": "wind", "oil": "oil", "facebook": "Facebook", "tesla": "Tesla"}
    first, *others = [(names[name], number) for name, number in folds.items() if number]
    fold = "folds" if first[1] > 1 else "fold"
    return f"{in_words(first[1])} {fold} of {first[0]}" + "".join(f" and in {in_words(n)} of {s}" for s, n in others)


def out_of_class_range(stored: Stored, other: str) -> str:
    """The smallest and the largest geometric mean of the drift over the settings."""
    found = log_ratios(stored.results("out-of-class"), other)
    means = [mean_ratio(found["drift", setting]) for setting in OUT_OF_CLASS]
    return f"{two_digits(min(means))} to {two_digits(max(means))}"


def out_of_class(stored: Stored, other: str, noise: str, length: str, system: str = "") -> str:
    """Our error of the drift divided by another's, geometric mean over all systems, or of one."""
    found = log_ratios(stored.results("out-of-class"), other)["drift", f"rho={noise},length={length}"]
    return two_digits(float(np.exp(np.mean(found[system]))) if system else mean_ratio(found))


def context_size(stored: Stored, method: str, system: str, *sizes: str) -> str:
    """Discrepancies with these numbers of observations."""
    return listed([f"{context(stored, method, system, int(size)).mean:.3f}" for size in sizes])


def context_size_std(stored: Stored, method: str, system: str, *sizes: str) -> str:
    """Their standard deviations."""
    return listed([f"{context(stored, method, system, int(size)).std:.3f}" for size in sizes])


def coverage_range(stored: Stored, field: str) -> str:
    """From the system with the lowest to that with the highest coverage."""
    numbers = stored.script("band_coverage")
    shares = [v[field][0] for group, v in numbers["groups"].items() if group not in numbers["conditions"]]
    return f"{100 * min(shares):.0f} to {100 * max(shares):.0f} %"


def uncertainty(stored: Stored, which: str) -> str:
    """Rank correlations of U, and the number of equations."""
    value = stored.script("uncertainty")[which]
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def development(stored: Stored, what: str) -> str:
    """On development seeds: the drift by setting, or how many cells are better."""
    values = stored.script("development_seeds")[what]
    return listed([f"{v:.2f}" for v in values]) if what == "drift" else "{} to {}".format(*values)


def peer(stored: Stored) -> str:
    """The drift of StochasticForceInference by setting."""
    return listed([f"{v:.2f}" for v in stored.script("sfi_reference")["drift"]])


def parameters(stored: Stored, unit: str = "") -> str:
    """How many weights the bundled model has; "M" for millions."""
    content = (BUNDLED / TENSORS).read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    number = sum(prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    return f"{number / 1e6:.2f} M" if unit else f"{number:,}"


def megabytes(stored: Stored) -> str:
    """The size of the bundled model."""
    return f"{(BUNDLED / TENSORS).stat().st_size / 1e6:.1f} MB"


NUMBERS: dict[str, Callable[..., str]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        *(better_cells, better_count, drift_ratios, ratio, paths_better, paths_lost, paths_failed),
        *(lorenz_mmd, mmd, all_mmd, finetuned_kept, out_of_class_range, out_of_class, context_size, context_size_std),
        *(coverage_range, uncertainty, development, peer, parameters, megabytes),
    )
}
