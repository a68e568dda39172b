"""Which code made a number: a digest of the source that decides it.

digest = SHA-256 of the sorted digests of all top-level statements in the places of the table `DECIDES`.

A statement is what Python parses: comments, docstrings and layout do not count. Imports do not count either, and only
contents are hashed, so that a function may move to another module of the same places, and a module to another name.
The weights are in a method's settings, the paper's numbers are no code, and neither is here.
"""

import ast
import hashlib
from functools import lru_cache
from pathlib import Path

from fimsde.errors import ConfigError

_PRINTING = ("__str__", "_repr_html_")  # methods that decide no number
_SHOWN = ("health.py", "lines.py", "summary.py")  # modules of `data`, likewise
UNKNOWN = "unknown"  # of results stored before there were fingerprints
PACKAGE = Path(__file__).parent.parent

SHARED = ("data", "equations", "simulate.py", "metrics", "systems/canonical.py")  # by all that is measured
MEASURED = (  # for every method: the data of the paper's experiments, and what is measured on them
    *(*SHARED, "systems/lorenz.py", "systems/out_of_class.py", "systems/real_world.py"),
    *("benchmark/tasks.py", "benchmark/measure.py"),
)
EVIDENCE = ("evidence", "bank", "distributions.py")
MODEL = ("bank", "model", "estimation.py")  # the prior is for training only: what it taught is in the weights
LIBRARY = "baselines/library.py"
DECIDES = {  # of a method with this name, or with this name and more words after a dash
    "ours": MODEL,
    "fim": MODEL,
    "fim-paper": (*MODEL, "benchmark/scaling/reading.py"),  # arms
    "evidence": EVIDENCE,
    "ours-finetuned": (*MODEL, "train/finetune", "train/config.py", "train/loop.py", "train/losses.py"),
    "kramers-moyal": ("baselines/kramers_moyal.py", LIBRARY),
    "sparse-cubic": ("baselines/sparse_cubic.py", LIBRARY),
    "gp-increments": ("baselines/gp_increments.py", "baselines/radial.py"),
    "gp-weak": ("baselines/gp_weak.py", "baselines/gp_increments.py", "baselines/radial.py", "bank"),
    "bisde": ("baselines/bisde.py", "baselines/msbl.py", LIBRARY),
    "sparsegp": ("baselines/sparse_gp.py", "baselines/gaussian_process.py", LIBRARY),
    "latentsde": (
        *("baselines/latent_sde.py", "baselines/latent_modules.py"),
        *("baselines/latent_srk.py", "baselines/latent_checkpoint.py"),
    ),
    "pysindy": ("baselines/peers.py", "baselines/peers_pysindy.py", LIBRARY),
    "sfi": ("baselines/peers.py", "baselines/peers_sfi.py", LIBRARY),
}


@lru_cache
def fingerprint(method: str, package: Path = PACKAGE) -> str:
    """The digest of what decides the numbers of a method; of one that is not ours, the data and the measures alone."""
    return digest_of((*MEASURED, *own_places(method)), package)


def own_places(method: str) -> tuple[str, ...]:
    """The modules and folders of a method: those of the longest name in the table that its name begins with.

    None if it is not ours.
    """
    words = method.split("-")
    names = ("-".join(words[:n]) for n in range(len(words), 0, -1))
    return next((DECIDES[name] for name in names if name in DECIDES), ())


def digest_of(places: tuple[str, ...], package: Path = PACKAGE) -> str:
    """The digest of modules and folders of the package, in whatever order."""
    files = {file for place in places for file in _files(package / place)}
    statements = sorted(digest for file in files for digest in _statements(file.read_text(encoding="utf-8")))
    return hashlib.sha256("\n".join(statements).encode()).hexdigest()[:16]


def _files(place: Path) -> list[Path]:
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    if not files or not files[0].is_file():
        raise ConfigError(f"{place} decides numbers and is not there; correct the table in benchmark/fingerprint.py.")
    return [file for file in files if not (file.parent.name == "data" and file.name in _SHOWN)]


@lru_cache(maxsize=1000)
def _statements(source: str) -> list[str]:
    tree = _Bare().visit(ast.parse(source))
    return [hashlib.sha256(_dump(node).encode()).hexdigest() for node in tree.body]


class _Bare(ast.NodeTransformer):
    """A module without imports, docstrings, its list of public names and what only prints."""

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | None:
        return None if ast.unparse(node.targets[0]) == "__all__" else node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        self.generic_visit(node)
        return node if node.body or node.orelse else None  # there were only imports, for types

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        return None if node.name in _PRINTING else self._definition(node)

    def _definition(self, node: ast.AST) -> ast.AST:
        body: list[ast.stmt] = node.body  # type: ignore[attr-defined]  # modules, classes and functions have one
        if body and isinstance(body[0], ast.Expr) and isinstance(getattr(body[0].value, "value", None), str):
            del body[0]
        return self.generic_visit(node)

    visit_Module = visit_ClassDef = visit_AsyncFunctionDef = _definition


def _dump(node: object) -> str:
    """`ast.dump`, but the same for every version of Python: without what is empty, and without how a name is used."""
    if isinstance(node, list):
        return f"[{', '.join(map(_dump, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = ((name, value) for name, value in ast.iter_fields(node) if name not in ("ctx", "kind"))
    parts = [f"{name}={_dump(value)}" for name, value in fields if value is not None and value != []]
    return f"{type(node).__name__}({', '.join(parts)})"
