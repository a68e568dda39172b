"""Classes of equations, and how probable the data make each: what the estimate was averaged over."""

from typing import Any

from fimsde.report.blocks import Block, Paragraph, table
from fimsde.results.result import Result

# first words of the hypotheses of fimsde.evidence, in words of the reader; in the order of the table
_DRIFT = {
    "none": "no drift",
    "linear": "linear",
    "quadratic": "polynomial up to degree 2",
    "odd": "odd polynomial: terms of degree 1 and 3",
    "any": "polynomial up to degree 3",
    "few": "polynomial up to degree 3",
    "full": "polynomial up to degree 3",
    "smooth": "smooth function, no polynomial of low degree",
}
_RATE = {
    "constant": "constant",
    "even": "even polynomial: terms of degree 0 and 2",
    "any": "polynomial up to degree 2",
    "few": "polynomial up to degree 2",
    "smooth": "smooth function, no polynomial of low degree",
}
ABOUT = (
    "The estimate is an average over classes of equations, each weighed by the probability that the data give it. "
    "Classes overlap: a linear drift is also a polynomial whose other terms are zero."
)


def probabilities(result: Result) -> dict[str, dict[str, list[float]]]:
    """For drift and diffusion the probability of every class, per component; empty if the method weighs none."""
    weighed: dict[str, Any] | None = getattr(result.sde, "probabilities", None)
    if weighed is None:
        return {}
    found: dict[str, dict[str, list[float]]] = {}
    for field, words in (("drift", _DRIFT), ("diffusion", _RATE)):
        classes = {label: [0.0] * result.dim for label in words.values()}
        for name, own in weighed[field].items():
            label = words[name.replace(",", " ").split()[0]]
            classes[label] = [before + float(p) for before, p in zip(classes[label], own, strict=True)]
        found[field] = classes
    return found


def classes(result: Result) -> tuple[Block, ...]:
    """The classes as a table; nothing if the method weighs none."""
    found = probabilities(result)
    if not found:
        return ()
    blocks: list[Block] = [Paragraph(ABOUT)]
    for field, title in (("drift", "Drift f"), ("diffusion", "Variance rate g")):
        rows = [(label, *(f"{p:.0%}" for p in shares)) for label, shares in found[field].items()]
        blocks.append(table((title, *result.names), rows))
    return tuple(blocks)
