"""Real series: three that are part of the package, and others read from packages that are installed."""

import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fimsde.data.observations import Observations, read
from fimsde.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd


_TRADING_DAYS = 252  # per year: the convention of finance
_FISH_GAP = 0.12  # seconds between pictures: Jhawar et al., Nature Physics 16 (2020), and PyDaddy's documentation


@dataclass(frozen=True)
class _Series:
    about: str
    read: Callable[[], Observations]


def load(name: str) -> Observations:
    """A real series as observations, with units.

    Args:
        name: One of `names()`. Part of the package: "treasury-rate" (ten-year US bonds, daily), "exchange-rate"
            (dollars per euro, daily), "vix" (volatility index, daily); their time is trading time, 252 days per year.
            With statsmodels, the extra `datasets`: "el-nino" (sea surface temperature off Peru, monthly), "sunspots"
            (yearly numbers), "co2" (at Mauna Loa, weekly; weeks without a measurement are absent), "interest-rate"
            (US treasury bills, quarterly) and "nile" (yearly flow). With PyDaddy, if you install it: "fish-school"
            (polarisation of a school, every 0.12 seconds).
    """
    if name not in _SERIES:
        raise ConfigError(f"there is no data set {name!r}; choose one of {', '.join(_SERIES)}.")
    return _SERIES[name].read()


def names() -> dict[str, str]:
    """Names of the data sets, each with what it is."""
    return {name: series.about for name, series in _SERIES.items()}


def _of_statsmodels(name: str) -> "pd.DataFrame":
    try:
        from statsmodels import datasets
    except ImportError:
        raise ConfigError(
            "this data set comes with statsmodels, which is not installed. Install the extra: pip install "
            "'fimsde[datasets]'."
        ) from None
    return getattr(datasets, name).load_pandas().data


def _shipped(name: str, label: str) -> Observations:
    file = Path(__file__).parent / "series" / f"{name}.csv.gz"
    with gzip.open(file, "rt", encoding="ascii", newline="") as lines:
        values = np.array([float(row[1]) for row in list(csv.reader(lines))[1:]])
    return read(values, times=np.arange(len(values)) / _TRADING_DAYS, names=[label], time_unit="year")


def _fish_school() -> Observations:
    found = find_spec("pydaddy")  # not imported: only its file is read
    if found is None or found.origin is None:
        raise ConfigError("this data set comes with PyDaddy, which is not installed. Install it: pip install pydaddy.")
    file = Path(found.origin).parent / "data" / "fish_data" / "ectropus.csv"
    if not file.is_file():
        raise ConfigError(f"the installed PyDaddy has no file {file}. Install version 1.0.0, which has it.")
    values = np.loadtxt(file, delimiter=",")
    times = np.arange(len(values)) * _FISH_GAP
    return read(values, times=times, names=["mx", "my"], time_unit="s", missing="drop")


def _el_nino() -> Observations:
    table = _of_statsmodels("elnino")  # a row per year, a column per month
    years, months = table["YEAR"].to_numpy(), table.drop(columns="YEAR").to_numpy(np.float64)
    times = (years[:, None] + np.arange(12) / 12).ravel()
    return read(months.ravel(), times=times, names=["SST (°C)"], time_unit="year", missing="drop")


def _sunspots() -> Observations:
    table = _of_statsmodels("sunspots")
    return read(table["SUNACTIVITY"].to_numpy(), times=table["YEAR"].to_numpy(), names=["sunspots"], time_unit="year")


def _interest_rate() -> Observations:
    table = _of_statsmodels("macrodata")
    times = table["year"].to_numpy() + (table["quarter"].to_numpy() - 1) / 4
    return read(table["tbilrate"].to_numpy(), times=times, names=["rate (%)"], time_unit="year")


def _nile() -> Observations:
    table = _of_statsmodels("nile")
    flow = table["volume"].to_numpy(np.float64)
    return read(flow, times=table["year"].to_numpy(np.float64), names=["flow (10^8 m³)"], time_unit="year")


def _co2() -> Observations:
    table = _of_statsmodels("co2")
    days = table.index.to_numpy()
    return read(table["co2"].to_numpy(), times=days, names=["CO2 (ppm)"], time_unit="year", missing="drop")


_SERIES = {
    "treasury-rate": _Series(
        "daily yield of ten-year US treasury bonds, 1962 to 2021 (part of the package)",
        partial(_shipped, "treasury-rate", "rate (%)"),
    ),
    "exchange-rate": _Series(
        "daily dollars per euro, 1999 to 2021 (part of the package)",
        partial(_shipped, "exchange-rate", "rate (USD per EUR)"),
    ),
    "vix": _Series(
        "daily volatility index of the S&P 500, 1990 to 2021 (part of the package)", partial(_shipped, "vix", "VIX")
    ),
    "fish-school": _Series(
        "polarisation of a school of 15 fish, every 0.12 s (Jhawar et al., by PyDaddy if it is installed)",
        _fish_school,
    ),
    "interest-rate": _Series(
        "quarterly rate of three-month US treasury bills, 1959 to 2009 (by statsmodels)", _interest_rate
    ),
    "nile": _Series("yearly flow of the Nile at Aswan, 1871 to 1970 (by statsmodels)", _nile),
    "el-nino": _Series("monthly sea surface temperature off Peru, 1950 to 2010 (NOAA, by statsmodels)", _el_nino),
    "sunspots": _Series("yearly number of sunspots, 1700 to 2008 (by statsmodels)", _sunspots),
    "co2": _Series("weekly CO2 at Mauna Loa, 1958 to 2001 (Keeling and Whorf, by statsmodels)", _co2),
}
