"""Primed queries from their definitions: what they read of a bank, which fit is trusted, how choices are mixed."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from fimsde.bank.bank import ask, make_bank
from fimsde.bank.hypotheses import BLOCK_FULL, DIFFUSION, DRIFT, NUM_DIFFUSION, NUM_DRIFT
from fimsde.data.normalise import fit_normaliser
from fimsde.data.observations import read
from fimsde.data.transitions import to_transitions
from fimsde.model.bank_features import answers, cell_features, context_features
from fimsde.model.banks import to_banks
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.model.primed import PrimedContext, PrimedQueryState
from fimsde.simulate import simulate
from problems import OrnsteinUhlenbeck

NUM_LOCAL = 3
BLOCK, BLOCK_DIFFUSION = DRIFT.index(BLOCK_FULL), DIFFUSION.index(BLOCK_FULL)
FREQUENCIES = np.array([0.7, 1.5, 3.0, 6.0])


@cache
def some_bank(dim, noise_std=0.1):
    rng = np.random.default_rng(dim)
    clean = simulate(OrnsteinUhlenbeck(dim=dim), rng.standard_normal((3, dim)), np.arange(300) * 0.01, seed=1).values
    tr = to_transitions(read(clean + noise_std * rng.standard_normal(clean.shape), dt=0.01))
    return make_bank(fit_normaliser(tr).transitions(tr))


def banks_of(dim, **changes):
    return to_banks([replace(some_bank(dim), **changes)], torch.float64)


def waves(x):
    """Places as each component sees them, itself first and the next ones in turn, with sines and cosines."""
    dim = x.shape[-1]
    seen = np.zeros((*x.shape, 3))
    for d in range(dim):
        for k in range(dim):
            seen[..., d, k] = x[..., (d + k) % dim]
    phase = (seen[..., None] * FREQUENCIES).reshape(*seen.shape[:-1], 12)
    return np.concatenate([seen, np.sin(phase), np.cos(phase)], axis=-1)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("reference", [0, 1, 2])
def test_queries_carry_the_answers_of_the_bank_in_natural_units(dim, reference):
    bank = replace(some_bank(dim), reference=reference)
    x = np.random.default_rng(7).standard_normal((6, dim))
    x[0] *= 5 / np.abs(x[0]).max()  # a place far outside
    known, primed = answers(to_banks([bank], torch.float64), torch.from_numpy(x)[None]), ask(bank, x)
    square = (x**2).sum(axis=1)[:, None]
    size, rough = bank.speed * (1 + square) ** 0.75, np.sqrt(bank.rate) * (1 + square) ** 0.25
    full = (BLOCK, BLOCK_DIFFUSION) if reference == 1 else (0, 0)
    g = np.maximum(primed.diffusion_sq[..., full[1], None] + primed.excess, 1e-30)
    zero = np.zeros((6, dim, 1))
    drift = np.concatenate([primed.drift, zero, primed.drift[..., full[0], None] + primed.residual], axis=-1)
    diffusion = np.concatenate([np.sqrt(primed.diffusion_sq), zero, np.sqrt(g)], axis=-1)
    distance = ((x[:, None] - bank.cells.place) ** 2).sum(axis=-1)
    near = np.exp(-distance[..., None] / (2 * np.array([0.12, 0.3, 0.75]) ** 2))  # (queries, cells, widths)
    residual = np.einsum("qcw,cd->qdw", near, bank.cells.residual)
    time = np.broadcast_to(np.einsum("qcw,c->qw", near, bank.cells.time)[:, None], residual.shape)
    own, own2, rate = size[..., None], rough[..., None], bank.rate[:, None]
    best = [h.name for h in DRIFT].index("block origin 0.3 wide")
    features = [
        np.arcsinh(drift / own),
        0.3 * np.log(np.abs(primed.drift - primed.drift[..., best, None]) / own + 1e-4),
        0.3 * np.log(primed.error / own + 1e-4),
        np.arcsinh(primed.residual / own),
        np.arcsinh(residual / np.sqrt(rate * time + 1e-6)),
        0.3 * np.log(time * bank.speed[:, None] + 1e-3),
        np.log(diffusion / own2 + 0.02),
        np.arcsinh(primed.excess / rate),
        x[..., None],
        np.broadcast_to(np.log1p(square)[..., None], (6, dim, 1)),
        waves(np.clip(x, -8.0, 8.0)),
    ]
    np.testing.assert_allclose(known.drift[0], drift, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(known.diffusion[0], diffusion, rtol=1e-8, atol=1e-5)
    np.testing.assert_allclose(known.drift_size[0], size, rtol=1e-9)
    np.testing.assert_allclose(known.diffusion_size[0], rough, rtol=1e-9)
    start = 0
    for part in features:
        stop = start + part.shape[-1]
        np.testing.assert_allclose(known.features[0, ..., start:stop], part, rtol=1e-6, atol=1e-7)
        start = stop
    assert start == known.features.shape[-1]


@pytest.mark.parametrize("dim", [1, 3])
def test_tokens_of_cells_are_residuals_and_moments_in_natural_units(dim):
    bank = some_bank(dim)
    cells, time, rate = bank.cells, bank.cells.time[:, None], bank.rate
    spread = 0.02 * rate * time + 1e-9
    expected = [
        0.3 * np.log(time * bank.speed + 1e-3),
        np.arcsinh(cells.residual / np.sqrt(rate * time + 1e-6)),
        np.arcsinh(cells.residual / (time + 1e-9) / bank.speed),
        np.log((np.maximum(cells.variation, 0) + spread) / (cells.expected + spread)),
        np.log((cells.expected + 1e-3 * rate * time + 1e-9) / (rate * time + 1e-9)),
    ]
    found = cell_features(banks_of(dim))[0].numpy()  # (dim, cells, features)
    np.testing.assert_allclose(found[..., :5], np.moveaxis(np.stack(expected, axis=-1), 0, 1), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[..., 5:], np.moveaxis(waves(cells.place), 0, 1), rtol=1e-9, atol=1e-12)


def test_the_summary_of_a_context_reads_descriptors_misfits_and_gains():
    bank = some_bank(2)
    found = context_features(banks_of(2))[0].numpy()
    misfits = [0.2 * np.log1p(np.maximum(m, 0)).transpose(1, 0, 2) for m in (bank.misfit, bank.diffusion_misfit)]
    gains = [0.3 * np.arcsinh(gain) for gain in (bank.gain, bank.diffusion_gain)]
    expected = np.concatenate([0.3 * bank.descriptors, *(m.reshape(2, -1) for m in misfits), *gains], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert min(gain.min() for gain in gains) < 0


@pytest.mark.parametrize("reference", [0, 1, 2])
def test_candidates_are_judged_by_the_fit_that_holds(reference):
    """Half the chi-square under the step fit, under the block fit for noisy data; nothing is no choice if coarse."""
    bank = some_bank(2)
    misfit = np.stack([np.full((NUM_DRIFT, 2), 6.0), np.full((NUM_DRIFT, 2), 10.0)], axis=-1)
    banks = banks_of(2, reference=reference, misfit=misfit, gain=np.array([[3.0, -4.0, 60.0], [1e4, -1e4, 0.0]]))
    evidence = banks.drift_evidence[0, 0]
    assert torch.all(evidence[:, :NUM_DRIFT] == (-5.0 if reference == 1 else -3.0))
    assert torch.all(evidence[:, NUM_DRIFT] == (-200.0 if reference == 2 else 0.0))
    assert evidence[:, NUM_DRIFT + 1 :].tolist() == [[3.0, -4.0, 60.0], [100.0, -100.0, 0.0]]
    diffusion = -0.5 * np.clip(bank.diffusion_misfit[..., 1 if reference == 1 else 0], 0, 200).T
    np.testing.assert_allclose(banks.diffusion_evidence[0, 0, :, :NUM_DIFFUSION], diffusion, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("reference", [0, 1, 2])
def test_temperatures_are_learned_for_candidates_but_not_for_marginal_likelihoods_nor_for_coarse_data(reference):
    """Local corrections of the drift need none; those of g do under noise. Coarse data have likelihoods alone."""
    model = FIMSDE(ModelConfig.preset("primed-tiny"), seed=3).double().eval()
    with torch.no_grad():
        model.locations.likelihood_temperature.bias.copy_(torch.tensor([0.5, -1.5]))
        banks = banks_of(2, reference=reference)
        prepared = model.locations.prepare(banks)
    drift, diffusion = np.log1p(np.exp(0.5)), np.log1p(np.exp(-1.5))
    if reference == 2:
        drift = diffusion = 1.0
    assert prepared.learned.item() == (reference != 2)
    for found, evidence, temperature, local in (
        (prepared.drift_evidence, banks.drift_evidence, drift, 1.0),
        (prepared.diffusion_evidence, banks.diffusion_evidence, diffusion, diffusion if reference == 1 else 1.0),
    ):
        temperatures = [temperature] * (found.shape[-1] - NUM_LOCAL) + [local] * NUM_LOCAL
        np.testing.assert_allclose(found, evidence * torch.tensor(temperatures, dtype=torch.float64), rtol=1e-9)


@pytest.mark.parametrize("learned", [0.0, 1.0])
def test_fields_are_mixtures_of_the_choices_with_a_small_correction(learned):
    """Weights are softmaxes of the stack's numbers plus the evidence. The correction of the drift is at most 0.3 of its
    natural size, that of the diffusion a factor between exp(-1/2) and exp(1/2)."""
    generator = torch.Generator().manual_seed(0)
    banks = banks_of(2)
    x = torch.randn(1, 4, 2, generator=generator, dtype=torch.float64)
    known = answers(banks, x)
    evidence = [
        torch.randn(1, 1, 2, c.shape[-1], generator=generator, dtype=torch.float64)
        for c in (known.drift, known.diffusion)
    ]
    prepared = PrimedContext(
        banks, torch.zeros(1, 1, 2, 5).double(), *evidence, torch.full((1, 1, 1, 1), learned).double()
    )
    state = PrimedQueryState(torch.zeros(2, 4, 5).double(), known, prepared, 3)
    raws = [
        torch.randn(2, 4, c.shape[-1] + 1, generator=generator, dtype=torch.float64)
        for c in (known.drift, known.diffusion)
    ]
    for d in range(2):  # rows are components
        for q in range(4):
            weights, last = [], []
            for raw, own in zip(raws, evidence, strict=True):
                exponent = np.exp(learned * raw[d, q, :-1].numpy() + own[0, 0, d].numpy())
                weights.append(exponent / exponent.sum())
                last.append(np.tanh(learned * raw[d, q, -1].item()))
            drift = weights[0] @ known.drift[0, q, d].numpy() + 0.3 * last[0] * known.drift_size[0, q, d].item()
            diffusion = weights[1] @ known.diffusion[0, q, d].numpy() * np.exp(0.5 * last[1])
            assert state.drift(raws[0])[0, q, d].item() == pytest.approx(drift, rel=1e-9)
            assert state.diffusion(raws[1])[0, q, d].item() == pytest.approx(diffusion, rel=1e-9)
    raw = torch.randn(2, 4, 2, generator=generator, dtype=torch.float64)
    np.testing.assert_allclose(state.log_variance(raw)[0], 2 * raw.mean(dim=(0, 2)), rtol=1e-9)
    np.testing.assert_allclose(state.log_scales(raw)[0], raw.transpose(0, 1), rtol=1e-12)
