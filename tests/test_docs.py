"""The pages of the documentation hang together: all can be reached, all links lead somewhere, all names are there."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
import typer

import fimsde
from fimsde.interface.cli import app

ROOT = Path(__file__).parent.parent
DOCS = (ROOT / "docs").resolve()
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)


def directives(page, name):
    """Argument and content of every directive of one name on a page, those inside others too."""
    text, found = page.read_text(), []
    for match in re.finditer(r"^(`{3,}|:{3,})\{" + name + r"\}[ ]*([^\n]*)\n", text, re.MULTILINE):
        rest = text[match.end() :]
        end = re.search(rf"^{match[1]}\s*$", rest, re.MULTILINE)
        assert end, f"{page.name}: {name} is not closed"
        found.append((match[2].strip(), rest[: end.start()]))
    return found


def children(page):
    """The pages a page lists in its tables of contents."""
    found = []
    for _, content in directives(page, "toctree"):
        for entry in (line for line in content.splitlines() if line and not line.startswith(":")):
            if "*" in entry:
                found += [file.resolve() for file in sorted(page.parent.glob(entry + ".md"))]
            else:
                found.append((page.parent / (entry + ".md")).resolve())
    return found


def anchors(page):
    """The names under which headings of a page can be reached, included files too."""
    text = page.read_text()
    for target, _ in directives(page, "include"):
        text += (page.parent / target).read_text()
    titles = re.findall(
        r"^#{1,3} (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    slugs = {re.sub(r"[^\w\- ]", "", title.lower().replace("`", "")).strip().replace(" ", "-") for title in titles}
    return slugs | set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


def links(page):
    """Targets of links and pictures outside code."""
    text = re.sub(r"^(`{3,})(?!\{).*?^\1", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"(?<!`)`[^`\n]+`(?!`)", "", text)
    return re.findall(r"\]\(([^()\s]+)\)", text)


def test_every_page_can_be_reached_from_the_first():
    reached, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        assert page.is_file(), f"a table of contents lists {page.name}, which is not there"
        if page not in reached:
            reached.add(page)
            waiting += children(page)
    assert set(PAGES) == reached


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_every_link_leads_somewhere(page):
    for link in links(page):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        file, _, anchor = link.partition("#")
        target = page if not file else (page.parent / file).resolve()
        assert target.is_file(), f"{link} is not there"
        if anchor:
            assert anchor in anchors(target), f"{link} names a heading that {target.name} does not have"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_what_a_page_takes_from_elsewhere_is_there(page):
    for target, content in directives(page, "include"):
        text = (page.parent / target).read_text()
        for mark in re.findall(r"^:(?:start-after|end-before): \"?(.+?)\"?$", content, re.MULTILINE):
            assert text.count(mark) == 1, f"{target} has {mark!r} {text.count(mark)} times"
    for name in ("example", "picture"):
        for script, _ in directives(page, name):
            assert (ROOT / "examples" / script).is_file(), f"there is no examples/{script}"


def test_a_link_to_nowhere_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One\n\n[a](other.md) and `[b](code.md)`\n\n```python\n[c](code.md)\n```\n\n## Two words: `x`\n")
    assert links(page) == ["other.md"]
    assert anchors(page) == {"one", "two-words-x"}


def test_every_example_is_on_a_page():
    shown = {script for page in PAGES for script, _ in directives(page, "example")}
    assert shown == {script.name for script in (ROOT / "examples").glob("*.py")}


def test_every_public_name_is_on_the_page_of_the_api():
    text = (DOCS / "api.md").read_text()
    documented = set(re.findall(r"^\.\. (?:auto\w+|data):: fimsde\.(\w+)$", text, re.MULTILINE))
    assert documented == set(fimsde.__all__)


def commands():
    """Every command by its name."""
    program = typer.main.get_command(app)
    return {name: program.get_command(None, name) for name in program.list_commands(None)}


def command(verb):
    return commands()[verb]


def options(chosen):
    return {flag for c in chosen for p in c.params for flag in (*p.opts, *p.secondary_opts) if flag.startswith("--")}


def test_every_verb_has_its_row_on_the_page_of_the_command_line():
    listed = re.findall(r"^\| `(\w+)` \|", (DOCS / "command-line.md").read_text().split("\n## ")[0], re.MULTILINE)
    assert sorted(listed) == sorted(commands())


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_commands_on_pages_have_the_options_they_are_given(page):
    """In lines that begin with the program; the words after it are the verb and its options."""
    for line in re.findall(r"^(?: {4}|.*`)fimsde (\w[^`#\n]*)", page.read_text(), re.MULTILINE):
        verb, *words = line.split()
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert given <= options([command(verb)]) | {"--help"}, line


def test_every_option_named_on_the_page_of_the_command_line_exists():
    named = set(re.findall(r"`(--[a-z-]+)", (DOCS / "command-line.md").read_text()))
    assert "--separator" in named
    assert named <= options(commands().values()) | {"--install-completion"}


def test_commands_without_json_are_those_the_page_names():
    sentence = re.search(r"Only (.*?) has no `--json`", (DOCS / "command-line.md").read_text())[1]
    verbs = commands()
    assert set(re.findall(r"`(\w+)`", sentence)) == {v for v, c in verbs.items() if "--json" not in options([c])}


def test_the_picture_of_the_first_minute_is_small_and_named_with_its_command():
    text = (ROOT / "README.md").read_text()
    place = re.search(r"!\[.+\]\((docs/.+?\.png)\)", text)
    file = ROOT / place[1]
    assert file.read_bytes().startswith(b"\x89PNG")
    assert file.stat().st_size < 150_000
    assert "`make figure`" in text[place.end() : place.end() + 300]
    recipe = (ROOT / "Makefile").read_text().split("\nfigure:")[1].split("\n\n")[0]
    assert place[1] in recipe
    assert place.start() < text.index("## Install") < text.index("fimsde.estimate(") < text.index("## Results")


@pytest.fixture(scope="module")
def script():
    """The module that cuts and runs examples for the pages."""
    spec = importlib.util.spec_from_file_location("script", DOCS / "_ext" / "script.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["script"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["script"]


EXAMPLE = '''"""Docstring."""

# %%
# Some *text*,
# two lines.

a = 1
print("first", a)

# %%
# A comment inside code stays there.
a += 1
# like this one
print("second", a)
'''


def test_a_script_is_cut_into_text_and_code_and_run(script, tmp_path):
    file = tmp_path / "example.py"
    file.write_text(EXAMPLE)
    done = script.run_script(file, tmp_path / "run")
    assert [cell.text for cell in done.cells] == ["Some *text*,\ntwo lines.", "A comment inside code stays there."]
    assert [cell.output for cell in done.cells] == ["first 1", "second 2"]
    assert [cell.line for cell in done.cells] == [7, 12]
    assert "# like this one" in done.cells[1].code


def test_pictures_belong_to_the_cell_that_wrote_them(script, tmp_path):
    file = tmp_path / "example.py"
    write = 'from pathlib import Path\nPath("b.png").write_bytes(b"1")\nPath("a.png").write_bytes(b"1")\n'
    file.write_text(f"# %%\nx = 1\n# %%\n{write}# %%\nx = 2\n")
    done = script.run_script(file, tmp_path / "run")
    assert [[picture.name for picture in cell.pictures] for cell in done.cells] == [[], ["b.png", "a.png"], []]


def test_a_script_that_was_run_is_a_notebook_with_its_outputs(script, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "_ext")
    import notebook

    file = tmp_path / "example.py"
    drawn = "import pathlib\npathlib.Path('a.png').write_bytes(b'picture')"
    file.write_text(f'"""A title: more.\n\nRun it.\n"""\n\n# %%\n# Text *here*.\n\nprint("seen", 1)\n{drawn}\n')
    made = json.loads(notebook.to_notebook(script.run_script(file, tmp_path / "run"), notebook.title_of(file)))
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    title, text, code = made["cells"]
    assert title["source"] == ["# A title: more"]
    assert "".join(text["source"]) == "Text *here*."
    assert "".join(code["source"]).startswith('print("seen", 1)\n')
    assert code["outputs"][0] == {"output_type": "stream", "name": "stdout", "text": ["seen 1\n"]}
    assert code["outputs"][1]["data"] == {"image/png": "cGljdHVyZQ=="}
    assert len({cell["id"] for cell in made["cells"]}) == 3


def test_an_example_that_fails_stops_with_the_line_of_the_script(script, tmp_path):
    file = tmp_path / "example.py"
    file.write_text("# %%\nx = 1\n\n# %%\n# text\n\nx / 0\n")
    with pytest.raises(ZeroDivisionError) as error:
        script.run_script(file, tmp_path / "run")
    assert error.traceback[-1].lineno + 1 == 7


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.py")), ids=lambda file: file.stem)
def test_pages_show_all_code_of_an_example(script, file):
    lines = file.read_text().splitlines()
    first = lines.index("# %%")
    code = [line for line in lines[first:] if line.strip() and not line.startswith("#")]
    shown = [line for cell in script.read_cells(file) for line in cell.code.splitlines()]
    assert code == [line for line in shown if line.strip() and not line.startswith("#")]
