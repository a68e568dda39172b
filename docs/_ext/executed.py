"""Example scripts as pages: nothing is pasted, and an example that fails stops the build.

```{example} climate.py         the whole script, with everything it prints and draws
:fold:                          optional: its code is folded away
```
```{picture} climate.py         its last picture, with a link
:link: gallery/climate
```
{produced}`report.html <quickstart.py>`     a link to another file it wrote
"""

import os
import shutil
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from notebook import title_of, to_notebook
from script import Run, run_script
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import ReferenceRole, SphinxDirective

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
WEIGHTS = ROOT / "src" / "fimsde" / "weights" / "model.safetensors"


def run_once(name: str, env: BuildEnvironment) -> Run:
    """What came of a script; it is run once per build."""
    script = EXAMPLES / name
    for needed in (script, WEIGHTS):
        env.note_dependency(str(needed))
    kept: dict[str, Run] = env.app.executed  # type: ignore[attr-defined]
    if name not in kept:
        kept[name] = run_script(script, _folder(name, env))
    return kept[name]


def _folder(name: str, env: BuildEnvironment) -> Path:
    return Path(env.app.doctreedir) / "executed" / Path(name).stem


class _Executed(SphinxDirective):
    """What the directives share."""

    required_arguments = 1

    def relative(self, file: Path) -> str:
        return os.path.relpath(file, (Path(self.env.srcdir) / self.env.docname).parent)

    def image(self, picture: Path) -> nodes.image:
        alt = self.options.get("alt", f"figure written by {self.arguments[0]}")
        return nodes.image(uri=self.relative(picture), alt=alt, classes=["produced"])


class Example(_Executed):
    """A script with everything it prints and draws."""

    option_spec = {"fold": directives.flag}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        script, done = EXAMPLES / self.arguments[0], run_once(self.arguments[0], self.env)
        found: list[nodes.Node] = []
        for cell in done.cells:
            found += self.parse_text_to_nodes(cell.text) if cell.text else []
            found += self.code(cell.code)
            if cell.output:
                found.append(nodes.literal_block(cell.output, cell.output, language="none", classes=["printed"]))
            found += [self.image(picture) for picture in cell.pictures]
        notebook = _folder(script.name, self.env) / f"{script.stem}.ipynb"
        notebook.write_text(to_notebook(done, title_of(script)), encoding="utf-8")
        link = " and ".join(f"{{download}}`{file.name} <{self.relative(file)}>`" for file in (script, notebook))
        seconds = max(round(done.seconds), 1)
        return [
            *found,
            *self.parse_text_to_nodes(f"Download: {link}. It took {seconds} CPU s when this page was built."),
        ]

    def code(self, code: str) -> list[nodes.Node]:
        block = nodes.literal_block(code, code, language="python")
        if "fold" not in self.options:
            return [block]
        opening, closing = "<details><summary>Code</summary>", "</details>"
        return [nodes.raw("", opening, format="html"), block, nodes.raw("", closing, format="html")]


class Picture(_Executed):
    """The last picture of a script, with an optional link to a page."""

    option_spec = {"link": directives.unchanged_required, "alt": directives.unchanged_required}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        done = run_once(self.arguments[0], self.env)
        if not done.pictures:
            raise self.error(f"examples/{self.arguments[0]} wrote no picture")
        image = self.image(done.pictures[-1])
        if "link" not in self.options:
            return [image]
        page = self.env.app.builder.get_relative_uri(self.env.docname, self.options["link"])
        return [nodes.paragraph("", "", nodes.reference("", "", image, refuri=page, internal=True))]


class Produced(ReferenceRole):
    """A link to a file that a script wrote."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        run_once(self.target, self.env)
        place = Path("_produced", Path(self.target).stem, self.title)
        copy = Path(self.env.app.outdir, place)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_folder(self.target, self.env) / self.title, copy)
        uri = os.path.relpath(place, Path(self.env.docname).parent)
        return [nodes.reference("", self.title, refuri=uri, internal=True)], []


def _start(app: Sphinx) -> None:
    app.executed = {}  # type: ignore[attr-defined]  # examples that have been run in this build


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.connect("builder-inited", _start)
    app.add_directive("example", Example)
    app.add_directive("picture", Picture)
    app.add_role("produced", Produced())
    return {"parallel_read_safe": False, "parallel_write_safe": True}
