"""The documentation is built, warnings as errors, and its pages fit a desktop and a phone."""

import json
import os
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import pytest

import fimsde
from browser import QUIET, find_browser

ROOT = Path(__file__).parent.parent
SHOWN = ("index", "quickstart", "is-this-for-my-data", "gallery/index", "gallery/cells", "benchmark/canonical", "api")

# Chromium itself answers: widths of the page and of the widest thing in it, and how many pictures are broken.
QUESTION = """<script>addEventListener("load", () => { const d = document.documentElement, i = [...document.images];
document.title = JSON.stringify({page: d.clientWidth, widest: d.scrollWidth,
broken: i.filter(p => !(p.complete && p.naturalWidth > 0)).length}); });</script>"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built pages: those of `make docs`, if it has just built them, or others."""
    if "FIMSDE_SITE" in os.environ:
        return ROOT / os.environ["FIMSDE_SITE"]
    for package in ("sphinx", "furo", "myst_parser", "sphinx_copybutton"):
        pytest.importorskip(package, reason="the documentation needs pip install 'fimsde[docs]'")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", f"{out}-doctrees"]
    done = subprocess.run(
        [*command, str(ROOT / "docs"), str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out


def test_the_pages_hold_what_the_examples_produced(site):
    """Buys that code, output and figures on the pages are those of the build; takes a minute or two."""
    page = (site / "quickstart.html").read_text()
    assert "good: nothing speaks against this equation." in page  # what print(sde) begins with
    assert "unstable node at" in page
    assert "_images/quickstart.png" in page
    assert (site / "_produced" / "quickstart" / "report.html").stat().st_size > 100_000


def test_every_public_name_has_an_entry(site):
    """Buys that autodoc found every name, not just that the page asks for it."""
    page = (site / "api.html").read_text()
    missing = [name for name in fimsde.__all__ if f'id="fimsde.{name}"' not in page]
    assert not missing


class Targets(HTMLParser):
    """What a page loads or shows without being asked."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        name = {"script": "src", "img": "src", "link": "href", "iframe": "src"}.get(tag)
        self.found += [value for key, value in attributes if key == name and value]


def test_no_page_needs_the_network(site):
    """Buys pages that work offline and tell nobody that they are read."""
    for page in site.rglob("*.html"):
        targets = Targets()
        targets.feed(page.read_text())
        assert not [t for t in targets.found if t.startswith(("http", "//"))], page.name


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("width", [1200, 500])  # headless Chromium has no narrower windows than 500
def test_a_page_fits_the_window_and_every_picture_is_shown(site, name, width):
    """Buys pages that can be read on a phone."""
    browser = find_browser()
    page = site / f"{name}.html"
    asked = page.with_name("asked-" + page.name)
    asked.write_text(page.read_text().replace("</body>", QUESTION + "</body>").replace('loading="lazy"', ""))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [browser, *QUIET, f"--user-data-dir={profile}", f"--window-size={width},900", "--dump-dom"]
        done = subprocess.run([*command, asked.as_uri()], check=True, capture_output=True, timeout=180, text=True)
    asked.unlink()
    answer = json.loads(done.stdout.partition("<title>")[2].partition("</title>")[0])
    assert answer["broken"] == 0
    assert answer["widest"] <= answer["page"], "the page scrolls sideways"
