"""How many cells of a table agree with the published numbers.

    python benchmarks/agreement.py docs/benchmark/canonical.csv

Errors agree within a factor of ten; a published error without a number is above 1e4, and ours then has to be too. MMDs
agree within 0.03. Cells in which all runs of one side failed are listed apart.
"""

import csv
import sys
from pathlib import Path

FACTOR, DISTANCE, LARGEST_PRINTED = 10, 0.03, 1e4


def verdict(row: dict[str, str]) -> str:
    """What a cell says about its published number."""
    ours, paper = (float(row[key]) if row[key] else None for key in ("mean", "published_mean"))
    if row["measure"] == "mmd":
        if ours is None or paper is None:
            return (
                "all failed in both" if ours is paper else "all failed, ours" if ours is None else "all failed, theirs"
            )
        return "agree" if abs(ours - paper) <= DISTANCE else "ours smaller" if ours < paper else "ours larger"
    if ours is None:
        return "all failed, ours"
    if paper is None:
        return "agree" if ours > LARGEST_PRINTED else "ours smaller"
    return "agree" if 1 / FACTOR <= ours / paper <= FACTOR else "ours smaller" if ours < paper else "ours larger"


def main() -> None:
    with Path(sys.argv[1]).open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["published_failures"]]
    for key in dict.fromkeys((r["method"], r["measure"]) for r in rows):
        mine = [r for r in rows if (r["method"], r["measure"]) == key]
        found = [verdict(r) for r in mine]
        runs = sum(int(r["runs"]) for r in mine)
        print(*key, f"({len(mine)} cells, {runs} runs):", {v: found.count(v) for v in dict.fromkeys(found)})
        for r, v in zip(mine, found, strict=True):
            if v != "agree":
                print("   ", r["system"], r["setting"], v, r["mean"] or "-", r["published_mean"] or "-")


if __name__ == "__main__":
    main()
