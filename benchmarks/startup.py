"""Waiting: how long the program takes, in units of `python -c "import torch"` measured in the same run.

    python benchmarks/startup.py [--rounds 5] [--million] [--store]

Every command runs in a process of its own, all of them once per round, one after the other; the first round, in which
code is compiled and files get into memory, is shown apart. Of the others the quickest counts. Ratios are those of CPU
time, which other work on the machine changes less than it changes the time on the clock; both are printed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from record import store

from fimsde.equations.sde import FunctionSDE
from fimsde.simulate import simulate

TORCH = "import torch"
PROGRAM = [sys.executable, "-m", "fimsde"]
COMMANDS = {  # what is measured, and how many seconds it should take at most on a quiet machine
    TORCH: ([sys.executable, "-c", TORCH], None),
    "help": ([*PROGRAM, "--help"], 0.3),
    "a misspelt column": ([*PROGRAM, "estimate", "five.csv", "--time", "tt"], 0.7),
    "estimate 5000 rows, no report": ([*PROGRAM, "estimate", "five.csv", "--out", "out", "--no-report"], 2.0),
    "estimate 5000 rows, report": ([*PROGRAM, "estimate", "five.csv", "--out", "out"], 5.0),
    "the same of two components": ([*PROGRAM, "estimate", "plane.csv", "--out", "out"], 5.0),
}
MILLION = {"estimate 1 000 000 rows, report": ([*PROGRAM, "estimate", "million.csv", "--out", "out"], 40.0)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--million", action="store_true", help="a million rows as well")
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder / "five.csv", 5000)
        write_table(folder / "plane.csv", 5000, flow=True)
        first = one_round(folder, COMMANDS, compiled=False)
        rounds = [one_round(folder, COMMANDS, compiled=True) for _ in range(options.rounds)]
        if options.million:
            write_table(folder / "million.csv", 1_000_000)
            big = one_round(folder, MILLION, compiled=True)
            first, rounds = first | big, [r | big for r in rounds]
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    print(f"{'':34s}{'CPU s':>8s}{'clock s':>9s}{'torch = 1':>11s}{'first run':>11s}{'MB':>7s}{'aim s':>7s}")
    rows = []
    unit = min(r[TORCH][0] for r in rounds)
    for title, (_, aim) in (COMMANDS | (MILLION if options.million else {})).items():
        cpu, clock = (min(r[title][k] for r in rounds) for k in (0, 1))
        memory = max(r[title][2] for r in rounds) if aim and aim > 1 else None  # of others it is that of this script
        rows.append({"title": title, "cpu": cpu, "clock": clock, "ratio": cpu / unit, "first": first[title][0]})
        rows[-1] |= {"megabytes": memory, "aim": aim}
        wanted = "" if aim is None else f"{aim:g}"
        print(
            f"{title:34s}{cpu:8.2f}{clock:9.2f}{cpu / unit:11.2f}{first[title][0]:11.2f}{memory or 0:7.0f}{wanted:>7s}"
        )
    if options.store:
        store("startup", {"rows": rows, "cores": os.cpu_count()})


def one_round(folder: Path, commands: dict, compiled: bool) -> dict[str, tuple[float, float, float]]:
    """CPU-seconds, seconds and megabytes of every command; code is compiled anew if nothing compiled may be used."""
    found = {}
    with tempfile.TemporaryDirectory() as empty:
        extra = {} if compiled else {"NUMBA_CACHE_DIR": empty}
        for title, (command, _) in commands.items():
            found[title] = measure(command, folder, os.environ | extra)
            subprocess.run(["rm", "-rf", str(folder / "out")], check=True)
    return found


def measure(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[float, float, float]:
    start = time.perf_counter()
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=quiet, stderr=quiet)
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return used.ru_utime + used.ru_stime, time.perf_counter() - start, used.ru_maxrss / 1024


def write_table(file: Path, rows: int, *, flow: bool = False) -> None:
    """A double well as a CSV, or a limit cycle of two components."""
    well = FunctionSDE(1, lambda x: x - x**3, lambda x: np.full_like(x, 0.5))
    cycle = FunctionSDE(2, turning, lambda x: np.full_like(x, 0.3))
    sde = cycle if flow else well
    paths = simulate(sde, np.ones((1, sde.dim)), 0.02 * np.arange(rows), seed=1)
    lines = zip(paths.times[0].tolist(), paths.values[0].tolist(), strict=True)
    cells = (f"{t:.2f}," + ",".join(f"{v:.8f}" for v in state) for t, state in lines)
    file.write_text("t," + ",".join("xy"[: sde.dim]) + "\n" + "\n".join(cells) + "\n")


def turning(x: np.ndarray) -> np.ndarray:
    """Towards the unit circle, and around it."""
    return x * (1 - (x**2).sum(axis=-1, keepdims=True)) + 2 * np.stack([-x[..., 1], x[..., 0]], axis=-1)


if __name__ == "__main__":
    main()
