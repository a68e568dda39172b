"""Real series from packages that are installed: read where they are, never copied."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fimsde.data.observations import Observations, read
from fimsde.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class _Series:
    about: str
    read: Callable[[], Observations]


def load(name: str) -> Observations:
    """A real series as observations, with units.

    Args:
        name: One of `names()`: "el-nino" (sea surface temperature off Peru, monthly), "sunspots" (yearly numbers),
            "co2" (at Mauna Loa, weekly; weeks without a measurement are absent), "interest-rate" (US treasury bills,
            quarterly) or "nile" (yearly flow). All of them come with statsmodels, the extra `datasets`.
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
    "interest-rate": _Series(
        "quarterly rate of three-month US treasury bills, 1959 to 2009 (by statsmodels)", _interest_rate
    ),
    "nile": _Series("yearly flow of the Nile at Aswan, 1871 to 1970 (by statsmodels)", _nile),
    "el-nino": _Series("monthly sea surface temperature off Peru, 1950 to 2010 (NOAA, by statsmodels)", _el_nino),
    "sunspots": _Series("yearly number of sunspots, 1700 to 2008 (by statsmodels)", _sunspots),
    "co2": _Series("weekly CO2 at Mauna Loa, 1958 to 2001 (Keeling and Whorf, by statsmodels)", _co2),
}
