"""What is stored, when it was measured, and by which code."""

import os
from collections import Counter
from pathlib import Path

from record import is_present, load

from fimsde.benchmark import provenance
from fimsde.benchmark.fingerprint import UNKNOWN
from fimsde.methods import ALIASES
from pages.formats import markdown
from pages.stored import EXPERIMENTS, Stored

CALLED = {stored: name for name, stored in ALIASES.items()}  # as users name methods


def results(stored: Stored) -> str:
    """Every method of every experiment."""
    rows = []
    for experiment in (*EXPERIMENTS, "convergence"):
        found = stored.results(experiment)
        for method in dict.fromkeys(r.method for r in found):
            mine = [r for r in found if r.method == method]
            codes = Counter(f"{r.code}{', adopted' if r.adopted else ''}" for r in mine)
            texts = [code if len(codes) == 1 else f"{code} ({number})" for code, number in codes.items()]
            paths = sum(bool(r.scores) for r in mine)
            rows.append([experiment, CALLED.get(method, method), str(len(mine)), str(paths), "; ".join(texts)])
    return markdown(["experiment", "method", "results", "with paths", "code"], rows, left=5)


def scripts(stored: Stored) -> str:
    """Every script."""
    rows = []
    for file in sorted((stored.folder / "scripts").glob("*.json")):
        record = load(file.stem, file.parent)
        command = record["command"]
        is_command = command.startswith(("python", "pytest", "fimsde"))
        rows.append([file.stem, f"`{command}`" if is_command else command, record["date"], record["code"]])
    return markdown(["numbers", "command", "day", "code"], rows, left=4)


def remarks(stored: Stored) -> list[str]:
    """One sentence for everything that was not made by the present code."""
    lines = []
    for experiment in (*EXPERIMENTS, "convergence"):
        lines += provenance.remarks(stored.results(experiment), Path(os.path.relpath(stored.folder)))
    for file in sorted((stored.folder / "scripts").glob("*.json")):
        record = load(file.stem, file.parent)
        if not is_present(file.stem, record):
            code = "unknown code" if record["code"] == UNKNOWN else "other code"
            lines.append(f"scripts, {file.stem}: by {code}, {record['date']} ({record['command']})")
    return lines


TABLES = {"stored-results": results, "stored-scripts": scripts}
