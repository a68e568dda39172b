"""Tests of the tests: every fault of the `.toml` files is put alone into a copy of the package, and tests must fail.

    cd tests
    python -m faults.run                       # all faults, and the report (make faults)
    python -m faults.run priming "sqrt(dt)"    # areas, or words of the names; prints, and writes no report

First all named tests must pass on a copy without faults. Then a fault counts as caught if one of its tests fails while
it runs or while its fixtures are made; not if a module cannot be imported or a name is missing, which any test would
notice. A fault that survives is a missing test.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from faults.copies import Copies, Outcome
from faults.entries import HERE, ROOT, Fault, load

REPORT = HERE / "REPORT.md"


def main(arguments: Sequence[str] | None = None, root: Path = ROOT, folder: Path = HERE) -> int:
    """Run; 0 if every fault is caught."""
    parser = argparse.ArgumentParser(description="Put faults into a copy of the package; tests must notice each.")
    parser.add_argument("only", nargs="*", help="areas, or words of the names of faults; all by default")
    parser.add_argument("--workers", type=int, default=2, help="faults that are tried at a time")
    parser.add_argument("--report", type=Path, help=f"where the report goes; {REPORT.name} if all faults are tried")
    parser.add_argument("--resume", type=Path, help="a file of outcomes: those of unchanged code and tests are kept")
    parser.add_argument("--without-control", action="store_true", help="trust that the tests pass without faults")
    options = parser.parse_args(arguments)
    faults = [f for f in load(folder) if not options.only or any(o == f.area or o in f.name for o in options.only)]
    broken = [f"{f.area}: {f.name}: {problem}" for f in faults if (problem := f.problem(root))]
    if broken or not faults:
        print("\n".join(broken or ["no fault has such a name"]))
        return 2
    past = json.loads(options.resume.read_text()) if options.resume and options.resume.exists() else {}
    keys = {f: _key(f, root) for f in faults}
    todo = [f for f in faults if not past.get(keys[f], {}).get("caught_by")]
    outcomes = {f: Outcome(**past[keys[f]]) for f in faults if f not in todo}
    with tempfile.TemporaryDirectory(prefix="fimsde-faults-") as place:
        copies = Copies(root, Path(place), options.workers)
        if not options.without_control and (failed := copies.control(faults)):
            print(f"tests fail without any fault, so nothing can be said about faults:\n{failed}")
            return 1
        copies.spread()
        with ThreadPoolExecutor(options.workers) as pool:
            for fault, outcome in zip(todo, pool.map(copies.seed, todo, range(len(todo))), strict=True):
                outcomes[fault] = outcome
                print(f"{fault.area}: {fault.name}: {outcome.caught_by or outcome.problem}", flush=True)
                if options.resume:
                    past[keys[fault]] = vars(outcome)
                    options.resume.write_text(json.dumps(past, indent=1))
    caught = sum(bool(outcomes[f].caught_by) for f in faults)
    print(f"{caught} of {len(faults)} faults caught")
    if target := options.report or (None if options.only else folder / REPORT.name):
        target.write_text(report(faults, outcomes))
    return 0 if caught == len(faults) else 1


def report(faults: list[Fault], outcomes: dict[Fault, Outcome]) -> str:
    """One line per fault, area by area, and how many were caught."""
    caught = sum(bool(outcomes[f].caught_by) for f in faults)
    lines = [
        "# Seeded faults",
        "",
        "Made by `make faults`: each fault is applied alone to a copy of the package, and the default tests it names",
        "must fail. Without a fault all of them pass.",
        "",
        f"**{caught} of {len(faults)} caught.**",
    ]
    for area in sorted({f.area for f in faults}):
        own = [f for f in faults if f.area == area]
        num = sum(bool(outcomes[f].caught_by) for f in own)
        lines += ["", f"## {area}: {num} of {len(own)}", "", "| fault | file | caught by |", "|---|---|---|"]
        for f in own:
            test = outcomes[f].caught_by
            by = f"`{test.partition('[')[0]}`" if test else "**" + outcomes[f].problem.partition("\n")[0] + "**"
            lines.append(f"| {f.name.replace('|', chr(92) + '|')} | `{f.file}` | {by} |")
    return "\n".join(lines) + "\n"


def _key(fault: Fault, root: Path) -> str:
    """Changes with the fault, its file and the files of its tests."""
    files = [root / "src" / "fimsde" / fault.file, *(root / "tests" / t.partition("::")[0] for t in fault.tests)]
    return hashlib.sha256(b"\0".join([repr(fault).encode(), *(f.read_bytes() for f in files)])).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
