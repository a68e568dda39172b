"""The answer first: the same five lines wherever a result is shown, and five lines about observations."""

import json
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import fimsde
from fimsde.analysis.agreement import Agreement
from fimsde.analysis.check import Checks, Verdict
from fimsde.analysis.draws import Interval
from fimsde.analysis.fixed_points import PointError
from fimsde.analysis.formula import bare, with_error
from fimsde.data.lines import Line, as_text
from fimsde.equations.sde import FunctionSDE
from fimsde.report import answer as report_answer
from fimsde.report import find
from fimsde.report.answer import answer, answer_of, text_of
from fimsde.report.equilibria import _range_of_place, interval_in_words, went_over
from fimsde.report.findings import BRIEF, relaxation_time
from fimsde.report.folder import summary, write_numbers
from fimsde.report.weekends import resting
from fimsde.systems.canonical import DAMPED_LINEAR, DOUBLE_WELL
from fitted import linear
from problems import OrnsteinUhlenbeck

LABELS = ["Equation", "Verdict", "Found", "Data", "Next"]
EVIL = "<b>&x"


def observed(sde, x0, num=2000, dt=0.02, **words):
    times = np.arange(num) * dt
    return fimsde.read(fimsde.simulate(sde, np.array([x0]), times, substeps=10, seed=1).values[0], times=times, **words)


def shown(result):
    return {line.label: line.text for line in answer(result).lines}


def plain(html):
    return " ".join(unescape(re.sub("<[^>]*>", " ", html)).split())


def test_five_lines_in_the_promised_order_and_the_same_everywhere(tmp_path):
    result = linear(2, names=["a", "b (mm)"], time_unit="s")
    found = find(result)
    made = answer_of(found)
    assert [line.label for line in made.lines] == LABELS
    assert str(result) == str(made), "print(result)"
    assert result._repr_html_() == made.html, "notebooks"
    result.report(tmp_path / "r.html", resamples=0)
    assert made.html in (tmp_path / "r.html").read_text(), "the report"
    (tmp_path / "out").mkdir()
    record = write_numbers(replace(result, recipe=("kramers-moyal", 0)), tmp_path / "out", 0)
    assert summary(record) == str(made), "the last lines of fimsde estimate"
    assert text_of(json.loads(json.dumps(record["answer"]))) == str(made)


def test_text_and_html_say_the_same():
    made = answer(linear(1, names=["speed (mm/s)"]))
    for line in made.lines[1:]:
        assert " ".join(line.text.split()) in plain(made.html)
    assert "dspeed = " in str(made)


def test_what_users_wrote_is_text():
    html = answer(linear(1, names=[EVIL], time_unit="<i>")).html
    assert EVIL not in html
    assert "<i>ms" not in html
    assert EVIL.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in html


def test_coefficients_have_their_standard_errors():
    result = linear(1)
    terms = result.equation().drift_terms
    k = int(np.flatnonzero(terms.coefficients[0])[0])
    expected = with_error(abs(terms.coefficients[0, k]), terms.standard_errors[0, k])
    assert expected in shown(result)["Equation"]
    assert "±" in expected


def test_error_bars_are_those_of_the_posterior_if_there_is_one():
    ou = OrnsteinUhlenbeck(theta=1.0, sigma=0.5)
    result = fimsde.estimate(observed(ou, [0.0], num=3000))
    assert result.has_posterior
    said, (point,) = shown(result), result.fixed_points()
    low, high = map(float, re.search(r"relaxation time \S+ time units \((\S+) to (\S+)\)", said["Found"]).groups())
    times = point.error.relaxation_time
    np.testing.assert_allclose([low, high], [times.low, times.high], rtol=0.01)
    assert low < high
    assert "half the width of a 90 % interval" in said["Equation"]
    terms = result.equation().drift_terms
    k = int(np.flatnonzero(terms.coefficients[0])[-1])
    half = float(np.ptp(terms.intervals[:, 0, k])) / 2
    assert with_error(abs(terms.coefficients[0, k]), half) in said["Equation"]


def test_a_relaxation_time_that_most_of_the_posterior_has_not_is_not_told():
    ou = OrnsteinUhlenbeck(theta=1.0, sigma=0.5)
    found = find(fimsde.estimate(observed(ou, [0.0], num=3000)), parts=BRIEF)
    (point,) = found.points
    few = replace(point.error.relaxation_time, known=0.3)
    unsure = replace(point, error=replace(point.error, stable=0.4, relaxation_time=few))
    said = {line.label: line.text for line in answer_of(replace(found, points=(unsure,))).lines}
    assert "an equilibrium, stable with probability 40%, at x1 = " in said["Found"]
    assert "relaxation time unknown" in said["Found"]
    assert "relaxation times" not in said["Data"]
    assert "slope of the drift at the equilibrium" in said["Next"]
    assert relaxation_time((unsure,)) is None is not relaxation_time((point,))


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.3249, 0.2134, "(1.32 ± 0.21)"),
        (0.25163, 0.0050, "(0.2516 ± 0.0050)"),
        (5234.0, 120.0, "(5234 ± 120)"),
        (1.5e-7, 2e-8, "(1.50 ± 0.20)e-07"),
        (0.01, 3.0, "(0.0 ± 3.0)"),
        (2.0, 0.0, "2"),
        (2.0, np.inf, "2"),
    ],
)
def test_a_number_is_written_as_precisely_as_its_error(value, error, text):
    assert with_error(value, error) == text


def test_a_double_well_has_two_equilibria_and_noise_that_depends_on_the_state():
    obs = observed(DOUBLE_WELL, [1.0], num=5000)
    found = shown(fimsde.result(DOUBLE_WELL, obs))["Found"]
    assert "two stable equilibria at x1 = -1 and 1, an unstable one at x1 = 0" in found
    assert "relaxation time 0.125 time units" in found, "1 / |4 - 12|"
    assert "depends on the state" in found


def test_a_cycle_is_found_though_data_never_come_near_its_centre():
    def drift(x):
        size = 1 - x[:, :1] ** 2 - x[:, 1:] ** 2
        return 4 * x * size + 3 * np.stack([-x[:, 1], x[:, 0]], axis=1)

    sde = fimsde.FunctionSDE(2, drift, lambda x: np.full_like(x, 0.05))
    obs = observed(sde, [1.0, 0.0])
    assert re.search(r"a limit cycle of period 2\.09? ", shown(fimsde.result(sde, obs))["Found"])
    assert find(fimsde.result(sde, obs), parts=()).cycle is None, "equilibria were left out"


def test_the_noise_of_the_instrument_is_found_and_its_absence_too():
    ou = OrnsteinUhlenbeck(theta=1.0, sigma=0.5)
    clean = observed(ou, [0.0], num=3000)
    noisy = replace(clean, values=clean.values + 0.1 * np.random.default_rng(0).standard_normal(clean.values.shape))
    assert "no measurement noise seen" in shown(fimsde.result(ou, clean))["Found"]
    said = re.search(r"measurement noise (\S+) \(standard deviation\)", shown(fimsde.result(ou, noisy))["Found"])
    assert float(said[1]) == pytest.approx(0.1, rel=0.1)


def test_both_kinds_of_noise_have_their_intervals():
    ou = OrnsteinUhlenbeck(theta=1.0, sigma=0.5)
    clean = observed(ou, [0.0], num=3000)
    noisy = replace(clean, values=clean.values + 0.1 * np.random.default_rng(0).standard_normal(clean.values.shape))
    result = fimsde.estimate(noisy)
    found, number = shown(result)["Found"], r"(\S+) \((\S+) to (\S+)\)"
    strength = re.search(rf"constant strength {number} per", found)
    assert float(strength[2]) < 0.5 < float(strength[3])
    assert float(strength[2]) < float(strength[1]) < float(strength[3])
    ends = np.quantile(result.posterior().noise_std, [0.05, 0.95])
    instrument = re.search(rf"measurement noise {number} \(standard deviation\)", found)
    np.testing.assert_allclose([float(instrument[2]), float(instrument[3])], ends, rtol=0.01)


def test_the_record_is_measured_in_relaxation_times_and_a_short_one_should_be_longer():
    ou = OrnsteinUhlenbeck(theta=1.0, sigma=0.5)
    long, short = (shown(fimsde.result(ou, observed(ou, [0.0], num=num))) for num in (6000, 1000))
    assert "(120 relaxation times)" in long["Data"]
    assert long["Next"].startswith("It can be used")
    assert "(20 relaxation times)" in short["Data"]
    assert "over 20 relaxation times" in short["Next"]
    assert "32%" in short["Next"], "sqrt(2 / 20)"


def test_without_drift_nothing_is_said_about_equilibria():
    walk = fimsde.read(np.cumsum(np.random.default_rng(3).standard_normal(400)), dt=1.0)
    said = shown(fimsde.result(fimsde.FunctionSDE(1, lambda x: -1e-6 * x, np.ones_like), walk))
    assert "no drift could be seen" in said["Found"]
    assert "equilibrium" not in said["Found"]
    assert "relaxation" not in said["Data"]
    assert said["Next"].startswith("Record longer")


def test_where_one_component_has_no_drift_there_is_no_equilibrium_either():
    """The equation says dx1 = 0 dt; a zero of the other drift is no place to rest."""
    rng = np.random.default_rng(4)
    pull = fimsde.FunctionSDE(1, lambda x: -x, np.ones_like)
    back = fimsde.simulate(pull, np.zeros((1, 1)), 0.05 * np.arange(3000), substeps=4, seed=4).values[0]
    walk = np.cumsum(rng.standard_normal(3000))[:, None] * 0.05**0.5
    both = fimsde.FunctionSDE(2, lambda x: x * np.array([-1e-6, -1.0]), np.ones_like)
    said = shown(fimsde.result(both, fimsde.read(np.concatenate([walk, back], axis=1), dt=0.05)))
    assert "no drift of x1 could be seen" in said["Found"]
    assert "equilibrium at" not in said["Found"]


def test_times_that_cannot_be_told_were_told_of_the_record():
    found = find(fimsde.result(DAMPED_LINEAR, observed(DAMPED_LINEAR, [2.5, -5.0])), parts=BRIEF)
    terms = found.equation.drift_terms
    still = replace(terms, coefficients=terms.coefficients * np.array([[0.0], [1.0]]))
    for equation, told in (
        (found.equation, True),
        (replace(found.equation, drift_terms=still), False),  # of one component no drift was seen
    ):
        assert ("relaxation times" in answer_of(replace(found, equation=equation)).lines[3].text) == told


def test_a_cause_decides_what_to_do_next():
    ou = OrnsteinUhlenbeck(theta=1.0, sigma=0.5)
    wrong = fimsde.result(OrnsteinUhlenbeck(theta=1.0, sigma=2.0), observed(ou, [0.0]))
    checks = wrong.check()
    assert checks.status == "bad"
    assert shown(wrong)["Next"] == next(c.next_step for c in checks.causes if c.next_step)


def test_too_few_data_are_said_to_be_too_few_and_an_equation_without_data_is_named():
    ou = OrnsteinUhlenbeck()
    said = shown(fimsde.result(ou, observed(ou, [0.0], num=10)))
    assert "too few" in said["Verdict"]
    assert said["Next"].startswith("Record more")
    assert "dimension 1" in str(fimsde.result(ou))
    assert "dimension 1" in fimsde.result(ou)._repr_html_()


def test_observations_are_printed_in_five_lines():
    obs = fimsde.read([[1.0, 2.0, 4.0], [3.0, 5.0]], times=[[0, 1, 3], [10, 11]], names=["v (m)"], time_unit="D")
    text = str(obs)
    assert "5 observations of v (m) in 2 paths" in text
    assert "4 days in all, one every 1 in the median (1 to 2); from 0 to 11" in text
    assert "v (m): 1 to 5, median 3" in text
    assert "steps between observations are few" in text
    assert [line.split()[0] for line in text.splitlines() if line[0] != " "] == [
        *("Data", "Time", "Values", "Remarks", "Next")
    ]
    assert "5 observations of v (m) in 2 paths" in plain(obs._repr_html_())
    assert len(repr(obs)) < 100
    assert "nothing about the data" in str(observed(OrnsteinUhlenbeck(), [0.0]))


def test_the_brackets_of_a_number_under_a_root_were_taken_off_one_side_only():
    for text, plain in (("(0.25 ± 0.01)", "0.25 ± 0.01"), ("(0.6 ± 6.2)e-11", "(0.6 ± 6.2)e-11"), ("0.25", "0.25")):
        assert bare(text) == plain
    small = fimsde.estimate(fimsde.read([2.0, 2.5, 3.0, 1.0], dt=1.0, names=["x"]))
    assert str(small).splitlines()[0].count("(") == str(small).splitlines()[0].count(")")


def test_a_formula_that_describes_a_part_of_the_field_is_called_rough():
    """A noise with a narrow peak is no polynomial of degree two."""
    step = FunctionSDE(1, lambda x: -x, lambda x: 0.3 + 1.5 * np.exp(-((x / 0.1) ** 2)))
    said = fimsde.estimate(observed(step, [0.0], 6000, names=["<b>"]))
    share = said.equation().diffusion_sq_terms.explained[0]
    assert share < 0.9, "another example is needed"
    assert f"a rough formula: it explains {share:.0%} of the variance rate of <b>" in shown(said)["Equation"]
    assert f"it explains {share:.0%} of the variance rate of <b>" in plain(said._repr_html_())
    assert "<b>;" not in said._repr_html_()
    assert "rough" not in shown(fimsde.estimate(observed(OrnsteinUhlenbeck(), [0.0])))["Equation"]


@pytest.mark.parametrize(("columns", "widest"), [("80", 80), ("40", 60), ("200", 100)])
def test_sentences_are_wrapped_to_the_terminal(columns, widest, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    lines = as_text([Line("Found", "a stable equilibrium at some place, and another one; " * 5)]).splitlines()
    assert widest - 15 < max(map(len, lines)) <= widest


def test_an_interval_is_as_coarse_as_the_place_it_belongs_to():
    """An unstable equilibrium at 0 was given the interval 4.01e-05 to 8.24e-05."""
    width = np.array([2.5])
    for low, high, said in ((4.01e-5, 8.24e-5, ""), (-0.01237, 0.2, " (-0.012 to 0.2)"), (np.nan, np.nan, "")):
        assert _range_of_place(Interval(np.array([low]), np.array([high]), 0.9), width) == said


def test_an_equilibrium_that_a_quarter_of_the_posterior_has_was_told_as_found():
    """Three, beside a formula with one: the field is flat, and draws of it cross zero once or three times."""
    flat = FunctionSDE(1, lambda x: 0.02 * x - 0.4 * x**3, lambda x: np.full_like(x, 0.3))
    found = find(fimsde.result(flat, observed(flat, [0.0], num=4000)), parts=BRIEF)
    assert [p.kind for p in found.points] == ["stable node", "unstable node", "stable node"]
    lines = []
    for shares, stable in (((0.26, 0.94, 0.25), 0.75), ((1.0, 1.0, 1.0), 0.0)):
        errors = [
            PointError(share, s, *[Interval(np.array([np.nan]), np.array([np.nan]), 0.9)] * 4)
            for share, s in zip(shares, (1.0, stable, 1.0), strict=True)
        ]
        points = tuple(replace(p, error=e) for p, e in zip(found.points, errors, strict=True))
        lines.append({line.label: line.text for line in answer_of(replace(found, points=points)).lines}["Found"])
    unsure, sure = lines
    assert unsure.startswith("an equilibrium, stable with probability 75%, at x1 = 0")
    assert "perhaps two stable equilibria at x1 = -0.224 and 0.224 (probabilities 26% and 25%)" in unsure
    assert sure.startswith("two stable equilibria at x1 = -0.224 and 0.224, an unstable one at x1 = 0")


def test_equilibria_of_a_formula_that_is_too_simple_are_told_beside_those_of_the_field():
    """The first line said that they are elsewhere than the third."""
    steep = FunctionSDE(1, lambda x: -np.tanh(20 * (x - 0.5)) - 0.2 * x, lambda x: np.full_like(x, 0.5))
    found = find(fimsde.result(steep, observed(steep, [0.5], num=4000)), parts=BRIEF)
    (root,), moved = found.points, np.array([0.1])
    theirs = (replace(root, x=root.x - 10 * moved), replace(root, x=root.x - moved))
    told = {}
    for name, partners, inside in (("same", (1,), False), ("elsewhere", (None,), True)):
        others = (replace(theirs[0], inside=False), replace(theirs[1], inside=True))
        both = Agreement(found.points, others, partners, "")
        assert inside == (not both.is_complete and None in both.partners)
        own = replace(found)
        own.__dict__["agreement"] = both  # a cached property
        told[name] = {line.label: line.text for line in answer_of(own).lines}["Found"]
    assert "by itself" not in told["same"], "a root far from all data is nobody's"
    place = re.search(r"a stable equilibrium at x1 = ([\d.]+)", told["elsewhere"])[1]
    lacks = f"and none at x1 = {place}"
    assert (
        f"the formula by itself has a stable equilibrium at x1 = {float(place) - 0.1:.3f}, {lacks}" in told["elsewhere"]
    )


def test_the_equilibrium_between_two_wells_was_not_told_where_paths_only_pass():
    """Two stable ones on a line have one between them, with or without data; the formula may be a little off."""
    well = FunctionSDE(1, lambda x: x - x**3, lambda x: np.full_like(x, 0.5))
    found = find(fimsde.result(well, observed(well, [0.0], num=4000)), parts=BRIEF)
    assert [p.kind for p in found.points] == ["stable node", "unstable node", "stable node"]
    point = Interval(np.array([np.nan]), np.array([np.nan]), 0.9)
    wide = Interval(np.array([-0.2]), np.array([0.2]), 0.9)
    errors = [PointError(1.0, s, x, *[point] * 3) for s, x in ((1.0, point), (0.0, wide), (1.0, point))]
    own = [replace(p, error=e, inside=p.is_stable) for p, e in zip(found.points, errors, strict=True)]
    said = {}
    for name, place, exists in (("near", 0.1, 1.0), ("far", 0.3, 1.0), ("unsure", 0.1, 0.5)):
        points = tuple(replace(p, error=replace(p.error, probability=exists)) if not p.inside else p for p in own)
        theirs = (own[0], replace(own[1], x=np.array([place]), inside=True), own[2])
        new = replace(found, points=points)
        new.__dict__["agreement"] = Agreement(points, theirs, (0, None, 2), "")
        said[name] = {line.label: line.text for line in answer_of(new).lines}["Found"]
    told = "between them an unstable one at x1 = 0 (-0.2 to 0.2), where no data are"
    assert told in said["near"]
    assert "by itself" not in said["near"]
    assert "the formula by itself has also an unstable equilibrium at x1 = 0.3" in said["far"]
    assert "between" not in said["unsure"], "half of the posterior does not have it"


@pytest.mark.parametrize(("share", "said"), [(0.3, "; perhaps measurement noise 0.1 (0 to"), (0.0, "; measurement")])
def test_measurement_noise_whose_interval_holds_none_was_told_as_found(monkeypatch, share, said):
    well = FunctionSDE(1, lambda x: x - x**3, lambda x: np.full_like(x, 0.5))
    found = find(fimsde.result(well, observed(well, [0.0], num=1500)), parts=BRIEF)
    drawn = np.where(np.arange(200) < 200 * share, 0.0, np.linspace(0.09, 0.11, 200))[:, None]
    monkeypatch.setattr(report_answer, "measurement_noise", lambda result: np.array([0.1]))
    monkeypatch.setattr(report_answer, "_drawn_noise", lambda result: drawn)
    assert said in {line.label: line.text for line in answer_of(found).lines}["Found"]


def with_probabilities(equation, field, shares):
    terms = getattr(equation, field)
    probabilities = np.ones(terms.coefficients.shape)
    for exponents, share in shares.items():
        probabilities[0, terms.exponents.tolist().index(list(exponents))] = share
    return replace(equation, **{field: replace(terms, probabilities=probabilities)})


def test_a_term_that_most_of_the_posterior_has_not_was_told_with_an_interval_alone():
    """dr = 0.05 (3 - r) dt: "(0.0165 ± 0.0041) r^2" stood there without a word of its probability, 29 %."""
    found = find(fimsde.result(DOUBLE_WELL, observed(DOUBLE_WELL, [1.0], num=3000)), parts=BRIEF)

    def told(equation):
        return answer_of(replace(found, equation=equation)).lines[0]

    assert "unsure" not in told(with_probabilities(found.equation, "drift_terms", {(3,): 0.95})).text
    one = with_probabilities(found.equation, "drift_terms", {(3,): 0.29})
    assert "(unsure: x1^3 in the drift, probability 29%; without it others take its place)" in told(one).text
    both = with_probabilities(one, "diffusion_sq_terms", {(2,): 0.41})
    said = "unsure: x1^3 in the drift, probability 29%; x1^2 in the variance rate, 41%; without them others take their"
    assert said in told(both).text
    assert said in plain(told(both).markup)


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.95, r"of constant strength 0.5\S* per √time unit;"),
        (0.75, r"of constant strength 0.5\S* per √time unit, with probability 75%;"),
        (0.02, r"of typical strength 0.5\S* per √time unit, which with probability 98% depends on the state;"),
    ],
)
def test_noise_that_may_depend_on_the_state_was_told_as_constant(monkeypatch, share, said):
    monkeypatch.setattr(report_answer, "probabilities", lambda result: {"diffusion": {"constant": [share]}})
    ou = OrnsteinUhlenbeck(theta=1.0, sigma=0.5)
    assert re.search(said, shown(fimsde.result(ou, observed(ou, [0.0], num=3000)))["Found"])


def market(rests, weeks=60, two=False):
    """A random walk of the days of work; a weekend counts as one step if it rests, else as three."""
    days = np.flatnonzero(np.arange(7 * weeks) % 7 < 5).astype(float)
    size = np.ones(len(days) - 1) if rests else np.sqrt(np.diff(days))
    walk = np.append(0.0, np.cumsum(size * np.random.default_rng(3).standard_normal(len(days) - 1)))
    paths = ([walk, walk[::-1]], [days, days]) if two else (walk, days)
    return fimsde.read(paths[0], times=paths[1], time_unit="D", names=["close"])


@pytest.mark.parametrize("two", [False, True])
def test_days_without_trading_were_taken_for_measurement_noise(two):
    """The state rests at weekends: with the dates as time, steps of three days are as small as those of one."""
    assert "across them the state moves 1" in resting(market(rests=True, two=two))
    assert resting(market(rests=False, two=two)) == "", "the time runs on, as for temperatures read on days of work"
    assert resting(market(rests=True, weeks=10)) == "", "too few weekends to know"
    obs = market(rests=True)
    assert resting(replace(obs, time_unit="h")) == ""
    result = fimsde.result(OrnsteinUhlenbeck(theta=0.01, sigma=1.0), obs)
    assert shown(result)["Next"].startswith("Count days of trading")
    every_day = fimsde.read(obs.values, dt=1.0, time_unit="D")
    assert resting(every_day) == ""


def wells(*levels, num=400):
    """Paths that stay near -1 or 1 in turn, without a place between."""
    rng = np.random.default_rng(5)
    return np.concatenate([level + 0.05 * rng.standard_normal(num) for level in levels])


@pytest.mark.parametrize(
    ("levels", "times"), [([(-1, 1)], 1), ([(-1, 1, -1)], 2), ([(-1, 0, -1, 0, 1)], 1), ([(-1,), (1,)], 0)]
)
def test_a_level_that_moved_once_was_two_wells_without_a_word(levels, times):
    paths = [wells(*own) for own in levels]
    obs = fimsde.read(paths, times=[0.02 * np.arange(len(own)) for own in paths])
    found = find(fimsde.result(DOUBLE_WELL, obs), parts=("data", "fixed points"))
    assert went_over(found) == times
    fine = Checks(())
    said = answer_of(replace(found, checks=fine)).lines[-1].text
    assert said.startswith("Record until paths go over again") == (times == 1)


def test_readings_far_apart_were_to_be_given_to_another_method():
    """The prediction is bad because they are: the first advice was "take another method"."""
    found = find(fimsde.result(DOUBLE_WELL, observed(DOUBLE_WELL, [1.0])), parts=BRIEF)
    bad = Verdict("prediction", "bad", 0.04, "a linear equation predicts better.", "Take another method.")
    far = Verdict("sampling interval", "caution", 0.9, "little is known after a gap.", "Observe more often.")
    for interval, said in (
        (far, "average a few neighbouring readings"),
        (replace(far, status="good"), "another method."),
    ):
        checks = Checks((bad, replace(interval, because="prediction")))
        assert said in answer_of(replace(found, checks=checks)).lines[-1].text


def test_a_relaxation_time_outside_its_interval_was_told():
    """The average of what is possible was nearly flat at the equilibrium: 104 years, "2.63 to 36.9"."""
    ou = OrnsteinUhlenbeck(theta=1.0, sigma=0.5)
    found = find(fimsde.estimate(observed(ou, [0.0], num=3000)), parts=BRIEF)
    (point,) = found.points
    times = point.error.relaxation_time
    flat = replace(point, eigenvalues=point.eigenvalues / 1000)
    said = {line.label: line.text for line in answer_of(replace(found, points=(flat,))).lines}
    ends = interval_in_words(times).strip(" ()").replace(" to ", " and ")
    assert f"relaxation time between {ends} time units" in said["Found"]
    assert relaxation_time((flat,)) == float(times.high)
    assert f"({found.health.span / float(times.high):.2g} relaxation times)" in said["Data"]


def test_the_ends_of_a_narrow_interval_were_the_same_number():
    assert interval_in_words(Interval(1.0121, 1.0144, 0.9, 1.0)) == " (1.012 to 1.014)"
    assert interval_in_words(Interval(1.0, 1.0, 0.9, 1.0)) == " (1 to 1)"
    assert interval_in_words(Interval(0.95, 1.02, 0.9, 1.0)) == " (0.95 to 1.02)"


def test_the_second_wing_of_a_chaotic_system_was_not_there():
    """Paths seldom come near the equilibria that they turn around: one was told, and the other was not."""
    found = find(fimsde.result(DAMPED_LINEAR, observed(DAMPED_LINEAR, [2.5, -5.0])), parts=BRIEF)
    (point,) = found.points
    other = replace(point, x=point.x + 1, inside=False)
    for points, said in (
        ((point,), "= (0, 0);"),
        ((point, other), "= (0, 0) (and one more where no data are nearby);"),
    ):
        assert said in answer_of(replace(found, points=points)).lines[2].text
