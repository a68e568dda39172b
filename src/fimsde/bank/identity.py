"""The identity of the bank: which hypotheses it has, in which order, made with which settings.

Weights are trained on one bank: a candidate's place decides which of their numbers weighs it. So the identity is stored
beside them, and compared when they are loaded.
"""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from fimsde.bank import cells, scales, smooth
from fimsde.bank.bank import NOISY, NUM_DESCRIPTORS
from fimsde.bank.diffusion_regression import LEAST_ERROR
from fimsde.bank.drift_regression import PRIOR_WIDTH
from fimsde.bank.hypotheses import DIFFUSION, DRIFT, Hypothesis
from fimsde.bank.origin import SEARCH
from fimsde.bank.windows import DIFFUSION_DEGREE, DRIFT_DEGREE

Identity = Mapping[str, Sequence[str]]  # what is listed, and one line for each: its name and a digest of its settings

_VERSION = 1  # changes whenever the same settings give other fits, cells, local corrections or descriptors
_FITS = f"{_VERSION}; {scales.SETTINGS}; prior {PRIOR_WIDTH:g}; least error {LEAST_ERROR:g}; noisy {NOISY:g}"

FIRST: Identity = {  # of the bank behind weights whose files do not say: it stays what it was, whatever follows
    "drift": [
        "step full 10fa7258",
        "step ridge 4dd0abbc",
        "step mean 0.3 099c0478",
        "step mean 0.1 099c0478",
        "block full 10fa7258",
        "block ridge 4dd0abbc",
        "block linear 8d2fe563",
        "block mean 0.3 099c0478",
        "block mean 0.1 099c0478",
        "block origin 0.3 b506494a",
        "block origin 0.3 wide b506494a",
        "block origin 0.1 wide b506494a",
        "block odd 0.4 66b08b28",
        "block odd 0.15 66b08b28",
    ],
    "diffusion": [
        "step full bc2a911a",
        "step constant b821eac5",
        "step origin 0.05 dfb3dc80",
        "block full bc2a911a",
        "block constant b821eac5",
        "block origin 0.3 f63899ef",
        "block origin 0.05 f63899ef",
        "block even 0.1 0c0b756d",
    ],
    "local": ["local 0.12 eec82fb6", "local 0.3 eec82fb6", "local 0.75 eec82fb6"],
}


def identity() -> Identity:
    """This bank's."""
    local = f"{_FITS}; {cells.SETTINGS}; {smooth.SETTINGS}; descriptors {NUM_DESCRIPTORS}"
    return {
        "drift": [_line(h, DRIFT, DRIFT_DEGREE) for h in DRIFT],
        "diffusion": [_line(h, DIFFUSION, DIFFUSION_DEGREE) for h in DIFFUSION],
        "local": [f"local {bandwidth:g} {_digest(local)}" for bandwidth in cells.BANDWIDTHS],
    }


def difference(stored: Identity, here: Identity) -> str | None:
    """In words the first hypothesis in which two banks differ; None if they are the same."""
    for kind in sorted({*stored, *here}):
        for i, (there, own) in enumerate(zip_longest(stored.get(kind, ()), here.get(kind, ()), fillvalue="missing 0")):
            if there != own:
                theirs, ours = (line.rpartition(" ")[0] for line in (there, own))
                what = f"{ours!r} here" if theirs != ours else "here the same with other settings"
                return f"{kind} hypothesis {i} is {theirs!r} there and {what}"
    return None


def _line(hypothesis: Hypothesis, together: Sequence[Hypothesis], degree: int) -> str:
    """Name and digest; averages that share a search for the origin depend on each other's priors."""
    form = hypothesis.form
    priors = [h.prior for h in together if (h.fit, h.form) == (hypothesis.fit, form) and h.prior is not None]
    search = SEARCH if priors else ""
    sizes = [(prior.share, prior.scales) for prior in priors]
    settings = f"{_FITS}; degree {degree}; {form.name} {form.version}; {search}; {sizes}"
    return f"{hypothesis.name} {_digest(settings)}"


def _digest(settings: str) -> str:
    return hashlib.sha256(settings.encode()).hexdigest()[:8]
