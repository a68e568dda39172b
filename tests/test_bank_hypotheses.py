"""What a bank says of its data: which fit holds, how far candidates are from both, cells, descriptors."""

from functools import cache

import numpy as np
import pytest

from fimsde.bank import fit, monomials
from fimsde.bank.bank import ask, make_bank
from fimsde.bank.cells import MAX_CELLS, gather_cells, kernel_time
from fimsde.bank.hypotheses import BLOCK_FULL, DIFFUSION, DRIFT, EVEN, ODD, STEP_FULL
from fimsde.bank.posterior import Posterior, conditioned
from fimsde.bank.residuals import WindowResiduals, residual_windows
from fimsde.bank.scales import block_lengths
from fimsde.bank.smooth import local_corrections
from fimsde.bank.windows import to_series
from fimsde.data.normalise import fit_normaliser
from fimsde.data.observations import read
from fimsde.data.transitions import to_transitions
from fimsde.simulate import simulate
from problems import OrnsteinUhlenbeck

STEP, BLOCK = DRIFT.index(STEP_FULL), DRIFT.index(BLOCK_FULL)


@cache
def some_bank(noise_std, origin=None):
    """Bank, fits and scales of three paths in the plane; noise in the second component is twice that in the first."""
    rng = np.random.default_rng(2)
    paths = simulate(OrnsteinUhlenbeck(dim=2), rng.standard_normal((3, 2)), np.arange(1000) * 0.005, seed=4).values
    tr = to_transitions(read(paths + noise_std * np.array([1.0, 2.0]) * rng.standard_normal(paths.shape), dt=0.005))
    tr = fit_normaliser(tr).transitions(tr)
    series = to_series(tr)
    step, scales = fit.fit_step(series)
    return make_bank(tr, None if origin is None else np.array(origin)), series, step, scales


@pytest.mark.parametrize(("noise_std", "reference"), [(0.0, 0), (0.015, 1), (0.1, 1)])
def test_the_fit_that_knows_the_noise_holds_where_there_is_noise(noise_std, reference):
    bank, _, _, scales = some_bank(noise_std)
    assert bank.reference == reference
    if noise_std == 0.015:
        assert 3 < scales.noise_score.max() < 30, "some noise, not much"


def test_coarse_data_are_marked():
    white = np.random.default_rng(0).standard_normal((600, 1))
    tr = to_transitions(read(white, dt=0.5))
    assert make_bank(fit_normaliser(tr).transitions(tr)).reference == 2


def test_the_full_candidates_are_at_no_distance_from_their_own_fits():
    """And each candidate is at its chi-square distance from the posterior of either fit."""
    bank, series, step, scales = some_bank(0.1)
    block = fit.fit_block(series, scales, step)
    for k, own in enumerate((step, block)):
        for candidates, misfit, post in (
            (bank.drift, bank.misfit, own.drift),
            (bank.diffusion_sq, bank.diffusion_misfit, own.diffusion_sq),
        ):
            away = candidates - post.mean
            expected = np.einsum("cds,dst,cdt->cd", away, post.precision, away)
            np.testing.assert_allclose(misfit[..., k], expected, rtol=1e-8, atol=1e-8)
    assert np.abs(bank.misfit[[STEP, BLOCK], :, [0, 1]]).max() < 1e-12
    assert bank.misfit[[STEP, BLOCK], :, [1, 0]].min() > 1


def test_standard_errors_are_those_of_the_step_fit_and_of_the_block_fit():
    bank, series, step, scales = some_bank(0.1)
    x = np.random.default_rng(0).standard_normal((5, 2))
    features = monomials.evaluate(x, 3)
    for k, own in enumerate((step, fit.fit_block(series, scales, step))):
        variance = np.einsum("qs,dst,qt->qd", features, np.linalg.inv(own.drift.precision), features)
        np.testing.assert_allclose(ask(bank, x).error[..., k] ** 2, variance, rtol=1e-8)


def test_terms_that_are_left_out_leave_the_regression_on_the_others():
    rng = np.random.default_rng(1)
    design, target = rng.standard_normal((50, 6)) + rng.standard_normal((50, 1)), rng.standard_normal((50, 2))
    post = Posterior(np.linalg.lstsq(design, target)[0].T, np.stack([design.T @ design] * 2))
    kept = np.array([True, False, True, True, False, False])
    found = conditioned(post, kept)
    np.testing.assert_allclose(found[:, kept], np.linalg.lstsq(design[:, kept], target)[0].T, rtol=1e-9)
    assert not found[:, ~kept].any()


def test_reflections_at_the_origin_leave_odd_drifts_and_even_diffusions_alone():
    place = (0.3, -0.2)
    bank, *_ = some_bank(0.1, place)
    x = np.random.default_rng(0).standard_normal((6, 2))
    there, across = ask(bank, place + x), ask(bank, place - x)
    for k in (k for k, h in enumerate(DRIFT) if h.form is ODD):
        np.testing.assert_allclose(across.drift[..., k], -there.drift[..., k], atol=1e-9)
    (even,) = (k for k, h in enumerate(DIFFUSION) if h.form is EVEN)
    np.testing.assert_allclose(across.diffusion_sq[..., even], there.diffusion_sq[..., even], atol=1e-9)


@pytest.mark.parametrize("noise_std", [0.0, 0.1])
def test_cells_and_local_corrections_are_made_of_what_the_fit_that_holds_leaves_over(noise_std):
    bank, series, step, scales = some_bank(noise_std)
    noisy = noise_std > 0
    own = fit.fit_block(series, scales, step) if noisy else step
    left = residual_windows(series, scales, own, noisy=noisy)
    cells, label = gather_cells(left)
    for name in ("place", "time", "residual", "variation", "expected"):
        np.testing.assert_allclose(getattr(bank.cells, name), getattr(cells, name), rtol=1e-9, atol=1e-12)
    drift, diffusion = local_corrections(cells, label, left, scales.diffusion_rate, noisy=noisy)
    np.testing.assert_allclose(bank.gain, drift.gain, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(bank.diffusion_gain, diffusion.gain, rtol=1e-9, atol=1e-9)


def test_descriptors_say_what_kind_of_data_this_is():
    bank, series, _, scales = some_bank(0.1)
    gaps = series.dtau[series.dtau > 0]
    gap, lengths = np.exp(np.mean(np.log(gaps))), block_lengths(scales, series)
    assert lengths.max() > 2
    noise = scales.noise_var / (scales.diffusion_rate * gap)
    variance = np.maximum(bank.cells.expected, 0.1 * scales.diffusion_rate * bank.cells.time[:, None])
    own = [
        np.log(scales.speed * gaps.sum()),
        np.log(scales.diffusion_rate / scales.speed),
        np.log(scales.noise_var + 1e-9),
        np.log(noise + 1e-4),
        np.log1p(scales.noise_var / scales.noise_error),
        np.log(lengths) / np.log(2),
        np.log(scales.speed * gap),
        np.log((bank.cells.residual**2 / variance).mean(axis=0)),
    ]
    np.testing.assert_allclose(bank.descriptors[:, :8], np.stack(own, axis=1), rtol=1e-9)
    np.testing.assert_allclose(
        bank.descriptors[:, 8:], [[np.log(len(gaps)), np.log(4), np.std(np.log(gaps)), 0, 1, 0, 0]] * 2, atol=1e-9
    )


def test_a_cell_stands_at_the_time_weighted_mean_of_its_windows_and_the_heaviest_cells_are_kept():
    rng = np.random.default_rng(4)
    place, time = rng.standard_normal((3000, 3)) * 4, rng.uniform(0.5, 3.0, 3000)
    cells, label = gather_cells(WindowResiduals(place, time, *np.zeros((3, 3000, 3))))
    for cell in range(0, MAX_CELLS, 17):
        inside = label == cell
        np.testing.assert_allclose(cells.place[cell], time[inside] @ place[inside] / time[inside].sum(), rtol=1e-9)
    cube = np.floor(place[label < 0] / 1.6 + 0.5).astype(int)
    _, number = np.unique(cube, axis=0, return_inverse=True)
    assert np.bincount(number, time[label < 0]).max() <= cells.time.min()


def test_time_around_a_place_is_weighed_by_normal_kernels():
    bank, *_ = some_bank(0.0)
    x = np.array([[0.1, -0.4]])
    distance = ((bank.cells.place - x) ** 2).sum(axis=1)
    for found, width in zip(kernel_time(bank.cells, x)[0], (0.12, 0.3, 0.75), strict=True):
        assert found == pytest.approx((np.exp(-distance / (2 * width**2)) * bank.cells.time).sum(), rel=1e-9)
