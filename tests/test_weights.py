"""Weights on disk: what is written is what is read, saving is all or nothing, and the network is left alone."""

import json
import os
import socket
from pathlib import Path

import pytest
import torch

from fimsde.errors import CheckpointError
from fimsde.files import outputs
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE

TINY = ModelConfig.preset("tiny")


@pytest.fixture
def model():
    return FIMSDE(TINY, seed=3)


def same(a, b):
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_a_saved_model_comes_back_bit_by_bit(model, tmp_path):
    record = {"steps": 12, "loss": [1.5, 0.25], "data": {"seed": 7}}
    model.save_pretrained(tmp_path / "m", training=record)
    loaded = FIMSDE.from_pretrained(tmp_path / "m")
    assert same(loaded, model)
    assert loaded.config == TINY
    assert loaded.training_record == record
    assert not loaded.training
    assert all(p.requires_grad and p.device.type == "cpu" for p in loaded.parameters())
    loaded.save_pretrained(tmp_path / "again")
    assert json.loads((tmp_path / "again" / "training.json").read_text()) == record


def test_loaded_weights_lie_in_memory_as_new_ones_do(model, tmp_path):
    """On some processors a product is rounded by where its factors begin: a file's offsets must not show in answers."""
    model.save_pretrained(tmp_path / "m")
    starts = {p.data_ptr() % 64 for p in FIMSDE.from_pretrained(tmp_path / "m").parameters()}
    assert starts == {p.data_ptr() % 64 for p in model.parameters()} == {0}


def test_the_folder_holds_the_four_files_its_marker_and_a_card_that_says_what_it_is(model, tmp_path):
    model.save_pretrained(str(tmp_path / "new" / "m"), training={"origin": "a test"})
    folder = tmp_path / "new" / "m"
    assert sorted(p.name for p in folder.iterdir()) == [
        ".fimsde.json",
        "README.md",
        "config.json",
        "model.safetensors",
        "training.json",
    ]
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: fimsde")
    assert "75,159 parameters" in card
    assert "a test" in card
    assert json.loads((folder / "config.json").read_text())["format_version"] == 2


def test_an_existing_folder_is_replaced_only_when_asked(model, tmp_path):
    model.save_pretrained(tmp_path / "m")
    (tmp_path / "m" / "notes.txt").write_text("mine")
    other = FIMSDE(TINY, seed=4)
    with pytest.raises(CheckpointError, match="exists already"):
        other.save_pretrained(tmp_path / "m")
    assert same(FIMSDE.from_pretrained(tmp_path / "m"), model)
    other.save_pretrained(tmp_path / "m", overwrite=True)
    assert same(FIMSDE.from_pretrained(tmp_path / "m"), other)
    assert (tmp_path / "m" / "notes.txt").read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("step", ["sync", "mark", "adopt", "_move_folder"])
def test_a_failed_save_leaves_what_was_there(step, model, tmp_path, monkeypatch):
    """Disk full, permission lost: at every stage an error, the old weights intact, and no litter."""
    model.save_pretrained(tmp_path / "m")

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(outputs, step, fail)
    with pytest.raises(CheckpointError, match=r"cannot be written: No space left on device\. What was there"):
        FIMSDE(TINY, seed=4).save_pretrained(tmp_path / "m", overwrite=True)
    assert same(FIMSDE.from_pretrained(tmp_path / "m"), model)
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_swap_that_fails_half_way_is_undone(model, tmp_path, monkeypatch):
    model.save_pretrained(tmp_path / "m")
    rename, calls = Path.rename, []

    def fail_second(self, target):
        calls.append(target)
        if len(calls) == 2:
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_second)
    with pytest.raises(CheckpointError, match="Input/output error"):
        FIMSDE(TINY, seed=4).save_pretrained(tmp_path / "m", overwrite=True)
    assert same(FIMSDE.from_pretrained(tmp_path / "m"), model)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_place_is_an_error(model, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(CheckpointError, match="cannot be written"):
        model.save_pretrained(tmp_path / "m")


def test_a_file_in_the_way_is_an_error(model, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be written"):
        model.save_pretrained(tmp_path / "file" / "m")


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_not_saved(bad, model, tmp_path):
    with torch.no_grad():
        model.locations.weight[1, 2] = bad
    with pytest.raises(CheckpointError, match=r"locations\.weight has 1 NaN or infinite"):
        model.save_pretrained(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_weights_of_another_precision_are_not_saved(model, tmp_path):
    with pytest.raises(CheckpointError, match="expected float32"):
        model.double().save_pretrained(tmp_path / "m")


@pytest.mark.parametrize("allow_download", [False, True])
def test_no_network_is_touched_unless_asked(allow_download, tmp_path, monkeypatch):
    """A hub id without `allow_download` fails without opening a socket; with it, the attempt is an error of ours."""
    attempts = []

    def refuse(*args, **kwargs):
        attempts.append(args)
        raise OSError("no network in tests")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(CheckpointError, match=r"no weights at 'someone/some-model'"):
        FIMSDE.from_pretrained("someone/some-model", allow_download=allow_download)
    assert bool(attempts) == allow_download


@pytest.mark.parametrize("name", ["../outside", "a/b/c", "", "http://host/x", "name with spaces"])
def test_a_name_that_is_neither_folder_nor_hub_id_is_an_error(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    with pytest.raises(CheckpointError):
        FIMSDE.from_pretrained(name)


def test_a_local_folder_wins_over_a_hub_id(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model.save_pretrained("someone/some-model")
    assert same(FIMSDE.from_pretrained("someone/some-model"), model)
