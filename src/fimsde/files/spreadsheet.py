"""Names from users' files in tables that a spreadsheet may open: none of them may become a formula there.

A spreadsheet computes a cell that begins with = + - @ or a tab, and such a formula can start programs. Exported names
that begin so get an apostrophe in front; reading such a table takes it away again. Numbers are left alone.
"""

import re

# what begins a formula, also in full width: the list of OWASP's page on CSV injection
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
_APOSTROPHE = "'"


def neutral(text: str) -> str:
    """A text that no spreadsheet computes."""
    return _APOSTROPHE + text if _FORMULA.match(text) and not _is_number(text) else text


def original(text: str) -> str:
    """What a text was before it was made neutral."""
    bare = text.removeprefix(_APOSTROPHE)
    return bare if neutral(bare) == text else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
