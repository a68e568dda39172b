"""Paths of the prior: the compiled simulation step by step, and what rejection may and may not change."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from checks import check_mean, check_variance
from fimsde.errors import ConfigError
from fimsde.prior import path_kernels
from fimsde.prior.config import PolynomialConfig, PriorConfig, Setting
from fimsde.prior.law_kernels import draw_polynomials
from fimsde.prior.noise_kernels import derive, new_normals, restart, take
from fimsde.prior.paths import draw_clean_paths
from fimsde.prior.polynomials import PolynomialSDE, polynomial_law
from fimsde.simulate import euler_step

SHORT = Setting(gap=0.1, substeps=3, num_paths=40, num_times=20)  # two groups of paths: 32 and 8


def key(number):
    return np.uint64(derive(np.uint64(2024), number))


def simulate_slowly(config, dim, setting, proposal_key):
    """One proposal in plain numpy, with the same random numbers: polynomials, all states at all steps."""
    law = polynomial_law(config.polynomials, dim)
    drift = np.empty((dim, law.drift_first[-1]), np.float32)
    diffusion = np.empty((dim, law.diffusion_first[-1]), np.float32)
    normals = new_normals()
    draw_polynomials(proposal_key, law, normals, drift, diffusion)
    sde = PolynomialSDE(drift, diffusion)
    dt, groups = setting.gap / setting.substeps, []
    for first in range(0, setting.num_paths, 32):
        stride = -(-min(32, setting.num_paths - first) // 8) * 8
        states = []
        for _ in range(1 + (setting.num_times - 1) * setting.substeps):
            start = take(normals, dim * stride)
            z = normals.buffer[start : start + dim * stride].reshape(dim, stride).T.astype(float)
            states.append(
                euler_step(states[-1], sde.drift(states[-1]), sde.diffusion(states[-1]), dt, z) if states else z
            )
        groups.append(np.stack(states, axis=1)[: setting.num_paths - first])
    return sde, np.concatenate(groups)  # (paths, steps, dim)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_compiled_paths_are_euler_paths_of_their_equation(dim):
    """The compiled program of present monomials, 32 paths at a time in float32, against the SDE itself in float64."""
    config, compared = PriorConfig(), 0
    for number in range(10):
        clean = draw_clean_paths(config, dim, SHORT, key(number))
        proposal = np.uint64(derive(key(number), clean.num_proposals - 1))
        sde, states = simulate_slowly(config, dim, SHORT, proposal)
        assert np.array_equal(sde.drift_coefficients, clean.sde.drift_coefficients)
        observed = states[:, :: SHORT.substeps]
        if np.abs(observed).max() < 20:  # rounding errors grow on the wilder ones
            scale = np.abs(observed).max()
            assert_allclose(clean.values, observed, rtol=0, atol=2e-4 * scale)
            compared += 1
    assert compared >= 5


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_early_rejection_gives_the_same_equations_to_the_bit(dim):
    for number in range(15):
        early = draw_clean_paths(PriorConfig(), dim, SHORT, key(number))
        full = draw_clean_paths(PriorConfig(), dim, SHORT, key(number), early_rejection=False)
        assert early.num_proposals == full.num_proposals
        assert early.values.tobytes() == full.values.tobytes()
        assert early.sde.drift_coefficients.tobytes() == full.sde.drift_coefficients.tobytes()
        assert early.sde.diffusion_coefficients.tobytes() == full.sde.diffusion_coefficients.tobytes()


@pytest.mark.parametrize("dim", [1, 2])
def test_rejected_are_exactly_the_proposals_that_break_the_rule(dim):
    """Every proposal before the accepted one is simulated slowly: each breaks the rule, the accepted one does not."""
    config = PriorConfig(limit=5.0)
    for number in range(4):
        clean = draw_clean_paths(config, dim, SHORT, key(number))
        for proposal in range(clean.num_proposals):
            with np.errstate(all="ignore"):
                _, states = simulate_slowly(config, dim, SHORT, np.uint64(derive(key(number), proposal)))
            observed = np.abs(states[:, :: SHORT.substeps])
            breaks = not np.all(observed < 5.0)
            margin = np.min(np.abs(np.where(np.isfinite(observed), observed, np.inf) - 5.0))
            assert breaks == (proposal < clean.num_proposals - 1) or margin < 1e-3


@pytest.mark.parametrize("setting", PriorConfig().settings, ids=lambda setting: f"gap{setting.gap:g}")
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_accepted_paths_are_finite_and_below_the_limit(dim, setting):
    """G2."""
    for number in range(3):
        values = draw_clean_paths(PriorConfig(), dim, setting, key(number)).values
        assert values.shape == (setting.num_paths, setting.num_times, dim)
        assert np.all(np.abs(values) < 100.0)  # false for NaN as well


def test_states_between_observations_are_not_looked_at():
    """As in the authors' data: some accepted equations leave the limit between two observations and come back."""
    config, setting = PriorConfig(limit=2.8), Setting(gap=1.0, substeps=25, num_paths=8, num_times=3)
    came_back = 0
    for number in range(30):
        clean = draw_clean_paths(config, 1, setting, key(number))
        with np.errstate(all="ignore"):
            _, states = simulate_slowly(config, 1, setting, np.uint64(derive(key(number), clean.num_proposals - 1)))
        came_back += bool(np.abs(states).max() > 2.9)
    assert came_back > 0


def test_settings_that_accept_nothing_end_with_an_error():
    with pytest.raises(ConfigError, match="none of 20 proposed equations in 2 dimensions kept 40 paths"):
        draw_clean_paths(PriorConfig(limit=1e-3, max_proposals=20), 2, SHORT, key(0))


def test_one_path_and_many_groups_of_paths_work():
    for num_paths in (1, 7, 8, 9, 31, 32, 33, 200):
        setting = Setting(gap=0.01, substeps=2, num_paths=num_paths, num_times=3)
        values = draw_clean_paths(PriorConfig(), 3, setting, key(num_paths)).values
        assert values.shape == (num_paths, 3, 3)
        assert len(np.unique(values[:, 0, 0])) == num_paths  # every path starts somewhere else


THETA, SIGMA, OU = 1.5, 0.7, Setting(gap=0.2, substeps=4, num_paths=32, num_times=6)


def ou_ends(num_runs):
    """Last states of Ornstein-Uhlenbeck paths run by the compiled kernel from standard normal states."""
    law = polynomial_law(PolynomialConfig(1, 0), 1)
    program = path_kernels._new_program(1, law.parent.size)
    path_kernels._write_program(program, law, np.array([[0.0, -THETA]], np.float32), np.array([[SIGMA**2]], np.float32))
    normals, rows = new_normals(), np.ones(law.parent.size * path_kernels.WIDTH, np.float32)
    grid = path_kernels.Grid(np.float32(OU.gap / OU.substeps), OU.substeps, np.float32(100))
    values = np.empty((num_runs, OU.num_paths, OU.num_times, 1), np.float32)
    for run in range(num_runs):
        restart(normals, key(run))
        assert path_kernels._run_paths(program, normals, grid, True, rows, values[run])
    return values[:, :, -1, 0].ravel().astype(float)


def ou_variance(num_steps):
    """Variance of the Euler chain after some steps from a standard normal state, exact at any step size."""
    dt = OU.gap / OU.substeps
    decay = (1 - THETA * dt) ** (2 * num_steps)
    return decay + SIGMA**2 * dt * (1 - decay) / (1 - (1 - THETA * dt) ** 2)


def test_compiled_paths_have_the_moments_of_the_euler_chain():
    """Closed form at any step size, so no discretisation error can excuse a miss. False alarms: 1e-6 per check."""
    ends = ou_ends(num_runs=1500)
    variance = ou_variance(num_steps=(OU.num_times - 1) * OU.substeps)
    check_mean(ends, 0.0, variance)
    check_variance(ends, variance)


def test_that_check_notices_one_substep_per_gap_lost():
    with pytest.raises(AssertionError, match="standard errors"):
        check_variance(ou_ends(num_runs=1500), ou_variance(num_steps=(OU.num_times - 1) * (OU.substeps - 1)))
