"""An example script in cells: its text, its code, and what it prints and draws when it is run.

A script is cut at lines that start with `# %%`. The comment below such a line is text (MyST), the rest is code, run in
the order of the file in one namespace and in a folder of its own.
"""

import contextlib
import io
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_CUT = "# %%"
COLUMNS = "88"  # of what is printed: as many characters as fit into a line of a page


@dataclass(frozen=True)
class Cell:
    """A piece of a script.

    Attributes:
        text: What it says.
        code: What it does.
        line: Number of the first line of the code in the script.
        output: What it printed.
        pictures: PNG files it wrote, in this order.
    """

    text: str
    code: str
    line: int
    output: str = ""
    pictures: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Run:
    """A script that has been run, with the CPU seconds it took."""

    cells: tuple[Cell, ...]
    seconds: float

    @property
    def pictures(self) -> tuple[Path, ...]:
        """All pictures, in the order in which they were written."""
        return tuple(picture for cell in self.cells for picture in cell.pictures)


def read_cells(script: Path) -> tuple[Cell, ...]:
    """The cells of a script. What stands before the first one is its docstring."""
    lines = script.read_text().splitlines()
    cuts = [i for i, line in enumerate(lines) if line.startswith(_CUT)]
    return tuple(_cell(lines, cut + 1, end) for cut, end in zip(cuts, [*cuts[1:], len(lines)], strict=True))


def _cell(lines: list[str], start: int, end: int) -> Cell:
    first = next((i for i in range(start, end) if not lines[i].startswith("#")), end)
    first_code = next((i for i in range(first, end) if lines[i].strip()), end)
    text = "\n".join(line[1:].removeprefix(" ") for line in lines[start:first])
    return Cell(text, "\n".join(lines[first_code:end]).rstrip(), first_code + 1)


def run_script(script: Path, folder: Path) -> Run:
    """Run all cells in a folder, where the pictures stay."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["COLUMNS"] = COLUMNS
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(script)}
    before = time.process_time()
    with contextlib.chdir(folder):
        cells = tuple(_run_cell(cell, names, script, folder) for cell in read_cells(script))
    return Run(cells, time.process_time() - before)


def _run_cell(cell: Cell, names: dict[str, Any], script: Path, folder: Path) -> Cell:
    known = _pictures(folder)
    printed = io.StringIO()
    placed = "\n" * (cell.line - 1) + cell.code  # so that a traceback names the line of the script
    with contextlib.redirect_stdout(printed):
        exec(compile(placed, str(script), "exec"), names)
    now = _pictures(folder)
    new = sorted((file for file in now if now[file] != known.get(file)), key=now.__getitem__)
    return replace(cell, output=printed.getvalue().rstrip(), pictures=tuple(new))


def _pictures(folder: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in folder.glob("*.png")}
