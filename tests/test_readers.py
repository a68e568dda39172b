"""Readers: the kind of a model is asked for in one place, and whoever asks a model gets the same answers everywhere."""

import ast
from pathlib import Path

import numpy as np
import pytest
import torch

import fimsde
from fimsde.bank.identity import identity
from fimsde.data.normalise import fit_normaliser
from fimsde.data.transitions import to_transitions
from fimsde.errors import ConfigError
from fimsde.estimation import bundled_model, estimate_sde
from fimsde.export.graphs import EncoderGraph, HeadGraph
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.model.reader import Limits, Reader
from fimsde.model.rollout import rollout
from fimsde.train.config import TrainConfig
from fimsde.train.pretrain.batches import StreamedBatches

PACKAGE = Path(fimsde.__file__).parent
PRESETS = ("tiny", "primed-tiny")


def decisions(text):
    """Comparisons and matches in a source that have to do with `variant`: a name, an attribute or a key."""

    def is_asked(node):
        parts = list(ast.walk(node))
        names = [n.id for n in parts if isinstance(n, ast.Name)] + [
            n.attr for n in parts if isinstance(n, ast.Attribute)
        ]
        return "variant" in names or "variant" in [n.value for n in parts if isinstance(n, ast.Constant)]

    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Compare(left=left, comparators=right):
                found += [node.lineno] if any(map(is_asked, [left, *right])) else []
            case ast.Match(subject=subject):
                found += [node.lineno] if is_asked(subject) else []
    return found


def test_the_kind_of_a_model_is_asked_for_in_one_place():
    found = {file.relative_to(PACKAGE).as_posix(): decisions(file.read_text()) for file in PACKAGE.rglob("*.py")}
    assert {name: len(lines) for name, lines in found.items() if lines} == {"model/config.py": 1}


@pytest.mark.parametrize(
    "line",
    [
        'if config.variant == "primed": pass',
        'x = 1 if settings["variant"] != "paper" else 2',
        'match model.config.variant:\n    case "paper": pass',
        'known = variant in ("paper", "primed")',
    ],
)
def test_another_place_that_asks_would_be_noticed(line):
    assert decisions(line) == [1]


@pytest.mark.parametrize("preset", PRESETS)
def test_readers_have_everything_that_is_asked_of_them(preset):
    assert isinstance(ModelConfig.preset(preset).reader, Reader)


def test_a_kind_that_nobody_knows_is_refused():
    with pytest.raises(ConfigError, match=r"variant is 'plain'; expected one of paper, primed\."):
        ModelConfig.from_mapping({"variant": "plain"})
    with pytest.raises(ConfigError, match=r"variant is \['paper'\]; expected"):
        ModelConfig.from_mapping({"variant": ["paper"]})


def observations(dim):
    walk = np.random.default_rng(dim).standard_normal((400, dim))
    x = np.zeros((400, dim))
    for i in range(1, 400):
        x[i] = 0.95 * x[i - 1] + 0.2 * walk[i]
    return fimsde.read(5.0 + 3.0 * x, dt=0.1)


def places(obs):
    """Inside the data, near, one and many ranges outside along one axis and along all, out of all numbers, and none."""
    low, high = obs.box()
    wide = high - low
    x = np.stack(
        [low + share * wide for share in (0.5, 0.1, -0.3, 1.9, 2.0, 2.1, 7.0, -40.0, 1e9, 1e30, np.nan, -np.inf)]
    )
    along = np.tile(0.5 * (low + high), (3, 1))
    along[:, 0] = low[0] + np.array([1.9, 30.0, 1e30]) * wide[0]
    return np.concatenate([x, along])


def through_graphs(model, tr, z):
    reader, dim = model.config.reader, tr.dim
    arrays = {name: torch.from_numpy(a) for name, a in reader.arrays(tr, None).items()}
    width = model.config.max_dim if reader.joins_dims else dim
    with torch.no_grad():
        keys, values = EncoderGraph(model)(arrays)
        x = torch.nn.functional.pad(z[:, :dim], (0, width - dim)).float()
        given = {"x": x, "keys": keys, "values": values} | (arrays if reader.asks_arrays else {})
        return [part.numpy() for part in HeadGraph(model, width)(given)]


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("kind", ["tiny", "primed-tiny", "bundled"])
def test_model_rollout_graphs_and_estimate_answer_alike_near_and_far(kind, dim):
    """A primed model is asked anywhere, and beyond one range outside its fields do not change any more; the paper's has
    no answer beyond 1e12 standard deviations. In float32; the last digits may differ between graphs and model."""
    model = bundled_model() if kind == "bundled" else FIMSDE(ModelConfig.preset(kind), seed=3).eval()
    obs = observations(dim)
    sde, x = estimate_sde(obs, model), places(obs)
    tr = to_transitions(obs)
    normaliser = fit_normaliser(tr, model.config.statistics, model.config.target_gap)
    with np.errstate(invalid="ignore"):
        z = np.zeros((len(x), model.config.max_dim), np.float32)
        z[:, :dim] = normaliser.states(x)
    z = torch.from_numpy(z)
    context = model.encode(model.read([normaliser.transitions(tr)]))
    with torch.no_grad():
        drift, diffusion = (part[0, :, :dim].numpy() for part in model.evaluate(context, z[None]))
        alone = [field(context, z[None])[0, :, :dim].numpy() for field in (model.drift, model.diffusion)]
        spread = model.log_variance(context, z[None])[0].numpy()
        paths = rollout(
            model,
            context,
            z[None],
            torch.full((1, len(x), 1), 0.25),
            torch.ones(1, 1, *z.shape),
            (torch.arange(model.config.max_dim) < dim)[None],
        )[0, :, :, :dim].numpy()

    unknown = ~np.isfinite(x).all(axis=1)
    if kind == "tiny":
        unknown |= np.abs(x).max(axis=1) > 1e20
        assert unknown.sum() == 4
    np.testing.assert_array_equal(np.isnan(drift).any(axis=1), unknown)
    np.testing.assert_array_equal(np.isnan(spread), unknown)
    np.testing.assert_allclose(alone, [drift, diffusion], rtol=1e-5, atol=1e-6)

    own = sde.fields(x)
    expected = normaliser.undo_drift(drift.astype(float)), normaliser.undo_diffusion(diffusion.astype(float))
    for a, b in zip(own, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.nanmax(np.abs(b[:4])))
    np.testing.assert_allclose(sde.uncertainty(x), spread, rtol=1e-4, atol=1e-4)

    graphs = through_graphs(model, normaliser.transitions(tr), z)
    for a, b in zip(graphs, (drift, diffusion, spread), strict=True):
        a = a[:, :dim] if a.ndim == 2 else a
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.nanmax(np.abs(b[:4])))

    step = z[:, :dim].numpy() + 0.25 * drift + 0.5 * diffusion
    np.testing.assert_allclose(paths[:, 1], step, rtol=1e-4, atol=1e-4)

    held = drift[[5, 6, 8, 9]]  # more than a range outside
    if kind == "tiny":
        assert not np.allclose(held[0], held[1], rtol=1e-4)
    else:
        np.testing.assert_allclose(held, np.broadcast_to(held[0], held.shape), rtol=1e-5)
        np.testing.assert_allclose(drift[13], drift[14], rtol=1e-5)
        assert not np.allclose(drift[3], drift[5], rtol=1e-3), "not held before"


def test_limits_hold_places_at_the_box_and_know_finite_ones_only():
    box = torch.tensor([[[-1.0, -torch.inf], [2.0, torch.inf]]])
    x = torch.tensor([[[-3.0, 5.0], [0.5, -7.0], [9.0, 0.0], [torch.nan, 0.0], [0.0, torch.inf]]])
    limits = Limits(box)
    np.testing.assert_array_equal(limits.hold(x)[0, :3], [[-1.0, 5.0], [0.5, -7.0], [2.0, 0.0]])
    assert limits.knows(x).tolist() == [[True, True, True, False, False]]
    assert Limits(farthest=6.0).knows(x).tolist() == [[True, False, False, False, False]]
    assert Limits().hold(x) is x


def test_training_asks_without_limits():
    """Locations of pretraining reach farther than one range of a short context: nothing may be held there. Finetuning
    reads on purpose without limits, so that gradients are added up in one order only."""
    batch = StreamedBatches(TrainConfig.preset("primed-tiny"))[0]
    assert batch.source.box is None
    context = FIMSDE(ModelConfig.preset("primed-tiny")).encode(batch.source)
    assert context.limits == Limits()
    model, tr = FIMSDE(ModelConfig.preset("primed-tiny")), to_transitions(observations(2))
    tr = fit_normaliser(tr).transitions(tr)
    assert model.read([tr], limited=False).box is None
    low, high = tr.y.min(axis=0), tr.y.max(axis=0)
    np.testing.assert_allclose(model.read([tr]).box[0], [2 * low - high, 2 * high - low], rtol=1e-6)


@pytest.mark.parametrize("preset", PRESETS)
def test_weights_of_a_reader_are_counted(preset):
    """Also by the parts themselves, not just in sum."""
    reader = ModelConfig.preset(preset).reader
    parts = reader.features(), reader.queries()
    assert sum(p.numel() for part in parts for p in part.parameters()) == reader.num_weights


def test_the_paper_s_reader_has_no_identity_and_the_bank_s_is_that_of_the_bank():
    assert ModelConfig.preset("tiny").reader.identity == {}
    assert ModelConfig.preset("primed").reader.identity == identity()
