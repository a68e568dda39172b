"""The losses: restated in loops, checked against finite differences, and blind to what is masked or detached."""

import itertools
import math

import numpy as np
import pytest
import torch

from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.model.paper import Tokens
from fimsde.model.rollout import rollout
from fimsde.train.losses import ScoredSteps, simulation_mse, supervised_loss, transition_nll

CONFIG = ModelConfig(embed=8, heads=2, encoder_layers=1, functional_layers=1, feed_forward=8, head_hidden=(8,))
DIMS = torch.tensor([[True, False, False], [True, True, False], [True, True, True]])


def normal(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def model():
    model = FIMSDE(CONFIG, seed=0).double().eval()
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.add_(0.2 * normal(*p.shape, seed=i))
    return model


@pytest.fixture(scope="module")
def tokens():
    return Tokens(
        normal(3, 6, 3, seed=1) * DIMS[:, None],
        normal(3, 6, 3, seed=2) * DIMS[:, None],
        normal(3, 6, seed=3).abs(),
        normal(3, 6, seed=4) > -0.8,
    )


@pytest.fixture(scope="module")
def steps():
    return ScoredSteps(
        start=normal(3, 4, 3, seed=5) * DIMS[:, None],
        gaps=0.1 * normal(3, 4, 2, seed=6).abs(),
        target=normal(3, 4, 2, 3, seed=7) * DIMS[:, None, None],
        valid=normal(3, 4, 2, seed=8) > -0.5,
        dims=DIMS,
    )


def supervised(model, tokens, reduction="authors", fixed_u=None):
    x = normal(3, 5, 3, seed=11) * DIMS[:, None]
    drift, diffusion, u = model(tokens, x)
    targets = normal(3, 5, 3, seed=12), normal(3, 5, 3, seed=13).abs()
    return supervised_loss(drift, diffusion, u if fixed_u is None else fixed_u, *targets, DIMS, reduction).total


def nll(model, tokens, steps, substeps=2):
    noise = normal(2 * substeps, 3, 4, 3, seed=14)
    return transition_nll(model, model.encode(tokens), steps, noise, substeps=substeps)


def mse(model, tokens, steps, substeps=2):
    noise = normal(2 * substeps, 3, 8, 3, seed=15)
    return simulation_mse(model, model.encode(tokens), steps, noise, substeps=substeps)


@pytest.mark.parametrize("reduction", ["paper", "authors"])
def test_supervised_loss_is_the_weighted_square_plus_u(reduction):
    drift, diffusion, target_drift, target_diffusion = (normal(3, 5, 3, seed=s) for s in (1, 2, 3, 4))
    u = normal(3, 5, seed=5)
    found = supervised_loss(drift, diffusion, u, target_drift, target_diffusion, DIMS, reduction)
    parts = np.zeros(3)
    for b, q in itertools.product(range(3), range(5)):
        m = int(DIMS[b].sum())
        for part, (a, t) in enumerate([(drift, target_drift), (diffusion, target_diffusion)]):
            square = sum(float(a[b, q, i] - t[b, q, i]) ** 2 for i in range(m))
            parts[part] += math.exp(-float(u[b, q])) * square / (m if reduction == "authors" else 1)
        parts[2] += float(u[b, q])
    parts /= 3 if reduction == "authors" else 15
    np.testing.assert_allclose([found.drift, found.diffusion, found.log_variance], parts, rtol=1e-12)
    assert float(found.total) == pytest.approx(parts.sum(), rel=1e-12)


def test_a_held_location_keeps_its_loss_and_has_the_gradient_of_the_bound():
    """One location with exp(-U) |error|² = 100, one with 0.04, bound 4: the gradient of the first is a 25th."""
    dims, zero = torch.tensor([[True, False, False]]), torch.zeros(1, 2, 3, dtype=torch.float64)
    target = torch.tensor([[[10.0, 0, 0], [0.2, 0, 0]]], dtype=torch.float64)

    def gradients(location_clip):
        drift, u = zero.clone().requires_grad_(), torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
        loss = supervised_loss(drift, zero, u, target, zero, dims, location_clip=location_clip).total
        return loss.item(), *(g[0].tolist() for g in torch.autograd.grad(loss, (drift, u)))

    loss, of_drift, of_u = gradients(4.0)
    free, free_drift, free_u = gradients(0.0)
    assert loss == pytest.approx(100.04)
    assert free == pytest.approx(100.04)
    assert [row[0] for row in free_drift] == pytest.approx([-20.0, -0.4])
    assert [row[0] for row in of_drift] == pytest.approx([-20.0 / 25, -0.4])
    assert free_u == pytest.approx([1 - 100, 1 - 0.04])
    assert of_u == pytest.approx([1 - 4, 1 - 0.04])


@pytest.mark.parametrize("substeps", [1, 3])
def test_the_likelihood_is_that_of_the_last_euler_substep(substeps, model, tokens, steps):
    """Restated with the density of a normal law; the constant ln(2 pi)/2 + ln(dt)/2 per component is dropped."""
    noise = normal(2 * substeps, 3, 4, 3, seed=14)
    with torch.no_grad():
        found = nll(model, tokens, steps, substeps)
        context = model.encode(tokens)
        dt = (steps.gaps / substeps).repeat_interleave(substeps, dim=-1)
        states = rollout(model, context, steps.start, dt, noise, DIMS)
        total, scored = 0.0, 0
        for b, s, k in itertools.product(range(3), range(4), range(2)):
            if not steps.valid[b, s, k]:
                continue
            x, h = states[b, s, (k + 1) * substeps - 1], float(steps.gaps[b, s, k]) / substeps
            drift, diffusion = (f[b, s] for f in model.evaluate(context, states[:, :, (k + 1) * substeps - 1]))
            for i in range(int(DIMS[b].sum())):
                law = torch.distributions.Normal(x[i] + drift[i] * h, diffusion[i] * math.sqrt(h))
                total -= float(law.log_prob(steps.target[b, s, k, i])) + 0.5 * math.log(2 * math.pi * h)
                scored += 1
    assert float(found) == pytest.approx(total / scored, rel=1e-10)


def test_the_simulation_loss_scores_every_gap_and_sample(model, tokens, steps):
    noise = normal(4, 3, 8, 3, seed=15)
    with torch.no_grad():
        found = mse(model, tokens, steps)
        context, total = model.encode(tokens), 0.0
        for sample in range(2):
            dt = (steps.gaps / 2).repeat_interleave(2, dim=-1)
            states = rollout(model, context, steps.start, dt, noise[:, :, sample::2], DIMS)
            for b, s, k in itertools.product(range(3), range(4), range(2)):
                if steps.valid[b, s, k]:
                    m = int(DIMS[b].sum())
                    error = (states[b, s, 2 * (k + 1)] - steps.target[b, s, k])[:m].square().sum()
                    total += float(error) / m
    assert float(found) == pytest.approx(total / (2 * 3 * 4 * 2), rel=1e-10)


def test_a_rollout_takes_euler_steps_and_pins_padded_components(model, tokens):
    start, noise = normal(3, 2, 3, seed=21) * DIMS[:, None], normal(3, 3, 2, 3, seed=22)
    dt = normal(3, 2, 3, seed=23).abs()
    with torch.no_grad():
        context = model.encode(tokens)
        pinned = rollout(model, context, start, dt, noise, DIMS)
        wandering = rollout(model, context, start, dt, noise, DIMS, pin_padded=False)
        x = start
        for i in range(3):
            drift, diffusion = model.evaluate(context, x)
            x = (x + drift * dt[..., i, None] + diffusion * dt[..., i, None].sqrt() * noise[i]) * DIMS[:, None]
            torch.testing.assert_close(pinned[..., i + 1, :], x, rtol=1e-12, atol=1e-12)
    padded = ~DIMS[:, None, None, :].expand_as(pinned)
    assert not pinned[padded].any()
    assert wandering[padded].abs().max() > 0.1
    assert (pinned - wandering)[0, :, -1, 0].abs().max() > 1e-4  # the wanderers are fed back as locations


@pytest.mark.parametrize("loss", [supervised, nll, mse])
def test_gradients_equal_finite_differences(loss, model, tokens, steps):
    """T1: central differences along a random direction of each parameter tensor, 1e-6 of the largest gradient.

    U is detached, so its value counts as fixed when a weight outside its own stack moves.
    """
    arguments = (tokens,) if loss is supervised else (tokens, steps)
    gradients = torch.autograd.grad(loss(model, *arguments), list(model.parameters()), allow_unused=True)
    scale = max(float(g.abs().max()) for g in gradients if g is not None)
    u = model(tokens, normal(3, 5, 3, seed=11) * DIMS[:, None])[2].detach()
    for i, ((name, parameter), gradient) in enumerate(zip(model.named_parameters(), gradients, strict=True)):
        if gradient is None:
            assert name.startswith("log_variance_operator")
            continue
        detached = loss is supervised and not name.startswith("log_variance_operator")
        options = {"fixed_u": u} if detached else {}
        direction = normal(*parameter.shape, seed=100 + i)
        values = []
        with torch.no_grad():
            for sign in (1, -1):
                parameter.add_(sign * 1e-5 * direction)
                values.append(float(loss(model, *arguments, **options)))
                parameter.add_(-sign * 1e-5 * direction)
        slope = (values[0] - values[1]) / 2e-5
        assert slope == pytest.approx(float((gradient * direction).sum()), abs=1e-6 * scale), name


def test_u_moves_nothing_but_its_own_stack(model, tokens):
    """T2: exactly zero."""
    _, _, log_variance = model(tokens, normal(3, 5, 3, seed=11))
    log_variance.square().sum().backward()
    for name, parameter in model.named_parameters():
        if name.startswith("log_variance_operator"):
            assert parameter.grad.abs().max() > 0 or name.endswith("key_value.bias"), name
        else:
            assert parameter.grad is None, name


@pytest.mark.parametrize("reduction", ["paper", "authors"])
def test_masked_components_have_no_influence_on_loss_or_gradient(reduction, model, tokens):
    """T3: exactly zero, even for targets that are not numbers."""
    x, padded = normal(3, 5, 3, seed=11) * DIMS[:, None], ~DIMS[:, None].expand(3, 5, 3)
    results = []
    for filler in (0.0, 1e6, torch.nan):
        targets = [normal(3, 5, 3, seed=s).masked_fill(padded, filler) for s in (12, 13)]
        drift, diffusion, u = model(tokens, x)
        drift.retain_grad()
        loss = supervised_loss(drift, diffusion, u, *targets, DIMS, reduction).total
        model.zero_grad()
        loss.backward()
        assert not drift.grad[padded].any()
        results.append([loss.detach()] + [p.grad.clone() for p in model.parameters()])
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("loss", [supervised, nll, mse])
def test_masked_observations_have_no_influence_on_loss_or_gradient(loss, model, tokens, steps):
    """T3: exactly zero, whatever stands in the masked places."""
    results = []
    for filler in (0.0, 1e3):
        hidden = ~tokens.mask
        filled = Tokens(
            tokens.y.masked_fill(hidden[..., None], filler),
            tokens.dy.masked_fill(hidden[..., None], -filler),
            tokens.dtau.masked_fill(hidden, filler),
            tokens.mask,
        )
        invalid = ~steps.valid
        scored = ScoredSteps(
            steps.start,
            steps.gaps,
            steps.target.masked_fill(invalid[..., None], torch.nan if filler else 0.0),
            steps.valid,
            steps.dims,
        )
        value = loss(model, filled) if loss is supervised else loss(model, filled, scored)
        gradients = torch.autograd.grad(value, list(model.parameters()), allow_unused=True)
        results.append([value.detach()] + [g for g in gradients if g is not None])
    assert len(results[0]) == len(results[1])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
