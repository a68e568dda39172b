"""Saving and loading results: the same answers bit for bit, and nothing of ours is fooled by a damaged folder."""

import inspect
import json
import warnings

import numpy as np
import pytest
import safetensors.numpy

import fimsde
from checks import check_same_observations
from fimsde.errors import CheckpointError, ConfigError, DataWarning
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.results.storage import OBSERVATIONS, RESULT
from problems import OrnsteinUhlenbeck

OU = OrnsteinUhlenbeck(dim=2)
MODEL = FIMSDE(ModelConfig.preset("tiny"), seed=0).eval()
load = inspect.unwrap(fimsde.load)  # as users call it


def observe(num=200, num_paths=2, seed=0):
    times = 0.05 * np.cumsum(np.random.default_rng(seed).uniform(0.5, 1.5, num))
    obs = fimsde.simulate(OU, np.zeros((num_paths, 2)), times, seed=seed).observations()
    paths = [obs.path(k)[1] for k in range(num_paths)] + [obs.values[:5]]
    grids = [obs.path(k)[0] for k in range(num_paths)] + [obs.times[:5]]
    return fimsde.read(paths, times=grids, names=["größe (m)", "b\n\"'"], time_unit="h")


OBS = observe()
X = OBS.values[::20]


@pytest.fixture
def saved(tmp_path):
    fimsde.estimate(OBS, MODEL).save(tmp_path / "result")
    return tmp_path / "result"


def test_an_estimate_comes_back_with_equal_answers_bit_for_bit(saved):
    before, after = fimsde.estimate(OBS, MODEL), fimsde.load(saved)
    check_same_observations(before.observations, after.observations)
    assert (after.names, after.time_unit, after.method) == (OBS.names, "h", "FIM-SDE")
    for name in ("drift", "diffusion", "uncertainty", "inside"):
        np.testing.assert_array_equal(getattr(after, name)(X), getattr(before, name)(X))
    a, b = before.band(X, resamples=3), after.band(X, resamples=3)
    np.testing.assert_array_equal(a.drift_low, b.drift_low)


def test_a_saved_estimate_carries_its_weights_and_no_pickle(saved):
    assert sorted(p.name for p in saved.iterdir()) == [
        ".fimsde.json",
        "config.json",
        "model.safetensors",
        "observations.safetensors",
        "result.json",
    ]
    assert FIMSDE.from_pretrained(saved).config == MODEL.config


def test_answers_of_two_components_were_kept_transposed_and_a_good_result_doubted(tmp_path):
    """Fields may lie in memory component by component; safetensors writes memory as it lies."""
    ou = OrnsteinUhlenbeck(dim=2)
    values = fimsde.simulate(ou, np.zeros((1, 2)), np.arange(300) * 0.1, substeps=2, seed=1).values[0]
    result = fimsde.estimate(fimsde.read(values, dt=0.1))
    result.save(tmp_path / "saved")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = fimsde.load(tmp_path / "saved")
    np.testing.assert_array_equal(again.drift(values[::50]), result.drift(values[::50]))


def test_the_origin_of_an_estimate_is_kept(tmp_path):
    primed = fimsde.estimate(OBS, "bundled", origin=[0.1, -0.2])
    primed.save(tmp_path / "r")
    after = fimsde.load(tmp_path / "r")
    np.testing.assert_array_equal(after.sde.origin, [0.1, -0.2])
    np.testing.assert_array_equal(after.drift(X), primed.drift(X))


@pytest.mark.parametrize("origin", ["auto", None, (0.1, -0.2)])
def test_the_origin_of_hypotheses_is_kept(tmp_path, origin):
    before = fimsde.estimate(OBS, origin=origin)
    before.save(tmp_path / "r")
    after = fimsde.load(tmp_path / "r")
    assert after.sde.settings.origin == origin
    np.testing.assert_array_equal(after.drift(X), before.drift(X))


@pytest.mark.parametrize("method", ["kramers-moyal", "kramers-moyal-binned", "bisde-scaled", "sparsegp"])
def test_a_baseline_fitted_by_name_comes_back_with_equal_answers(method, tmp_path):
    before = fimsde.fit(OBS, method)
    before.save(tmp_path / "r")
    after = fimsde.load(tmp_path / "r")
    np.testing.assert_array_equal(after.fields(X), before.fields(X))
    assert after.method == before.method
    assert after.recipe is not None


def test_bands_of_a_baseline_fitted_by_name_need_no_further_argument():
    band = fimsde.fit(OBS, "kramers-moyal-binned").band(X, resamples=3)
    assert np.all(band.drift_low <= band.drift_high)


def test_what_cannot_be_made_again_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no observations"):
        fimsde.result(OU).save(tmp_path / "r")
    with pytest.raises(CheckpointError, match=r"equation\(\)\.code\(\)"):
        fimsde.result(OU, OBS).save(tmp_path / "r")
    with pytest.raises(CheckpointError, match="float32"):
        fimsde.estimate(OBS, FIMSDE(ModelConfig.preset("tiny"), seed=0).double().eval()).save(tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_an_existing_folder_is_replaced_only_when_asked(saved):
    other = fimsde.estimate(observe(seed=1), MODEL)
    with pytest.raises(CheckpointError, match="exists already"):
        other.save(saved)
    other.save(saved, overwrite=True)
    check_same_observations(fimsde.load(saved).observations, other.observations)


def test_only_recognition_models_state_an_uncertainty():
    with pytest.raises(ConfigError, match=r"band\(x\)"):
        fimsde.result(OU).uncertainty(X)
    with pytest.raises(ConfigError, match="neither drift nor diffusion"):
        fimsde.fit(OBS, "latentsde")


def edit(folder, **changes):
    record = json.loads((folder / RESULT).read_text())
    (folder / RESULT).write_text(json.dumps(record | changes))


def rewrite(folder, **changes):
    arrays = safetensors.numpy.load_file(folder / OBSERVATIONS)
    safetensors.numpy.save_file(arrays | changes, folder / OBSERVATIONS)


def cut(folder, name):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])


DAMAGE = {
    "newer format": (lambda f: edit(f, format_version=99), "format 99"),
    "unknown kind": (lambda f: edit(f, kind="magic"), "no result that this fimsde knows"),
    "recipe of a wrong type": (lambda f: edit(f, kind="baseline", recipe=["bisde", "1; import os"]), "no result"),
    "names of a wrong type": (lambda f: edit(f, names="ab"), "no list of names"),
    "too few names": (lambda f: edit(f, names=["a"]), "1 component"),
    "no json": (lambda f: (f / RESULT).write_text("{"), "not valid JSON"),
    "observations cut short": (lambda f: cut(f, OBSERVATIONS), "complete|describes"),
    "weights cut short": (lambda f: cut(f, "model.safetensors"), "complete|describes"),
    "a pickle beside it": (lambda f: (f / "a.pkl").write_bytes(b"x"), "pickled"),
    "nan": (lambda f: rewrite(f, values=np.full(OBS.values.shape, np.nan)), "cannot be used"),
    "float32": (lambda f: rewrite(f, values=OBS.values.astype(np.float32)), "as it should"),
    "paths beyond the end": (lambda f: rewrite(f, path_starts=np.array([0, 10**9])), "do not cover"),
    "backward paths": (lambda f: rewrite(f, path_starts=np.array([0, 50, 20, len(OBS.values)])), "do not cover"),
    "surplus tensor": (lambda f: rewrite(f, more=np.zeros(2)), "as it should"),
    "missing file": (lambda f: (f / OBSERVATIONS).unlink(), "cannot be read"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_folder_is_refused_with_our_own_error(name, saved):
    damage, words = DAMAGE[name]
    damage(saved)
    with pytest.raises(CheckpointError, match=words):
        load(saved)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="cannot be read"):
        fimsde.load(tmp_path / "nothing")


def test_other_answers_than_when_saved_are_noticed(saved):
    arrays = safetensors.numpy.load_file(saved / OBSERVATIONS)
    rewrite(saved, answers=1.01 * arrays["answers"])
    with pytest.warns(DataWarning, match="differ from those"):
        fimsde.load(saved)
    rewrite(saved, answers=(1 + 1e-6) * arrays["answers"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fimsde.load(saved)
