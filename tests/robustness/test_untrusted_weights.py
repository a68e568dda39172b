"""Folders of weights from anybody: no code runs, and only errors of ours come out, quickly and in little memory."""

import ast
import json
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from fimsde.errors import CheckpointError, ConfigError, FimsdeError
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from memory import run_measured

PACKAGE = Path(__file__).parents[2] / "src" / "fimsde"
SMALL = ModelConfig(embed=8, heads=2, encoder_layers=1, functional_layers=1, feed_forward=8, head_hidden=(8,))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights") / "good"
    FIMSDE(SMALL, seed=0).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "m")
    return tmp_path / "m"


def rewrite_header(folder, change):
    """Apply a change to the parsed header of the tensor file and write it back."""
    path = folder / "model.safetensors"
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    text = change(header)
    text = text if isinstance(text, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])


def rewrite_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_the_package_calls_nothing_that_can_run_code_from_a_file():
    """U1. Five files import late, by names that stand in the code: tables of names, commands, the optional peers."""
    modules = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml"}
    functions = {"eval", "exec", "compile", "__import__", "import_module"}
    methods = {"import_module", "exec_module", "load_module", "unsafe_load", "full_load"}
    tables = (
        "__init__.py",
        "plots/__init__.py",
        "report/__init__.py",
        "interface/cli/__init__.py",
        "baselines/peers.py",
    )
    for path in set(PACKAGE.rglob("*.py")) - {PACKAGE / name for name in tables}:
        for node in ast.walk(ast.parse(path.read_text())):
            where = f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import):
                assert not {alias.name.split(".")[0] for alias in node.names} & modules, where
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in modules, where
                assert not {alias.name for alias in node.names} & functions, where
            elif isinstance(node, ast.Call):
                name = getattr(node.func, "attr", "")
                owner = getattr(getattr(node.func, "value", None), "id", "")
                assert getattr(node.func, "id", "") not in functions, where
                assert name not in methods, where
                assert owner != "builtins", where
                assert (owner, name) != ("torch", "load"), where
                allowed = [k.value for k in node.keywords if k.arg == "allow_pickle"]
                assert all(isinstance(v, ast.Constant) and v.value is False for v in allowed), where


class Bomb:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (Path.touch, (self.marker,))


def bombs(marker, tmp_path):
    plain = pickle.dumps({"weights": Bomb(marker)})
    torch.save({"weights": Bomb(marker)}, tmp_path / "bomb.pt")
    zipped = (tmp_path / "bomb.pt").read_bytes()
    (tmp_path / "bomb.pt").unlink()
    return {"plain": plain, "zipped": zipped, "old protocol": pickle.dumps(Bomb(marker), protocol=0)}


def test_the_bombs_of_these_tests_explode(tmp_path):
    """The negative control: unpickling creates the marker."""
    for name, content in bombs(tmp_path / "marker", tmp_path).items():
        if name != "zipped":
            pickle.loads(content)
            assert (tmp_path / "marker").exists()
            (tmp_path / "marker").unlink()


@pytest.mark.parametrize("kind", ["plain", "zipped", "old protocol"])
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "training.json"])
def test_a_pickle_under_another_name_is_refused_and_does_not_run(kind, name, folder, tmp_path):
    """U2."""
    marker = tmp_path / "marker"
    (folder / name).write_bytes(bombs(marker, tmp_path)[kind])
    with pytest.raises(CheckpointError):
        FIMSDE.from_pretrained(folder)
    assert not marker.exists()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model-checkpoint.pth", "state.PT", "extra.pkl"])
def test_a_pickle_beside_good_weights_is_refused_with_advice(name, folder, tmp_path):
    """U2."""
    marker = tmp_path / "marker"
    (folder / name).write_bytes(bombs(marker, tmp_path)["zipped"])
    with pytest.raises(CheckpointError, match=f"{name}.*weights_only=True.*safetensors"):
        FIMSDE.from_pretrained(folder)
    assert not marker.exists()


def test_a_file_cut_short_at_every_kilobyte_is_refused(folder):
    """U3."""
    path = folder / "model.safetensors"
    content = path.read_bytes()
    cuts = [*range(0, len(content), 1024), 1, 7, 8, 9, len(content) - 1]
    for cut in cuts:
        path.write_bytes(content[:cut])
        with pytest.raises(CheckpointError):
            FIMSDE.from_pretrained(folder)
    assert len(cuts) > 10


def test_bytes_behind_the_end_are_refused(folder):
    with (folder / "model.safetensors").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(CheckpointError, match="its header describes"):
        FIMSDE.from_pretrained(folder)


def swap_two(header):
    names = [name for name in header if name != "__metadata__"][:2]
    header[names[0]], header[names[1]] = header[names[1]], header[names[0]]


def overlap(header):
    entry = header["locations.bias"]
    first, last = entry["data_offsets"]
    entry["data_offsets"] = [first - 4, last - 4]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda h: b"{", "not valid JSON"),
        (lambda h: b"[]", "holds a list"),
        (lambda h: b"\xff\xfe{}", "not valid JSON"),
        (lambda h: b"[" * 100_000, "not valid JSON"),
        (lambda h: b'{"a":' * 50_000, "not valid JSON"),
        (lambda h: json.dumps(h)[:-1].encode() + b', "locations.bias": {}}', "occurs twice"),
        (lambda h: b'{"a": NaN}', "NaN is not a number"),
        (lambda h: json.dumps({"a": 10**4000}).encode(), "malformed"),
        (lambda h: b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (overlap, "overlap or leave holes"),
        (lambda h: h["locations.bias"].update(data_offsets=[0, 0]), "not those of its shape"),
        (lambda h: h["locations.bias"].update(data_offsets=[-4, 28]), "overlap"),
        (lambda h: h["locations.bias"].update(data_offsets=[10**20, 10**20 + 32]), "overlap"),
        (lambda h: h["locations.bias"].update(data_offsets=None), "malformed"),
        (lambda h: h["locations.bias"].update(shape=[-8]), "malformed"),
        (lambda h: h["locations.bias"].update(shape=[True, 8]), "malformed"),
        (lambda h: h["locations.bias"].update(shape="8"), "malformed"),
        (lambda h: h["locations.bias"].update(shape=[10**30, 10**30]), "not those of its shape"),
        (lambda h: h["locations.bias"].update(extra=1), "malformed"),
        (lambda h: h.update({"locations.bias": 7}), "malformed"),
        (lambda h: h["locations.bias"].pop("dtype"), "malformed"),
        (lambda h: h["locations.bias"].update(dtype="I32"), "is I32"),
    ],
)
def test_a_damaged_header_is_refused_with_its_reason(change, words, folder):
    """U3."""
    rewrite_header(folder, change)
    with pytest.raises(CheckpointError, match=words) as caught:
        FIMSDE.from_pretrained(folder)
    assert len(str(caught.value)) < 1000


def test_missing_surplus_and_misshapen_tensors_are_all_listed(folder):
    """U5."""
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    tensors["surplus.a"], tensors["surplus.b"] = torch.zeros(2), torch.zeros(2, dtype=torch.int64)
    del tensors["locations.bias"], tensors["encoder.features.y.bias"]
    tensors["locations.weight"] = tensors["locations.weight"].T.contiguous()
    tensors["encoder.features.dy.bias"] = tensors["encoder.features.dy.bias"].half()
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError) as caught:
        FIMSDE.from_pretrained(folder)
    for line in (
        "locations.bias is missing",
        "encoder.features.y.bias is missing",
        "surplus.a is not expected",
        "surplus.b is not expected",
        "locations.weight is F32 [3, 8], expected F32 [8, 3]",
        "encoder.features.dy.bias is F16 [2], expected F32 [2]",
    ):
        assert line in str(caught.value)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_weights_that_are_not_finite_are_refused(bad, folder):
    """U6."""
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    tensors["locations.weight"][2, 1] = bad
    tensors["locations.bias"][:3] = bad
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"locations\.bias has 3 NaN") as caught:
        FIMSDE.from_pretrained(folder)
    assert "locations.weight has 1 NaN" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"embed": 10**9}, ConfigError, "embed is 1000000000"),
        ({"embed": "8"}, ConfigError, "expected an integer"),
        ({"feed_forward": 2}, CheckpointError, r"expected F32 \[2, 8\]"),
        ({"code": "os.system"}, ConfigError, "unknown setting 'code'"),
        ({"statistics": "/etc/passwd"}, ConfigError, "observations, starts"),
        ({"format_version": 3}, CheckpointError, "newer fimsde"),
        ({"format_version": "1"}, CheckpointError, "no format_version"),
        ({"model_type": "fimsde"}, CheckpointError, "fimsde convert"),
    ],
)
def test_a_config_that_lies_is_refused(changes, error, words, folder):
    """U4."""
    rewrite_config(folder, **changes)
    with pytest.raises(error, match=words):
        FIMSDE.from_pretrained(folder)


@pytest.mark.parametrize("name", ["config.json", "training.json"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[1]",
        b'{"a": 1, "a": 1}',
        b'{"a": Infinity}',
        b"\x80",
        b"[" * 10**5,
        b" " * (1 << 20) + b"{}",
    ],
)
def test_damaged_json_is_refused(name, content, folder):
    (folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=name):
        FIMSDE.from_pretrained(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_an_incomplete_folder_is_an_error_that_names_the_file(name, folder):
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name} cannot be read: No such file"):
        FIMSDE.from_pretrained(folder)
    (folder / name).mkdir()
    with pytest.raises(CheckpointError, match=f"{name} cannot be read"):
        FIMSDE.from_pretrained(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_only_our_errors_come_out_of_random_damage(name, folder):
    """U7: bytes changed, inserted, removed or repeated at random places, most of them in the header."""
    content, generator = (folder / name).read_bytes(), np.random.default_rng(0)
    start = min(len(content), 8 + int.from_bytes(content[:8], "little")) if name.endswith("tensors") else len(content)
    refused = 0
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(generator.integers(1, 4)):
            at = int(generator.integers(start if generator.random() < 0.9 else len(content)))
            match generator.integers(4):
                case 0:
                    damaged[at : at + 1] = generator.bytes(1)
                case 1:
                    damaged[at:at] = generator.bytes(int(generator.integers(1, 9)))
                case 2:
                    del damaged[at : at + int(generator.integers(1, 9))]
                case 3:
                    damaged[at:at] = damaged[at : at + int(generator.integers(1, 99))]
        (folder / name).write_bytes(damaged)
        try:
            FIMSDE.from_pretrained(folder)
        except FimsdeError:
            refused += 1
    assert refused > 75


HOSTILE = """
import sys, time
from pathlib import Path
from fimsde.errors import FimsdeError
from fimsde.model.fim import FIMSDE

FIMSDE.from_pretrained(sys.argv[1])
before = peak()
for folder in sorted(Path(sys.argv[2]).iterdir()):
    start = time.process_time()
    try:
        FIMSDE.from_pretrained(folder)
    except FimsdeError:
        print(folder.name, time.process_time() - start, peak() - before)
"""


def test_hostile_files_cost_neither_time_nor_memory(saved, tmp_path):
    """U3: under a second and 200 MB each, in a process of its own; the files claim up to 4 GB."""

    def case(name, **changes):
        shutil.copytree(saved, tmp_path / "cases" / name)
        rewrite_config(tmp_path / "cases" / name, **changes)
        return tmp_path / "cases" / name / "model.safetensors"

    sizes = {"sparse": 4 << 30, "long_header": 1 << 30}
    with case("sparse_file_behind_a_header").open("ab") as file:
        file.truncate(sizes["sparse"])
    with case("header_of_a_gigabyte").open("wb") as file:
        file.write((sizes["long_header"] - 8).to_bytes(8, "little"))
        file.truncate(sizes["long_header"])
    case("header_longer_than_any_file").write_bytes(b"\xff" * 7 + b"\x7f" + b"{}")
    many = b"{" + b",".join(b'"%d":[]' % i for i in range(150_000)) + b"}"
    case("header_of_many_names").write_bytes(len(many).to_bytes(8, "little") + many)
    deep = b"[" * (1 << 21)
    case("header_of_many_brackets").write_bytes(len(deep).to_bytes(8, "little") + deep)
    case("config_of_half_a_billion_weights", embed=2048, feed_forward=8192, functional_layers=3)
    case("config_of_a_trillion_weights", embed=8192, feed_forward=65536, functional_layers=128)
    with zipfile.ZipFile(case("a_zip_file"), "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("data.pkl", b"\0" * (50 << 20))

    rows = [line.split() for line in run_measured(HOSTILE, saved, tmp_path / "cases").splitlines()]
    assert len(rows) == 8, rows
    for name, seconds, megabytes in rows:
        assert float(seconds) < 4, f"{name} took {seconds} s"
        assert float(megabytes) < 200, f"{name} took {megabytes} MB"
