"""The two families of equations beside the paper's: few terms, and waves that no polynomial fits."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from checks import check_mean, check_variance
from fimsde.errors import ConfigError
from fimsde.prior.config import PolynomialConfig, PriorConfig, Setting
from fimsde.prior.equation import draw_equation
from fimsde.prior.manifest import DatasetSettings
from fimsde.prior.polynomials import PolynomialSDE, draw_polynomials, monomials
from fimsde.prior.wave_kernels import Waves
from fimsde.prior.waves import WaveSDE, draw_waves
from fimsde.simulate import simulate

SETTING = Setting(gap=0.02, substeps=2, num_paths=2, num_times=120)
WAVES = PriorConfig(settings=(SETTING,), wave_share=1.0)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_sparse_equations_have_few_terms_and_mostly_constant_diffusion(dim):
    drift, diffusion = draw_polynomials(PolynomialConfig(sparse_share=1.0), dim, 4000, seed=1)
    terms = (drift != 0).sum(axis=-1)
    assert terms.min() >= 1
    assert terms.max() <= 4 + dim  # four, and a damping one or as many as make -x |x|²
    constant = (diffusion[..., 1:] == 0).all(axis=-1)
    check_mean(constant[:, 0], 0.55, 0.55 * 0.45)
    assert (diffusion[..., 0] > 0).all()
    vanishing = (diffusion[..., 1:] < 0).any(axis=-1) & (diffusion[..., 1:] <= 0).all(axis=-1)
    check_mean(vanishing[:, 0], 0.2, 0.2 * 0.8)  # all of one kind, half of another
    degrees = np.array([len(m) for m in monomials(dim, 3)])
    odd = (drift[..., degrees % 2 == 0] == 0).all(axis=(1, 2))
    assert 0.4 < odd.mean() < 0.75, "at least the share that a reflection leaves alone, and others by chance"


def test_two_fifths_of_the_sparse_equations_are_odd_and_most_are_damped():
    """In one dimension an equation is odd by choice (0.4), or if none of its one to four terms is of even degree, each
    with probability 0.7. With probability 0.8 the slope or the cube has a negative sign, whatever else was drawn."""
    drift, _ = draw_polynomials(PolynomialConfig(sparse_share=1.0), 1, 6000, seed=9)
    odd = ((drift[:, 0, 0] == 0) & (drift[:, 0, 2] == 0)).astype(float)
    share = 0.4 + 0.6 * np.mean([0.7**terms for terms in (1, 2, 3, 4)])
    check_mean(odd, share, share * (1 - share))
    damped = (drift[:, 0, 1] < 0) | (drift[:, 0, 3] < 0)
    assert damped.sum() >= binom.ppf(1e-6, 6000, 0.8)
    pushed = (drift[:, 0, 1] > 0) | (drift[:, 0, 3] > 0)
    assert pushed.sum() < binom.ppf(1e-6, 6000, 0.8), "the sign is not a matter of chance"


def test_the_paper_has_no_sparse_share_and_its_draws_do_not_change():
    """A share of zero draws no random number: the coefficients of the paper's prior are what they always were."""
    paper, _ = draw_polynomials(PolynomialConfig(), 2, 500, seed=3)
    almost, _ = draw_polynomials(PolynomialConfig(sparse_share=1e-300), 2, 500, seed=3)
    assert not np.array_equal(paper, almost), "one number more is drawn as soon as there is a share"
    assert PriorConfig().polynomials.sparse_share == PriorConfig.paper().polynomials.sparse_share == 0


def test_the_sparse_share_is_a_share():
    config = PolynomialConfig(sparse_share=0.3)
    _, diffusion = draw_polynomials(config, 3, 4000, seed=5)
    small = (diffusion[..., 0] > 0).all(axis=1) & ((diffusion != 0).sum(axis=2) <= 2).all(axis=1)
    _, dense = draw_polynomials(PolynomialConfig(), 3, 4000, seed=5)
    also = (dense[..., 0] > 0).all(axis=1) & ((dense != 0).sum(axis=2) <= 2).all(axis=1)
    expected = 0.3 + 0.7 * also.mean()
    check_mean(small, expected, 2 * expected * (1 - expected))  # twice: the dense ones are counted, not known


def test_a_wave_equation_is_a_function_of_its_number_and_its_paths_solve_it():
    first, again = (draw_equation(WAVES, 7, 3) for _ in range(2))
    assert isinstance(first.sde, WaveSDE)
    np.testing.assert_array_equal(first.values, again.values)
    assert not np.array_equal(first.values, draw_equation(WAVES, 7, 4).values)
    assert np.abs(first.values).max() < 2 * WAVES.limit
    np.testing.assert_allclose(first.drift, first.sde.drift(first.locations), rtol=1e-6)


def test_waves_are_what_is_written_about_them():
    """One wave, one switch, one ripple, by hand."""
    waves = Waves(
        linear=np.array([1.5, 0.0]),
        cubic=np.array([0.5, 2.0]),
        amplitude=np.array([[2.0], [-3.0]]),
        wave=np.array([[[0.7, -0.4]], [[1.1, 0.2]]]),
        phase=np.array([[0.3], [-0.6]]),
        is_switch=np.array([[False], [True]]),
        level=np.array([0.8, 0.1]),
        swing=np.array([[0.4], [-0.9]]),
        ripple=np.array([[[1.0, 2.0]], [[-0.5, 0.3]]]),
        shift=np.array([[0.1], [2.0]]),
    )
    x = np.random.default_rng(0).standard_normal((5, 2))
    a, b = x.T
    drift, diffusion = WaveSDE(waves).fields(x)
    np.testing.assert_allclose(drift[:, 0], -1.5 * a - 0.5 * a**3 + 2 * np.sin(0.7 * a - 0.4 * b + 0.3))
    np.testing.assert_allclose(drift[:, 1], -2 * b**3 - 3 * np.tanh(1.1 * a + 0.2 * b - 0.6))
    np.testing.assert_allclose(diffusion[:, 0], 0.8 * np.exp(0.4 * np.sin(a + 2 * b + 0.1)))
    np.testing.assert_allclose(diffusion[:, 1], 0.1 * np.exp(-0.9 * np.sin(-0.5 * a + 0.3 * b + 2)))


def test_the_law_of_waves_in_the_plane():
    """A quarter of them are switches. Amplitudes of a gradient are those of its potential times directions of unit
    variance: a normal number, a scale that is log-uniform from 0.3 to 5, and another normal number. False alarms 1e-6;
    a third of switches, or the frequency in the amplitude (0.35 more in the logarithm), would be noticed."""
    rng = np.random.default_rng(3)
    drawn = [draw_waves(2, rng).waves for _ in range(4000)]
    check_mean([w.is_switch[0, 0] for w in drawn], 0.25, 0.25 * 0.75)
    gradients = [w for w in drawn if np.array_equal(w.wave[0], w.wave[1])]
    check_mean([len(gradients) / 4000], 0.5, 0.25 / 4000)
    normal = -(np.euler_gamma + np.log(2)) / 2, np.pi**2 / 8  # mean and variance of the logarithm of |N(0, 1)|
    mean = 2 * normal[0] + np.log(0.3 * 5) / 2
    variance = 2 * normal[1] + np.log(5 / 0.3) ** 2 / 12
    logs = [np.log(abs(w.amplitude[0, 0])) for w in gradients]
    check_mean(logs, mean, variance)
    with pytest.raises(AssertionError, match="standard errors"):
        check_mean(logs, mean + np.log(0.5 * 4) / 2, variance)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize(("gap", "substeps"), [(1e-3, 1), (1e-5, 4)])
def test_wave_paths_move_as_the_fields_say(dim, gap, substeps):
    """Increments over one gap, less the drift, in units of the diffusion: mean 0 and variance 1. Exact for one Euler
    step; over several the fields hardly change in so short a gap."""
    config = replace(
        WAVES, settings=(replace(SETTING, gap=gap, substeps=substeps, num_paths=40),), dims=(dim,), dim_shares=(1.0,)
    )
    config = replace(config, corruption=replace(config.corruption, mix=(1.0, 0.0, 0.0, 0.0)))
    scores = []
    for index in range(8):
        equation = draw_equation(config, 11, index)
        x = equation.values.astype(np.float64)
        start, step = x[:, :-1].reshape(-1, dim), np.diff(x, axis=1).reshape(-1, dim)
        drift, diffusion = equation.sde.drift(start), equation.sde.diffusion(start)
        scores.append(((step - drift * gap) / (diffusion * np.sqrt(gap))).ravel())
    score = np.concatenate(scores)
    check_mean(score, 0.0, 1.0)
    check_variance(score, 1.0)


def test_gradient_waves_have_no_curl():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 2))
    curls = []
    for _ in range(60):
        sde = draw_waves(2, rng)
        up, right = ((sde.drift(x + s) - sde.drift(x - s)) / 2e-5 for s in (np.array([0, 1e-5]), np.array([1e-5, 0])))
        curls.append(np.abs(up[:, 0] - right[:, 1]).max())
    assert 10 < sum(curl < 1e-6 for curl in curls) < 50, "about half of them"


def test_waves_simulate_through_the_one_stepper():
    sde = draw_waves(2, np.random.default_rng(1))
    paths = simulate(sde, np.zeros((3, 2)), np.linspace(0, 0.1, 11), seed=0)
    assert np.isfinite(paths.values).all()


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match=r"wave_share is 0\.2; a stored data set holds polynomials only"):
        DatasetSettings(10, 0, PriorConfig(wave_share=0.2))
    with pytest.raises(ConfigError, match=r"sparse_share is 1\.5"):
        PolynomialConfig(sparse_share=1.5)
    with pytest.raises(ConfigError, match="sparse equations have degrees 3 and 2"):
        PolynomialConfig(drift_degree=2, sparse_share=0.5)
    with pytest.raises(ConfigError, match="wave_share is -1"):
        PriorConfig(wave_share=-1.0)
    with pytest.raises(ConfigError, match="none of 3 proposed wave equations"):
        draw_equation(replace(WAVES, limit=1e-6, max_proposals=3), 0, 0)


def test_a_prior_without_waves_draws_polynomials():
    assert isinstance(draw_equation(PriorConfig(settings=(SETTING,)), 7, 3).sde, PolynomialSDE)
