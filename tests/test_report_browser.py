"""The report in a real browser, if one is installed: it fits a desktop, a phone and paper."""

import json
import subprocess
import tempfile
from pathlib import Path

import pytest

from browser import QUIET, find_browser
from fimsde.plots import BandSettings
from fimsde.report import write_report
from fitted import linear

# Chromium itself answers: widths of the page and of the widest thing in it, and how many pictures are broken.
QUESTION = """
<script>addEventListener("load", () => { const d = document.documentElement, i = [...document.images];
document.title = JSON.stringify({page: d.clientWidth, widest: d.scrollWidth, images: i.length,
broken: i.filter(p => !(p.complete && p.naturalWidth > 0)).length}); });</script>"""


@pytest.fixture(scope="module")
def browser():
    """The command of a browser; without one these tests are skipped."""
    return find_browser()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report with a long name in it."""
    file = tmp_path_factory.mktemp("browser") / "report.html"
    result = linear(1, names=["<img src=x onerror=alert(1)> and_a_very_long_name_of_a_column_from_some_logger"])
    return write_report(result, file, bands=BandSettings(resamples=2))


def run(browser, *arguments):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [browser, *QUIET, f"--user-data-dir={profile}", *arguments]
        return subprocess.run(command, check=True, capture_output=True, timeout=180, text=True).stdout


@pytest.mark.parametrize("width", [1200, 500])  # headless Chromium has no narrower windows than 500
def test_the_page_fits_the_window_and_every_picture_is_shown(browser, report, tmp_path, width):
    asked = tmp_path / "asked.html"
    page = report.read_text().replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';")
    asked.write_text(page.replace("</body>", QUESTION + "</body>"))
    dom = run(browser, f"--window-size={width},900", "--dump-dom", asked.as_uri())
    answer = json.loads(dom.partition("<title>")[2].partition("</title>")[0])
    assert answer["images"] >= 6
    assert answer["broken"] == 0
    assert answer["widest"] <= answer["page"], "the page scrolls sideways"


def test_a_name_that_is_html_is_shown_and_not_run(browser, report):
    dom = run(browser, "--window-size=1200,900", "--dump-dom", report.as_uri())
    assert "<img src=x" not in dom
    assert "&lt;img src=x" in dom


def test_the_page_prints(browser, report, tmp_path):
    file = tmp_path / "report.pdf"
    run(browser, f"--print-to-pdf={file}", "--no-pdf-header-footer", Path(report).as_uri())
    content = file.read_bytes()
    assert content.startswith(b"%PDF")
    assert 2 <= content.count(b"/Type /Page\n") + content.count(b"/Type /Page ") + content.count(b"/Type/Page/") <= 20
