"""Every label in the tests and the source is explained in docs/promises.md, and every one explained there is used."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "promises.md"
LABEL = r"(?<![<\w])([BDEGMQTU])(\d{1,2})\b"  # a < begins numpy's names of text types


def used(text: str) -> set[str]:
    """The labels in a text; "E1 to E12" and "T5–T9" name all in between."""
    found = {letter + number for letter, number in re.findall(LABEL, text)}
    for letter, first, last in re.findall(LABEL + r"(?: to |–)\1(\d{1,2})\b", text):
        found |= {f"{letter}{number}" for number in range(int(first), int(last) + 1)}
    return found


def explained(text: str) -> dict[str, str]:
    """The labels of a page with their sentences."""
    return dict(re.findall(r"^- \*\*(\w+)\*\* (.+)$", text, re.MULTILINE))


def test_every_label_is_explained_and_every_explained_one_is_used():
    files = [f for folder in ("tests", "src", "benchmarks") for f in (ROOT / folder).rglob("*.py")]
    files.remove(Path(__file__))
    assert set().union(*(used(file.read_text()) for file in files)) == set(explained(PAGE.read_text()))


def test_every_explanation_is_one_sentence():
    for label, sentence in explained(PAGE.read_text()).items():
        assert re.fullmatch(r"[^.]([^.]|\.(?=\w))*\.", sentence), f"{label}: {sentence}"


def test_labels_in_use_and_ranges_of_them_are_found():
    assert used('"""E5: a law. "B11 text", (M1)') == {"E5", "B11", "M1"}
    assert used("T5–T7 and B1 to B3, E5 and E9") == {"T5", "T6", "T7", "B1", "B2", "B3", "E5", "E9"}
    assert used("dtype <U3, A4 paper, F32, model E5x") == set()
