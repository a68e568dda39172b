"""Verdicts on an equation and its data, each with a number, a sentence and the next step.

All of them look at the innovations of a filter that knows the measurement noise, so that noisy data do not speak
against a right equation. A verdict that is a test leaves "good" with a probability of at most 0.1 % if the equation is
right; sizes keep long records from failing for trifles. Verdicts on the class compare the equation with a wider one.
"""

from collections.abc import Callable, Sequence
from functools import partial

from fimsde.analysis.diagnosis import correlated, data, fit, order, paths, predictive, season, tails, time
from fimsde.analysis.diagnosis.case import Inside, make_case
from fimsde.analysis.diagnosis.causes import folded
from fimsde.analysis.diagnosis.verdict import FALSE_ALARM, Checks, Status, Verdict
from fimsde.analysis.draws import Draws
from fimsde.analysis.residuals import residuals
from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE
from fimsde.errors import ConfigError
from fimsde.filter.kalman import tabulated
from fimsde.shapes import Array, Float64

__all__ = ["FALSE_ALARM", "NUM_STEPS", "Checks", "Status", "Verdict", "check"]

FEWEST = 20  # transitions that can be checked; by hand
NUM_STEPS = 6  # how often `progress` is called


def check(
    sde: SDE,
    observations: Observations,
    inside: Inside,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
    *,
    noise_std: Float64[Array, " dim"] | None = None,
    draws: Callable[[], Draws] | None = None,
) -> Checks:
    """Look at the data, at the class of equations and at the fit.

    Args:
        sde: The equation.
        observations: The data.
        inside: Whether data support locations.
        seed: Of the simulations behind verdicts.
        progress: Called with a few words after every part, `NUM_STEPS` times.
        noise_std: Standard deviation of the measurement noise, if the method that gave the equation knows it; fitted
            otherwise.
        draws: Gives equations drawn from the posterior, for the simulations that decide whether data are like these.
    """
    if observations.num_transitions < FEWEST:
        raise ConfigError(
            f"{observations.num_transitions} transitions are too few to check anything; at least {FEWEST} are needed."
        )
    tell = progress or (lambda label: None)
    table = tabulated(sde, observations, often=True)
    case = make_case(table, observations, inside, seed, noise_std, draws)
    wrong = data.wrong_readings(case)
    if len(wrong):
        case = make_case(table, data.without(observations, wrong), inside, seed, noise_std, draws)
    tell("innovations")
    r = residuals(case.found)
    about_data = (
        data.amount(observations),
        data.measurement_noise(case),
        data.sampling_interval(case),
        data.resolution(case),
        data.outliers(observations, wrong),
    )
    tell("data")
    remembered, large = order.find_memory(case, r), tails.find_tails(case, r)
    about_class = (
        correlated.correlated_noise(case),
        order.second_order(case, remembered),
        order.memory_verdict(case, remembered),
        *(about_steps := tails.verdicts(case, large)),
    )
    tell("memory and tails")
    rhythm = season.find_season(case)
    about_time = (
        season.season(case, rhythm),
        time.trend(case, rhythm),
        time.regime(case, partial(tails.remembers, case, r), _smallest(about_steps)),
        paths.paths_alike(case),
    )
    tell("time and paths")
    about_fit = (
        fit.prediction(case),
        fit.whiteness(case, r, remembered),
        fit.normality(case, large),
        fit.variance(case),
    )
    tell("fit")
    reasons = [v for v in (*about_data, *about_class, *about_time) if v.status == "bad"]
    simulated = (predictive.simulated_like_observed(case, explained=bool(reasons)), predictive.extrapolation(case))
    tell("simulations")
    return Checks(folded((*about_data, *about_class, *about_time, *about_fit, *simulated)))


def _smallest(verdicts: Sequence[Verdict]) -> float:
    """The smallest p-value of those that are not good."""
    return min((v.p_value or 0.0 for v in verdicts if v.status != "good"), default=1.0)
