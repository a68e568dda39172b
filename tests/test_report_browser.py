"""The report in a real browser, if one is installed: it fits a desktop, a phone and paper."""

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from browser import QUIET, find_browser, new_tab
from fimsde.analysis.equation import Equation
from fimsde.analysis.naming import to_symbols
from fimsde.analysis.polynomials import Polynomials
from fimsde.bank import monomials
from fimsde.plots import BandSettings
from fimsde.report import write_report
from fimsde.report.blocks import Section, table
from fimsde.report.formulas import formula_block
from fimsde.report.page import render
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
    assert answer["images"] >= 5
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


def test_a_table_of_three_components_was_wider_than_paper(browser, tmp_path):
    file = tmp_path / "table.html"
    head = (
        "x",
        "y",
        "z",
        "kind",
        "eigenvalues (1 / time)",
        "data nearby",
        "where (90%)",
        "probability",
        "in the formula",
    )
    where = "-8.596 to -8.438; -8.625 to -8.473; 26.92 to 27.13".replace(
        " to ", "\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}"
    )
    eigenvalues = "0.0634 + 10.3i, 0.0634 - 10.3i, -14".replace(" + ", "\N{NO-BREAK SPACE}+\N{NO-BREAK SPACE}")
    row = ("-8.499", "-8.502", "27.02", "saddle", eigenvalues, "yes", where, "100%", "at -8.494, -8.507, 27.02")
    file.write_text(render("Table", [Section("t", "Fixed points", (table(head, [row, row]),))]), encoding="utf-8")
    with new_tab() as tab:
        tab.call("Emulation.setEmulatedMedia", media="print")
        tab.open(file.as_uri(), width=672)  # A4 less margins
        tab.wait("document.readyState == 'complete'")
        assert tab.run("document.documentElement.scrollWidth") <= 672


LONG = ["temperature above the long-term mean (°C)", "größe µm", "a_name_of_a_logger_that_is_one_long_word_" + "x" * 40]


@pytest.fixture(scope="module")
def formula(tmp_path_factory):
    """A page with an equation of three components, all terms and long names."""
    rng = np.random.default_rng(0)
    names = tuple(LONG)

    def polynomials(degree):
        exponents = monomials.exponents(3, degree)
        coefficients = rng.standard_normal((3, len(exponents))) * 10.0 ** rng.integers(-6, 6, (3, len(exponents)))
        return Polynomials(exponents, coefficients, np.zeros_like(coefficients), np.ones(3))

    equation = Equation(names, to_symbols(names), np.array([293.15, 0, 0]), polynomials(3), polynomials(2))
    file = tmp_path_factory.mktemp("formula") / "formula.html"
    file.write_text(render("Formula", [Section("equation", "Equation", (formula_block(equation),))]), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("width", "medium"), [(1400, "screen"), (390, "screen"), (672, "print")]
)  # 672: A4 less margins
def test_a_long_formula_is_broken_between_terms_and_not_clipped(formula, width, medium):
    with new_tab() as tab:
        tab.call("Emulation.setEmulatedMedia", media=medium)
        tab.open(formula.as_uri(), width=width)
        tab.wait("document.readyState == 'complete' && document.querySelectorAll('.formula p').length == 3")
        right, inner, page = tab.run(
            "[Math.max(...[...document.querySelectorAll('.formula span')].map(s => s.getBoundingClientRect().right)),"
            " Math.max(...[...document.querySelectorAll('.formula')].map(f => f.getBoundingClientRect().right)),"
            " document.documentElement.scrollWidth]"
        )
        size = tab.run("parseFloat(getComputedStyle(document.querySelector('.formula p')).fontSize)")
        short = tab.run(
            "[...document.querySelectorAll('.formula span')].filter(s => s.innerText.length < 25)"
            ".every(s => s.getBoundingClientRect().height < 2 * parseFloat(getComputedStyle(s).lineHeight))"
        )
    assert right <= inner + 0.5
    assert page <= width
    assert size >= 11
    assert short, "a short term is broken"
