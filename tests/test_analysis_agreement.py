"""Fixed points of the field and of the formula tell one story, or the difference is said."""

import numpy as np
import pytest

import fimsde
from fimsde.analysis.agreement import compare_fixed_points
from fimsde.analysis.fixed_points import place
from fimsde.equations.sde import FunctionSDE
from fimsde.report.findings import find
from fimsde.report.sections import equation as equation_section
from fimsde.report.sections import landscape
from fimsde.systems import canonical

WELLS = FunctionSDE(1, lambda x: x - x**3, lambda x: np.full_like(x, 0.5))
WIGGLES = FunctionSDE(1, lambda x: -x + 0.3 * np.sin(20 * x), lambda x: np.full_like(x, 0.5))
SQUARE = (np.full(2, -2.0), np.full(2, 2.0))


def observed(sde, num, dt=0.05, seed=0):
    """The equation itself as an estimate from a path of its own: it errs as little as the data say."""
    return fimsde.result(sde, fimsde.simulate(sde, np.zeros((1, 1)), np.arange(num) * dt, seed=seed).observations())


@pytest.mark.parametrize(("system", "count"), [(canonical.DUFFING, 3), (canonical.WANG_2D, 1)])
def test_a_textbook_system_and_its_formula_have_the_same_fixed_points(system, count):
    result = fimsde.result(system)
    found = compare_fixed_points(result, result.equation(box=SQUARE), box=SQUARE)
    assert len(found.points) == len(found.formula_points) == count
    assert found.is_complete
    for k, point in enumerate(found.points):
        np.testing.assert_allclose(found.in_formula(k).x, point.x, atol=1e-3)


def test_five_roots_in_the_table_and_one_in_the_formula_do_not_stand_without_a_word():
    result = observed(WIGGLES, 400)
    found = compare_fixed_points(result, result.equation())
    assert len(found.points) > 1
    assert len(found.formula_points) == 1
    assert sum(p is not None for p in found.partners) == 1
    assert found.sentence.startswith(f"The field has {len(found.points)} fixed points, the formula 1.")
    assert "less than the error of the drift: the data do not decide" in found.sentence


def test_with_many_data_the_same_formula_is_too_simple():
    result = observed(WIGGLES, 20_000)
    found = compare_fixed_points(result, result.equation())
    assert not found.is_complete
    assert "the formula is too simple there" in found.sentence


def test_a_root_where_no_data_are_is_said_to_be_there():
    sde = FunctionSDE(1, lambda x: np.where(x < 3, -x, (x - 4) * 3), lambda x: np.full_like(x, 0.5))
    result = observed(sde, 2000)
    found = compare_fixed_points(result, result.equation(), box=(-3.0, 6.0))
    assert "At x1 = 4 (field only) no data are nearby." in found.sentence
    assert found.partners.count(None) == len(found.points) - 1


def test_a_stable_and_an_unstable_root_are_no_partners():
    result = observed(WELLS, 400)
    mirrored = fimsde.result(FunctionSDE(1, lambda x: x**3 - x, WELLS.diffusion), result.observations)
    found = compare_fixed_points(result, mirrored.equation())
    for k, point in enumerate(found.points):
        partner = found.in_formula(k)
        assert partner is None or partner.kind == point.kind


def test_a_formula_without_drift_has_no_fixed_points_and_says_so():
    flat = FunctionSDE(1, lambda x: 1e-3 * np.sin(9 * x), lambda x: np.full_like(x, 0.5))
    result = observed(flat, 300)
    found = compare_fixed_points(result, result.equation())
    assert found.formula_points == ()
    assert found.sentence.startswith("The formula has no drift of x1, and so no fixed points; the field has")
    assert "the data do not decide" in found.sentence


def test_a_formula_that_vanishes_along_a_line_has_no_list_of_points():
    sde = FunctionSDE(2, lambda x: np.stack([x[:, 0] * x[:, 1], x[:, 0]], axis=1), np.ones_like)
    result = fimsde.result(sde)
    found = compare_fixed_points(result, result.equation(box=SQUARE), points=(), box=SQUARE)
    assert "along whole lines" in found.sentence


def test_the_difference_is_said_wherever_both_are_shown():
    found = find(observed(WIGGLES, 400))
    sentence = found.agreement.sentence
    record = found.record()
    assert record["equation"]["fixed_points_compared"] == sentence
    assert len(record["equation"]["fixed_points"]) == 1
    assert sum(p["in_formula"] is not None for p in record["fixed_points"]) == 1
    shown = landscape(found)
    for section in (shown, equation_section(found)):
        assert sentence in [getattr(block, "text", "") for block in section.blocks]
    table = next(block for block in shown.blocks if block.kind == "table")
    assert table.head[-1] == "in the formula"
    assert [row[-1] for row in table.rows].count("no") == len(found.points) - 1


def test_places_far_from_zero_are_told_apart():
    assert place(np.array([100_000.123, -0.5, 0.0]), np.array([2.0, 4.0, 1.0])) == ("100000.123", "-0.5", "0")
    assert place(np.array([3e-5, -2e-20, 1e-4]), np.array([6.5, 1.0, 1.0])) == ("0", "0", "0.0001")
