"""The candidate bank: exact identities of its parts, calibration of its posteriors, and what it must not depend on."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import check_mean, check_variance
from fimsde.bank import fit, monomials, windows
from fimsde.bank import subset_kernels as subsets
from fimsde.bank.bank import NUM_DESCRIPTORS, ask, make_bank
from fimsde.bank.hypotheses import DRIFT, LINEAR, NUM_DIFFUSION, NUM_DRIFT
from fimsde.bank.origin import SpikeSlabPrior, sparse_averages
from fimsde.bank.posterior import Posterior
from fimsde.data.normalise import fit_normaliser
from fimsde.data.observations import read
from fimsde.data.transitions import to_transitions
from fimsde.simulate import simulate
from problems import OrnsteinUhlenbeck


def ou_series(num_paths=1, num_times=2000, gap=0.01, noise_std=0.0, seed=0):
    """Ornstein-Uhlenbeck paths in their stationary state, as the priming stage sees them; not normalised."""
    ou = OrnsteinUhlenbeck(theta=1.5, sigma=0.7)
    rng = np.random.default_rng(seed)
    x0 = rng.standard_normal((num_paths, 1)) * np.sqrt(ou.stationary_variance())
    paths = simulate(ou, x0, np.arange(num_times) * gap, seed=seed).values
    obs = read(paths + noise_std * rng.standard_normal(paths.shape), dt=gap)
    return windows.to_series(to_transitions(obs))


def shift_matrix(shift, degree):
    """T with monomials(u + shift) = T monomials(u)."""
    rows, columns, factors, powers = monomials.shift_terms(len(shift), degree)
    out = np.zeros((len(monomials.exponents(len(shift), degree)),) * 2)
    out[rows, columns] = subsets.shift_values(shift, factors, powers)
    return out


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_shift_matrix_moves_the_origin_of_a_polynomial(dim):
    rng = np.random.default_rng(dim)
    x, shift = rng.standard_normal((5, dim)), rng.standard_normal(dim)
    matrix = shift_matrix(shift, 3)
    np.testing.assert_allclose(
        monomials.evaluate(x + shift, 3), monomials.evaluate(x, 3) @ matrix.T, rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_deconvolved_monomials_have_the_clean_monomial_as_expectation(dim):
    """Gauss-Hermite quadrature is exact for these degrees, so there is no sampling error to excuse a miss."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(6)
    weights = weights / weights.sum()
    u, v = np.array([0.7, -1.2, 0.4])[:dim], np.array([0.3, 0.05, 1.1])[:dim]
    grid = np.stack(np.meshgrid(*[nodes] * dim, indexing="ij"), -1).reshape(-1, dim)
    weight = np.prod(np.stack(np.meshgrid(*[weights] * dim, indexing="ij"), -1).reshape(-1, dim), axis=1)
    noisy = u + np.sqrt(v) * grid
    clean = monomials.evaluate(u[None], 3)[0]
    np.testing.assert_allclose(weight @ monomials.evaluate(noisy, 3, v), clean, rtol=1e-12)
    assert np.abs(weight @ monomials.evaluate(noisy, 3) - clean).max() > 0.1, "without deconvolution the test must fail"


def test_windows_are_differences_of_block_means():
    series = ou_series(num_times=60)
    (chunk,) = windows.hat_windows(series, 4, np.zeros(1))
    np.testing.assert_allclose(chunk.increment[0, 0], series.y[8:12].mean() - series.y[4:8].mean(), rtol=1e-12)
    np.testing.assert_allclose(chunk.before[0, 0], series.y[0:4].mean(), rtol=1e-12)
    np.testing.assert_allclose(chunk.instrument[0, 1], series.y[1:5].mean(), rtol=1e-12)
    np.testing.assert_allclose(chunk.length[0], 4 * 0.01, rtol=1e-12)


def test_window_integrals_are_exact_for_cubic_motion():
    """On x = t the features are powers of time, and the four-point rule integrates cubics exactly."""
    t = np.linspace(0.0, 1.0, 41)
    series = windows.Series(t[:, None], np.append(np.diff(t), 0.0), np.array([0, 41]))
    (chunk,) = windows.hat_windows(series, 3, np.zeros(1))
    start = t[3]
    fine = np.linspace(0, 5, 500_001)  # steps of the window, in units of the gap
    weight = np.minimum(np.floor(fine) + 1, 5 - np.floor(fine)) / 3
    weight[-1] = 0
    for power in range(4):
        exact = np.trapezoid(weight * (start + fine * 0.025) ** power, fine) * 0.025
        np.testing.assert_allclose(chunk.integral[0, power], exact, rtol=1e-5)


def test_chunks_change_nothing(monkeypatch):
    paths = [ou_series(num_times=n, seed=n).y for n in (400, 30, 3, 90)]
    series = windows.to_series(to_transitions(read(paths, dt=0.01)))

    def everything(m):
        chunks = list(windows.hat_windows(series, m, np.zeros(1)))
        return np.concatenate([np.column_stack([c.increment, c.integral, c.length]) for c in chunks]), len(chunks)

    whole = {m: everything(m)[0] for m in (1, 3)}
    steps = np.concatenate([c.increment for c in windows.step_windows(series)])
    monkeypatch.setattr(windows, "_CHUNK", 25)
    for m in (1, 3):
        parts, number = everything(m)
        assert number > 1
        np.testing.assert_array_equal(parts, whole[m])
    np.testing.assert_array_equal(np.concatenate([c.increment for c in windows.step_windows(series)]), steps)


def enumerate_models(precision, right, slab, odds):
    """Log of the summed evidence, and average, over all models: one by one, from the definition."""
    terms, evidence, means = len(slab), [], []
    for kept in product((False, True), repeat=terms):
        k = np.flatnonzero(kept)
        own, mean = precision[np.ix_(k, k)], np.zeros(terms)
        mean[k] = np.linalg.solve(own, right[k])
        evidence.append(
            0.5 * (right[k] @ mean[k] + np.log(slab[k]).sum() - np.linalg.slogdet(own)[1]) + np.log(odds[k]).sum()
        )
        means.append(mean)
    highest = max(evidence)
    weights = np.exp(np.array(evidence) - highest)
    return highest + np.log(weights.sum()), weights @ np.array(means) / weights.sum()


def regression(terms, num, noise, seed, present=3):
    """Precision with a slab of one, right side and slab of a regression on dependent terms, of which few are there."""
    rng = np.random.default_rng(seed)
    design = rng.standard_normal((num, terms)) + 0.7 * rng.standard_normal((num, 1))
    target = design[:, :present].sum(axis=1) + noise * rng.standard_normal(num)
    return np.eye(terms) + design.T @ design / noise**2, design.T @ target / noise**2, np.ones(terms)


@pytest.mark.parametrize(
    ("terms", "noise"),
    [(5, 3.0), (9, 3.0), (9, 1.5), (9, 0.3)],
    ids=["few", "all uncertain", "one term almost sure", "some terms sure"],
)
def test_the_average_over_all_subsets_of_the_terms_is_that_of_the_definition(terms, noise):
    precision, right, slab = regression(terms, 60, noise, seed=terms)
    odds = np.stack([np.full(terms, 0.4), np.linspace(0.1, 1.0, terms)])
    averages = np.empty((2, terms))
    evidence = subsets.average_subsets(precision, right, slab, odds, terms, averages)
    for row in range(2):
        expected, average = enumerate_models(precision, right, slab, odds[row])
        assert evidence[row] == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(averages[row], average, rtol=1e-9, atol=1e-12)


def test_data_that_leave_no_doubt_do_not_leave_the_range_of_numbers():
    """With 1e40 times the information of the prior, every model but the true one has an evidence below any number."""
    precision, right, slab = regression(9, 60, 1e-20, seed=1)
    averages = np.empty((1, 9))
    evidence = subsets.average_subsets(precision, right, slab, np.full((1, 9), 0.4), 9, averages)
    assert np.isfinite(evidence).all()
    np.testing.assert_allclose(averages[0], [1.0] * 3 + [0.0] * 6, atol=1e-6)


def test_terms_without_odds_are_never_there_and_the_others_are_refitted():
    precision, right, slab = regression(8, 60, 1.0, seed=3)
    odds = np.array([[0.0, 0.5, 0.5, 0.0, 0.5, 0.5, 0.5, 0.5]])
    averages = np.empty((1, 8))
    (evidence,) = subsets.average_subsets(precision, right, slab, odds, 8, averages)
    k = np.flatnonzero(odds[0])
    expected, average = enumerate_models(precision[np.ix_(k, k)], right[k], slab[k], odds[0, k])
    assert evidence == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(averages[0, k], average, rtol=1e-9)
    assert not averages[0, [0, 3]].any()


def test_with_too_many_terms_the_least_significant_ones_are_left_out():
    """What the data leave open is lost, what they show is kept: with 6 free terms of 11, and not with 2."""
    precision, right, slab = regression(11, 200, 2.0, seed=5, present=4)
    odds = np.full((1, 11), 0.1)
    _, expected = enumerate_models(precision, right, slab, odds[0])
    near, far = np.empty((1, 11)), np.empty((1, 11))
    subsets.average_subsets(precision, right, slab, odds, 6, near)
    subsets.average_subsets(precision, right, slab, odds, 2, far)
    assert np.abs(near - expected).max() < 0.02
    assert np.count_nonzero(near) == 6
    assert np.abs(far - expected).max() > 0.2


def some_posterior(seed, num=40, noise=1.0):
    """What data say of two quadratics with few terms."""
    rng = np.random.default_rng(seed)
    design = monomials.evaluate(rng.standard_normal((num, 2)), 2)
    target = design[:, [1, 5]] * [1.0, -0.5] + noise * rng.standard_normal((num, 2))
    precision = design.T @ design / noise**2
    return Posterior(np.linalg.solve(precision, design.T @ target / noise**2).T, np.stack([precision] * 2))


def test_an_average_over_sizes_of_the_equation_is_that_of_the_definition():
    """At a known origin; a coefficient of degree k is a priori as wide as the natural one over scale^(k - 1)."""
    post, width, scales, share = some_posterior(0), np.array([1.3, 0.7]), (1.0, 3.0, 9.0), 0.3
    (found,) = sparse_averages(post, 2, [SpikeSlabPrior(share, scales)], width, np.zeros(2))
    right = (post.precision @ post.mean[..., None])[..., 0]
    evidence, means = [], []
    for scale in scales:
        slab = scale ** (2 * np.array([0, 0, 0, 1, 1, 1])) / width[:, None] ** 2
        precision = post.precision + np.stack([np.diag(own) for own in slab])
        odds = np.full((2, 6), share / (1 - share))
        models = [enumerate_models(*each) for each in zip(precision, right, slab, odds, strict=True)]
        evidence.append(sum(own for own, _ in models))  # both components have the same size
        means.append([mean for _, mean in models])
    weights = np.exp(np.array(evidence) - max(evidence))
    assert weights.min() > 1e-6 * weights.max(), "otherwise this compares a single size"
    np.testing.assert_allclose(found, np.einsum("s,sdt->dt", weights / weights.sum(), means), rtol=1e-9)


def test_a_reflection_turns_the_sign_of_an_odd_average_and_keeps_an_even_one():
    """At the known origin only terms of one parity are left; the posterior pulls towards the others."""
    rng, x = np.random.default_rng(1), np.random.default_rng(2).standard_normal((9, 2))
    post = Posterior(rng.standard_normal((2, 10)), 50.0 * np.stack([np.eye(10)] * 2))
    origin = np.array([0.4, -0.7])
    for parity, sign in ((1, -1.0), (0, 1.0)):
        (found,) = sparse_averages(post, 3, [SpikeSlabPrior(0.3)], np.ones(2), origin, parity=parity)
        there, across = (monomials.evaluate(place, 3) @ found.T for place in (origin + x, origin - x))
        np.testing.assert_allclose(across, sign * there, atol=1e-9)
        assert np.abs(there).max() > 0.1


def test_coefficients_that_must_be_zero_a_priori_are_zero():
    post = Posterior(np.ones((2, 6)), np.stack([np.eye(6)] * 2))
    assert (
        np.abs(sparse_averages(post, 2, [SpikeSlabPrior(0.3), SpikeSlabPrior(0.05)], np.zeros(2), None)).max() < 1e-100
    )
    assert np.abs(sparse_averages(post, 2, [SpikeSlabPrior(0.3), SpikeSlabPrior(0.05)], np.ones(2), None)).max() > 0.1


def test_products_of_monomials_are_found_among_those_of_twice_the_degree():
    x = np.random.default_rng(0).standard_normal((5, 3))
    single, double = monomials.evaluate(x, 3), monomials.evaluate(x, 6)
    np.testing.assert_allclose(double[:, monomials.products(3, 3)], single[:, :, None] * single[:, None, :], rtol=1e-12)
    np.testing.assert_allclose(single[:, monomials.factors(3, 3)].prod(axis=2), double, rtol=1e-12)


@pytest.mark.parametrize("precision", [1e3, 1e7])
def test_a_system_that_is_sparse_around_its_centre_is_found_to_be_wherever_that_lies(precision):
    """u0' = u0 - u0³, u1' = -u0 in u = x - c: 3 coefficients and 2 coordinates of c instead of 20 coefficients."""
    rng = np.random.default_rng(0)
    truth = np.zeros((2, 10))
    truth[0, [1, 6]], truth[1, 1] = (1.0, -1.0), -1.0
    full, sparse = [], []
    for _ in range(20):
        around = shift_matrix(-rng.uniform(-1.5, 1.5, 2), 3)
        there = truth @ around
        mean = there + rng.standard_normal((2, 10)) / np.sqrt(precision)
        post = Posterior(mean, precision * np.stack([np.eye(10)] * 2))
        found = sparse_averages(post, 3, [SpikeSlabPrior(0.3)], np.ones(2), None)[0]
        full.append(precision * np.sum((mean - there) ** 2))
        sparse.append(precision * np.sum((found - there) ** 2))
    assert np.mean(full) == pytest.approx(20, abs=7), "chi-square with 20 degrees of freedom, 5 standard errors"
    assert np.mean(sparse) < 0.6 * np.mean(full)


def posterior_scores(kind, noise_std, seeds=range(200)):
    """(estimate - truth) / standard error of the slope of the drift in a linear fit, over independent data sets."""
    scores = []
    for seed in seeds:
        series = ou_series(num_paths=20, num_times=300, gap=0.02, noise_std=noise_std, seed=seed)
        step, scales = fit.fit_step(series)
        post = (step if kind == "step" else fit.fit_block(series, scales, step)).drift
        linear = post.precision[0][:2, :2]
        slope = np.linalg.solve(linear, (post.precision[0] @ post.mean[0])[:2])[1]
        truth = -1.5 / (1 - 1.5 * 0.02 / 2)  # of the trapezoidal rule on the Euler chain of this equation
        scores.append((slope - truth) / np.sqrt(np.linalg.inv(linear)[1, 1]))
    return np.array(scores)


@pytest.mark.slow
def test_posterior_of_the_step_fit_is_calibrated_on_clean_data():
    """Buys trust in the standard errors: mean 0 and variance 1 of 200 standardised errors, false alarms 1e-6 each."""
    scores = posterior_scores("step", 0.0)
    check_mean(scores, 0.0, 1.0)
    check_variance(scores, 1.0)


@pytest.mark.slow
def test_the_block_fit_is_unbiased_under_noise_and_the_step_fit_is_not():
    """Buys trust in the instruments; the step fit is the negative control. False alarms 1e-6."""
    noisy = posterior_scores("block", 0.1)
    check_mean(noisy, 0.0, noisy.var())
    with pytest.raises(AssertionError, match="standard errors"):
        check_mean(posterior_scores("step", 0.1, range(20)), 0.0, 1.0)


def test_white_data_are_taken_as_the_markov_chain_that_they_are():
    """x' = -x / gap makes the next state independent of this one. Errors of 20 000 draws: 5 standard errors are 0.036.

    A tenth of the gap, with the noise of the same variance on top, is the negative control: noise, not motion.
    """
    white = np.random.default_rng(0).standard_normal(20_000)
    series = windows.to_series(to_transitions(read(white, dt=0.5)))
    step, scales = fit.fit_step(series)
    assert scales.coarse
    assert scales.noise_var[0] == 0.0
    slope = np.linalg.solve(step.drift.precision[0][:2, :2], (step.drift.precision[0] @ step.drift.mean[0])[:2])[1]
    assert slope * 0.5 == pytest.approx(-1.0, abs=0.036)
    assert step.diffusion_sq.mean[0, 0] * 0.5 == pytest.approx(1.0, abs=0.1)
    slow = np.cumsum(0.05 * np.random.default_rng(1).standard_normal(2000)) + 0.3 * white[:2000]
    slow /= slow.std()
    _, scales = fit.fit_step(windows.to_series(to_transitions(read(slow, dt=0.5))))
    assert not scales.coarse
    assert scales.noise_score[0] > 5


def test_noise_variance_is_estimated_and_is_nothing_on_clean_data():
    _, noisy = fit.fit_step(ou_series(num_times=20_000, noise_std=0.1))
    assert noisy.noise_var[0] == pytest.approx(0.01, rel=0.05)
    assert noisy.noise_score[0] > 30
    _, clean = fit.fit_step(ou_series(num_times=20_000))
    assert clean.noise_score[0] < 5
    assert clean.diffusion_rate[0] == pytest.approx(0.49, rel=0.05)


def normalised(values, dt=0.01):
    tr = to_transitions(read(values, dt=dt))
    return fit_normaliser(tr).transitions(tr)


@pytest.fixture(scope="module")
def plane_paths():
    rng = np.random.default_rng(3)
    ou = OrnsteinUhlenbeck(dim=2)
    paths = simulate(ou, rng.standard_normal((6, 2)), np.arange(200) * 0.01, seed=1).values
    return paths + 0.02 * rng.standard_normal(paths.shape)


def test_bank_has_the_advertised_shapes(plane_paths):
    bank = make_bank(normalised(plane_paths))
    primed = ask(bank, np.zeros((5, 2)))
    assert primed.drift.shape == (5, 2, NUM_DRIFT)
    assert primed.diffusion_sq.shape == (5, 2, NUM_DIFFUSION)
    assert bank.descriptors.shape == (2, NUM_DESCRIPTORS)
    assert np.all(primed.diffusion_sq >= 0)


def test_bank_does_not_depend_on_the_order_of_paths(plane_paths):
    x = np.random.default_rng(0).standard_normal((7, 2))
    forward, backward = (ask(make_bank(normalised(p)), x) for p in (plane_paths, plane_paths[::-1].copy()))
    np.testing.assert_allclose(forward.drift, backward.drift, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(forward.residual, backward.residual, rtol=1e-6, atol=1e-6)


@given(
    scale=st.sampled_from([1e-9, 1e-3, 1.0, 1e9]),
    offset=st.floats(-100, 100),
    time_scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_bank_follows_a_change_of_units(plane_paths, scale, offset, time_scale):
    """In normalised coordinates nothing changes, up to the rounding of the shifted data."""
    x = np.random.default_rng(0).standard_normal((7, 2))
    plain = ask(make_bank(normalised(plane_paths)), x)
    moved = ask(make_bank(normalised(plane_paths * scale + scale * offset, dt=0.01 * time_scale)), x)
    np.testing.assert_allclose(moved.drift, plain.drift, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(moved.diffusion_sq, plain.diffusion_sq, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("lengths", [[3], [2, 2], [2] * 40, [5, 3, 2], [700]])
def test_bank_reads_any_shape_of_data(lengths):
    rng = np.random.default_rng(len(lengths))
    paths = [np.cumsum(rng.standard_normal((n, 2)), axis=0) for n in lengths]
    primed = ask(make_bank(normalised(paths)), rng.standard_normal((4, 2)))
    for values in (primed.drift, primed.diffusion_sq, primed.error, primed.residual, primed.excess):
        assert np.isfinite(values).all()


def test_bank_reads_motion_without_noise():
    t = np.arange(500) * 0.01
    tr = to_transitions(read(np.stack([np.cos(t), -np.sin(t)], axis=1), dt=0.01))
    normaliser = fit_normaliser(tr)
    bank = make_bank(normaliser.transitions(tr))
    x = np.array([[1.0, 0.0], [0.0, 0.5]])
    drift = normaliser.undo_drift(np.moveaxis(ask(bank, normaliser.states(x)).drift, 2, 0))
    assert np.abs(drift[[h.form for h in DRIFT].index(LINEAR)] - np.stack([x[:, 1], -x[:, 0]], axis=1)).max() < 1e-3, (
        "the linear candidate is the rotation"
    )


def test_a_known_origin_is_used(plane_paths):
    tr = normalised(plane_paths)
    x = np.ones((1, 2))
    searched, given_ = ask(make_bank(tr), x).drift, ask(make_bank(tr, np.array([0.3, 0.1])), x).drift
    around = [k for k, h in enumerate(DRIFT) if h.form.around_origin]
    assert (np.abs(searched - given_)[..., around] > 1e-6).all()
    np.testing.assert_array_equal(np.delete(searched, around, -1), np.delete(given_, around, -1))
