"""The families of random systems: kept apart, what they claim to be, and simulated right."""

import numpy as np
import pytest

from checks import check_variance
from fimsde.errors import ConfigError
from fimsde.systems.canonical import DEV_SEED
from fimsde.systems.wide.families import DEVELOPMENT, FAMILIES, REPORTED, find_family
from fimsde.systems.wide.paths import FINE, clean_paths, wide_system


def test_families_to_develop_on_and_families_to_report_on_are_apart_and_both_are_of_all_kinds():
    assert len(DEVELOPMENT) >= 6
    assert len(REPORTED) >= 8
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    for share, families in (("development", DEVELOPMENT), ("reported", REPORTED)):
        assert {family.share for family in families} == {share}
        assert {(f.dim, f.kind) for f in families} >= {(d, k) for d in (1, 2, 3) for k in ("polynomial", "other")}


def test_an_unknown_family_is_named():
    with pytest.raises(ConfigError, match="unknown family 'nosuch'"):
        find_family("nosuch")


def draws(family, num=6):
    return [family.draw(np.random.default_rng([DEV_SEED, k])) for k in range(num)]


def is_polynomial(values, x, degree):
    """Whether a polynomial of the total degree reproduces the values at scattered places."""
    powers = np.indices([degree + 1] * x.shape[1]).reshape(x.shape[1], -1).T
    basis = np.stack([np.prod(x**p, axis=1) for p in powers if p.sum() <= degree], axis=1)
    residual = values - basis @ np.linalg.lstsq(basis, values, rcond=None)[0]
    return np.abs(residual).max() < 1e-7 * np.abs(values).max()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_polynomial_families_are_cubic_and_the_others_are_not(family):
    places = np.random.default_rng(0).uniform(0.1, 2.0, (300, family.dim))  # positive: the square root has an end
    cubic = [is_polynomial(d.drift(places), places, 3) for d in draws(family)]
    quadratic = [is_polynomial(d.diffusion(places) ** 2, places, 2) for d in draws(family)]
    assert all(d.dim == family.dim for d in draws(family))
    assert all(cubic + quadratic) == (family.kind == "polynomial")


@pytest.mark.parametrize("family", ["double-well-1d", "wells-2d", "lorenz-3d"])
def test_a_system_depends_on_family_draw_and_seed_alone(family):
    def drift(draw, seed):
        wide_system.cache_clear()
        system = wide_system(family, draw, seed)
        return system.natural_time, system.drawn.drift(np.ones((1, system.drawn.dim))).tolist()

    first = drift(0, DEV_SEED)
    assert first == drift(0, DEV_SEED)
    assert len({str(first), str(drift(1, DEV_SEED)), str(drift(0, 0))}) == 3


def test_paths_follow_the_exact_law_of_a_linear_equation():
    """Residuals of the exact transition over a fine gap are normal with variance s² (1 - exp(-2 r h)) / (2 r). 25 000
    of them; false alarms 1e-6 at 4.4 %, the simulation's own bias is a quarter of its step times the rate, 0.1 %."""
    system, paths = wide_system("linear-1d", 0, DEV_SEED), clean_paths("linear-1d", 0, DEV_SEED)
    at_zero, at_one = system.drawn.drift(np.array([[0.0], [1.0]]))[:, 0]
    rate, rest = at_zero - at_one, at_zero / (at_zero - at_one)
    size = system.drawn.diffusion(np.zeros((1, 1)))[0, 0]
    assert paths.gap == FINE * system.natural_time
    x = paths.values[0, :, 0] - rest
    residual = x[1:] - np.exp(-rate * paths.gap) * x[:-1]
    variance = size**2 * (1 - np.exp(-2 * rate * paths.gap)) / (2 * rate)
    check_variance(residual, variance)
    with pytest.raises(AssertionError, match="standard errors"):
        check_variance(residual, 1.06 * variance)


def test_the_natural_time_of_a_linear_equation_is_a_third_of_its_relaxation_time():
    """Over a trial path of forty time units, about 25 relaxation times or more on each of three draws: within 40 %."""
    for draw in range(3):
        system = wide_system("linear-1d", draw, DEV_SEED)
        at_zero, at_one = system.drawn.drift(np.array([[0.0], [1.0]]))[:, 0]
        assert 0.6 < 3.0 * (at_zero - at_one) * system.natural_time < 1.6
