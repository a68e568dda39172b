"""Names of components in formulas: as the user wrote them, quoted, escaped or mapped where a language needs it.

Names come from users' files and may hold anything. In plain text a name that is no word is quoted; in LaTeX it is text
with every special character escaped; in Python and SymPy an identifier stands for it, never one for two names.
"""

import builtins
import keyword
import re
import unicodedata
from collections.abc import Sequence

_NOTATION = {"d", "t", "dt", "dW", "sqrt"}  # of formulas
_CODE = {"np", "states", "out", "drift", "diffusion"}  # of the functions that are written
_TAKEN = _NOTATION | _CODE | set(dir(builtins)) | set(keyword.kwlist) | set(keyword.softkwlist)
_LONGEST = 60  # characters of an identifier; by hand: half a line of code
_LATEX = {c: "\\" + c for c in "{}$&#_%"} | {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    '"': r"{\char34}",  # whatever the encoding of the font, and even if German makes the sign a command
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
_NAME_AND_UNIT = re.compile(r"^(?P<name>.*\S)\s*[(\[](?P<unit>[^()\[\]]+)[)\]]$")
_SMALL = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu mu nu xi pi rho sigma tau upsilon phi chi"
_LARGE = "psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
_LETTERS = "αβγδεζηθικλμ\N{MICRO SIGN}νξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ"
_GREEK = {c: "\\" + word for c, word in zip(_LETTERS, re.findall(r"\w+", f"{_SMALL} {_LARGE}"), strict=True)}


def split_unit(name: str) -> tuple[str, str]:
    """Name and unit of "speed (mm/s)" or "speed [mm/s]"; the unit is empty if the name has none."""
    clean = " ".join(name.split()) or "?"
    found = _NAME_AND_UNIT.match(clean)
    return (found["name"], found["unit"].strip()) if found else (clean, "")


def without_units(names: Sequence[str]) -> tuple[str, ...]:
    """Names without the units in them; as they are where two would become the same."""
    short = [split_unit(name)[0] for name in names]
    return tuple(s if short.count(s) == 1 else name for s, name in zip(short, names, strict=True))


def to_symbols(names: Sequence[str]) -> tuple[str, ...]:
    """An identifier for every name: the name itself if it is one, else its letters and digits joined by underscores."""
    kept = [
        name if name.isidentifier() and len(name) <= _LONGEST and _same(name) not in _TAKEN else "" for name in names
    ]
    symbols: list[str] = []
    for j, (name, symbol) in enumerate(zip(names, kept, strict=True)):
        others = {_same(s) for s in [*symbols, *kept[j + 1 :]]}
        own = symbol or _identifier(name, j)
        while (not symbol and _same(own) in others | _TAKEN) or _same(own) in {_same(s) for s in symbols}:
            own += f"_{j + 1}"
        symbols.append(own)
    return tuple(symbols)


def in_text(name: str) -> str:
    """The name itself if it is a word, else in quotation marks, on one line."""
    return name if name.isidentifier() and name not in _NOTATION else repr(name)


def in_latex(names: Sequence[str]) -> tuple[str, ...]:
    """The names for LaTeX's mathematics: letters, words with an index, or text; needs amsmath, as `aligned` does."""
    short = [_in_mathematics(name) for name in names]
    shown = [
        brief if brief and short.count(brief) == 1 else rf"\text{{{_escaped(name)}}}"
        for name, brief in zip(names, short, strict=True)
    ]
    return tuple(s if shown.count(s) == 1 else f"{s}_{{{j + 1}}}" for j, s in enumerate(shown))


def on_one_line(name: str) -> str:
    """The name for people, in one line and never empty: what cannot be printed is a space."""
    return " ".join("".join(c if c.isprintable() else " " for c in name).split()) or "(no name)"


def _identifier(name: str, j: int) -> str:
    # a character that may stand inside an identifier is kept; Python itself reads identifiers in their NFKC form
    found = "".join(c if f"a{c}".isidentifier() else " " for c in name)
    word = "_".join(found.split())[:_LONGEST].strip("_")
    return word if word.isidentifier() else f"x_{word}" if f"x_{word}".isidentifier() and word else f"x{j + 1}"


def _same(symbol: str) -> str:
    """What Python takes an identifier for."""
    return unicodedata.normalize("NFKC", symbol)


def _in_mathematics(name: str) -> str:
    """Letters and words with an index; empty for all other names."""
    match = re.fullmatch(r"([A-Za-z]+|[Α-Ωα-ωµ])_?([0-9]*)", name)
    if match is None or (not match[1].isascii() and match[1] not in _GREEK):
        return ""
    letters, digits = match.groups()
    shown = _GREEK.get(letters) or (letters if len(letters) == 1 else rf"\mathrm{{{letters}}}")
    return f"{shown}_{{{digits}}}" if digits else shown


def _escaped(name: str) -> str:
    written = "".join(_LATEX.get(c) or (f"${_GREEK[c]}$" if c in _GREEK else c) for c in on_one_line(name))
    return written.replace("--", "-{}-")  # no ligatures
