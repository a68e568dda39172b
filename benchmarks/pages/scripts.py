"""Tables of what scripts have measured; some were copied from pages and are kept as they were."""

from collections.abc import Callable

from fimsde.systems.canonical import CANONICAL
from pages.formats import markdown, spaced, thousandths, two_digits
from pages.stored import SETTINGS, SYSTEMS, Stored

FIELDS = ("drift", "diffusion")


def short_data(stored: Stored) -> str:
    """Ours divided by least squares, few observations."""
    rows = stored.script("short_data")["rows"]
    found = {(r["field"], r["length"], f"{r['noise']:g}/{r['gap']:g}"): r["ratio"] for r in rows}
    lengths = dict.fromkeys(r["length"] for r in rows)
    return markdown(
        ["noise / gap", *(setting.replace("/", " / ") for setting in SETTINGS)],
        [
            [f"{field}, {length} observations", *(two_digits(found[field, length, s]) for s in SETTINGS)]
            for field in FIELDS
            for length in lengths
        ],
    )


def fresh_seeds(stored: Stored) -> str:
    """Canonical systems on seeds that nothing was chosen by."""
    rows = stored.script("fresh_seeds")["rows"]
    return markdown(
        ["noise / gap", *(setting.replace("/", " / ") for setting in SETTINGS), "cells better than published"],
        [
            [f"{field}, seed {row['seed']}", *map(digits, row[field]), last.format(**row)]
            for row in rows
            for field, digits, last in (("drift", two_digits, "{better} of {of}"), ("diffusion", "{:.3f}".format, ""))
        ],
    )


def forecast(stored: Stored) -> str:
    """CRPS of forecasts, divided by those of a random walk."""
    numbers = stored.script("forecast")
    methods = list(numbers["rows"][0]["ratios"])[1:]
    ahead = " / ".join(map(str, numbers["ahead"]))
    return markdown(
        [f"{ahead} observations ahead", *methods],
        [
            [row["series"], *(" / ".join(f"{r:.2f}" for r in row["ratios"][m]) for m in methods)]
            for row in numbers["rows"]
        ],
    )


def startup(stored: Stored) -> str:
    """Waiting for the program."""
    return markdown(
        ["", "CPU-seconds", "`import torch` = 1", "first run, CPU-seconds", "memory (MB)", "aim (seconds)"],
        [
            [
                row["title"],
                f"{row['cpu']:.2f}",
                f"{row['ratio']:.2f}",
                f"{row['first']:.1f}",
                "" if row["megabytes"] is None else f"{row['megabytes']:.0f}",
                "" if row["aim"] is None else f"{row['aim']:g}",
            ]
            for row in stored.script("startup")["rows"]
        ],
    )


def estimates(stored: Stored) -> str:
    """CPU-seconds of the default estimate."""
    numbers = stored.script("estimate_speed")
    rows = []
    for dim, row in numbers["short"].items():
        long = numbers["long 1000000"][dim]
        milliseconds = (f"{1e3 * row[key]:.0f}" for key in ("estimate", "slowest", "locations", "draws"))
        rows.append(
            [dim, *milliseconds, f"{1e3 * row['bar']:.0f}", f"{long['estimate']:.1f}", f"{long['megabytes']:.0f}"]
        )
    heads = ["5000 observations (CPU-ms), median", "slowest", "and 1024 locations", "draws and a band", "aim"]
    return markdown(["components", *heads, "10⁶ observations (CPU-s)", "memory (MB)"], rows)


def coverage(stored: Stored) -> str:
    """Coverage of bands by system and by condition, with standard errors."""
    numbers = stored.script("band_coverage")
    titles = {title: f"all, {title}" if title in numbers["conditions"] else title for title in numbers["groups"]}
    ordered = sorted(titles, key=lambda title: title in numbers["conditions"])  # systems first
    rows = [[titles[group], *(_percent(*numbers["groups"][group][field]) for field in FIELDS)] for group in ordered]
    return markdown(["", *FIELDS], rows, left=3)


def _percent(share: float, error: float) -> str:
    return f"{100 * share:.1f} ± {100 * error:.1f} %"


def coverage_short(stored: Stored) -> str:
    """Coverage of bands by system."""
    groups = stored.script("band_coverage")["groups"]
    rows = [[field, *(f"{100 * groups[s.title][field][0]:.0f} %" for s in CANONICAL)] for field in FIELDS]
    return markdown(["", *SYSTEMS.values()], rows)


def speed(stored: Stored) -> str:
    """CPU-seconds beside the authors' code."""
    numbers = stored.script("bundled_speed")
    locations, paths = (f"{numbers['authors'][name]:g}" for name in ("locations", "paths"))
    table = "the same from a table with errors of 1 % (`sde.tabulate(tolerance=0.01)`), making it included"
    return markdown(
        ["", "fimsde", "authors", "aim"],
        [
            ["import (seconds)", f"{numbers['import']:.1f}", "", "3"],
            ["estimate and 1024 locations", f"{numbers['locations']:.3f}", locations, "0.2"],
            ["100 paths of 500 Euler steps", f"{numbers['paths']:.1f}", paths, "4"],
            [table, f"{numbers['tabulated']:.2f}", paths, ""],
        ],
    )


ARMS = {
    "primed": "primed",
    "no-attention": "without attention",
    "no-local": "without local corrections",
    "no-sparse": "without sparse candidates (full fits only)",
    "no-scales": "without scales (single steps only)",
    "paper": "the paper's architecture, no priming",
}


def ablation(stored: Stored) -> str:
    """What each part of the model is worth."""
    found = {row["arm"]: row for row in stored.script("ablation")["rows"]}
    rows = [
        [
            title,
            spaced(found[arm]["weights"]),
            str(found[arm]["steps"]),
            *map(two_digits, found[arm]["errors"][:4]),
            *map(thousandths, found[arm]["errors"][4:8]),
            *map(two_digits, found[arm]["errors"][8:]),
        ]
        for arm, title in ARMS.items()
    ]
    heads = [setting.replace("/", " / ") for setting in SETTINGS]
    fields = [f"{field} {heads[0]}" if n == 0 else heads[n] for field in FIELDS for n in range(4)]
    return markdown(["arm", "weights", "steps", *fields, "out of class, clean", "with noise"], rows)


def prior_structure(stored: Stored) -> str:
    """Polynomials before rejection, ours and the authors'."""
    exact = {1: ("2.5", "2"), 2: ("4.375", "3"), 3: ("7.5", "4.333")}
    rows = []
    for row in stored.script("prior_statistics")["structure"]:
        is_drift = row["part"] == "drift"
        ours, theirs = row["monomials"]
        degrees = ", ".join(f"{a:.4f} ({b:.4f})" for a, b in row["degrees"])
        known = (exact[row["dim"]][not is_drift], "5/8" if is_drift else "2/3")
        rows.append([str(row["dim"]), row["part"], f"{ours:.4f} ({theirs:.4f})", known[0], degrees, known[1]])
    heads = ["dim", "part", "monomials per component", "exact", "probability of degree 0, 1, ...", "exact"]
    return markdown(heads, rows, left=6)


def prior_acceptance(stored: Stored) -> str:
    """How many proposals survive, ours and the authors'."""
    rows = []
    for row in stored.script("prior_statistics")["acceptance"]:
        few = f", {row['authors_accepted']} equations" if row["authors_accepted"] < 50 else ""
        digits = 4 if row["accepted"][0] < 0.03 else 3
        rows.append(
            [
                *(str(row["dim"]), f"{row['gap']:g}", str(row["proposed"])),
                *(_interval(*row["accepted"], digits), _interval(*row["authors"], 3), f"{row['p']:.2f}"),
                f"{row['zero']:.3f} ({row['authors_zero']:.3f}{few})",
            ]
        )
    heads = ["dim", "gap", "proposed", "accepted, fimsde", "authors", "p (Fisher)", "zero diffusion (authors)"]
    return markdown(heads, rows, left=7)


def _interval(value: float, low: float, high: float, digits: int) -> str:
    return f"{value:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def prior_speed(stored: Stored) -> str:
    """Accepted equations per CPU-second."""
    rows = [
        [
            *(str(row["dim"]), f"{row['gap']:g}", f"{round(row['authors'], 4):.4g}", f"{row['ours']:.0f}"),
            *(f"{row['ours'] / row['authors']:.0f}", f"{row['paths']:.0f}"),
        ]
        for row in stored.script("prior_speed")["rows"]
    ]
    return markdown(["dim", "gap", "authors", "fimsde", "ratio", "paths"], rows, left=6)


def discrepancy(stored: Stored) -> str:
    """What each measure makes of a wrong model."""
    found = stored.script("mmd_speed")
    texts = [
        *(f"{found['printed']:.2g}", f"{found['value']:.2g}", f"{found['unmatched']:.2g}", f"{found['p_value']:g}"),
        *(f"{found[f'log_likelihood_of_{who}']:.3f}" for who in ("truth", "wrong_model")),
    ]
    heads = ["printed", "value", "unmatched", "p-value", "log-likelihood, truth", "log-likelihood, model"]
    return markdown(heads, [[text.replace("-", "−") for text in texts]], left=6)


def copied(name: str) -> Callable[[Stored], str]:
    """A table that is stored as text."""

    def table(stored: Stored) -> str:
        numbers = stored.script(name)
        return markdown(numbers["columns"], numbers["rows"], sides=numbers["sides"])

    return table


COPIED = ("bisde_terms", "peers", "baseline_rates", "quick_runs", *(f"lab_book_{n}" for n in range(1, 7)))

TABLES = {
    "short-data": short_data,
    "fresh-seeds": fresh_seeds,
    "coverage": coverage,
    "coverage-short": coverage_short,
    "speed": speed,
    "startup": startup,
    "estimate-speed": estimates,
    "forecast": forecast,
    "ablation": ablation,
    "prior-structure": prior_structure,
    "prior-acceptance": prior_acceptance,
    "prior-speed": prior_speed,
    "discrepancy": discrepancy,
    **{name.replace("_", "-"): copied(name) for name in COPIED},
}
