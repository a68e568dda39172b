"""The road points one way: every module imports only what stands before it, and the README shows the real tree."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "fimsde"
ROAD = (  # a folder or module imports those before it; modules of one folder import each other without a circle
    *(
        "_version",
        "errors",
        "shapes",
        "distributions",
        "compiler",
        "files",
        "data",
        "datasets",
        "equations",
        "simulate",
    ),
    *("tabulate_kernels", "tabulate", "filter", "bank", "evidence", "model", "estimation"),
    *("prior", "systems", "metrics", "baselines", "train", "methods"),
    *("analysis", "results", "sklearn", "plots", "report", "export", "benchmark", "interface", "__main__"),
)
TABLE = "fimsde"  # __init__.py: the table of public names, most of them imported on first use


def module_name(file: Path, package: Path) -> str:
    parts = ["fimsde", *file.relative_to(package).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(package: Path) -> dict[str, set[str]]:
    """For every module the modules that it imports anywhere, inside functions and for types as well."""
    files = {module_name(file, package): file for file in package.rglob("*.py")}
    found: dict[str, set[str]] = {}
    for name, file in files.items():
        asked: set[str] = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                asked |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.module, f"{name}: write imports with the full name of the module"
                longer = {f"{node.module}.{alias.name}" for alias in node.names} & set(files)
                asked |= longer
                if len(longer) < len(node.names):
                    asked.add(node.module)
        found[name] = asked & set(files) - {name}
    return found


def stage(module: str) -> int:
    return ROAD.index(module.split(".")[1])


def wrong_way(graph: dict[str, set[str]]) -> list[str]:
    """Imports of what stands later on the road, and circles inside a folder. The table of public names is no stage."""
    graph = {name: asked - {TABLE} for name, asked in graph.items() if name != TABLE}
    up = [f"{a} imports {b}" for a, asked in graph.items() for b in sorted(asked) if stage(b) > stage(a)]
    left = dict(graph)
    while free := {n for n, asked in left.items() if not asked & set(left)} | (set(left) - set().union(*left.values())):
        left = {name: asked for name, asked in left.items() if name not in free}
    return up + [f"{name} imports itself by way of {sorted(asked & set(left))}" for name, asked in left.items()]


def test_imports_point_down_the_road_and_never_in_a_circle():
    assert wrong_way(imports(PACKAGE)) == []


def test_only_results_and_the_interface_ask_the_table_of_public_names():
    askers = {name for name, asked in imports(PACKAGE).items() if TABLE in asked}
    assert {stage(name) for name in askers} <= {ROAD.index("results"), ROAD.index("interface")}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("def late():\n    from fimsde.plots import style\n", "fimsde.bank.b imports fimsde.plots.style"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import fimsde.plots.style\n", "fimsde.plots.style"),
        ("from fimsde.bank.a import x\n", "imports itself"),
    ],
)
def test_a_late_import_one_for_types_and_a_circle_would_be_noticed(line, said, tmp_path):
    for name in ("__init__.py", "bank/__init__.py", "plots/__init__.py", "plots/style.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "bank" / "a.py").write_text("from fimsde.bank import b\nx = 1\n")
    (tmp_path / "bank" / "b.py").write_text("import numpy\n")
    assert wrong_way(imports(tmp_path)) == []
    (tmp_path / "bank" / "b.py").write_text(line)
    assert any(said in sentence for sentence in wrong_way(imports(tmp_path)))


def test_the_tree_in_the_readme_is_the_real_tree():
    section = (ROOT / "README.md").read_text().split("## The package")[1].split("\n## ")[0]
    shown = re.findall(r"^    ([\w/.]+) {2,}\S", section, re.MULTILINE)
    real = {f"{f.name}/" if f.is_dir() else f.name for f in PACKAGE.iterdir() if not f.name.startswith("__")}
    assert sorted(shown) == sorted(real)


def test_the_stations_of_the_page_on_the_layout_exist():
    files = re.findall(r"^\| `([\w/.]+)` \| .+ \|$", (ROOT / "docs" / "layout.md").read_text(), re.MULTILINE)
    assert 8 <= len(files) <= 12
    for file in files:
        assert (PACKAGE / file).is_file(), f"there is no {file}"


def test_what_contributors_are_told_to_touch_exists():
    """Hypothesis, baseline, verdict and kind of equation, each in at most three files; NAME stands for a new one."""
    text = (ROOT / "CONTRIBUTING.md").read_text().split("Where things are added:")[1].split("\n\n")[1]
    entries = text.split("\n- ")
    assert len(entries) == 4
    for entry in entries:
        files = set(re.findall(r"`([\w/]+(?:\.py|/))`", entry))
        assert 2 <= len(files) <= 3, entry
        for file in files - {name for name in files if "NAME" in name}:
            place = ROOT if file.startswith("tests/") else PACKAGE
            assert (place / file).exists(), f"there is no {file}"
