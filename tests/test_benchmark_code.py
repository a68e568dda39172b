"""Stored numbers know the code that made them: what changes the fingerprint, what is said, renewed and adopted."""

import ast
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fimsde.benchmark import Method, run
from fimsde.benchmark.adopt import adopt, first_difference
from fimsde.benchmark.fingerprint import DECIDES, MEASURED, PACKAGE, UNKNOWN, fingerprint
from fimsde.benchmark.provenance import is_present, remarks
from fimsde.benchmark.results import read, result_file
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import ConfigError
from fimsde.interface.cli import app
from fimsde.methods import NAMES
from fimsde.systems.canonical import DOUBLE_WELL
from test_layout import imports

# What the fingerprint sees


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    place = tmp_path_factory.mktemp("copy") / "package"
    return shutil.copytree(PACKAGE, place, ignore=shutil.ignore_patterns("__pycache__", "weights"))


def fingerprint_with(package, method, file, source):
    """The fingerprint of a method when one module of a copy of the package has another source."""
    before = (package / file).read_text()
    try:
        (package / file).write_text(source)
        fingerprint.cache_clear()
        return fingerprint(method, package)
    finally:
        (package / file).write_text(before)


def test_a_comment_a_docstring_and_layout_do_not_count(package):
    text = (PACKAGE / "simulate.py").read_text()
    docstring = ast.parse(text).body[0].value.value
    for source in (f"# A remark.\n{text}", text.replace(docstring, "Other words."), ast.unparse(ast.parse(text))):
        assert source != text
        assert fingerprint_with(package, "ours", "simulate.py", source) == fingerprint("ours")


def test_an_import_and_a_list_of_public_names_do_not_count(package):
    more = "import json\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import math\n__all__ = ['x']\n"
    source = (PACKAGE / "simulate.py").read_text() + more
    assert fingerprint_with(package, "ours", "simulate.py", source) == fingerprint("ours")


@pytest.mark.parametrize(
    ("file", "decided", "not_decided"),
    [
        ("bank/fit.py", ("ours", "ours-finetuned"), ("bisde", "mine")),
        ("baselines/msbl.py", ("bisde",), ("ours", "kramers-moyal")),
        ("systems/canonical.py", ("ours", "bisde", "mine"), ()),
        ("prior/polynomials.py", (), ("ours",)),
    ],
)
def test_a_constant_counts_for_the_methods_it_decides_and_for_no_other(file, decided, not_decided, package):
    source = (PACKAGE / file).read_text()
    for method in (*decided, *not_decided):
        one, other = (fingerprint_with(package, method, file, f"{source}\n_X = {value}\n") for value in (1.5, 1.6))
        assert (one != other, one != fingerprint(method)) == (method in decided,) * 2


def test_a_module_may_move_and_a_function_too(package):
    moved = shutil.copytree(package, package.parent / "moved")
    (moved / "bank" / "fit.py").rename(moved / "bank" / "regression.py")
    file = moved / "bank" / "monomials.py"
    tree = ast.parse(file.read_text())
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    tree.body.remove(function)
    file.write_text(ast.unparse(tree))
    (moved / "bank" / "elsewhere.py").write_text(f'"""Moved."""\n\nimport math\n\n{ast.unparse(function)}\n')
    assert fingerprint("ours", moved) == fingerprint("ours")


def test_a_place_that_is_gone_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"decides numbers and is not there; correct the table"):
        fingerprint("ours", tmp_path)


def test_variants_of_a_method_share_its_code():
    assert fingerprint("ours-origin") == fingerprint("ours") == fingerprint("fim-folder")
    assert fingerprint("kramers-moyal-binned") == fingerprint("kramers-moyal")
    assert len({fingerprint(name) for name in DECIDES}) == len(DECIDES) - 1  # ours and fim are the same
    assert all(fingerprint(name) != fingerprint("mine") for name in NAMES)


WITHOUT_NUMBERS = {  # imported, and no number depends on them
    *("_version", "errors", "shapes", "compiler", "files", "methods", "prior", "benchmark.results"),
    *("benchmark.fingerprint", "train.checkpoint", "train.log", "train.processes", "train.run_folder"),
}


@pytest.mark.parametrize("name", DECIDES)
def test_what_decides_a_number_imports_nothing_that_the_table_has_forgotten(name):
    """But for modules of which it is said, above, that no number depends on them."""
    graph = imports(PACKAGE)
    places = {f"fimsde.{p.removesuffix('.py').replace('/', '.')}" for p in (*MEASURED, *DECIDES[name])}
    others = {f"fimsde.{place}" for place in WITHOUT_NUMBERS}

    def among(module, some):
        return any(module == place or module.startswith(place + ".") for place in some)

    asked = set().union(*(graph[module] for module in graph if among(module, places)))
    assert {m for m in asked if not among(m, places | others) and m != "fimsde"} == set()


# What is done about it


def fit(observations, seed):
    return FunctionSDE(1, DOUBLE_WELL.drift, DOUBLE_WELL.diffusion)


def other_fit(observations, seed):
    return FunctionSDE(1, lambda x: 1.01 * DOUBLE_WELL.drift(x), DOUBLE_WELL.diffusion)


MINE, OTHER = Method("mine", "Mine", fit), Method("mine", "Mine", other_fit)


def quick(method, out, **options):
    options = {"systems": ["double_well"], "repetitions": 1, "compare_paths": False} | options
    return run("canonical", [method], out=out, quick=True, cache=out / "grams", **options)


def file_of(result, out):
    return result_file(out, result.task, result.method, result.method_settings)


def forget(results, out, code=None):
    """As if the results had been stored before there were fingerprints, or by other code."""
    for result in results:
        file = file_of(result, out)
        stored = json.loads(file.read_text())
        del stored["code"], stored["adopted"]
        file.write_text(json.dumps(stored | ({} if code is None else {"code": code}), indent=1) + "\n")
    return [read(file_of(result, out)) for result in results]


def test_a_result_carries_the_fingerprint_of_its_code_and_older_ones_say_unknown(tmp_path):
    results = quick(MINE, tmp_path)
    assert [r.code for r in results] == [fingerprint("mine")] * 4
    assert remarks(results, tmp_path) == []
    old = forget(results, tmp_path)
    assert [r.code for r in old] == [UNKNOWN] * 4
    assert old == [replace(r, code=UNKNOWN) for r in results]


def test_stale_results_are_kept_and_said_and_renewed_when_asked(tmp_path):
    results = quick(MINE, tmp_path)
    forget(results[:1], tmp_path, code="0123")
    kept = quick(OTHER, tmp_path)
    assert [is_present(r) for r in kept] == [False, True, True, True]
    (line,) = remarks(kept, tmp_path)
    assert line.startswith("canonical, mine: of 4 stored results, 1 by other code; they are kept.")
    renewed = quick(OTHER, tmp_path, renew=True)
    assert all(is_present(r) for r in renewed)
    assert renewed[0].grid_error != results[0].grid_error  # this one was computed again, by the other fit
    assert renewed[1:] == results[1:]


def test_what_is_said_names_the_systems_and_what_to_run(tmp_path):
    (result, *_) = quick(MINE, tmp_path)
    named = replace(result, method="bisde", code=UNKNOWN)
    fine = replace(named, code=fingerprint("bisde"), task=replace(named.task, system="hopf"))
    (line,) = remarks([named, fine], Path("here"))
    assert "of 2 stored results, 1 by unknown code (double_well); they are kept." in line
    assert "fimsde bench canonical --methods bisde --out here --adopt 5" in line
    assert "--weights FOLDER" in remarks([replace(named, method="fim-folder")], Path("here"))[0]


def test_results_are_adopted_if_a_sample_agrees_and_stay_the_same_files_otherwise(tmp_path):
    old = forget(quick(MINE, tmp_path, compare_paths=True), tmp_path)
    before = [json.loads(file_of(r, tmp_path).read_text()) for r in old]
    assert remarks(old, tmp_path) != []
    found = adopt(MINE, old, out=tmp_path, sample=2, cache=tmp_path / "grams")
    assert str(found) == "mine: 2 of 4 stored results computed again, all numbers within 0.001; all 4 adopted."
    after = [json.loads(file_of(r, tmp_path).read_text()) for r in old]
    assert after == [b | {"code": fingerprint("mine"), "adopted": True} for b in before]
    assert str(adopt(MINE, quick(MINE, tmp_path), out=tmp_path, sample=2)) == "mine: nothing to adopt."


def test_nothing_is_adopted_if_a_number_differs(tmp_path):
    old = forget(quick(MINE, tmp_path), tmp_path)
    found = adopt(OTHER, old, out=tmp_path, sample=4)
    assert "1 of 4 stored results computed again, none adopted" in str(found)
    assert "grid_error.drift = 0.0 and now" in found.difference
    assert [read(file_of(r, tmp_path)).code for r in old] == [UNKNOWN] * 4


def test_rounding_is_no_difference_and_little_more_is(tmp_path):
    (result, *_) = quick(OTHER, tmp_path, compare_paths=True)
    error, score = result.grid_error, result.scores[""]
    near = replace(result, grid_error=replace(error, drift=error.drift * (1 + 5e-4)), fit_cpu_seconds=1e9)
    assert first_difference(result, near) is None
    far = replace(result, grid_error=replace(error, drift=error.drift * (1 + 2e-3)))
    assert "grid_error.drift" in first_difference(result, far)
    moved = replace(result, scores={"": replace(score, value=score.value + 2e-4 + 2e-3 * abs(score.value))})
    assert "scores.value" in first_difference(result, moved)
    assert "failure" in first_difference(result, replace(result, failure="ValueError: no"))
    assert first_difference(replace(result, failure="E: 1"), replace(result, failure="E: 2")) is None
    assert np.isfinite(score.value)


def test_the_command_line_says_what_is_stale_adopts_it_and_renews_it(tmp_path):
    def bench(*options):
        words = ["bench", "canonical", "--methods", "kramers-moyal", "--quick", "--no-paths"]
        words += ["--systems", "double_well", "--repetitions", "1"]
        return CliRunner().invoke(app, [*words, "--out", str(tmp_path), *options])

    assert bench().stderr.count("kramers-moyal: of") == 0
    files = sorted((tmp_path / "canonical").rglob("*.json"))
    results = [read(file) for file in files]
    forget(results, tmp_path, code="0123")
    said = bench("--summary")
    assert "kramers-moyal: of 4 stored results, 4 by other code" in said.stderr
    assert json.loads(bench("--summary", "--json").stdout)
    adopted = bench("--adopt", "3")
    assert (adopted.exit_code, "2 of 4 stored results" in adopted.stdout) == (0, True)
    assert bench("--summary").stderr == ""
    forget(results, tmp_path)
    file = files[0]
    file.write_text(file.read_text().replace('"drift": ', '"drift": 9'))
    refused = bench("--adopt", "4")
    assert (refused.exit_code, "none adopted" in refused.stdout) == (1, True)
    assert bench("--renew").stderr.count("kramers-moyal: of") == 0
    assert [replace(read(f), fit_cpu_seconds=0) for f in files] == [replace(r, fit_cpu_seconds=0) for r in results]
