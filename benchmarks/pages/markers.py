"""Places on a page that are written from stored results.

<!-- table: NAME; COMMAND -->       a table, blank lines around it; COMMAND measures its numbers
<!-- end -->

cells better: <!--=NAME WORDS-->55 of 56<!--=-->, and so on: a number inside a sentence, never first on its line
"""

import re
from collections.abc import Callable

_TABLE = re.compile(r"^(<!-- table: (?P<name>[\w-]+)(?:; [^\n]+)? -->\n)(?P<body>.*?)^(<!-- end -->)$", re.S | re.M)
_NUMBER = re.compile(r"(<!--=(?P<name>[^\n>]+?)-->)(?P<body>[^\n<]*)(<!--=-->)")
_FIRST = re.compile(r"^\s*(?:[-*>]\s*)?<!--=", re.M)  # Markdown takes the rest of such a line for HTML


def fill(text: str, table: Callable[[str], str], number: Callable[..., str]) -> str:
    """The text of a page with all its marked places written anew.

    Args:
        text: As it is.
        table: From a name to a table in Markdown.
        number: From a name and further words to a piece of a sentence.
    """
    if found := _FIRST.search(text):
        line = text[found.start() :].strip().split("\n")[0]
        raise ValueError(f"a marker must not be the first on its line: {line[:80]!r}; move a word before it.")
    text = _TABLE.sub(lambda m: f"{m[1]}\n{table(m['name']).strip()}\n\n{m[4]}", text)
    text = _NUMBER.sub(lambda m: f"{m[1]}{number(*m['name'].split())}{m[4]}", text)
    if left := re.search(r"<!-- (?:table:|end -->)|<!--=", _NUMBER.sub("", _TABLE.sub("", text))):
        raise ValueError(f"a marker without its partner: {text[left.start() :][:80]!r}; every one needs an end.")
    return text


def outside(text: str) -> str:
    """What is left of a page without its marked places."""
    return _NUMBER.sub("", _TABLE.sub("", text))
