"""The systems outside the paper's benchmark: their recipes give usable data, and they are what they claim to be."""

import numpy as np
import pytest
from scipy import stats

from checks import check_cdf
from fimsde.simulate import simulate
from fimsde.systems.canonical import System, context, grid, reference
from fimsde.systems.out_of_class import GEOMETRIC_BROWNIAN, HILL_SWITCH, OUT_OF_CLASS, SQUARE_ROOT


@pytest.fixture(params=OUT_OF_CLASS, ids=lambda s: s.name)
def system(request) -> System:
    return request.param


def test_contexts_lie_in_the_box_and_use_it(system):
    obs = context(system, length=2000)
    assert obs.values.shape == (2000, system.dim)
    assert np.diff(obs.times).mean() == pytest.approx(system.stride * system.dt)
    low, high = np.array(system.box, float).T
    inside = ((obs.values >= low) & (obs.values <= high)).all(axis=1)
    assert inside.mean() > 0.9
    assert (np.ptp(obs.values[inside], axis=0) > (0.15 if system is GEOMETRIC_BROWNIAN else 0.6) * (high - low)).all()


def test_simulation_steps_resolve_the_dynamics(system):
    """Along one step of the drift the drift itself changes by less than a tenth, for 95 % of the states."""
    x = context(system, length=300).values
    ahead = x + system.drift(x) * system.dt
    turned = np.linalg.norm(system.drift(ahead) - system.drift(x), axis=1)
    assert np.mean(turned / (np.linalg.norm(system.drift(x), axis=1) + 1e-9) > 0.1) < 0.05


def is_polynomial(values, nodes, degree):
    """Whether a least-squares polynomial of the given total degree reproduces the values on the grid."""
    unit = nodes / np.abs(nodes).max(axis=0)
    powers = np.indices([degree + 1] * nodes.shape[1]).reshape(nodes.shape[1], -1).T
    basis = np.stack([np.prod(unit**p, axis=1) for p in powers if p.sum() <= degree], axis=1)
    residual = values - basis @ np.linalg.lstsq(basis, values, rcond=None)[0]
    return np.abs(residual).max() < 1e-8 * np.abs(values).max()


def test_which_systems_no_dictionary_of_low_polynomials_contains(system):
    nodes = grid(system)
    in_class = is_polynomial(system.drift(nodes), nodes, 3) and is_polynomial(system.diffusion(nodes) ** 2, nodes, 2)
    assert in_class == (system.name in ("square_root", "geometric_brownian", "van_der_pol", "fitzhugh_nagumo"))


def test_the_square_root_process_has_its_gamma_law():
    """Stationary law Gamma(2 a b / s², s² / (2 a)); 2000 paths after five relaxation times. False alarms: 1e-6,
    band 0.06; the Euler step changes the variance by a dt / 2 = 0.5 %, the distribution function by a tenth of that."""
    ends = simulate(SQUARE_ROOT, np.ones((2000, 1)), np.array([0.0, 2.5]), dt=0.005, seed=3).values[:, -1, 0]
    law = stats.gamma(2 * 2 * 1 / 0.8**2, scale=0.8**2 / (2 * 2))
    check_cdf(ends, law.cdf)
    with pytest.raises(AssertionError, match="bands"):
        check_cdf(ends, stats.gamma(2 * 1 / 0.8**2, scale=0.8**2 / 2).cdf)  # twice the variance


def test_geometric_brownian_motion_has_its_lognormal_law():
    """ln x(1) is normal with mean mu - s²/2 and deviation s. False alarms: 1e-6."""
    ends = simulate(GEOMETRIC_BROWNIAN, np.ones((2000, 1)), np.array([0.0, 1.0]), substeps=500, seed=4).values[:, -1, 0]
    check_cdf(np.log(ends), stats.norm(0.05 - 0.2**2 / 2, 0.2).cdf)


def test_the_hill_switch_has_two_stable_states():
    x = np.linspace(0, 3.2, 3201)[:, None]
    sign = np.sign(HILL_SWITCH.drift(x)[:, 0])
    crossings = np.flatnonzero(np.diff(sign))
    assert sign[0] > 0 > sign[-1]
    assert len(crossings) == 3


def test_reference_pieces_have_the_shape_of_the_canonical_ones():
    assert reference(SQUARE_ROOT, 1).shape == (100, 500, 1)
