"""Exported graphs: what they take, that they say what the model says at any length, complete or absent."""

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch

import fimsde
from fimsde.data.normalise import fit_normaliser
from fimsde.data.transitions import to_transitions
from fimsde.errors import CheckpointError, ConfigError
from fimsde.export import bank_inputs, export_model, token_inputs, write
from fimsde.export.graphs import EncoderGraph, HeadGraph
from fimsde.export.trace import Program, difference
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE

ROOT = Path(__file__).parent.parent
LENGTHS = ((57, 1), (203, 11))  # observations and locations; graphs are traced with others


def a_model(preset, correction=False):
    """Random weights, in training mode as a caller may leave them."""
    config = ModelConfig.preset(preset)
    if correction:
        config = ModelConfig.from_mapping(vars(config) | {"correction": True})
    model = FIMSDE(config, seed=3)
    if correction:
        for name in ("drift_coefficients", "diffusion_coefficients"):
            weights = getattr(model.correction, name)
            weights.data.copy_(0.01 * torch.randn(weights.shape, generator=torch.Generator().manual_seed(1)))
    return model


def observations(dim, num, seed=0):
    walk = np.random.default_rng(seed).standard_normal((num, dim)).cumsum(axis=0)
    return fimsde.read(3.0 + 0.2 * walk, dt=0.1)


def through_graphs(model, obs, x, encode, ask):
    """Drift, diffusion and log variance in the units of the data, by two functions of named arrays."""
    tr = to_transitions(obs)
    normaliser = fit_normaliser(tr, model.config.statistics, model.config.target_gap)
    z = normaliser.states(x).astype(np.float32)
    if model.config.variant == "primed":
        data = bank_inputs(normaliser.transitions(tr))
        keys, values = encode(data)
        drift, diffusion, log_variance = ask({"x": z, "keys": keys, "values": values} | data)
    else:
        keys, values = encode(token_inputs(normaliser.transitions(tr), model.config.max_dim))
        padded = np.pad(z, ((0, 0), (0, model.config.max_dim - obs.dim)))
        drift, diffusion, log_variance = ask({"x": padded, "keys": keys, "values": values})
        drift, diffusion = drift[:, : obs.dim], diffusion[:, : obs.dim]
    undo = normaliser.undo_drift(drift.astype(float)), normaliser.undo_diffusion(diffusion.astype(float))
    return *undo, log_variance


def check_reproduces_estimates(model, dim, encode, ask):
    """Whatever the lengths, the answers are those of `estimate` up to the rounding of float32."""
    for num, queries in LENGTHS:
        obs = observations(dim, num, seed=num)
        sde = fimsde.estimate(obs, model)
        x = obs.values[:queries]
        expected = [sde.drift(x), sde.diffusion(x), sde.uncertainty(x)]
        assert difference(through_graphs(model, obs, x, encode, ask), expected) < 2e-5


def eager(module):
    def run(arrays):
        with torch.no_grad():
            return [t.numpy() for t in module({name: torch.from_numpy(a) for name, a in arrays.items()})]

    return run


pytestmark = pytest.mark.filterwarnings("ignore:the observations make .* transitions:fimsde.DataWarning")


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_inputs_are_what_the_model_reads(dim):
    obs = observations(dim, 90)
    tr = to_transitions(obs)
    tr = fit_normaliser(tr).transitions(tr)
    for preset, made in (("tiny", token_inputs(tr, 3)), ("primed-tiny", bank_inputs(tr))):
        source = FIMSDE(ModelConfig.preset(preset)).read([tr])
        read = {f.name: getattr(source, f.name)[0].numpy() for f in fields(source) if f.name != "mask"}
        assert {name.removeprefix("bank_") for name in made} == set(read)
        for name, array in made.items():
            np.testing.assert_array_equal(array, read[name.removeprefix("bank_")], err_msg=name)


@pytest.mark.parametrize("correction", [False, True])
@pytest.mark.parametrize(("preset", "dim"), [("tiny", 2), ("primed-tiny", 1), ("primed-tiny", 2), ("primed-tiny", 3)])
def test_encoder_and_head_together_are_the_model(preset, dim, correction):
    model = a_model(preset, correction).eval()
    head = HeadGraph(model, dim if preset == "primed-tiny" else model.config.max_dim)
    check_reproduces_estimates(model, dim, eager(EncoderGraph(model)), eager(head))


def test_a_folder_of_torch_programs_reproduces_estimates(tmp_path):
    """torch.export without the extra, and a complete folder."""
    model = a_model("tiny")
    called = []
    assert export_model(model, tmp_path / "out", formats=["torch"], progress=called.append) == tmp_path / "out"
    assert model.training, "the caller's model was changed"
    assert called == ["encoder.pt2", "head.pt2"]
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        ".fimsde.json",
        "encoder.pt2",
        "head.pt2",
        "export.json",
    }
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    described = json.loads((tmp_path / "out" / "export.json").read_text())
    assert described["config"]["variant"] == "paper"
    assert [g["name"] for g in described["graphs"]] == ["encoder", "head"]
    assert described["graphs"][0]["inputs"]["dtau"] == {"axes": "n", "dtype": "float32"}
    encode, ask = (torch.export.load(tmp_path / "out" / f"{name}.pt2").module() for name in ("encoder", "head"))
    for dim in (1, 3):
        check_reproduces_estimates(model.eval(), dim, eager(encode), eager(ask))


def test_a_program_that_disagrees_is_refused_and_nothing_is_written(tmp_path, monkeypatch):
    def slightly_wrong(traced, graph, kind):
        return Program(b"", lambda arrays: [1.001 * a for a in graph(arrays)])

    monkeypatch.setattr(write, "trace", lambda graph, example: None)
    monkeypatch.setattr(write, "to_program", slightly_wrong)
    with pytest.raises(CheckpointError, match=r"encoder.pt2 would differ from the model by 0.001"):
        export_model(a_model("tiny"), tmp_path / "out", formats=["torch"])
    assert list(tmp_path.iterdir()) == []


def test_a_difference_is_relative_and_never_hides_a_missing_number():
    a = np.array([1.0, 2.0], np.float32)
    assert difference([a], [a]) == 0
    assert difference([a * 1000], [a * 1001]) == pytest.approx(1e-3, rel=1e-2)
    assert difference([np.array([np.nan], np.float32)], [np.array([np.nan], np.float32)]) == np.inf
    assert difference([a], [a[:1]]) == np.inf


@pytest.mark.parametrize(
    ("preset", "options", "words"),
    [
        ("tiny", {"formats": ["onxx"]}, "onxx; expected some of onnx, torch"),
        ("tiny", {"formats": []}, "expected some of onnx, torch"),
        ("tiny", {"dims": [1]}, "Leave it out"),
        ("primed-tiny", {"dims": [4], "formats": ["torch"]}, "expected some of 1 to 3"),
    ],
)
def test_a_wrong_wish_is_refused_before_any_work(preset, options, words, tmp_path):
    with pytest.raises(ConfigError, match=words):
        export_model(a_model(preset), tmp_path / "out", **({"formats": ["torch"]} | options))
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_kept(tmp_path):
    with pytest.raises(ConfigError, match="exists already"):
        export_model(a_model("tiny"), tmp_path, formats=["torch"])


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("fimsde.export.trace.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs onnx, onnxruntime, onnxscript.*fimsde\[export\]"):
        export_model(a_model("tiny"), tmp_path / "out", formats=["onnx"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("preset", "correction"),
    [("tiny", False), pytest.param("primed-tiny", False, marks=pytest.mark.slow), ("primed-tiny", True)],
)
def test_onnx_programs_reproduce_estimates(tmp_path, preset, correction):
    """ONNX and torch.export of both architectures, of finetuned models too, say what the package says, at lengths
    other than the traced ones. The slow case takes half a minute and buys all dimensions without corrections."""
    runtime = pytest.importorskip("onnxruntime", reason="the extra export is not installed")
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    model = a_model(preset, correction)
    dims = (1, 3) if correction else (1, 2, 3)
    primed = preset == "primed-tiny"
    export_model(model, tmp_path / "out", dims=dims if primed else None)
    model.eval()
    for dim in dims:
        ending = f"-{dim}d" if primed else ""
        names = [str(tmp_path / "out" / f"{part}{ending}") for part in ("encoder", "head")]
        sessions = [runtime.InferenceSession(f"{name}.onnx") for name in names]
        check_reproduces_estimates(model, dim, *(lambda arrays, s=s: s.run(None, arrays) for s in sessions))
        programs = [torch.export.load(f"{name}.pt2").module() for name in names]
        check_reproduces_estimates(model, dim, *map(eager, programs))
        axes = [size for given in sessions[1].get_inputs() for size in given.shape if isinstance(size, str)]
        assert set(axes) == {"queries", "cells" if primed else "n"}


def test_the_documented_way_gives_the_numbers_of_the_bundled_model(tmp_path, monkeypatch, capsys):
    """So that docs/export.md cannot rot."""
    pytest.importorskip("onnxruntime", reason="the extra export is not installed")
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    from fimsde.interface.cli import main

    monkeypatch.chdir(tmp_path)
    obs = observations(1, 300)
    rows = zip(obs.times.tolist(), obs.values[:, 0].tolist(), strict=True)
    (tmp_path / "data.csv").write_text("t,x\n" + "".join(f"{t!r},{x!r}\n" for t, x in rows))
    with pytest.raises(SystemExit) as stop:
        main(["export", "bundled", "graphs", "--format", "onnx", "--dims", "1", "--json"])
    assert not stop.value.code
    told = json.loads(capsys.readouterr().out)
    assert told.pop("out") == "graphs"
    assert told == json.loads(Path("graphs/export.json").read_text())
    text = (ROOT / "docs" / "export.md").read_text()
    found = {}
    exec(text.partition("```python\n")[2].partition("```")[0], found)  # our own page
    expected = fimsde.estimate(obs, "bundled").fields(found["x"])
    assert difference([found["drift"], found["diffusion"]], expected) < 2e-5
