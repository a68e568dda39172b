"""Scripts beside the package import what there is: one of them had stopped to run, and nobody was told."""

import ast
from functools import cache
from pathlib import Path

import pytest

import fimsde

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted([*ROOT.glob("benchmarks/*.py"), *ROOT.glob("benchmarks/pages/*.py"), *ROOT.glob("examples/*.py")])


@cache
def names_of(module: str) -> set[str] | None:
    """What a module of the package holds at its top, and its submodules; None if there is none."""
    if module == "fimsde":
        return {*fimsde.__all__, *(p.stem for p in ROOT.glob("src/fimsde/*"))}
    place = ROOT.joinpath("src", *module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not file.is_file():
        return None
    names = {p.stem for p in place.glob("*")} if place.is_dir() else set()
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.ImportFrom(names=aliases) | ast.Import(names=aliases):
                names |= {alias.asname or alias.name for alias in aliases}
    return names


def missing(source: str) -> list[str]:
    """What a script imports from the package, and is not there."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fimsde":
            names = names_of(str(node.module))
            found += [str(node.module)] if names is None else [a.name for a in node.names if a.name not in names]
    return found


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_scripts_import_what_there_is(script):
    assert missing(script.read_text()) == []


def test_what_is_not_there_is_seen():
    assert missing("from fimsde.nowhere import x") == ["fimsde.nowhere"]
    assert missing("from fimsde.simulate import simulate, simulated") == ["simulated"]
