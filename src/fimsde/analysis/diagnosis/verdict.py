"""Verdict and Checks: what was asked about a result, what was found, and which findings explain which."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

# per verdict, over all components, lags and candidates: 1.5 % for all of them together
FALSE_ALARM = 1e-3

Status = Literal["good", "caution", "bad"]
Group = Literal["data", "class", "fit"]
_ACCOUNTED = ("measurement noise", "correlated noise")
_ORDER: tuple[Status, ...] = ("good", "caution", "bad")
_GROUPS: dict[Group, str] = {"data": "the data", "class": "the class of equations", "fit": "the fit"}


@dataclass(frozen=True)
class Verdict:
    """One question about a result, answered.

    Attributes:
        name: Short name.
        status: "good", "caution" or "bad".
        number: The number behind it; its meaning is in the sentence.
        sentence: What was found.
        next_step: What to do about it; empty if nothing.
        group: What it is about: the data, the class of equations, or the fit.
        p_value: Probability of anything as extreme if the equation is right; None if it is no test.
        wider: The equation that has what this one lacks; empty if none was found to be needed.
        because: Name of the verdict that explains this one; empty if it stands by itself.
    """

    name: str
    status: Status
    number: float
    sentence: str
    next_step: str = ""
    group: Group = "fit"
    p_value: float | None = None
    wider: str = ""
    because: str = ""

    def record(self) -> dict[str, str | float | None]:
        """Ready for JSON: a number that is none is null."""
        return asdict(self) | {"number": float(self.number) if np.isfinite(self.number) else None}


@dataclass(frozen=True)
class Checks:
    """All verdicts on a result, root causes first; iterate, or ask for one by name."""

    verdicts: tuple[Verdict, ...]

    @property
    def status(self) -> Status:
        """One light for all: the worst status."""
        return _ORDER[max((_ORDER.index(v.status) for v in self.verdicts), default=0)]

    @property
    def causes(self) -> tuple[Verdict, ...]:
        """Verdicts that are not good and that no other one explains, the worst first."""
        causes = [v for v in self.verdicts if v.status != "good" and not v.because]
        return tuple(sorted(causes, key=lambda v: -_ORDER.index(v.status)))

    @property
    def accounted(self) -> tuple[Verdict, ...]:
        """What was found in the data and is part of the equation already: noise of the instrument, a correlation."""
        return tuple(v for v in self.verdicts if v.name in _ACCOUNTED and v.status == "good" and v.number != 0)

    @property
    def summary(self) -> str:
        """The light and what it means, in one sentence."""
        if not self.causes:
            told = [v.sentence.rstrip(".") for v in self.accounted]
            return "; ".join(["good: nothing speaks against this equation", *told]) + "."
        first, *others = self.causes
        more = f" Also: {', '.join(v.name for v in others)}." if others else ""
        return f"{self.status}: {first.sentence}{more}"

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def __len__(self) -> int:
        return len(self.verdicts)

    def __getitem__(self, name: str) -> Verdict:
        for verdict in self.verdicts:
            if verdict.name == name:
                return verdict
        raise KeyError(f"no verdict {name!r}; there are {', '.join(v.name for v in self.verdicts)}")

    def __str__(self) -> str:
        lines = [self.summary]
        for cause in self.causes:
            lines.append(_line(cause))
            lines += [f"    explains {v.name}: {v.sentence}" for v in self.verdicts if v.because == cause.name]
        for group, title in _GROUPS.items():
            good = [v for v in self.verdicts if v.group == group and v.status == "good"]
            lines += [_line(v) for v in good] if good and title else []
        return "\n".join(lines)


def _line(verdict: Verdict) -> str:
    return f"[{verdict.status:7}] {verdict.name}: {verdict.sentence} {verdict.next_step}".rstrip()


def status_of(p_value: float, size: float, visible: float, large: float, level: float = FALSE_ALARM) -> Status:
    """Good unless the effect is both significant and visible; bad if it is large."""
    if p_value >= level or size < visible:
        return "good"
    return "bad" if size >= large else "caution"


def chance(p_value: float, digits: int = 1) -> str:
    """A p-value for a sentence; one below all numbers of the machine is said to be small, not to be zero."""
    return f"p = {p_value:.{digits}g}" if p_value > 0 else "p < 1e-300"
