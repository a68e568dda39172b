"""Copies of the package with one fault each, and what tests say of them."""

import json
import multiprocessing
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TypedDict

from faults.entries import Fault

_ANYBODY_NOTICES = ("ImportError", "ModuleNotFoundError", "NameError", "SyntaxError", "TypingError", "LoweringError")
_LONGEST = 1800  # seconds for the tests of one fault
# Libraries take most of the time of a short test: loaded once, by the process from which those of all tests are forked.
_LOADED_ONCE = ("torch", "numba", "scipy.stats", "scipy.linalg", "pandas", "narwhals", "huggingface_hub", "matplotlib")


@dataclass(frozen=True)
class Outcome:
    """What became of a fault: the test that caught it, or why it does not count as caught."""

    caught_by: str = ""
    problem: str = ""


class Seen(TypedDict):
    """What the witness saw of a run of tests."""

    package: str
    num_tests: int
    failures: list[dict[str, str]]
    output: str
    code: int


class Copies:
    """Copies of the package, one per worker, made from a clean one that keeps bytecode and compiled kernels.

    Times of files are kept too, so that only what a fault touches is compiled again.

    Args:
        root: The repository.
        folder: Where the copies go.
        workers: Number of copies.
    """

    def __init__(self, root: Path, folder: Path, workers: int) -> None:
        self.root, self.folder, self.workers = root, folder, workers
        self.clean = folder / "clean"
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(list(_LOADED_ONCE))
        os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # as in conftest.py, before these load
        self.free: SimpleQueue[Path] = SimpleQueue()
        shutil.copytree(root / "src" / "fimsde", self.clean / "fimsde")

    def control(self, faults: list[Fault]) -> str:
        """Run all tests that these faults name on the clean copy; what failed, or nothing."""
        named = sorted({test for fault in faults for test in fault.tests})
        whole = {test for test in named if "::" not in test}
        by_file: dict[str, list[str]] = {}
        for test in named:
            file = test.partition("::")[0]
            if test in whole or file not in whole:
                by_file.setdefault(file, []).append(test)
        groups = list(by_file.values())
        shares = [[t for group in groups[i :: self.workers] for t in group] for i in range(self.workers)]
        shares = [share for share in shares if share]
        with ThreadPoolExecutor(self.workers) as pool:
            runs = pool.map(lambda i: self._test(self.clean, shares[i], i), range(len(shares)))
        for seen in runs:
            if seen["code"] != 0 or seen["failures"] or Path(seen["package"]) != self.clean / "fimsde":
                return f"package {seen['package']}, failures {seen['failures']}\n{seen['output']}"
        return ""

    def spread(self) -> None:
        """Give every worker its copy of the clean one."""
        for worker in range(self.workers):
            shutil.copytree(self.clean, self.folder / str(worker))
            self.free.put(self.folder / str(worker))

    def seed(self, fault: Fault, number: int) -> Outcome:
        """Put a fault into a copy, run its tests, and make the copy good again."""
        copy = self.free.get()
        file, clean = (folder / "fimsde" / fault.file for folder in (copy, self.clean))
        kernels = kernels_with(self.root / "src" / "fimsde", fault.file)
        try:
            file.write_text(file.read_text().replace(fault.old, fault.new))
            moment = clean.stat().st_mtime + 2 * (number + 1)  # bytecode is told apart by whole seconds
            os.utime(file, (moment, moment))
            for kernel in kernels:
                _forget(copy / "fimsde" / kernel)
            return self._judge(self._test(copy, list(fault.tests), 0), copy)
        finally:
            shutil.copy2(clean, file)
            for kernel in kernels:
                _forget(copy / "fimsde" / kernel)
                for kept in _compiled(self.clean / "fimsde" / kernel):
                    shutil.copy2(kept, (copy / "fimsde" / kernel).parent / "__pycache__" / kept.name)
            self.free.put(copy)

    def _judge(self, seen: Seen, copy: Path) -> Outcome:
        if not seen["failures"]:
            stopped = f"pytest stopped with code {seen['code']}\n{seen['output']}"
            return Outcome(problem=stopped if seen["code"] else f"survived {seen['num_tests']} tests")
        first = seen["failures"][0]
        if first["when"] == "collect" or first["kind"] in _ANYBODY_NOTICES:
            return Outcome(problem=f"breaks everything: {first['kind']} in {first['test']}\n{seen['output']}")
        if Path(seen["package"]) != copy / "fimsde":
            return Outcome(problem=f"the tests imported {seen['package']}")
        return Outcome(caught_by=first["test"].removeprefix("tests/"))

    def _test(self, copy: Path, tests: list[str], number: int) -> Seen:
        """Run tests on a copy until the first failure."""
        witness = copy / f"witness-{number}.json"
        witness.unlink(missing_ok=True)
        witness.with_suffix(".txt").unlink(missing_ok=True)
        process = self._processes.Process(target=_run_pytest, args=(self.root, copy, witness, tests))
        process.start()
        process.join(_LONGEST)
        if process.exitcode is None:
            process.kill()
            process.join()
        # The exit code is what the witness wrote: another thread that starts a process may have read it from the pipe.
        nothing = {"package": "", "num_tests": 0, "failures": [], "code": -1}
        found = json.loads(witness.read_text()) if witness.exists() else nothing
        output = witness.with_suffix(".txt")
        said = output.read_text()[-3000:] if output.exists() else ""
        return Seen(**found, output=said)


def _run_pytest(root: Path, copy: Path, witness: Path, tests: list[str]) -> None:
    """In a process of its own: pytest, with the copy in front of any installed package."""
    output = os.open(witness.with_suffix(".txt"), os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.chdir(root)
    sys.dont_write_bytecode = False
    places = [str(copy), str(Path(__file__).parent)]
    sys.path[:0] = places
    os.environ |= {"PYTHONPATH": os.pathsep.join(places), "FIMSDE_WITNESS": str(witness)}
    import pytest  # not before: pytest decides what is rewritten when it is imported

    options = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "witness"]
    sys.exit(int(pytest.main([*options, *(f"tests/{test}" for test in tests)])))


def kernels_with(package: Path, file: str) -> list[str]:
    """Files with compiled kernels that contain code of this file: numba looks at the time of their own file only."""
    texts = {f.relative_to(package).as_posix(): f.read_text() for f in package.rglob("*.py")}
    compiler = re.compile(r"^from (numba|fimsde\.compiler)\b", re.MULTILINE)
    users = {name: text for name, text in texts.items() if compiler.search(text)}
    found: set[str] = set()
    todo = [file]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            module = re.escape(".".join(("fimsde", *Path(name).with_suffix("").parts)))
            todo += [user for user, text in users.items() if re.search(rf"^from {module} import ", text, re.MULTILINE)]
    return sorted(found & set(users))


def _compiled(file: Path) -> list[Path]:
    return [f for f in (file.parent / "__pycache__").glob(f"{file.stem}.*") if f.suffix in (".nbi", ".nbc")]


def _forget(file: Path) -> None:
    for kept in _compiled(file):
        kept.unlink()
