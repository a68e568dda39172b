"""No figure on a page is typed by hand: all are written from stored results, and a change on either side is noticed."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "benchmarks"))  # last: there are modules of the same name here

import record  # noqa: E402
from pages.__main__ import TABLES, main, pages_with_markers  # noqa: E402
from pages.formats import in_words, listed, markdown, spaced, ten_thousandths, thousandths, two_digits  # noqa: E402
from pages.markers import fill, outside  # noqa: E402
from pages.stored import EXPERIMENTS, RESULTS  # noqa: E402

from fimsde.benchmark.suites.cases import SUITES, cases  # noqa: E402
from fimsde.benchmark.suites.measure import Score  # noqa: E402
from fimsde.benchmark.suites.store import scores_file, write_scores  # noqa: E402
from fimsde.methods import named  # noqa: E402


@pytest.fixture
def copy(tmp_path):
    """The pages and the stored results, to be changed."""
    for page in pages_with_markers(ROOT):
        place = tmp_path / page.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, place)
    for file in (ROOT / "docs" / "benchmark").glob("*.*"):
        shutil.copy(file, tmp_path / "docs" / "benchmark" / file.name)
    shutil.copytree(RESULTS, tmp_path / "results")
    return tmp_path


def check(root, *options):
    return main(["--root", str(root), "--results", str(root / "results"), *options])


def test_all_pages_are_what_the_stored_results_say(capsys):
    assert main(["--check"]) == 0, capsys.readouterr().out


def test_a_changed_result_is_noticed_on_every_page_that_has_it_and_written(copy, capsys):
    (file,) = (copy / "results" / "canonical" / "hopf" / "rho0-dtau0.002").glob("ours-0-*.json")
    stored = json.loads(file.read_text())
    stored["grid_error"]["drift"] *= 10
    file.write_text(json.dumps(stored, indent=1))
    assert check(copy, "--check") == 1
    printed = capsys.readouterr().out
    for page in (
        "README.md",
        "src/fimsde/weights/README.md",
        "docs/benchmark/bundled.md",
        "docs/benchmark/canonical.csv",
    ):
        assert f"+++ {page} as stored" in printed
    assert re.search(r"^-Better in .*>55 of 56<.*\n.*\n?\+Better in .*>54 of 56<", printed, re.MULTILINE)
    assert check(copy) == 0
    assert ">54 of 56<" in (copy / "README.md").read_text()


def test_a_changed_number_of_a_script_a_typed_figure_and_other_code_are_noticed(copy, capsys):
    speed, short = (copy / "results" / "scripts" / f"{name}.json" for name in ("bundled_speed", "short_data"))
    speed.write_text(speed.read_text().replace('"locations": 0.', '"locations": 1.', 1))
    short.write_text(json.dumps(json.loads(short.read_text()) | {"code": "0123"}))
    page = copy / "docs" / "finetuning.md"
    page.write_text(page.read_text().replace("| N(0,1) | 0.0000", "| N(0,1) | 0.0001"))
    assert check(copy, "--check") == 1
    found = capsys.readouterr()
    for name in ("benchmark/bundled", "finetuning", "benchmark"):
        assert f"+++ docs/{name}.md as stored" in found.out
    assert "+++ README.md" not in found.out
    assert "scripts, short_data: by other code" in found.err
    assert "scripts, ablation: by unknown code" in found.err


def test_every_table_has_its_place_and_every_stored_number_of_a_script_a_table():
    text = "".join(page.read_text() for page in pages_with_markers(ROOT))
    assert set(re.findall(r"^<!-- table: ([\w-]+);", text, re.MULTILINE)) == set(TABLES)
    assert set(record.PLACES) <= {file.stem for file in (RESULTS / "scripts").glob("*.json")}


NOT_MEASURED = {  # tables with numbers that are settings or codes
    "docs/analysis.md": "method",
    "docs/command-line.md": "exit code",
    "docs/pretraining.md": "preset",
    "docs/scaling.md": "preset",
}


def test_no_table_of_figures_stands_outside_markers():
    for page in pages_with_markers(ROOT):
        name = page.relative_to(ROOT).as_posix()
        if name not in {f"docs/benchmark/{experiment}.md" for experiment in (*EXPERIMENTS, *SUITES)}:  # whole
            for table in re.findall(r"(?:^\|.*\|\n)+", outside(page.read_text()), re.MULTILINE):
                head = table.split("|")[1].strip()
                numbers = re.findall(r"\| *[−-]?[\d.]+(?: ?±[\d. ]+)? ?%? *(?=\|)", table)
                assert not numbers or head == NOT_MEASURED.get(name), f"{name}: the table {head!r} has {numbers[:3]}"


def test_a_suite_has_a_page_as_soon_as_scores_are_stored(copy, capsys):
    (method,) = named(["sfi-linear"])
    file = scores_file(copy / "results", "bursts", 0, method)
    first, *_ = cases("bursts")
    score = Score("roessler", "", 0, "other", 1.0, None, *[0.125] * 3, 0, 0.125, 0.125, [1.0] * 3)
    write_scores(file, method, {(first.system, first.setting, first.repetition): score})
    assert check(copy, "--check") == 1
    found = capsys.readouterr()
    assert "+++ docs/benchmark/bursts.md as stored" in found.out
    assert "bursts, sfi-linear: 1 of 1 scores are of other code" in found.err
    assert check(copy) == 0
    assert "0.125" in (copy / "docs" / "benchmark" / "bursts.md").read_text()


# Markers


def page(text, table=lambda name: f"| {name} |", number=lambda *words: "+".join(words)):
    return fill(text, table, number)


def test_markers_are_filled_and_all_else_stays():
    text = "a\n<!-- table: t; command -->\n\n| old |\n\n<!-- end -->\nsays <!--=n x y-->7<!--=-->, <!-- a remark -->\n"
    assert page(text) == text.replace("| old |", "| t |").replace(">7<", ">n+x+y<")
    assert page(page(text)) == page(text)
    assert outside(text) == "a\n\nsays , <!-- a remark -->\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!-- table: t; c -->\n| a |\n", "without its partner"),
        ("a\n<!-- end -->\n", "without its partner"),
        ("so <!--=n-->7 it is\n", "without its partner"),
        ("<!--=n-->7<!--=--> it is\n", "first on its line"),
        ("- <!--=n-->7<!--=--> it is\n", "first on its line"),
    ],
)
def test_a_broken_marker_is_an_error(text, said):
    with pytest.raises(ValueError, match=said):
        page(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!-- table: nothing; c -->\n\n<!-- end -->", "no table 'nothing'; there are ablation,"),
        ("x <!--=nothing-->1<!--=-->", "no number 'nothing'; there are all-mmd,"),
        ("x <!--=mmd latentsde oil-->1<!--=-->", "no stored result of real-world oil one step mmd latentsde"),
    ],
)
def test_an_unknown_name_and_a_result_that_is_not_stored_are_named(text, said, tmp_path):
    card = tmp_path / "src" / "fimsde" / "weights" / "README.md"
    card.parent.mkdir(parents=True)
    card.touch()
    (tmp_path / "README.md").write_text(text + "\n")
    with pytest.raises(SystemExit, match=f"README.md: {said}"):
        main(["--check", "--root", str(tmp_path)])


def test_formats():
    assert [two_digits(v) for v in (0.0463, 0.7, 1.27, 18.6, 366.0)] == ["0.046", "0.70", "1.3", "19", "366"]
    assert [thousandths(v) for v in (0.0046, 0.35, 6.11)] == ["0.005", "0.35", "6.1"]
    assert [ten_thousandths(v) for v in (1.2727, 0.0902, 0.00795001, 0.00066)] == ["1.27", "0.090", "0.0080", "0.0007"]
    assert [spaced(444_580), spaced(1033)] == ["444 580", "1033"]
    assert [in_words(0), in_words(3), in_words(13)] == ["no", "three", "13"]
    assert [listed(["a"]), listed(["a", "b", "c"])] == ["a", "a, b and c"]
    assert markdown(["", "n"], [["x", "1"], ["", ""]]) == "| | n |\n|---|--:|\n| x | 1 |\n| | |"


def test_a_script_keeps_its_numbers_with_the_code_that_made_them(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "FOLDER", tmp_path / "scripts")
    monkeypatch.setattr(sys, "argv", ["/somewhere/prior_speed.py", "--store"])
    record.store("prior_speed", {"rows": []})
    found = record.load("prior_speed", tmp_path / "scripts")
    assert found["command"] == "python benchmarks/prior_speed.py --store"
    assert record.is_present("prior_speed", found)
    assert not record.is_present("prior_speed", found | {"code": "unknown"})
