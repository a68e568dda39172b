"""Real series from installed packages: complete, in the units that they say; a sentence where a package is missing."""

import sys

import numpy as np
import pytest

import fimsde
from fimsde.errors import ConfigError


def test_series_have_their_known_lengths_units_and_extremes():
    """El Niño 1982/83 and 1997/98 are the warmest months; the sunspots of 1957 are the record."""
    pytest.importorskip("statsmodels")
    warm = fimsde.datasets.load("el-nino")
    assert (warm.num_points, warm.time_unit) == (61 * 12, "year")
    hottest = warm.times[np.argsort(warm.values[:, 0])[-4:]]
    assert set(np.floor(hottest)) <= {1983.0, 1997.0, 1998.0}
    np.testing.assert_allclose(np.diff(warm.times), 1 / 12)
    spots = fimsde.datasets.load("sunspots")
    assert (spots.num_points, spots.times[np.argmax(spots.values[:, 0])]) == (309, 1957)
    carbon = fimsde.datasets.load("co2")
    assert 2000 < carbon.num_points < 2284  # weeks without a measurement are absent
    assert 40 < np.ptp(carbon.times) < 45
    rate = fimsde.datasets.load("interest-rate")
    assert (rate.num_points, np.floor(rate.times[np.argmax(rate.values[:, 0])])) == (203, 1981), "the Volcker years"
    nile = fimsde.datasets.load("nile")
    assert (nile.num_points, nile.times[np.argmin(nile.values[:, 0])]) == (100, 1913), "the lowest flow on record"


def test_unknown_names_and_missing_packages_are_one_sentence(monkeypatch):
    assert set(fimsde.datasets.names()) == {"el-nino", "sunspots", "co2", "interest-rate", "nile"}
    with pytest.raises(ConfigError, match=r"no data set 'elnino'; choose one of .*el-nino, sunspots, co2"):
        fimsde.datasets.load("elnino")
    monkeypatch.setitem(sys.modules, "statsmodels", None)
    with pytest.raises(ConfigError, match=r"statsmodels, which is not installed.*fimsde\[datasets\]"):
        fimsde.datasets.load("sunspots")
