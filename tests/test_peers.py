"""Adapters of optional peers: what they say when absent, and that their equations arrive unchanged when present.

The packages come with the extra `peers`; without it all tests but those of the absence are skipped.
"""

import importlib
import sys
import warnings

import numpy as np
import pytest

from fimsde.baselines import peers_pysindy, peers_sfi
from fimsde.benchmark import named, run
from fimsde.data.observations import read
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import ConfigError, DataWarning
from fimsde.simulate import simulate

SKEW = FunctionSDE(
    2,
    lambda x: np.stack([1 - x[:, 0] + 2 * x[:, 1], -2 * x[:, 0] - x[:, 1] - x[:, 0] ** 2 * x[:, 1]], axis=1),
    lambda x: np.stack([np.full(len(x), 0.5), np.sqrt(0.3 + 0.2 * x[:, 0] ** 2)], axis=1),
)  # no symmetry: any confusion of terms or components shows


def imported(module):
    """The package or a skip; what it warns of while it is imported is not our business."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError:
            pytest.skip(f"{module} is not installed (extra `peers`)")


@pytest.fixture(scope="module")
def skew_data():
    times = np.arange(6000) * 0.02
    paths = simulate(SKEW, np.zeros((2, 2)), times, substeps=2, seed=5)
    return read(paths.values, times=times)


def assert_close_to_the_truth(found, data):
    """Where the data are the drift has a size of about 1: a wrong order of terms or components is far outside."""
    x = data.values[::300]
    assert np.sqrt(np.mean((found.drift(x) - SKEW.drift(x)) ** 2)) < 0.25
    np.testing.assert_allclose(found.diffusion(x), SKEW.diffusion(x), atol=0.06)


@pytest.mark.parametrize(
    ("module", "method", "package"),
    [
        ("pysindy", "pysindy", "PySINDy"),
        ("SFI", "sfi-linear", "StochasticForceInference"),
        ("SFI", "sfi-parametric", "StochasticForceInference"),
    ],
)
def test_an_absent_peer_is_an_error_that_names_the_extra_and_not_a_failure_of_the_method(
    module, method, package, monkeypatch, tmp_path
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"{package} cannot be imported.*fimsde\[peers\]"):
        run("canonical", named([method]), out=tmp_path, quick=True, systems=["double_well"], compare_paths=False)
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize(
    "settings",
    [
        lambda: peers_sfi.SFISettings(drift_degree=-1),
        lambda: peers_pysindy.PySINDySettings(threshold=-1),
    ],
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(ConfigError, match="expected"):
        settings()


def test_pysindy_finds_an_equation_without_symmetry(skew_data):
    imported("pysindy")
    found = peers_pysindy.fit(skew_data)
    drift, diffusion_sq = (f.support(("x1", "x2")) for f in (found.drift_field, found.diffusion_sq_field))
    assert {"1", "x1", "x2"} <= set(drift[0])
    assert {"x1", "x2", "x1^2 x2"} <= set(drift[1])
    assert "x1^2" in diffusion_sq[1]
    assert_close_to_the_truth(found, skew_data)


@pytest.mark.parametrize(
    "settings",
    [
        peers_sfi.LINEAR,
        peers_sfi.PARAMETRIC,
        peers_sfi.SFISettings("linear", select=False, noise="absent"),
    ],
)
def test_sfi_and_our_copy_of_its_equation_agree_everywhere(skew_data, settings):
    """Both estimators store coefficients alike (the parametric one compiles for half a minute)."""
    imported("SFI")
    jax = imported("jax")
    x = np.random.default_rng(3).uniform(-1, 1, (40, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found, inference = peers_sfi.fit_with_inference(skew_data, settings)
    with jax.enable_x64(True):
        drift = np.asarray(inference.force_inferred(jax.numpy.asarray(x)))
        matrix = np.asarray(inference.diffusion_inferred(jax.numpy.asarray(x)))
    np.testing.assert_allclose(found.drift(x), drift, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.diffusion_sq(x), 2 * np.einsum("nii->ni", matrix), rtol=1e-9, atol=1e-12)
    assert_close_to_the_truth(found, skew_data)


@pytest.mark.parametrize("error", [RuntimeError("not positive definite"), ValueError("None is not a valid value")])
def test_a_diffusion_of_which_sfi_cannot_select_terms_keeps_them_all_and_its_drift(error):
    class Inference:
        def sparsify_diffusion(self):
            raise error

    with pytest.warns(DataWarning, match=r"could not select terms of the diffusion \(.*\); all terms are kept"):
        peers_sfi._select_diffusion(Inference())


def test_sfi_is_given_paths_on_other_grids_as_other_data_sets():
    imported("SFI")
    steps = np.random.default_rng(0).standard_normal((60, 1)).cumsum(axis=0)
    uneven = np.cumsum(np.random.default_rng(1).uniform(0.5, 1.5, 40))
    data = read([steps[:30], steps[10:40], steps[20:60]], times=[np.arange(30.0), 5 + np.arange(30.0), uneven])
    collection = peers_sfi._collection(importlib.import_module("SFI"), data)
    shapes = [np.shape(part.X) for part in collection.datasets]
    assert shapes == [(30, 2, 1), (40, 1, 1)]
    np.testing.assert_allclose(np.asarray(collection.datasets[1].t), uneven - uneven[0], rtol=1e-6)
