"""Tables of the canonical systems: errors divided by those of the published model."""

import csv
import io
from collections.abc import Callable

from agreement import verdict

from fimsde.benchmark.tables import to_csv
from pages.formats import markdown, ten_thousandths, two_digits
from pages.stored import FIELDS, SETTINGS, SYSTEMS, Stored

HEADS = [setting.replace("/", " / ") for setting in SETTINGS]
PEER = "drift, StochasticForceInference with PASTIS"


def better(stored: Stored, method: str) -> tuple[int, int]:
    """In how many cells of drift and diffusion the published model is worse, and of how many."""
    every = [stored.ratio(method, f, s, setting) < 1 for f in FIELDS for s in SYSTEMS for setting in SETTINGS]
    return sum(every), len(every)


def short(stored: Stored) -> str:
    """Geometric means, as README.md has them."""
    return markdown(
        ["noise / gap", *HEADS],
        [
            ["drift (`--methods fimsde`, the default)", *_means(stored, "evidence", "drift", two_digits)],
            ["diffusion", *_means(stored, "evidence", "diffusion", "{:.3f}".format)],
            [
                "drift, unknown origin (`fimsde-unknown-origin`)",
                *_means(stored, "evidence-unknown-origin", "drift", two_digits),
            ],
            ["drift, bundled recognition model (`bundled`)", *_means(stored, "ours", "drift", two_digits)],
            [f"{PEER}, known origin (reference figures, not our run)", *_peer(stored)],
        ],
    )


def ratios(stored: Stored) -> str:
    """Geometric means, with the number of cells."""
    rows = []
    for method, who, digits in (
        ("ours", "bundled model", "{:.3f}".format),
        ("ours-origin", "known origin", two_digits),
    ):
        count, total = better(stored, method)
        rows += [
            [f"drift, {who}", *_means(stored, method, "drift", digits), ""],
            [f"diffusion, {who}", *_means(stored, method, "diffusion", "{:.3f}".format), f"{count} of {total}"],
        ]
    peer = (
        f"{PEER} (reference figures, not our run: three other repetitions, the better of its two fits in each column)"
    )
    return markdown(["noise / gap", *HEADS, "cells better than published"], [*rows, [peer, *_peer(stored), ""]])


def by_system(stored: Stored) -> str:
    """Every system; cells in which the published model is better are bold."""

    def text(value: float) -> str:
        return f"**{ten_thousandths(value)}**" if value > 1 else ten_thousandths(value)

    rows = [
        [
            f"{field} {head}",
            *(text(stored.ratio("ours", field, system, setting)) for system in SYSTEMS),
            ten_thousandths(stored.mean_ratio("ours", field, setting)),
        ]
        for field in FIELDS
        for setting, head in zip(SETTINGS, HEADS, strict=True)
    ]
    return markdown(["noise / gap", *SYSTEMS.values(), "geometric mean"], rows)


def agreement(stored: Stored) -> str:
    """In how many cells baselines agree with their published numbers."""
    rows = [r for r in csv.DictReader(io.StringIO(to_csv(stored.cells("canonical")))) if r["published_failures"]]

    def count(method: str, measure: str) -> str:
        found = [verdict(r) for r in rows if (r["method"], r["measure"]) == (method, measure)]
        both = [v for v in found if not v.startswith("all failed")]
        note = " where both have a number" if len(both) < len(found) else ""
        return f"{both.count('agree')} of {len(both)}{note}"

    measures = {"drift": "drift_mse", "diffusion": "diffusion_mse", "MMD": "mmd"}
    methods = {"BISDE": "bisde", "SparseGP": "sparsegp"}
    return markdown(["", *measures], [[t, *(count(m, k) for k in measures.values())] for t, m in methods.items()])


def _means(stored: Stored, method: str, field: str, digits: Callable[[float], str]) -> list[str]:
    return [digits(stored.mean_ratio(method, field, setting)) for setting in SETTINGS]


def _peer(stored: Stored) -> list[str]:
    return [f"{value:.2f}" for value in stored.script("sfi_reference")["drift"]]


TABLES = {
    "canonical-short": short,
    "canonical-ratios": ratios,
    "canonical-systems": by_system,
    "agreement": agreement,
}
