"""Seeded faults: small replacements in the source, each with the tests that must notice it.

Every `.toml` file beside this one is an area, a list of faults. The text `old` must occur exactly once in its file, so
that a fault that no longer applies is noticed.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@dataclass(frozen=True)
class Fault:
    """One mistake somebody could make."""

    area: str  # name of the .toml file
    name: str
    file: str  # under src/fimsde
    old: str
    new: str
    tests: tuple[str, ...]  # under tests/: files, or files::test

    def problem(self, root: Path = ROOT) -> str | None:
        """Why the fault cannot be seeded into the source as it is, or None."""
        source = root / "src" / "fimsde" / self.file
        if not source.is_file():
            return f"there is no file {self.file}"
        times = source.read_text().count(self.old)
        if times != 1:
            return f"its old text occurs {times} times in {self.file}"
        if self.old == self.new:
            return "it changes nothing"
        for test in self.tests:
            path, _, name = test.partition("::")
            file = root / "tests" / path
            if not file.is_file():
                return f"there is no file tests/{path}"
            if name and f"def {name.partition('[')[0]}(" not in file.read_text():
                return f"there is no test {test}"
        return None if self.tests else "it names no test"


def load(folder: Path = HERE) -> list[Fault]:
    """All faults of all areas, areas in the order of their names."""
    faults = []
    for file in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(file.read_text())["fault"]:
            faults.append(Fault(file.stem, tests=tuple(entry.pop("tests")), **entry))
    return faults
