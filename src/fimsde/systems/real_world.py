"""The four real series of the paper: wind speed, oil price, and two stock prices.

The files do not come with the package. Each is a CSV table `time,value` without missing values; the folder is given by
argument or by the environment variable FIMSDE_DATA, and every file is checked against its SHA-256 before it is used.

Wind and oil are modelled as first differences, stocks as logarithms (and compared as prices again). Five equal
consecutive folds, each held out once; the held-out fold is cut into ten consecutive reference paths. Steps count as
equal although missing rows were dropped and nights skipped, as in the published experiment.
"""

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from fimsde.data.observations import Observations, read
from fimsde.errors import DatasetError
from fimsde.files.identities import sha256
from fimsde.shapes import Array, Float64

FOLDS = 5  # of a series, as in the paper's experiments on real data
PIECES = 10  # reference paths per held-out fold, as there
FOLDER_VARIABLE = "FIMSDE_DATA"
_MINUTE = 1 / (252 * 390)  # in trading years of 252 days of 390 minutes; the paper's size table misprints it as 1.8e-5

Arrangement = Literal["separate", "concatenated", "four paths", "forty paths"]


@dataclass(frozen=True)
class RealSeries:
    """A real series: where it is stored and how it is modelled.

    Attributes:
        name: Key in result files; the file is `name`.csv.
        title: Name in tables and figures.
        transform: From the stored values to the modelled ones.
        dt: Time between observations.
        time_unit: Unit of `dt`.
        sha256: Checksum of the file.
    """

    name: str
    title: str
    transform: Literal["difference", "log"]
    dt: float
    time_unit: str
    sha256: str

    def to_evaluation(self, values: Float64[Array, "*lead"]) -> Float64[Array, "*lead"]:
        """Modelled values in the units in which paths are compared: prices for stocks, differences for the others."""
        return np.exp(values) if self.transform == "log" else values


WIND = RealSeries(
    name="wind",
    title="Wind speed",
    transform="difference",
    dt=1 / 6,
    time_unit="h",
    sha256="275f579aafde3423ac5bd8d8c6812126de948bbed2728c5f960f274642003496",
)
OIL = RealSeries(
    name="oil",
    title="Oil price",
    transform="difference",
    dt=1.0,
    time_unit="business day",
    sha256="f2a45ee08f00e4c5f58ab821ce2621eadad92a61b994283ff3d5dad66b4579e6",
)
FACEBOOK = RealSeries(
    name="facebook",
    title="Facebook stock",
    transform="log",
    dt=_MINUTE,
    time_unit="trading year",
    sha256="1fe0f9284c2992b66c3b7bde4b3198309cb6d22075b5487aa81ce4ea015e2c52",
)
TESLA = RealSeries(
    name="tesla",
    title="Tesla stock",
    transform="log",
    dt=_MINUTE,
    time_unit="trading year",
    sha256="43baba6962f773d090000c2f0a9006ccf6a0fe976a04994318022149b018f43b",
)
REAL_WORLD = (WIND, OIL, FACEBOOK, TESLA)


@dataclass(frozen=True)
class Split:
    """One cross-validation split: the series in equal folds, one of them held out.

    Attributes:
        series: What the numbers are.
        held_out: Number of the held-out fold, 0 to 4 (1 to 5 in the paper).
        folds: Modelled values, fold after fold.
    """

    series: RealSeries
    held_out: int
    folds: Float64[Array, "folds times"]

    def training(self, arrangement: Arrangement = "separate") -> Observations:
        """The four training folds.

        Args:
            arrangement: "separate": what lies before and after the held-out fold, one or two paths without a step over
                the hole, the context of FIM-SDE; "concatenated": joined into one path on a regular clock, hole and all,
                as BISDE was given; "four paths": each fold a path; "forty paths": each fold cut like the reference,
                as LatentSDE was given.
        """
        if arrangement == "concatenated":
            joined = np.delete(self.folds, self.held_out, axis=0).ravel()
            return self._observations([joined], [0])
        whole = self.folds.ravel()
        length = self.folds.shape[1]
        cuts = [(k * length, (k + 1) * length) for k in range(FOLDS) if k != self.held_out]
        if arrangement == "separate":
            before, after = (0, self.held_out * length), ((self.held_out + 1) * length, len(whole))
            cuts = [cut for cut in (before, after) if cut[0] < cut[1]]
        elif arrangement == "forty paths":
            cuts = [piece for first, _ in cuts for piece in self._pieces(first)]
        return self._observations([whole[a:b] for a, b in cuts], [a for a, _ in cuts])

    def reference(self) -> Float64[Array, "paths times 1"]:
        """The held-out fold as ten modelled paths. A model starts from their first points, at gap `series.dt`."""
        whole = self.folds.ravel()
        pieces = self._pieces(self.held_out * self.folds.shape[1])
        return np.stack([whole[a:b, None] for a, b in pieces])

    def _pieces(self, first: int) -> list[tuple[int, int]]:
        length = self.folds.shape[1] // PIECES  # the remainder of a fold is dropped
        return [(first + k * length, first + (k + 1) * length) for k in range(PIECES)]

    def _observations(self, paths: list[Float64[Array, " _"]], starts: list[int]) -> Observations:
        times = [(start + np.arange(len(path))) * self.series.dt for start, path in zip(starts, paths, strict=True)]
        return read(paths, times=times, names=[self.series.name], time_unit=self.series.time_unit)


def splits(series: RealSeries, folder: str | Path | None = None) -> tuple[Split, ...]:
    """The five cross-validation splits of a series; `folder` as in `load`."""
    values = load(series, folder)
    folds = values[: len(values) // FOLDS * FOLDS].reshape(FOLDS, -1)
    return tuple(Split(series, held_out, folds) for held_out in range(FOLDS))


def load(series: RealSeries, folder: str | Path | None = None) -> Float64[Array, " times"]:
    """The whole series as it is modelled: differences or logarithms.

    Args:
        series: Which one.
        folder: Where the file lies; by default the folder in the environment variable FIMSDE_DATA.
    """
    stored = _stored_values(series, folder)
    return np.log(stored) if series.transform == "log" else np.diff(stored)


def _stored_values(series: RealSeries, folder: str | Path | None) -> Float64[Array, " times"]:
    file = _folder(folder) / f"{series.name}.csv"
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DatasetError(
            f"{str(file)!r} cannot be read ({error.strerror}). Expected the {series.title.lower()} series there: pass "
            f"folder=, or set {FOLDER_VARIABLE} to the folder with {', '.join(f'{s.name}.csv' for s in REAL_WORLD)}."
        ) from None
    found = sha256(content)
    if found != series.sha256:
        raise DatasetError(
            f"{str(file)!r} has the SHA-256 checksum {found}; expected {series.sha256}. The published splits belong to "
            f"the latter: fetch the file again."
        )
    return np.loadtxt(io.BytesIO(content), delimiter=",", skiprows=1, usecols=1)


def _folder(folder: str | Path | None) -> Path:
    if folder is None:
        folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        raise DatasetError(
            f"the folder with the real series is not known. Pass folder=, or set the environment variable "
            f"{FOLDER_VARIABLE} to the folder with {', '.join(f'{s.name}.csv' for s in REAL_WORLD)}."
        )
    return Path(folder)
