"""Stored results of other code are adopted by the present code if a sample of them comes out the same."""

import math
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

from fimsde.benchmark.adopt import RELATIVE, Adoption
from fimsde.benchmark.wide.data import load
from fimsde.benchmark.wide.measure import Errors, measure
from fimsde.benchmark.wide.store import Stored, fingerprint, save
from fimsde.benchmark.wide.tasks import Column, WideTask
from fimsde.methods import Method


def adopt_wide(
    method: Method, stored: Sequence[Stored], *, out: Path, sample: int, cache: Path | None = None
) -> Adoption:
    """Compute a sample of a method's results again; if all errors agree, all carry the present code's fingerprint.

    Args:
        method: Whose results; those with other settings (other weights) are left alone.
        stored: Files of results.
        out: Folder of the result files.
        sample: How many to compute again, spread evenly.
        cache: Folder for simulated paths; None: in the user's cache.
    """
    code = fingerprint(method.name)
    files = [file for file in stored if (file.method, file.settings) == (method.name, method.settings)]
    old = [(file, place) for file in files for place, (_, made_by) in file.rows.items() if made_by != code]
    step = max(1, math.ceil(len(old) / sample))
    chosen = old[step // 2 :: step]
    for number, (file, (draw, column)) in enumerate(chosen, start=1):
        task = WideTask(file.family, draw, column, file.seed)
        again = measure(task, method, load(task, cache)).errors
        before = file.rows[draw, column][0].errors
        if not _agree(before, again):
            return Adoption(method.name, len(old), number, _sentence(file.family, draw, column, before, again))
    for file, place in old:
        file.rows[place] = (file.rows[place][0], code)
    for file in {file.family: file for file, _ in old}.values():
        save(file, out)
    return Adoption(method.name, len(old), len(chosen), None)


def _agree(a: Errors, b: Errors) -> bool:
    return all(
        x == y or (x is not None and y is not None and math.isclose(x, y, rel_tol=RELATIVE))
        for x, y in zip(astuple(a), astuple(b), strict=True)
    )


def _sentence(family: str, draw: int, column: Column, before: Errors, again: Errors) -> str:
    return f"{family}, draw {draw}, {column} has {before} and now {again}."
