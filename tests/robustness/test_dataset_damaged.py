"""G6, G7, U8: damaged, foreign and unwritable files are named; nothing but our own errors comes out."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from fimsde.errors import ConfigError, DatasetError
from fimsde.prior import shards
from fimsde.prior.config import LocationConfig, PriorConfig, Setting
from fimsde.prior.dataset import Dataset, generate
from fimsde.prior.manifest import DatasetSettings, read_manifest
from fimsde.prior.shards import parse_shard

SMALL = PriorConfig(settings=(Setting(0.1, 1, 3, 8),), locations=LocationConfig(30, 0.25, 4, 3))
SETTINGS = DatasetSettings(num_equations=20, seed=1, config=SMALL, shard_size=7)
VICTIM = "shard-000001.safetensors"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("original")
    generate(SETTINGS, folder)
    return folder


@pytest.fixture
def folder(original, tmp_path):
    return shutil.copytree(original, tmp_path / "copy")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def flip(content, position):
    return content[:position] + bytes([content[position] ^ 16]) + content[position + 1 :]


@pytest.mark.parametrize("where", [0.0, 0.1, 0.5, 0.999])
def test_a_damaged_shard_is_named_and_made_again_on_request(where, folder, original):
    path = folder / VICTIM
    content = path.read_bytes()
    path.write_bytes(flip(content, int(where * len(content))))
    with pytest.raises(DatasetError, match=f"{VICTIM} is damaged.*--repair"):
        generate(SETTINGS, folder)
    with pytest.raises(DatasetError, match=VICTIM):
        list(Dataset(folder))
    generate(SETTINGS, folder, repair=True)
    assert contents(folder) == contents(original)


def test_a_shard_cut_short_is_damaged(folder):
    path = folder / VICTIM
    content = path.read_bytes()
    for size in [*range(0, len(content), 1024), len(content) - 1]:
        path.write_bytes(content[:size])
        with pytest.raises(DatasetError, match=VICTIM):
            Dataset(folder)[7]


def test_a_missing_shard_of_a_finished_data_set_is_named_and_made_again(folder, original):
    (folder / VICTIM).unlink()
    with pytest.raises(DatasetError, match=f"cannot read shard {VICTIM}"):
        Dataset(folder)[7]
    generate(SETTINGS, folder)
    assert contents(folder) == contents(original)


def test_a_shard_of_another_place_or_data_set_is_refused(folder, original, tmp_path):
    (folder / VICTIM).write_bytes((folder / "shard-000000.safetensors").read_bytes())
    with pytest.raises(DatasetError, match="belongs to another data set or place"):
        generate(SETTINGS, folder)
    other = DatasetSettings(num_equations=20, seed=2, config=SMALL, shard_size=7)
    generate(other, tmp_path / "other")
    (folder / VICTIM).write_bytes((tmp_path / "other" / VICTIM).read_bytes())
    with pytest.raises(DatasetError, match="belongs to another data set"):
        generate(SETTINGS, folder)


def test_a_valid_shard_that_is_not_the_one_in_the_manifest_is_noticed(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["shards"][1]["sha256"] = "0" * 64
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DatasetError, match=f"{VICTIM} is not the one in manifest"):
        Dataset(folder)[7]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m["shards"].pop(), "does not list the 3 shards"),
        (lambda m: m["shards"][0].update(file="../../etc/passwd"), "does not list the 3 shards"),
        (lambda m: m["settings"].update(generator=2), "made by generator 2"),
        (lambda m: m["settings"].update(shard_size=0), "shard_size is 0"),
        (lambda m: m["settings"]["config"].update(extra=1), "unknown setting 'extra'"),
        (lambda m: m["settings"]["config"].update(dims=[10**9]), "dims contains 1000000000"),
        (lambda m: m.update(shards=3), "expected a list"),
    ],
)
def test_a_manifest_that_was_tampered_with_is_refused(change, words, folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DatasetError, match=words):
        Dataset(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_unreadable_settings_and_manifests_are_errors(content, folder):
    for name, use in (("manifest.json", Dataset), ("settings.json", lambda f: generate(SETTINGS, f))):
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(content)
        with pytest.raises(DatasetError, match=name):
            use(folder)
        (folder / name).write_bytes(before)


def sealed(tensors):
    """A shard with a correct checksum around tensors of an attacker's choice."""
    return shards.shard_bytes(shards.Shard(SMALL, 7, tensors, {}), SETTINGS.identity)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.pop("values"),
        lambda t: t.update(extra=np.zeros(3)),
        lambda t: t.update(values=t["values"][:-1]),
        lambda t: t.update(values=t["values"].astype(np.float64)),
        lambda t: t.update(values=t["values"].reshape(1, -1)),
        lambda t: t.update(dim=np.full_like(t["dim"], 9)),
        lambda t: t.update(setting=t["setting"] - 1),
        lambda t: t.update(noise_std=t["noise_std"][:-1]),
        lambda t: t.update(dim=t["dim"][:0], setting=t["setting"][:0]),
    ],
)
def test_arrays_that_do_not_fit_the_settings_are_refused(change, original):
    content = (original / VICTIM).read_bytes()
    tensors = safetensors.numpy.load(content)
    assert sealed(dict(tensors)) == content  # the untouched arrays pass
    change(tensors)
    with pytest.raises(DatasetError, match=VICTIM):
        parse_shard(sealed(tensors), SMALL, SETTINGS.identity, 7, VICTIM)


def test_no_bytes_make_anything_but_our_own_error_come_out(original):
    """Random flips, cuts and insertions, most of them in the header."""
    content, rng = (original / VICTIM).read_bytes(), np.random.default_rng(0)
    header = int.from_bytes(content[:8], "little")
    for _ in range(1500):
        damaged = bytearray(content)
        for _ in range(rng.integers(1, 4)):
            position = int(rng.integers(8 + header if rng.random() < 0.8 else len(damaged)))
            match rng.integers(3):
                case 0:
                    damaged[position] = rng.integers(256)
                case 1:
                    del damaged[position : position + int(rng.integers(1, 9))]
                case 2:
                    damaged[position:position] = rng.bytes(int(rng.integers(1, 9)))
        if bytes(damaged) != content:
            with pytest.raises(DatasetError):
                parse_shard(bytes(damaged), SMALL, SETTINGS.identity, 7, VICTIM)


@pytest.mark.parametrize("header", [b"\xff" * 8, (2**40).to_bytes(8, "little"), (10**8).to_bytes(8, "little")])
def test_an_absurd_header_is_refused_before_it_costs_memory(header, original):
    content = header + (original / VICTIM).read_bytes()[8:]
    tracemalloc.start()
    try:
        with pytest.raises(DatasetError, match="damaged"):
            parse_shard(content, SMALL, SETTINGS.identity, 7, VICTIM)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1e6 + 2 * len(content)  # the smallest claim is 100 MB


def test_a_full_disk_stops_with_the_name_of_the_shard_and_can_be_resumed(original, tmp_path):
    """The operating system refuses files above a limit, in a process of its own; the first bytes are written."""
    smallest = min(path.stat().st_size for path in original.glob("shard-*"))
    code = (
        "import resource, sys; from pathlib import Path; sys.path[:0] = sys.argv[2:]\n"
        "from test_dataset_damaged import SETTINGS, generate\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({smallest - 100}, resource.RLIM_INFINITY))\n"
        "generate(SETTINGS, Path(sys.argv[1]))"
    )
    here = os.path.dirname(__file__)
    command = [sys.executable, "-c", code, str(tmp_path / "d"), here]
    result = subprocess.run(command, capture_output=True, text=True)
    assert "DatasetError: cannot write shard-000000.safetensors" in result.stderr
    assert {path.name for path in (tmp_path / "d").iterdir()} == {"settings.json", ".lock"}
    generate(SETTINGS, tmp_path / "d")
    assert contents(tmp_path / "d") == contents(original)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_a_folder_that_lost_its_permission_is_named_and_can_be_resumed(original, tmp_path):
    for parent in (tmp_path, *tmp_path.parents):  # another user must be able to come this far
        if parent == Path(tempfile.gettempdir()):
            break
        parent.chmod(0o755)
    folder = tmp_path / "d"
    generate(SETTINGS, folder, shard_index=0)
    folder.chmod(0o555)
    if os.getuid() == 0:
        os.seteuid(65534)  # permissions do not bind the superuser
    try:
        with pytest.raises(DatasetError, match=r"cannot write shard-000001\.safetensors.*Permission denied"):
            generate(SETTINGS, folder)
        with pytest.raises(ConfigError, match=r"cannot write into .*Permission denied"):
            generate(SETTINGS, folder / "below")
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
    folder.chmod(0o755)
    generate(SETTINGS, folder)
    assert contents(folder) == contents(original)
    assert read_manifest(folder).settings == SETTINGS
