"""A constant correlation of the noise that the data tell: against closed forms, and nowhere without evidence."""

import numpy as np
import pytest
from scipy import integrate, linalg, stats

import fimsde
from fimsde.equations.sde import CorrelatedSDE, FunctionSDE
from fimsde.evidence.estimate import PosteriorSDE
from fimsde.filter.correlation import CLEAR, EstimatedCorrelation, correlated_pairs, fit_correlation, log_odds
from fimsde.simulate import simulate
from problems import CorrelatedOrnsteinUhlenbeck, OrnsteinUhlenbeck

PAIR = np.array([[0, 1]])
WALK = FunctionSDE(2, np.zeros_like, lambda x: np.tile([2.0, 0.5], (len(x), 1)))
COUPLED = CorrelatedOrnsteinUhlenbeck(
    np.array([[1.0, -0.8], [0.5, 1.5]]), np.array([0.8, 0.5]), np.array([[1.0, 0.5], [0.5, 1.0]])
)


def walks(rho, num, seed, noise=(0.0, 0.0), dt=0.1):
    """Two random walks with a correlation, seen through the noise of an instrument."""
    rng = np.random.default_rng(seed)
    steps = rng.multivariate_normal(np.zeros(2), [[4.0, rho], [rho, 0.25]], num) * np.sqrt(dt)
    return fimsde.read(np.cumsum(steps, axis=0) + np.array(noise) * rng.standard_normal((num, 2)), dt=dt)


def exact_path(sde, num, gap, seed):
    """A linear equation, sampled from its exact law: no step of a simulation."""
    rng, ahead = np.random.default_rng(seed), linalg.expm(-sde.pull * gap)
    whole = sde.stationary_covariance()
    root = np.linalg.cholesky(whole - ahead @ whole @ ahead.T)
    x = np.linalg.cholesky(whole) @ rng.standard_normal(2)
    out = np.empty((num, 2))
    for k in range(num):
        out[k] = x
        x = ahead @ x + root @ rng.standard_normal(2)
    return fimsde.read(out, dt=gap)


def asset_pair(seed, num=2000, rho=0.7):
    sde = CorrelatedOrnsteinUhlenbeck(np.diag([1.0, 1.5]), np.array([0.8, 0.5]), np.array([[1.0, rho], [rho, 1.0]]))
    times = np.concatenate([[0.0], 5 + 0.05 * np.arange(num)])
    return fimsde.read(simulate(sde, np.zeros((1, 2)), times, dt=0.01, seed=seed).values[0, 1:], dt=0.05)


@pytest.fixture(scope="module")
def pair():
    return fimsde.estimate(asset_pair(1_000_003))


def test_of_random_walks_it_is_the_correlation_of_their_steps():
    """Maximum likelihood beside free variances; its error is (1 - rho²) / sqrt(n)."""
    obs = walks(0.6, 4000, 1)
    found = fit_correlation(WALK, obs, np.zeros(2), PAIR)
    steps = np.diff(obs.values, axis=0)
    exact = (steps[:, 0] @ steps[:, 1]) / np.sqrt((steps[:, 0] @ steps[:, 0]) * (steps[:, 1] @ steps[:, 1]))
    assert found.rho[0, 1] == pytest.approx(exact, abs=1e-4)
    assert found.error[0, 1] == pytest.approx((1 - 0.36) / np.sqrt(4000), rel=0.08)


@pytest.mark.parametrize(("noise", "rho"), [((0.0, 0.0), -0.8), ((0.4, 0.1), 0.5), ((1.0, 0.05), 0.7)])
def test_it_is_within_its_errors_of_the_truth(noise, rho):
    """Forty data sets, their squared standard errors chi-square; one false alarm in a million."""
    found = [fit_correlation(WALK, walks(rho, 800, s, noise), np.array(noise), PAIR) for s in range(40)]
    z = np.array([(f.rho[0, 1] - rho) / f.error[0, 1] for f in found])
    assert stats.chi2.ppf(5e-7, 40) < np.sum(z**2) < stats.chi2.isf(5e-7, 40), np.round(z, 1)


def test_noise_of_the_instrument_that_is_not_known_hides_it():
    """The negative control: without the noise the same data are far from the truth."""
    found = [fit_correlation(WALK, walks(0.7, 800, s, (1.0, 0.05)), np.zeros(2), PAIR) for s in range(10)]
    assert np.sum([((f.rho[0, 1] - 0.7) / f.error[0, 1]) ** 2 for f in found]) > 10 * stats.chi2.isf(1e-6, 10)


@pytest.mark.parametrize("gap", [0.1, 0.5])
def test_what_the_drift_mixes_within_a_gap_is_not_taken_for_it(gap):
    """Against the exact law of a coupled linear equation; chi-square, one false alarm in a million."""
    plain = FunctionSDE(2, COUPLED.drift, COUPLED.diffusion)
    found = [fit_correlation(plain, exact_path(COUPLED, 1000, gap, s), np.zeros(2), PAIR) for s in range(20)]
    z = np.array([(f.rho[0, 1] - 0.5) / f.error[0, 1] for f in found])
    assert np.sum(z**2) < stats.chi2.isf(1e-6, 20), np.round(z, 1)


def test_the_odds_are_those_of_any_correlation_against_none():
    """Against the integral of the exact likelihood over all correlations."""
    rng = np.random.default_rng(4)
    for rho in (0.0, 0.1, -0.2):
        z = rng.multivariate_normal(np.zeros(2), [[1.0, rho], [rho, 1.0]], 600)
        z /= np.sqrt((z**2).mean(axis=0))
        s = z[:, 0] @ z[:, 1]

        def ratio(r, s=s):
            return 0.5 * (1 - r**2) ** -300 * np.exp(-(600 - r * s) / (1 - r**2) + 600)

        exact = np.log(integrate.quad(ratio, -0.6, 0.6, points=[s / 600])[0])
        assert log_odds(z)[0, 1] == pytest.approx(exact, abs=0.5 + 0.25 * abs(exact))  # blocks vary by chance


def test_independent_noise_is_not_called_correlated():
    """Normal: the rate of the law of the score, 8e-4 at 300 steps; up to chance (1e-6), over 4000 data sets."""
    rng, alarms = np.random.default_rng(5), 0
    for _ in range(4000):
        alarms += len(correlated_pairs(rng.standard_normal((300, 2))))
    bound = np.sqrt(2 * (np.log(CLEAR) - np.log(0.5 * np.sqrt(2 * np.pi / 300))))
    assert alarms <= stats.binom.isf(1e-6, 4000, 2 * stats.norm.sf(bound))


def test_quiet_and_wild_times_that_components_share_are_no_correlation():
    """Steps of Student's law in the plane, three degrees of freedom: dependent, but not correlated. As above."""
    rng, alarms = np.random.default_rng(6), 0
    for _ in range(1000):
        wild = np.sqrt(3 / rng.chisquare(3, (300, 1)))
        alarms += len(correlated_pairs(wild * rng.standard_normal((300, 2))))
    assert alarms <= stats.binom.isf(1e-6, 1000, 1e-3)


def test_an_estimate_carries_it_and_draws_have_their_own(pair):
    assert isinstance(pair.sde, EstimatedCorrelation)
    assert isinstance(pair.fitted, PosteriorSDE)
    rho, error = pair.sde.rho[0, 1], pair.sde.error[0, 1]
    assert abs(rho - 0.7) < 5 * error
    drawn = np.array([one.correlation(np.zeros((1, 2)))[0, 0, 1] for one in pair.posterior(200)])
    assert drawn.std() == pytest.approx(error, rel=0.3)
    assert abs(drawn.mean() - rho) < error


def test_it_is_told_with_its_error_everywhere(pair):
    assert "noise that is correlated: 0." in " ".join(str(pair).split())
    assert "carries it" in str(pair)
    found = pair.equation()
    rows = found.to_pandas()
    (row,) = rows[rows.field == "correlation"].to_dict("records")
    assert row["low"] < row["coefficient"] < row["high"]
    assert row["coefficient"] == pytest.approx(pair.sde.rho[0, 1], abs=1e-6)
    assert "dW1 dW2 = (0." in str(pair)
    assert " ± 0.0" in str(pair).split("dW1 dW2")[1].split("\n")[0]
    assert pair.check().status == "good"


def test_a_saved_result_and_a_saved_draw_have_the_same(pair, tmp_path):
    pair.save(tmp_path / "whole")
    again = fimsde.load(tmp_path / "whole")
    np.testing.assert_allclose(again.sde.rho, pair.sde.rho, rtol=1e-9)
    np.testing.assert_allclose(again.sde.error, pair.sde.error, rtol=1e-6)
    one = pair.posterior(3, seed=2)[2]
    one.save(tmp_path / "draw")
    np.testing.assert_allclose(fimsde.load(tmp_path / "draw").sde.rho, one.sde.rho, rtol=1e-9)
    pair.with_correlation(np.eye(2)).save(tmp_path / "none")
    assert fimsde.load(tmp_path / "none").is_diagonal


def test_a_file_from_before_correlations_were_found_is_said_to_differ(pair, tmp_path):
    pair.save(tmp_path / "whole")
    file = tmp_path / "whole" / "result.json"
    file.write_text(file.read_text().replace("correlation_found", "unknown"))
    with pytest.warns(fimsde.DataWarning, match="differ"):
        fimsde.load(tmp_path / "whole")


def test_the_same_equation_without_it_and_a_second_fit_with_it(pair):
    assert pair.with_correlation(np.eye(2)).is_diagonal
    again = pair.refit(pair.observations, 0)
    np.testing.assert_allclose(again.rho, pair.sde.rho, rtol=1e-9)
    assert isinstance(pair.with_correlation(np.eye(2)).refit(pair.observations, 0), CorrelatedSDE)


def test_it_follows_the_order_the_signs_and_the_units_of_the_components(pair):
    obs = pair.observations
    other = fimsde.estimate(fimsde.read(obs.values[:, ::-1] * [-3.0, 0.01] + [5.0, -2.0], dt=0.05), origin=None)
    plain = fimsde.estimate(obs, origin=None)
    assert other.sde.rho[0, 1] == pytest.approx(-plain.sde.rho[0, 1], abs=1e-6)


def test_noise_of_their_own_leaves_the_equation_as_it_was():
    obs = simulate(OrnsteinUhlenbeck(1.0, 0.5, dim=2), np.zeros((1, 2)), np.arange(1500) * 0.05, substeps=5, seed=2)
    result = fimsde.estimate(obs.observations())
    assert type(result.sde) is PosteriorSDE
    assert "correlat" not in str(result)
    one = simulate(OrnsteinUhlenbeck(1.0, 0.5), np.zeros((1, 1)), np.arange(500) * 0.05, seed=2).observations()
    assert type(fimsde.estimate(one).sde) is PosteriorSDE


def test_of_three_components_the_pairs_that_are_correlated_are_found():
    rho = np.eye(3)
    rho[0, 2] = rho[2, 0] = -0.6
    sde = CorrelatedOrnsteinUhlenbeck(np.diag([1.0, 2.0, 1.5]), np.array([0.8, 0.5, 1.0]), rho)
    obs = simulate(sde, np.zeros((1, 3)), np.arange(3000) * 0.05, substeps=5, seed=11).observations()
    found = fimsde.estimate(obs).sde
    assert found.pairs.tolist() == [[0, 2]]
    assert abs(found.rho[0, 2] + 0.6) < 5 * found.error[0, 2]
    assert found.rho[0, 1] == found.rho[1, 2] == found.error[0, 1] == 0


def test_a_correlation_that_depends_on_the_state_is_named_and_a_constant_one_is_not(pair):
    ring = FunctionSDE(
        2,
        lambda x: -x,
        lambda x: np.full_like(x, 0.7),
        lambda x: np.eye(2) + (0.9 * np.tanh(2 * x[:, 0]))[:, None, None] * (1 - np.eye(2)),
    )
    obs = simulate(ring, np.zeros((1, 2)), np.arange(3000) * 0.05, substeps=5, seed=3).observations()
    found = fimsde.estimate(obs).check()["correlated noise"]
    assert found.status == "bad"
    assert "depends on the state" in found.sentence
    assert found.wider
    assert fimsde.result(ring, obs).check()["correlated noise"].status == "good"
    assert pair.check()["correlated noise"].status == "good"
