"""Objectives: formulas restated, gradients by differences, and that what does not count has no influence."""

from dataclasses import fields, replace
from math import exp, log

import pytest
import torch

from fimsde.bank.hypotheses import DRIFT, ORIGIN
from fimsde.errors import ConfigError
from fimsde.train.config import TrainConfig
from fimsde.train.pretrain.batches import Batch, StreamedBatches
from fimsde.train.pretrain.objectives import choose_objective, primed_objective
from fimsde.train.pretrain.start import new_model

PRESETS = ("paper-tiny", "primed-tiny")


def double(value):
    """Every floating tensor of a (nested) dataclass in float64."""
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    return replace(value, **{name: double(part) for name, part in parts(value).items()})


def parts(value):
    """What a dataclass of tensors holds; a box beyond which fields are held is not for training."""
    return {f.name: getattr(value, f.name) for f in fields(value) if f.name != "box"}


def problem(preset, index=1):
    config = TrainConfig.preset(preset)
    config = replace(config, model=replace(config.model, dropout=0.0))
    model = new_model(config).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():  # away from the special start
            p.add_(0.05 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    batch = double(StreamedBatches(config)[index])
    scale = batch.drift.abs().amax((1, 2), keepdim=True)
    return config, model, replace(batch, drift=batch.drift / scale) if preset == "paper-tiny" else batch


@pytest.mark.parametrize("preset", PRESETS)
def test_gradients_agree_with_differences(preset):
    """T1, along a random direction through all weights. The direction leaves out the detached paths into U:
    the derivative there is not that of the loss, by design (T2), so the U stack alone and all but U are two checks.
    For the same reason the error in units of the expected one is a check of its own."""
    config, model, batch = problem(preset)
    chosen = choose_objective(config)

    def objective(model, batch):
        loss = chosen(model, batch)
        return replace(loss, total=loss.total - loss.parts.get("drift_error", 0.0))

    generator = torch.Generator().manual_seed(1)
    named = dict(model.named_parameters())
    u_stack = [p for name, p in named.items() if name.startswith("log_variance")]
    loss = objective(model, batch).total
    gradients = torch.autograd.grad(loss, u_stack)
    direction = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in u_stack]
    slope = sum(float((g * d).sum()) for g, d in zip(gradients, direction, strict=True))

    def moved(step):
        with torch.no_grad():
            for p, d in zip(u_stack, direction, strict=True):
                p.add_(step * d)
            value = float(objective(model, batch).total)
            for p, d in zip(u_stack, direction, strict=True):
                p.sub_(step * d)
        return value

    step = 1e-6
    assert slope == pytest.approx((moved(step) - moved(-step)) / (2 * step), rel=1e-5)


@pytest.mark.parametrize(
    ("names", "seen"),
    [(["drift_log_error", "diffusion_log_error"], ""), (["drift_error"], "drift_operator")],
    ids=["log errors", "error in units of the expected one"],
)
def test_the_gradient_of_the_primed_errors_agrees_with_differences(names, seen):
    """T1 for everything but U: the log errors see drift and diffusion only; what is expected is not to be bent."""
    _, model, batch = problem("primed-tiny")
    rest = [p for n, p in model.named_parameters() if n.startswith(seen) and not n.startswith("log_variance")]

    def errors():
        parts = primed_objective(model, batch).parts
        return sum(parts[name] for name in names)

    gradients = torch.autograd.grad(errors(), rest)
    generator = torch.Generator().manual_seed(2)
    direction = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in rest]
    slope = sum(float((g * d).sum()) for g, d in zip(gradients, direction, strict=True))
    values = []
    for step in (1e-6, -2e-6):
        with torch.no_grad():
            for p, d in zip(rest, direction, strict=True):
                p.add_(step * d)
            values.append(float(errors()))
    assert slope == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5)


def test_the_primed_objective_is_its_formula():
    _, model, batch = problem("primed-tiny")
    model.requires_grad_(False)
    scored = batch.scored.clone()
    scored[0, 1] = scored[1, 3] = False
    batch = replace(batch, scored=scored)
    context = model.encode(batch.source)
    drift, diffusion = model.evaluate(context, batch.x)
    asked = model.locations(model.locations.prepare(batch.source), batch.x)
    raw = model.log_variance_operator(asked.h, context.log_variance, context.mask, 1024)
    scales, dim = asked.log_scales(raw), batch.source.dim
    least = {"drift": batch.source.speed**2, "diffusion": 0.1 * batch.source.rate}
    expected = {}
    for name, answer, truth, size, number in (
        ("drift", drift, batch.drift, asked.known.drift_size, 0),
        ("diffusion", diffusion, batch.diffusion, asked.known.diffusion_size, 1),
    ):
        likelihoods, logs, units = [], [], []
        for b in range(len(batch.x)):
            for j in range(dim):
                kept = [q for q in range(batch.x.shape[1]) if scored[b, q]]
                error = [float((answer[b, q, j] - truth[b, q, j]) / size[b, q, j]) for q in kept]
                scale = [min(max(float(scales[b, q, j, number]), -6.0), 5.0) for q in kept]
                terms = [u + 2.5 * log(1 + e * e / (4 * exp(2 * u))) for e, u in zip(error, scale, strict=True)]
                likelihoods.append(sum(terms) / len(kept))
                square = sum(float(answer[b, q, j] - truth[b, q, j]) ** 2 for q in kept) / len(kept)
                whole = sum(float(truth[b, q, j]) ** 2 for q in kept) / len(kept)
                whole += float(least[name][b, j])
                logs.append(log(square / whole + 1e-5))
                spread = [(float(size[b, q, j]) * exp(u)) ** 2 for q, u in zip(kept, scale, strict=True)]
                foreseen = 2 * sum(spread) / len(kept) + 1e-5 * whole
                units.append(10 * log(1 + square / (10 * foreseen)))
        expected[f"{name}_likelihood"] = sum(likelihoods) / len(likelihoods)
        expected[f"{name}_log_error"] = sum(logs) / len(logs)
        if name == "drift":
            expected["drift_log_error"] *= 0.5
            expected["drift_error"] = 0.5 * sum(units) / len(units)
    loss = primed_objective(model, batch)
    assert {name: float(part) for name, part in loss.parts.items()} == pytest.approx(expected, rel=1e-9)
    assert float(loss.total) == pytest.approx(sum(expected.values()), rel=1e-9)


@pytest.mark.parametrize("preset", PRESETS)
def test_u_is_detached_from_everything_but_its_own_stack(preset):
    """T2: errors may teach U, U must not bend what the errors are of."""
    config, model, batch = problem(preset)
    found = []
    handle = model.log_variance_operator.register_forward_hook(lambda module, inputs, output: found.append(output))
    choose_objective(config)(model, batch)
    handle.remove()
    named = dict(model.named_parameters())
    others = [p for name, p in named.items() if not name.startswith("log_variance")]
    own = [p for name, p in named.items() if name.startswith("log_variance")]
    (u,) = found
    assert all(g is None for g in torch.autograd.grad(u.sum(), others, retain_graph=True, allow_unused=True))
    assert any(g is not None for g in torch.autograd.grad(u.sum(), own, allow_unused=True))


def test_what_the_model_expects_of_its_errors_is_not_bent_by_them():
    """T2: nothing is gained by expecting larger errors."""
    _, model, batch = problem("primed-tiny")
    own = [p for name, p in model.named_parameters() if name.startswith("log_variance")]
    parts = primed_objective(model, batch).parts
    bent, taught = (
        torch.autograd.grad(parts[name], own, retain_graph=True, allow_unused=True)
        for name in ("drift_error", "drift_likelihood")
    )
    assert all(g is None for g in bent)
    assert any(g is not None for g in taught)


@pytest.mark.parametrize("preset", PRESETS)
def test_locations_that_do_not_count_have_no_influence(preset):
    """T3: exactly the same loss and gradient, whatever the answers there are said to be."""
    config, model, batch = problem(preset)
    objective, scored = choose_objective(config), batch.scored.clone()
    scored[:, 0] = False

    def loss_and_gradient(answers):
        drift = batch.drift.clone()
        drift[:, 0] = answers
        loss = objective(model, replace(batch, scored=scored, drift=drift)).total
        return loss, torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])

    (loss, gradient), (other_loss, other) = loss_and_gradient(0.0), loss_and_gradient(1e6)
    assert torch.equal(loss, other_loss)
    assert torch.equal(gradient, other)
    counted = objective(model, batch).total
    assert not torch.equal(loss, counted)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_loss_of_a_batch_is_the_mean_of_its_halves(preset):
    """What several processes rely on."""
    config, model, batch = problem(preset)
    model.requires_grad_(False)
    half = len(batch.x) // 2

    def part(rows):
        source = replace(batch.source, **{name: part[rows] for name, part in parts(batch.source).items()})
        rest = {f.name: getattr(batch, f.name)[rows] for f in fields(Batch) if f.name != "source"}
        return float(choose_objective(config)(model, Batch(source, **rest)).total)

    whole = float(choose_objective(config)(model, batch).total)
    assert (part(slice(0, half)) + part(slice(half, None))) / 2 == pytest.approx(whole, rel=1e-9)


def test_the_primed_objective_needs_a_primed_model():
    with pytest.raises(ConfigError, match="objective is primed and variant is paper"):
        choose_objective(replace(TrainConfig.preset("paper-tiny"), objective="primed"))


def test_a_fresh_primed_model_starts_near_its_best_candidates():
    """Half of the weight and more is on the sparse averages; random heads would put it anywhere."""
    config = TrainConfig.preset("primed-tiny")
    batch, model = StreamedBatches(config)[0], new_model(config).requires_grad_(False)
    context = model.encode(batch.source)
    asked = model.locations(model.locations.prepare(batch.source), batch.x)
    raw = model.drift_operator(asked.h, context.drift, context.mask, 1024)
    sparse = [i for i, h in enumerate(DRIFT) if h.form is ORIGIN]
    best = raw[..., :-1].softmax(-1)[..., sparse].sum(-1)
    assert float(best.min()) > 0.5


def _parts(model):
    """Places of gap, state, increment and squared increment in a token, and the maps of the last three, at size one."""
    features, quarter = model.encoder.features, model.config.embed // 4
    maps = [features.y.weight, features.dy.weight * 0.1, features.dy_sq.weight * 0.01 / 0.3]
    return [slice(k * quarter, (k + 1) * quarter) for k in range(4)], [weight.detach() for weight in maps]


def test_a_local_start_shows_the_model_numbers_of_size_one():
    """Steps of length 0.01 with increments of its root: maps of states and increments keep lengths."""
    config = replace(TrainConfig.preset("paper-0.1m"), start="published")
    plain, local = (new_model(replace(config, start=start)) for start in ("published", "local"))
    gap = torch.full((1, 1), 0.01)
    torch.testing.assert_close(local.encoder.features.dtau(gap), plain.encoder.features.dtau(gap / 0.01))
    for weight in _parts(local)[1]:
        torch.testing.assert_close(weight.mT @ weight, 8 / 3 * torch.eye(3), atol=1e-5, rtol=1e-5)
    assert not local.encoder.features.dy.bias.any()
    batch = StreamedBatches(config)[0]
    with torch.no_grad():
        u, free = (model.eval()(batch.source, batch.x)[2] for model in (local, plain))
    assert float((u - 9.0).abs().max()) < 1.0 < float((free - 9.0).abs().max())
    ratio = local.log_variance_operator.head.output.weight / plain.log_variance_operator.head.output.weight
    torch.testing.assert_close(ratio, torch.full_like(ratio, 0.1))
    narrow = replace(config, model=replace(config.model, heads=8))
    for unfit in (TrainConfig.preset("primed-tiny"), narrow):
        with pytest.raises(ConfigError, match='expected "published"'):
            new_model(replace(unfit, start="local"))


@torch.no_grad()
def test_a_local_start_looks_around_the_location_and_reads_increments():
    """Of a token with state y, divided by its spread of 1.5, query and key make c x·y, c = 1/2 and 4 for two heads."""
    model = new_model(TrainConfig.preset("paper-0.1m"))
    places, (state, step, square) = _parts(model)
    x, y, dy, dy_sq = (torch.randn(3, generator=torch.Generator().manual_seed(k)) for k in range(4))
    asked, token = model.locations(None, x[None, None]).h[0, 0], torch.zeros(32)
    for place, weight, value in zip(places[1:], (state, step, square), (y, dy, dy_sq), strict=True):
        token[place] = weight @ value / 1.5
    for operator in (model.drift_operator, model.diffusion_operator, model.log_variance_operator):
        attention = operator.layers[0].attention
        query, (key, value) = attention.query(asked), attention.key_value(token).chunk(2)
        for head, c in ((0, 0.5), (1, 4.0)):
            rows = slice(16 * head, 16 * head + 3)
            torch.testing.assert_close(query[rows] @ key[rows] / 4, c * x @ y, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(value[16 * head :][:6], torch.cat([dy, dy_sq]), atol=1e-5, rtol=1e-4)
        only = torch.zeros(32)
        only[:3] = only[16:19] = dy
        read = attention.out(only) - attention.out(torch.zeros(32))
        torch.testing.assert_close(read[places[2]], 1.5 * step @ dy, atol=1e-5, rtol=1e-4)
        assert not read[places[0]].any()
        assert not read[places[3]].any()
    assert not (asked[places[2]] - model.locations.bias[places[2]]).any()
