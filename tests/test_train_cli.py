"""`fimsde pretrain`: options become settings, results are where they should be, wrong input is one sentence."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fimsde.errors import CheckpointError, ConfigError, OutputError
from fimsde.interface.cli.pretrain import pretrain
from fimsde.model.fim import FIMSDE
from fimsde.train.config import TrainConfig
from fimsde.train.log import read_log
from fimsde.train.pretrain.run import pretrain as train


def run(*arguments):
    app = typer.Typer()
    app.command()(pretrain)
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_a_run_is_made_resumed_and_usable(tmp_path):
    out = tmp_path / "run"
    result = run("--preset", "primed-tiny", "--steps", 2, "--out", out)
    assert result.exit_code == 0, result.exception
    assert "2 of 2 steps" in result.output
    assert str(out / "weights") in result.output.replace("\n", "")
    assert FIMSDE.from_pretrained(out / "weights").training_record["steps"] == 2
    again = run("--config", out / "config.toml", "--out", out, "--resume")
    assert again.exit_code == 0, again.exception
    assert len(read_log(out)) == 2
    told = json.loads(run("--config", out / "config.toml", "--out", out, "--resume", "--json").stdout)
    assert told.pop("seconds") > 0
    assert told == {"complete": True, "steps": 2, "steps_wanted": 2, "skipped": 0, "weights": str(out / "weights")}
    fresh = run("--preset", "primed-tiny", "--steps", 2, "--out", out)
    assert isinstance(fresh.exception, CheckpointError)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "either --preset or --config"),
        (("--preset", "paper", "--config", "run.toml"), "either --preset or --config"),
        (("--preset", "gigantic"), "not known"),
        (("--config", "absent.toml"), "cannot read the settings"),
        (("--preset", "paper-tiny", "--cache", "c", "--cache-equations", 5), "variant is paper"),
        (("--preset", "primed-tiny", "--cache", "c"), "expected a folder exactly"),
    ],
)
def test_wrong_input_is_named(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments, "--out", "run")
    assert isinstance(result.exception, ConfigError)
    assert words in str(result.exception)
    assert not Path("run").exists()


def test_the_settings_written_down_are_those_of_the_preset(tmp_path):
    run("--preset", "paper-tiny", "--steps", 1, "--out", tmp_path / "run")
    config = TrainConfig.from_file(tmp_path / "run" / "config.toml")
    assert config.loop.steps == 1
    assert config.model == TrainConfig.preset("paper-tiny").model


def test_a_folder_with_files_of_others_is_no_place_for_a_run(tmp_path):
    """A run writes config.toml, log.jsonl and weights: none of these may be somebody else's."""
    (tmp_path / "config.toml").write_text("mine")
    for resume in (False, True):
        with pytest.raises(OutputError, match=r"is not empty and holds no run of fimsde: 'config\.toml' is in it"):
            train(TrainConfig.preset("paper-tiny"), tmp_path, resume=resume)
    assert (tmp_path / "config.toml").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]
