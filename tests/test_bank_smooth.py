"""Smooth local corrections: the formulas of Gaussian processes, and evidence that tells something from nothing."""

import numpy as np
import pytest

from fimsde.bank.bank import ask, make_bank
from fimsde.bank.cells import BANDWIDTHS, gather_cells
from fimsde.bank.fit import fit_block, fit_step
from fimsde.bank.hypotheses import DRIFT, STEP_FULL
from fimsde.bank.residuals import WindowResiduals, residual_windows
from fimsde.bank.smooth import local_corrections, smooth
from fimsde.bank.windows import to_series
from fimsde.data.normalise import fit_normaliser
from fimsde.data.observations import read
from fimsde.data.transitions import to_transitions
from fimsde.equations.sde import FunctionSDE
from fimsde.simulate import simulate
from fimsde.systems.canonical import CANONICAL, DEV_SEED, context

FULL = DRIFT.index(STEP_FULL)


def cells(seed, dim=1, signal=0.0, num=60):
    rng = np.random.default_rng(seed)
    place = rng.uniform(-2, 2, (num, dim))
    variance = rng.uniform(0.02, 0.1, (num, dim))
    return place, signal * np.sin(4 * place) + np.sqrt(variance) * rng.standard_normal((num, dim)), variance


def test_weights_and_gain_are_those_of_the_formulas():
    """Normal densities of all values at once, written out with inverses; the better of two sizes is taken."""
    place, value, variance = cells(0, dim=2, signal=1.0)
    found = smooth(place, value, variance)
    square = ((place[:, None] - place) ** 2).sum(-1)
    for d in range(2):
        noise = np.diag(variance[:, d])
        excess = ((value[:, d] ** 2 / variance[:, d]).sum() - 60) / (1 / variance[:, d]).sum()
        for w, bandwidth in enumerate(BANDWIDTHS):
            gains, weights = [], []
            for size in (0.5 * excess, 2 * excess):
                total = size * np.exp(-square / (2 * bandwidth**2)) + noise
                inverse = np.linalg.inv(total)
                weights.append(size * inverse @ value[:, d])
                log_ratio = np.linalg.slogdet(noise)[1] - np.linalg.slogdet(total)[1]
                fit = value[:, d] @ (np.linalg.inv(noise) - inverse) @ value[:, d]
                gains.append(0.5 * (log_ratio + fit))
            assert found.gain[d, w] == pytest.approx(max(gains), rel=1e-8)
            np.testing.assert_allclose(found.weights[:, d, w], weights[int(np.argmax(gains))], rtol=1e-6, atol=1e-9)


def test_noise_gains_nothing_and_a_wave_gains_much():
    """By Markov's inequality noise gains log(1e6) with probability 1e-6, and each of two sizes with three lengths."""
    noise = np.array([smooth(*cells(seed)).gain for seed in range(50)])
    assert noise.max() < np.log(1e6 * noise.size * 2)
    assert np.median(noise) < 0.5
    wave = np.array([smooth(*cells(seed, signal=1.0)).gain for seed in range(10)])
    assert wave.max(axis=(1, 2)).min() > 50


def test_measurement_noise_gains_nothing_where_a_steep_drift_enlarges_it():
    """The damped cubic with noise of 5 %: nothing is left over; one scale for all cells would say otherwise."""
    tr = to_transitions(context(CANONICAL[3], 1, noise_std=0.05, stride=10, seed=DEV_SEED))
    series = to_series(fit_normaliser(tr).transitions(tr))
    step, scales = fit_step(series)
    left = residual_windows(series, scales, fit_block(series, scales, step), noisy=True)
    found, label = gather_cells(left)
    own, one = (local_corrections(found, label, left, scales.diffusion_rate, noisy=noisy)[0] for noisy in (True, False))
    assert own.gain.max() < 3
    assert one.gain.max() > 10


def test_every_window_is_counted_in_the_cell_that_it_is_said_to_be_in():
    """Times and residuals of the windows with one label add up to those of the cell; light cells are left out."""
    rng = np.random.default_rng(4)
    place, time = rng.standard_normal((3000, 3)) * 4, rng.uniform(0.5, 1.5, 3000)
    rest = rng.standard_normal((3, 3000, 3))
    left = WindowResiduals(place, time, *rest)
    found, label = gather_cells(left)
    inside = label >= 0
    assert 0 < (~inside).sum() < 2000
    np.testing.assert_allclose(np.bincount(label[inside], time[inside]), found.time, rtol=1e-12)
    residual = np.stack([np.bincount(label[inside], column[inside]) for column in left.residual.T], axis=1)
    np.testing.assert_allclose(residual, found.residual, rtol=1e-9, atol=1e-9)


def test_wells_that_no_cubic_fits_are_found_by_the_local_correction():
    """Drift 3 sin 3x: a cubic explains little of it; with the correction three quarters and more are explained."""
    sde = FunctionSDE(1, lambda x: 3 * np.sin(3 * x) - 0.3 * x, lambda x: np.full_like(x, 1.5))
    values = simulate(sde, np.zeros((1, 1)), np.arange(8001) * 0.02, substeps=5, seed=3).values[0]
    tr = to_transitions(read(values, dt=0.02))
    normaliser = fit_normaliser(tr)
    bank = make_bank(normaliser.transitions(tr))
    x = values[::7]
    primed = ask(bank, normaliser.states(x))
    best = int(bank.gain[0].argmax())
    assert bank.gain[0, best] > 20
    truth = sde.drift(x)
    plain, corrected = (
        np.mean((normaliser.undo_drift(drift) - truth) ** 2) / truth.var()
        for drift in (primed.drift[..., FULL], primed.drift[..., FULL] + primed.residual[..., best])
    )
    assert plain > 0.7
    assert corrected < 0.25


def test_values_of_exactly_zero_speak_against_any_process():
    """The smallest size that is tried is the standard deviation of a chi-square, sqrt(2 n), instead of its excess."""
    place, _, variance = cells(1)
    found = smooth(place, np.zeros_like(variance), variance)
    least = np.sqrt(2 * 60) / (1 / variance).sum()
    for w, bandwidth in enumerate(BANDWIDTHS):
        kernel = np.exp(-((place - place.T) ** 2) / (2 * bandwidth**2))
        ratio = np.eye(60) + 0.5 * least * kernel / variance
        assert found.gain[0, w] == pytest.approx(-0.5 * np.linalg.slogdet(ratio)[1], rel=1e-9)
    assert not found.weights.any()


@pytest.mark.parametrize("noisy", [False, True])
def test_errors_of_cells_are_those_that_g_expects_scaled_by_what_windows_show(noisy):
    """The residual of a cell over its time has the variance s g / time, the moment k g² / time: s is seen for all
    windows (not below 1) or, under noise, cell by cell, where ten windows weigh as much as all; k for all windows."""
    rng = np.random.default_rng(6)
    n, rate = 400, np.array([0.5, 1.2])
    place, time = rng.uniform(-0.6, 0.6, (n, 2)), rng.uniform(0.5, 1.5, n)
    g = np.stack([0.3 + place[:, 0] ** 2, 0.05 * np.ones(n)], axis=1)  # less than a tenth of the rate in the second
    residual = rng.standard_normal((n, 2)) * np.sqrt(g * time[:, None]) * [0.7, 3.0]
    left = WindowResiduals(place, time, residual, residual**2, g * time[:, None])
    found, label = gather_cells(left)
    own = np.maximum(g, 0.1 * rate)
    square = residual**2 / (own * time[:, None])
    if noisy:
        count = np.bincount(label)[:, None]
        sums = np.stack([np.bincount(label, column) for column in square.T], axis=1)
        scale = (sums + 10 * square.mean(axis=0)) / (count + 10)
    else:
        scale = np.maximum((residual**2).sum(axis=0) / (own * time[:, None]).sum(axis=0), 1.0)
        assert scale[0] == 1.0
    kurtosis = ((residual**2 - left.expected) ** 2).sum(axis=0) / (own**2 * time[:, None]).sum(axis=0)
    inside, over = np.maximum(found.expected / found.time[:, None], 0.1 * rate), found.time[:, None]
    drift, diffusion = local_corrections(found, label, left, rate, noisy=noisy)
    for got, value, variance in (
        (drift, found.residual, scale * inside),
        (diffusion, found.variation - found.expected, kurtosis * inside**2),
    ):
        expected = smooth(found.place, value / over, variance / over)
        np.testing.assert_allclose(got.weights, expected.weights, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(got.gain, expected.gain, rtol=1e-8)
