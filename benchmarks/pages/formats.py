"""Numbers and tables as text."""

from collections.abc import Sequence


def two_digits(value: float) -> str:
    """Two significant digits: 0.046, 0.70, 1.3, 19."""
    return f"{value:#.2g}".rstrip(".") if value < 99.5 else f"{value:.0f}"


def thousandths(value: float) -> str:
    """Three decimals below 0.1, two digits above."""
    return f"{value:.3f}" if value < 0.1 else two_digits(value)


def ten_thousandths(value: float) -> str:
    """Two digits, but at most four decimals; two decimals from 1 on."""
    return f"{value:.2f}" if value >= 1 else two_digits(value) if value >= 0.001 else f"{value:.4f}"


def spaced(number: int) -> str:
    """Thousands apart: 444 580, 1033."""
    return f"{number:,}".replace(",", " ") if number >= 10_000 else str(number)


def listed(texts: Sequence[str]) -> str:
    """a, b and c."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def in_words(number: int) -> str:
    """Up to twelve in letters."""
    words = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    return words[number] if number < len(words) else str(number)


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, sides: str = "") -> str:
    """A pipe table; the first `left` columns begin at the left, the others end at the right, or as `sides` has it."""
    sides = sides or "l" * left + "r" * (len(columns) - left)
    rule = "|".join("---" if side == "l" else "--:" for side in sides)
    lines = ["|".join(f" {text} " if text else " " for text in row) for row in (columns, *rows)]
    return "\n".join(f"|{line}|" for line in (lines[0], rule, *lines[1:]))
