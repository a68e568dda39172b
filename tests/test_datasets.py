"""Real series from installed packages: complete, in the units that they say; a sentence where a package is missing."""

import importlib.machinery
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


def test_shipped_series_have_their_known_lengths_and_extremes():
    """Bond yields were highest in 1981, the euro was dearest in 2008, the VIX highest in March 2020."""
    for name, num, low, high, year in (
        ("treasury-rate", 14802, 0.52, 15.84, 1981.7),
        ("exchange-rate", 5618, 0.827, 1.601, 2008.3),
        ("vix", 7900, 9.14, 82.69, 2020.2),
    ):
        obs = fimsde.datasets.load(name)
        assert (obs.num_points, obs.time_unit) == (num, "year")
        assert (obs.values.min(), obs.values.max()) == (low, high)
        first = {"treasury-rate": 1962, "exchange-rate": 1999, "vix": 1990}[name]
        assert abs(first + obs.times[np.argmax(obs.values[:, 0])] - year) < 0.5  # trading time is nearly calendar time


def test_the_fish_are_read_where_pydaddy_is_installed_and_nowhere_else(tmp_path, monkeypatch):
    monkeypatch.setattr("fimsde.datasets.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="PyDaddy, which is not installed"):
        fimsde.datasets.load("fish-school")
    folder = tmp_path / "pydaddy"
    (folder / "data" / "fish_data").mkdir(parents=True)
    spec = importlib.machinery.ModuleSpec("pydaddy", None, origin=str(folder / "__init__.py"))
    monkeypatch.setattr("fimsde.datasets.find_spec", lambda name: spec)
    with pytest.raises(ConfigError, match=r"has no file .*ectropus.csv"):
        fimsde.datasets.load("fish-school")
    (folder / "data" / "fish_data" / "ectropus.csv").write_text("0.5,0.25\nnan,nan\n0.5,0.125\n0.25,0.125\n")
    obs = fimsde.datasets.load("fish-school")
    np.testing.assert_allclose(obs.times, [0, 0.24, 0.36])
    assert (obs.names, obs.time_unit, obs.num_paths) == (("mx", "my"), "s", 1)


def test_unknown_names_and_missing_packages_are_one_sentence(monkeypatch):
    shipped = {"treasury-rate", "exchange-rate", "vix"}
    installed = {"el-nino", "sunspots", "co2", "interest-rate", "nile", "fish-school"}
    assert set(fimsde.datasets.names()) == shipped | installed
    with pytest.raises(ConfigError, match=r"no data set 'elnino'; choose one of .*el-nino, sunspots, co2"):
        fimsde.datasets.load("elnino")
    monkeypatch.setitem(sys.modules, "statsmodels", None)
    with pytest.raises(ConfigError, match=r"statsmodels, which is not installed.*fimsde\[datasets\]"):
        fimsde.datasets.load("sunspots")
