"""Digests, versions and old names: what stands in files of earlier versions is found and understood by this one."""

import hashlib
import os
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import fimsde
from fimsde._version import __version__
from fimsde.baselines import latent_sde
from fimsde.errors import ConfigError, DatasetError
from fimsde.estimation import BUNDLED, bundled_model
from fimsde.files.growing import begun
from fimsde.files.identities import data_hash, file_hash, fingerprint, model_hash, paths_hash, settings_hash, sha256
from fimsde.files.renamed import renamed
from fimsde.files.settings import differences, read_settings, to_mapping, to_toml
from fimsde.files.versions import versions
from fimsde.files.write import write_file
from fimsde.methods import finetuned
from fimsde.metrics.gram_cache import cached_self_gram
from fimsde.metrics.signature import SignatureKernel
from fimsde.model.weights import TENSORS
from fimsde.prior.config import LocationConfig, PriorConfig, Setting
from fimsde.prior.manifest import DatasetSettings
from fimsde.train.config import TrainConfig
from fimsde.train.finetune.config import FinetuneConfig
from fimsde.train.pretrain.cache import _identity

STEPS = np.arange(24.0).reshape(12, 2) ** 2
OBS = fimsde.read(STEPS, dt=0.5, names=["a", "b"])


# --- digests: the values on the right were written by the version before this module existed --------------------------


def test_digests_of_data_are_those_that_were_stored_before():
    assert data_hash(OBS) == "225a3514afa68d710985fd8c07e062768b729f7e8d86eee94bb03dc46d265c3b"
    assert paths_hash(OBS) == "2772843d8a23559634c8cf818291b2c7704d1b0d052384c9142548348b4870c7"
    settings = latent_sde.LatentSDESettings()
    assert latent_sde._describe_run(OBS, settings, 1)["data"] == paths_hash(OBS)


def test_digests_of_weights_are_those_that_were_stored_before():
    model = torch.nn.Linear(2, 1)
    model.load_state_dict({"weight": torch.tensor([[0.5, -2.0]]), "bias": torch.tensor([3.0])})
    assert model_hash(model) == "de5ab1550d08d678834a1f06a1ef71e9ef3c3f75277755aeac5e0949ef253de3"
    assert fingerprint(model) == "504a9cbb01edd77a"
    assert model_hash(bundled_model()) == file_hash(BUNDLED / TENSORS)


def test_digests_of_settings_are_those_that_were_stored_before():
    prior = PriorConfig(
        dims=(1,), dim_shares=(1.0,), settings=(Setting(0.05, 2, 2, 16),), locations=LocationConfig(16, 0.25, 2, 2)
    )
    settings = DatasetSettings(4, 7, prior, shard_size=2)
    assert settings.identity == "30c617140e7ae5e4422ff1c81fb947f4639ffb964e7d8b826980c60a961e5553"
    cache = _identity(TrainConfig.preset("primed-tiny"))
    assert cache == "da3f5b9e093182fa2d9f782b54cabd424cadd7a07a3e76534129ade6651f59ce"


def test_results_and_grams_of_earlier_versions_are_found_by_their_names(tmp_path):
    assert "hold_out=0.15, proof=3.0, validation_interval=10" in finetuned(FinetuneConfig()).settings
    cached_self_gram(STEPS[None], SignatureKernel(), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["gram-d0a6f9d841e76235b669a5382474d1ba.safetensors"]


def test_a_digest_is_that_of_the_parts_in_a_row_whatever_their_memory():
    expected = hashlib.sha256(b"n" + "é".encode() + STEPS.tobytes()).hexdigest()
    assert sha256("n", "é".encode(), STEPS) == expected
    assert sha256("n", "é", np.asfortranarray(STEPS).astype(">f8")) == expected
    assert sha256("n", "é", STEPS[:6], STEPS[:0], STEPS[6:]) == expected
    assert sha256("n", "é", STEPS.astype(np.float32)) != expected


def test_the_order_of_settings_does_not_count_and_their_values_do():
    assert settings_hash({"a": 1, "b": [2]}) == settings_hash({"b": [2], "a": 1}) != settings_hash({"a": 1, "b": [3]})


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["paper-tiny", "primed-tiny"])
def test_settings_come_back_from_a_toml_file_as_they_were(name, tmp_path):
    config = TrainConfig.preset(name)
    (tmp_path / "run.toml").write_text(to_toml(to_mapping(config)))
    assert read_settings(tmp_path / "run.toml") == config.to_mapping()
    assert TrainConfig.from_file(tmp_path / "run.toml") == config


def test_only_what_differs_is_named():
    there = {"a": 1, "table": {"list": [1, 2]}, "rows": [{"x": 1}, {"x": 2}], "gone": 0}
    here = {"a": 1, "table": {"list": [1, 3]}, "rows": [{"x": 1}, {"x": 5}], "new": None}
    assert differences(there, here) == [
        "gone is 0 there and absent here",
        "new is absent there and None here",
        "rows[1].x is 2 there and 5 here",
        "table.list is [1, 2] there and [1, 3] here",
    ]


# --- old names --------------------------------------------------------------------------------------------------------


def test_the_old_name_of_a_setting_works_with_a_sentence_that_names_the_version():
    with pytest.warns(DeprecationWarning, match=r"^FinetuneConfig\.proof is called min_z now; .* fimsde 0\.3\.$"):
        config = FinetuneConfig(proof=2.0)
    assert config == FinetuneConfig(min_z=2.0)
    with pytest.warns(DeprecationWarning, match="is called min_z now"):
        assert config.proof == 2.0


def test_todays_names_say_nothing_and_both_at_once_are_refused(recwarn):
    assert replace(FinetuneConfig(min_z=2.0), seed=1) == FinetuneConfig(min_z=2.0, seed=1)
    assert not recwarn.list
    with (
        pytest.raises(ConfigError, match="old name of min_z, and both are given"),
        pytest.warns(DeprecationWarning, match="min_z"),
    ):
        FinetuneConfig(proof=2.0, min_z=3.0)


def test_a_class_keeps_its_positional_arguments():
    @renamed("9")
    @dataclass(frozen=True)
    class Settings:
        first: int
        min_z: float = 1.0

    assert Settings(3, 2.0).min_z == 2.0


def test_settings_in_files_may_have_the_old_name():
    assert differences({"proof": 3.0}, {"min_z": 3.0}) == []
    assert differences({"proof": 2.0}, {"min_z": 3.0}) == ["min_z is 2.0 there and 3.0 here"]


# --- runs that grow, single files, versions ---------------------------------------------------------------------------


def test_a_longer_run_begins_as_the_longest_shorter_one(tmp_path):
    for length in (2, 9, 30):
        (tmp_path / f"run-{length}.bin").write_text(str(length))
    (tmp_path / "run-other-9.bin").write_text("of another name")
    assert begun(tmp_path, "run", 10, ".bin").read_text() == "9"
    assert begun(tmp_path, "run", 2, ".bin").read_text() == "2"
    assert not begun(tmp_path, "run", 1, ".bin").exists()
    assert not begun(tmp_path / "new", "run", 10).exists()


def test_a_longer_folder_begins_as_the_longest_shorter_one(tmp_path):
    (tmp_path / "run-5" / "deep").mkdir(parents=True)
    (tmp_path / "run-5" / "deep" / "state").write_text("5")
    assert (begun(tmp_path, "run", 7) / "deep" / "state").read_text() == "5"
    (tmp_path / "run-7" / "deep" / "state").write_text("7")
    assert (begun(tmp_path, "run", 7) / "deep" / "state").read_text() == "7", "what is there stays"


def test_a_file_that_cannot_be_written_says_how_to_go_on(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(DatasetError, match=r"^cannot write a in .*: No space left on device\. What is finished stays"):
        write_file(tmp_path / "a", b"one", DatasetError)
    assert list(tmp_path.iterdir()) == []


def test_versions_name_the_package_python_and_what_computes():
    found = versions()
    assert list(found) == ["fimsde", "Python", "torch", "numpy", "scipy", "numba", "machine"]
    assert found["fimsde"] == __version__
    assert found["numpy"] == np.__version__
