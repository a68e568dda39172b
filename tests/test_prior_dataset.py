"""Data sets on disk: the same bytes however they were made, and the same equations when read back."""

import hashlib
import json
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from fimsde.errors import ConfigError, DatasetError
from fimsde.files.lock import LOCK
from fimsde.files.workers import dask_cluster, process_pool
from fimsde.interface.cli.generate import generate as command
from fimsde.prior.config import LocationConfig, PriorConfig, Setting
from fimsde.prior.dataset import Dataset, generate, make_shard
from fimsde.prior.equation import draw_equation
from fimsde.prior.manifest import DatasetSettings, read_manifest
from fimsde.prior.stats import Acceptance, acceptance
from test_prior_equation import same

SMALL = PriorConfig(
    settings=(Setting(0.1, 2, 5, 16), Setting(0.01, 1, 3, 30)), locations=LocationConfig(300, 0.25, 10, 7)
)
SETTINGS = DatasetSettings(num_equations=30, seed=5, config=SMALL, shard_size=8)


def checksums(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.name != LOCK}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    generate(SETTINGS, folder)
    return folder


def test_a_data_set_is_its_shards_a_manifest_and_its_settings(reference):
    shards = [f"shard-{k:06d}.safetensors" for k in range(4)]
    assert sorted(checksums(reference)) == ["manifest.json", "settings.json", *shards]
    manifest = read_manifest(reference)
    assert manifest.settings == SETTINGS
    assert {shard.file: shard.sha256 for shard in manifest.shards}.items() <= checksums(reference).items()


def test_items_read_back_are_the_items_of_the_stream(reference):
    dataset = Dataset(reference)
    assert len(dataset) == 30
    for index in (0, 7, 8, 29, 3):
        assert same(dataset[index], draw_equation(SMALL, SETTINGS.seed, index))
    assert len(list(dataset)) == 30
    with pytest.raises(IndexError, match="item 30"):
        dataset[30]


def test_processes_and_their_number_do_not_change_a_byte(reference, tmp_path):
    """G4."""
    with process_pool(2) as executor:
        generate(SETTINGS, tmp_path / "two", executor=executor)
    with ThreadPoolExecutor(4) as executor:  # four workers without the cost of starting four processes
        generate(SETTINGS, tmp_path / "four", executor=executor)
    assert checksums(tmp_path / "two") == checksums(tmp_path / "four") == checksums(reference)


def test_shards_in_any_order_give_the_same_bytes(reference, tmp_path):
    for shard in (2, 0, 3):
        assert generate(SETTINGS, tmp_path, shard_index=shard) is None
    assert "manifest.json" not in checksums(tmp_path)
    assert generate(SETTINGS, tmp_path, shard_index=1) is not None
    assert checksums(tmp_path) == checksums(reference)


def test_a_dask_cluster_gives_the_same_bytes_without_a_warning(reference, tmp_path):
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
            ) as cluster,
            dask_cluster(cluster.scheduler_address) as executor,
        ):
            generate(SETTINGS, tmp_path, executor=executor)
    assert checksums(tmp_path) == checksums(reference)


@pytest.mark.slow
def test_a_dask_cluster_of_processes_gives_the_same_bytes(reference, tmp_path):
    """Buys the certainty that settings and results travel between processes (the fast test uses threads)."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        dask_cluster(cluster.scheduler_address) as executor,
    ):
        generate(SETTINGS, tmp_path, executor=executor)
    assert checksums(tmp_path) == checksums(reference)


def test_a_scheduler_that_does_not_answer_is_an_error():
    pytest.importorskip("distributed")
    with pytest.raises(ConfigError, match="no Dask scheduler answers at nonsense"), dask_cluster("nonsense://x:1"):
        pass


def test_counts_are_the_sums_over_items(reference):
    rows = acceptance(read_manifest(reference))
    items = list(Dataset(reference))
    assert sum(row.accepted for row in rows) == 30
    for row in rows:
        mine = [item for item in items if (item.dim, item.setting.gap) == (row.dim, row.gap)]
        assert (row.accepted, row.proposals) == (len(mine), sum(item.num_proposals for item in mine))


def test_binomial_intervals_are_those_of_the_textbook():
    """Clopper and Pearson, 95 %: 1 of 10 is 0.0025 to 0.4450; 0 of 10 reaches 0.3085 (one minus 0.025 ** 0.1)."""
    assert Acceptance(1, 0.1, 10, 1).interval() == pytest.approx((0.00253, 0.44502), abs=1e-5)
    assert Acceptance(1, 0.1, 10, 0).interval() == pytest.approx((0.0, 1 - 0.025**0.1))
    assert Acceptance(1, 0.1, 10, 10).interval() == pytest.approx((0.025**0.1, 1.0))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 6}, "seed is 5 there and 6 here"),
        ({"num_equations": 31}, "num_equations is 30 there and 31 here"),
        ({"shard_size": 9}, "shard_size is 8 there and 9 here"),
        ({"config": replace(SMALL, limit=50.0)}, r"config\.limit is 100\.0 there and 50\.0 here"),
        ({"config": SMALL.restrict(dims=[1, 2])}, r"config\.dims is \[1, 2, 3\] there and \[1, 2\] here"),
    ],
)
def test_a_folder_of_another_data_set_is_an_error_that_says_what_differs(change, words, reference):
    before = checksums(reference)
    with pytest.raises(DatasetError, match=words):
        generate(replace(SETTINGS, **change), reference)
    assert checksums(reference) == before


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(DatasetError, match="not empty and holds no data set"):
        generate(SETTINGS, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("wrong", [{"num_equations": 0}, {"seed": -1}, {"shard_size": 0}, {"generator": 2}])
def test_impossible_settings_are_errors(wrong):
    with pytest.raises(ConfigError):
        replace(SETTINGS, **wrong)


def test_a_shard_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="shard_index is 4; expected 0 to 3"):
        generate(SETTINGS, tmp_path, shard_index=4)
    with pytest.raises(DatasetError, match=r"manifest\.json is missing"):
        Dataset(tmp_path)


def test_a_worker_that_writes_elsewhere_is_noticed(tmp_path):
    class Elsewhere(ThreadPoolExecutor):
        def submit(self, function, settings, folder, shard):
            (tmp_path / "elsewhere").mkdir(exist_ok=True)
            return super().submit(make_shard, settings, tmp_path / "elsewhere", shard)

    with Elsewhere(1) as executor, pytest.raises(DatasetError, match="workers must share that folder"):
        generate(SETTINGS, tmp_path / "here", executor=executor)


def run(*arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_command_makes_a_data_set_and_prints_its_acceptance(tmp_path):
    config = tmp_path / "prior.toml"
    config.write_text(SMALL.to_toml())
    options = ["--config", config, "--shard-size", 8, "--workers", 1]
    made = run("--equations", 20, "--seed", 3, "--out", tmp_path / "d", "--dims", "1,3", "--gaps", "0.1", *options)
    assert made.exit_code == 0, made.output
    assert "20 equations" in made.output
    assert read_manifest(tmp_path / "d").settings.config == SMALL.restrict(dims=[1, 3], gaps=[0.1])
    printed = run("--stats", tmp_path / "d").output.splitlines()
    assert [line.split()[:2] for line in printed[1:]] == [["1", "0.1"], ["3", "0.1"]]
    assert sum(int(line.split()[3]) for line in printed[1:]) == 20
    found = json.loads(run("--stats", tmp_path / "d", "--json").output)
    assert found["complete"]
    assert (found["equations"], found["shards"], found["out"]) == (20, 3, str(tmp_path / "d"))
    assert [(row["dim"], row["gap"]) for row in found["acceptance"]] == [(1, 0.1), (3, 0.1)]
    assert sum(row["proposals"] for row in found["acceptance"]) == found["proposals"] >= 20


def test_a_batch_array_can_read_what_each_of_its_runs_made(tmp_path):
    (tmp_path / "prior.toml").write_text(SMALL.to_toml())
    options = [
        "--config",
        tmp_path / "prior.toml",
        "--equations",
        6,
        "--shard-size",
        3,
        "--out",
        tmp_path / "d",
        "--json",
    ]
    first, last = (json.loads(run(*options, "--shard-index", k).stdout) for k in range(2))
    assert first == {"complete": False, "shard": 0, "shards": 2, "out": str(tmp_path / "d")}
    assert last["complete"]
    assert last["equations"] == 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--equations", 5], "needs --equations and --out"),
        (["--equations", 5, "--out", "d", "--dims", "one"], "--dims is 'one'"),
        (["--equations", 5, "--out", "d", "--gaps", "0.5"], "gap 0.5 is not in the settings"),
        (["--stats", "nowhere"], "nowhere holds no complete data set"),
    ],
)
def test_wrong_input_of_the_command_is_one_sentence(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert isinstance(result.exception, (ConfigError, DatasetError))
    assert words in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_hardly_larger_than_the_values_in_it(tmp_path):
    """Four bytes per value; masks, coefficients and targets together add less than a tenth at full size."""
    settings = DatasetSettings(num_equations=3, seed=0, config=PriorConfig().restrict(gaps=[0.01]))
    generate(settings, tmp_path)
    assert all(item.values.dtype == np.float32 for item in Dataset(tmp_path))
    num_bytes = sum(item.values.nbytes for item in Dataset(tmp_path))
    assert (tmp_path / settings.file_name(0)).stat().st_size < 1.1 * num_bytes
