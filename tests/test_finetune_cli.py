"""`fimsde finetune` and the methods of the benchmark that finetune: files in, weights and a report out."""

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from fimsde.errors import CheckpointError, FimsdeError
from fimsde.interface.cli.finetune import finetune
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.train.finetune import objective


def run(*arguments):
    app = typer.Typer()
    app.command()(finetune)
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(autouse=True)
def short_simulations(monkeypatch):
    """Most of the time of a judgement."""
    monkeypatch.setattr(objective, "_PATH_STEPS", 4)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table of two paths and a tiny model."""
    folder = tmp_path_factory.mktemp("files")
    walk = np.random.default_rng(0).standard_normal((2, 80)).cumsum(axis=1) * 0.1
    rows = [f"{k},{0.1 * i},{walk[k, i]}\n" for k in range(2) for i in range(80)]
    (folder / "data.csv").write_text("id,t,x\n" + "".join(rows))
    config = ModelConfig(embed=8, heads=2, encoder_layers=1, functional_layers=1, feed_forward=8, head_hidden=(8,))
    FIMSDE(config, seed=0).save_pretrained(folder / "weights")
    return folder


def options(files, out, *more):
    columns = ("--time", "t", "--values", "x", "--path", "id")
    return (files / "data.csv", *columns, "--weights", files / "weights", "--out", out, "--iterations", 2, *more)


def test_a_table_becomes_weights_and_a_report(files, tmp_path):
    out = tmp_path / "tuned"
    result = run(*options(files, out))
    assert result.exit_code == 0, result.exception
    assert "objective (" in result.output
    assert "held-out log-likelihood" in result.output
    report = json.loads((out / "report.json").read_text())
    assert (report["iterations"], report["ended"]) == (2, "finished")
    model = FIMSDE.from_pretrained(out / "weights")
    assert model.training_record["finetuning"]["iteration"] == report["after"]["iteration"]
    again = run(*options(files, out, "--resume", "--json"))
    assert again.exit_code == 0, again.exception
    assert json.loads(again.output)["after"] == report["after"]
    assert isinstance(run(*options(files, out)).exception, CheckpointError)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--objective", "best"), "objective is 'best'; expected one of auto, dense, sparse, filtered"),
        (("--parameters", "some"), "parameters is 'some'; expected one of all, heads, low-rank"),
        (("--hold-out", "0.9"), "hold_out is 0.9; expected a share of the data"),
        (("--values", "y"), "y"),
        (("--resume",), "nothing to resume"),
    ],
)
def test_wrong_input_is_named_and_nothing_is_written(files, tmp_path, more, words):
    result = run(*options(files, tmp_path / "tuned", *more))
    assert isinstance(result.exception, FimsdeError)
    assert words in str(result.exception)
    assert not (tmp_path / "tuned").exists()
