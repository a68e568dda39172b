"""Write the figures of all pages from stored results, or check that they are.

cd benchmarks && python -m pages            # make tables
cd benchmarks && python -m pages --check    # exit code 1 and the differences if a page is not as stored
"""

import argparse
import difflib
import sys
import tempfile
from functools import partial
from pathlib import Path

from fimsde.benchmark.report import save_tables
from fimsde.benchmark.suites.cases import SUITES
from pages import calibration, canonical, numbers, paths, provenance, scaling, scripts, suites, verdicts, wide
from pages.markers import fill
from pages.stored import EXPERIMENTS, RESULTS, Stored

ROOT = Path(__file__).parents[2]
TABLES = {
    **calibration.TABLES,
    **canonical.TABLES,
    **paths.TABLES,
    **scripts.TABLES,
    **scaling.TABLES,
    **provenance.TABLES,
    **verdicts.TABLES,
    **wide.TABLES,
}
NUMBERS = {**calibration.NUMBERS, **numbers.NUMBERS, **scaling.NUMBERS, **verdicts.NUMBERS}


def pages_with_markers(root: Path) -> list[Path]:
    """README.md, the model card and all pages of the documentation."""
    written = sorted(file for file in (root / "docs").rglob("*.md") if "_build" not in file.parts)
    return [root / "README.md", root / "src" / "fimsde" / "weights" / "README.md", *written]


def wanted(root: Path, stored: Stored) -> dict[Path, str]:
    """What all pages with figures should be: complete ones for every experiment, and marked places in the others."""
    texts: dict[Path, str] = {}
    whole = {root / "docs" / "benchmark" / f"{experiment}.md" for experiment in (*EXPERIMENTS, *SUITES)}
    for page in pages_with_markers(root):
        if page not in whole:
            try:
                texts[page] = fill(page.read_text(encoding="utf-8"), partial(_table, stored), partial(_number, stored))
            except (ValueError, KeyError, TypeError) as error:
                raise SystemExit(f"{page.relative_to(root)}: {error.args[0]}") from error
    with tempfile.TemporaryDirectory() as folder:
        for experiment in EXPERIMENTS:
            save_tables(experiment, stored.cells(experiment), Path(folder))
        for file in sorted(Path(folder).iterdir()):
            texts[root / "docs" / "benchmark" / file.name] = file.read_text(encoding="utf-8")
    for suite in SUITES:
        if text := suites.page(stored.folder, suite):
            texts[root / "docs" / "benchmark" / f"{suite}.md"] = text
    return texts


def _table(stored: Stored, name: str) -> str:
    if name not in TABLES:
        raise ValueError(f"no table {name!r}; there are {', '.join(sorted(TABLES))}.")
    return TABLES[name](stored)


def _number(stored: Stored, name: str, *words: str) -> str:
    if name not in NUMBERS:
        raise ValueError(f"no number {name!r}; there are {', '.join(sorted(NUMBERS))}.")
    return NUMBERS[name](stored, *words)


def main(arguments: list[str] | None = None) -> int:
    """Write or check; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a page differs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the stored results")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of README.md and docs/")
    options = parser.parse_args(arguments)
    stored = Stored(options.results)
    differs = 0
    for page, text in wanted(options.root, stored).items():
        before = page.read_text(encoding="utf-8") if page.exists() else ""
        if text == before:
            continue
        differs += 1
        name = page.relative_to(options.root).as_posix()
        if options.check:
            old, new = before.splitlines(), text.splitlines()
            print("\n".join(difflib.unified_diff(old, new, name, f"{name} as stored", n=0, lineterm="")))
        else:
            page.write_text(text, encoding="utf-8")
            print(f"{name} written")
    for line in [*provenance.remarks(stored), *suites.remarks(stored.folder)]:
        print(line, file=sys.stderr)
    if options.check and differs:
        print(f"{differs} pages are not what the stored results say: make tables writes them.", file=sys.stderr)
    return int(options.check and differs > 0)


if __name__ == "__main__":
    sys.exit(main())
