"""Random tables through the whole package: `make fuzz`, and a few of them in every run of the tests.

    python tests/fuzz.py --first 0 --tables 20000 --processes 2
    python tests/fuzz.py --first 1234 --tables 1      one table again, with the whole traceback

A table may be refused in one sentence (a FimsdeError). What is accepted has finite answers everywhere, or says in a
sentence why an analysis is impossible. Table `seed` depends on `seed` alone, so a run goes on with --first.
"""

import argparse
import contextlib
import csv
import io
import json
import math
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

import fimsde
from fimsde.analysis import fixed_points
from fimsde.analysis.diagnosis import case, predictive
from random_tables import RandomTable, random_table

_EVERY_COMPARE, _EVERY_SAVE, _EVERY_COMMAND, _EVERY_FULL = 23, 31, 397, 151  # what takes long runs on a sample
_RESAMPLES = 3
_BLOCK = 50  # tables between two lines of a long run
_CHEAP = {  # what takes longest, on coarser grids and with fewer paths; every `_EVERY_FULL`-th table has all of it
    fixed_points: {"_NODES": 125, "_MOST_NODES": 9, "_ALONE": 61},
    predictive: {"_NEEDED": 9, "_SOME": 5, "_PROBES": 100},
    case: {"REPLICATES": 3},
}


def exercise(table: RandomTable) -> dict[str, str]:
    """What became of each analysis: "finite", or the sentence that refused it. Anything else is an AssertionError."""
    outcome: dict[str, str] = {}

    def attempt(name: str, compute: Callable[[], object]) -> object:
        try:
            found = compute()
        except fimsde.FimsdeError as error:
            _is_a_sentence(str(error), name)
            outcome[name] = str(error)
            return None
        outcome[name] = "finite"
        return found

    observations = attempt("read", table.read)
    if not isinstance(observations, fimsde.Observations):
        return outcome
    result = attempt("estimate", lambda: fimsde.estimate(observations))
    if not isinstance(result, fimsde.Result):
        if table.seed % _EVERY_COMMAND == 0:
            _command_line(table)
        return outcome
    low, high = observations.box()
    span = high - low
    x = np.concatenate([observations.values[:: -(-observations.num_points // 8)], [low, high, low / 2 + high / 2]])
    x = np.concatenate([x, [low - span / 2, high + span / 2, high + 3 * span]])
    x = x[np.isfinite(x).all(axis=1)]
    _fields(result, x)
    box = (low - span / 20, high + span / 20)
    start = observations.values[observations.path_starts[:-1]][:3]
    grid = observations.path(int(np.argmax(np.diff(observations.path_starts))))[0][:20]
    cells = {1: 24, 2: 10, 3: 4}.get(result.dim, 2)
    analyses: dict[str, Callable[[], None]] = {
        "band": lambda: _band(result.band(x, resamples=_RESAMPLES)),
        "fixed_points": lambda: _points(result.fixed_points()),
        "stationary_density": lambda: _density(result.stationary_density(num_cells=cells)),
        "exit_time": lambda: _times(result.exit_time(box, num_cells=cells)),
        "equation": lambda: _equation(result.equation(), x),
        "check": lambda: _verdicts(result.check()),
        "simulate": lambda: _paths(result.simulate(start, grid)),
    }
    if result.dim == 1:
        analyses["potential"] = lambda: _potential(result.potential(num=41))
        analyses["first_passage"] = lambda: _times(result.first_passage(float(low[0]), float(high[0]), num_cells=cells))
    if result.dim < 3:
        analyses["quasi_potential"] = lambda: _finite(result.quasi_potential(num_cells=cells).values, "quasi-potential")
    if table.seed % _EVERY_COMPARE == 0:
        methods = ["ours", "kramers-moyal", "kramers-moyal-binned"]
        analyses["compare"] = lambda: _scores(fimsde.compare(observations, methods))
    if table.seed % _EVERY_SAVE == 0:
        analyses["save"] = lambda: _round_trip(result, x)
    with contextlib.ExitStack() as cheaply:
        for module, settings in _CHEAP.items() if table.seed % _EVERY_FULL else ():
            cheaply.enter_context(mock.patch.multiple(module, **settings))
        for name, compute in analyses.items():
            attempt(name, compute)
    if table.seed % _EVERY_COMMAND == 0:
        _command_line(table)
    return outcome


def _is_a_sentence(text: str, name: str) -> None:
    assert 20 < len(text) < 600, f"{name} refused with {text!r}"
    assert "\n" not in text, f"{name} refused with {text!r}"


def _finite(values: object, what: str) -> None:
    array = np.asarray(values)
    assert np.isfinite(array).all(), f"{what}: {np.sum(~np.isfinite(array))} of {array.size} are not finite"


def _no_nan_in(text: str, what: str) -> None:
    words = {word.strip("(){}[],;:").lstrip("+-").lower() for word in text.split()}
    assert not words & {"nan", "inf", "infinity"}, f"{what} has NaN or infinity: {text}"


def _fields(result: fimsde.Result, x: np.ndarray) -> None:
    drift, diffusion = result.drift(x), result.diffusion(x)
    _finite(drift, "drift")
    _finite(diffusion, "diffusion")
    assert (diffusion >= 0).all(), "diffusion below zero"
    _finite(result.uncertainty(x), "uncertainty")
    assert result.inside(x).shape == (len(x),)


def _band(band) -> None:
    for name in ("drift_low", "drift_high", "diffusion_low", "diffusion_high"):
        _finite(getattr(band, name), name)
    assert (band.drift_low <= band.drift_high).all()
    assert (band.diffusion_low <= band.diffusion_high).all()


def _points(points) -> None:
    for point in points:
        _finite(point.x, "fixed point")
        _finite(point.eigenvalues, "eigenvalues")


def _density(found) -> None:
    for name in ("density", "histogram", "edge_share", "unsupported_share"):
        _finite(getattr(found, name), name)
    for name in ("mean", "variance", "distance"):
        _finite(getattr(found, name)(), f"{name} of the density")
    assert (found.density >= 0).all(), "density below zero"


def _times(found) -> None:
    _finite(found.mean, "exit time")
    assert (found.mean >= 0).all(), "exit time below zero"


def _potential(found) -> None:
    _finite(found.drift_potential, "drift potential")
    _finite(found.effective_potential, "effective potential")


def _equation(found, x: np.ndarray) -> None:
    for text in (str(found), found.latex(), found.code()):
        _no_nan_in(text, "equation")
    _finite(found.drift(x[:1]), "drift of the equation")
    _finite(found.diffusion(x[:1]), "diffusion of the equation")
    _finite(found.drift_terms.standard_errors, "standard errors")
    _finite(found.drift_terms.explained, "share explained")
    _finite(found.diffusion_sq_terms.explained, "share explained")


def _verdicts(checks) -> None:
    assert len(checks) >= 6
    for verdict in checks:
        assert verdict.status in ("good", "caution", "bad")
        _no_nan_in(verdict.sentence, f"verdict {verdict.name}")


def _scores(comparison) -> None:
    """A step without any density has the logarithm minus infinity; nothing is NaN."""
    numbers = [n for s in comparison.scores for n in (s.likelihood, s.mmd, s.p_value) if n is not None]
    assert not (np.isnan(numbers) | np.isposinf(numbers)).any(), str(comparison)


def _paths(paths) -> None:
    _finite(paths.values[paths.mask], "simulated states")
    assert paths.mask[:, 0].all(), "a start that is no state"


def _round_trip(result: fimsde.Result, x: np.ndarray) -> None:
    with tempfile.TemporaryDirectory() as folder:
        result.save(Path(folder) / "saved")
        again = fimsde.load(Path(folder) / "saved")
    assert all(np.array_equal(a, b) for a, b in zip(result.fields(x), again.fields(x), strict=True)), "loaded otherwise"


def _command_line(table: RandomTable) -> None:
    """Every verb ends with exit code 0 and finite tables, or with 2 and nothing written."""
    with tempfile.TemporaryDirectory() as place:
        file, out, paths, page = (Path(place) / name for name in ("table.csv", "out", "paths.csv", "page.html"))
        table.frame().to_csv(file, index=False)
        options = ["--time", "t", "--path", "track", "--missing", table.missing]
        few = ["--resamples", "2"]
        code, _ = _program("estimate", file, *options, *few, "--out", out)
        assert out.exists() == (code == 0), f"exit code {code}, and the folder exists: {out.exists()}"
        _, compared = _program("compare", file, *options, "--methods", "kramers-moyal,ours", "--json")
        _strict(compared, "compare --json")
        if code:
            return
        _finite(_numbers(out / "fields.csv"), "fields.csv")
        text = (out / "result.json").read_text()
        _no_nan_in(text, "result.json")
        _strict(text, "result.json")
        _strict(_program("check", out, "--json")[1], "check --json")
        _strict(_program("info", out, "--json")[1], "info --json")
        code, _ = _program("simulate", out, "--paths", "2", "--out", paths)
        assert paths.exists() == (code == 0), f"exit code {code}, and the table exists: {paths.exists()}"
        if code == 0:
            _finite(_numbers(paths), "paths.csv")
        code, _ = _program("report", out, *few, "--out", page)
        assert page.exists() == (code == 0), f"exit code {code}, and the page exists: {page.exists()}"


def _program(*words: str | Path) -> tuple[int, str]:
    """Exit code and standard output."""
    from fimsde.interface.cli import main

    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            main([str(word) for word in words])
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    assert code in (0, 2), f"{words[0]} ends with exit code {code}"
    return code, out.getvalue()


def _numbers(table: Path) -> list[list[float]]:
    with table.open(encoding="utf-8") as lines:
        return [[float(cell) for cell in row] for row in list(csv.reader(lines))[1:]]


def _strict(text: str, what: str) -> None:
    """JSON without NaN or infinity, or nothing."""
    if text:
        json.loads(text, parse_constant=partial(_refuse, what))


def _refuse(what: str, constant: str) -> None:
    raise AssertionError(f"{what} has {constant}")


def failure(seed: int) -> tuple[int, str | None, dict[str, str]]:
    """The seed, what went wrong with its table (None: nothing), and what became of the analyses."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an overflow of ours must not pass in silence
        warnings.simplefilter("ignore", fimsde.DataWarning)
        try:
            return seed, None, exercise(random_table(seed))
        except Exception:  # whatever it is, it is the finding
            return seed, traceback.format_exc(), {}


def main() -> int:
    """Run tables, print what failed and how to run it again."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--first", type=int, default=0, help="number of the first table")
    options.add_argument("--tables", type=int, default=20_000, help="number of tables")
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--stop-after", type=float, default=math.inf, metavar="SECONDS")
    given = options.parse_args()
    start, done, reasons, failed, last = time.monotonic(), 0, Counter[str](), [], given.first - 1
    with ProcessPoolExecutor(given.processes) as pool:
        seeds = range(given.first, given.first + given.tables)
        for block in range(0, len(seeds), _BLOCK):
            for seed, trouble, outcome in pool.map(failure, seeds[block : block + _BLOCK], chunksize=5):
                done, last = done + 1, seed
                reasons.update(name for name, what in outcome.items() if what == "finite")
                reasons.update(f"{name} refused" for name, what in outcome.items() if what != "finite")
                if trouble is not None:
                    failed.append(seed)
                    print(f"{random_table(seed)}\n{trouble}again: python tests/fuzz.py --first {seed} --tables 1\n")
            print(f"{done} tables to number {last}, {len(failed)} failed, {time.monotonic() - start:.0f} s", flush=True)
            if time.monotonic() - start > given.stop_after:
                break
    print("\n".join(f"{num:7} {name}" for name, num in sorted(reasons.items())))
    print(f"{done} tables, {len(failed)} failed: {failed}. Go on with --first {last + 1}.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
