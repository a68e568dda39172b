"""The ways to a result: by evidence, from a recognition model, from a baseline, from any equation, by finetuning."""

import warnings
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from fimsde.data.observations import Observations, Reading, read
from fimsde.equations.sde import SDE
from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.evidence import estimate as evidence
from fimsde.evidence.estimate import PosteriorSDE, Settings
from fimsde.evidence.infer import MOST_COMPONENTS
from fimsde.results.correlated import carrying_correlation, estimated_again
from fimsde.results.result import Refit, Result
from fimsde.shapes import Array, Float

if TYPE_CHECKING:  # these need torch
    from fimsde.estimation import EstimatedSDE
    from fimsde.model.fim import FIMSDE
    from fimsde.train.finetune.config import FinetuneConfig
    from fimsde.train.finetune.result import Finetuned
    from fimsde.train.loop import RunOptions


def result(
    sde: SDE,
    observations: Observations | None = None,
    *,
    names: Sequence[str] | None = None,
    method: str = "given equation",
    refit: Refit | None = None,
) -> Result:
    """Any equation as a result with all analyses.

    Args:
        sde: The equation.
        observations: The data it was fitted to, or is to be compared with.
        names: One name per component; by default those of the observations, or x1, x2, ...
        method: How the equation was obtained, for labels.
        refit: How to fit it to other data, for bands: from observations and a seed to an equation.
    """
    if observations is not None and observations.dim != sde.dim:
        raise ConfigError(f"the equation has {sde.dim} components, the observations {observations.dim}.")
    if names is None:
        names = observations.names if observations is not None else [f"x{j + 1}" for j in range(sde.dim)]
    if len(names) != sde.dim:
        raise ConfigError(f"{len(names)} names given for {sde.dim} components. Pass one name per component.")
    time_unit = None if observations is None else observations.time_unit
    return Result(sde, tuple(names), time_unit, observations, method, refit)


WEIGHTS = "bundled"  # name of the recognition model that comes with the package


def estimate(
    observations: Any,
    model: "FIMSDE | str | Path | None" = None,
    *,
    origin: Float[Array, " dim"] | Sequence[float] | Literal["auto"] | None = "auto",
    **reading: Unpack[Reading],
) -> Result:
    """Estimate the stochastic differential equation behind the observations.

    By default hypotheses about drift and diffusion are weighed by their evidence; a recognition model, which read its
    answers from random equations, is used if you name one.

    Args:
        observations: What `fimsde.read` returns, or a table, arrays or the name of a file, which it reads.
        model: None: no model, but evidence. "bundled": the recognition model that comes with the package; else a model,
            or the folder of its weights.
        origin: A state around which you expect the equation to have few terms (an equilibrium, a centre of symmetry),
            in the units of the data. None: nobody knows where, and a shift of the data changes nothing. "auto": perhaps
            the zero of your scale. Of recognition models only primed ones use a state, and "auto" is None.
        reading: Options of `fimsde.read`, such as time="t", values=["x", "y"], path="id", dt=0.1 or missing="drop".

    Returns:
        The equation in the units of the data, per unit of their time; `.fitted` is a `PosteriorSDE`, or the
        `EstimatedSDE` of a model. `.sde` is the same, or an `EstimatedCorrelation` around it where the data show that
        the noise of components is correlated.
    """
    data = _read(observations, reading)
    if model is None:
        _check_size(data)
        return of_evidence(evidence.fit(data, Settings(_to_origin(origin))), data)
    from fimsde import estimation  # needs torch

    chosen = None if model == WEIGHTS else model
    place = None if isinstance(origin, str) else origin
    return of_estimate(estimation.estimate_sde(data, chosen, origin=place), data)


def _read(source: Any, reading: Reading) -> Observations:
    """What a table holds; what is said about it points at the line that called `estimate`, not at one of this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = read(source, **reading)
    for said in caught:
        warnings.warn(said.message, said.category, stacklevel=3)
    return data


def _check_size(data: Observations) -> None:
    if data.dim > MOST_COMPONENTS:
        raise InvalidObservationsError(
            f"the state has {data.dim} components; at most {MOST_COMPONENTS} are estimated together. Name some of them "
            "(values=). If the columns are paths of one quantity, read them as paths (layout='wide', with time=)."
        )


def _to_origin(
    origin: Float[Array, " dim"] | Sequence[float] | str | None,
) -> tuple[float, ...] | Literal["auto"] | None:
    if origin is None or isinstance(origin, str):
        if origin not in (None, "auto"):
            raise ConfigError(f'the origin is {origin!r}; expected "auto", None, or one number per component.')
        return None if origin is None else "auto"
    return tuple(float(number) for number in origin)


def of_evidence(sde: PosteriorSDE, observations: Observations) -> Result:
    """What evidence says, with the data that it is about; with a correlation of the noise where they show one."""
    names, unit = observations.names, observations.time_unit
    whole = carrying_correlation(sde, observations)
    return Result(whole, names, unit, observations, evidence.METHOD, partial(estimated_again, sde))


def of_estimate(sde: "EstimatedSDE", observations: Observations) -> Result:
    """An estimate with the data that it was made of."""
    from fimsde import estimation  # needs torch

    names, unit = observations.names, observations.time_unit
    return Result(sde, names, unit, observations, estimation.METHOD, partial(estimation.estimate_again, sde))


def fit(observations: Observations, method: str, *, seed: int = 0) -> Result:
    """Estimate the equation behind the observations by one of the baselines.

    Args:
        observations: What `fimsde.read` returns.
        method: For instance "kramers-moyal", "bisde-scaled" or "sparsegp-improved"; `fimsde.methods.NAMES` has all of
            them.
        seed: Of methods that draw random numbers.
    """
    from fimsde.methods import find_method  # needs torch

    found = find_method(method)
    fitted = found.fit(observations, seed)
    sde, again = fitted, found.fit
    if isinstance(fitted, PosteriorSDE):
        sde, again = carrying_correlation(fitted, observations), partial(estimated_again, fitted)
    names, unit = observations.names, observations.time_unit
    return Result(sde, names, unit, observations, found.title, again, recipe=(method, seed))


def finetune(
    model: "FIMSDE | str | Path | None",
    observations: Observations,
    config: "FinetuneConfig | None" = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    until: int | None = None,
    options: "RunOptions | None" = None,
) -> "Finetuned[Result]":
    """Adapt a model to observations; its estimate of them is `.sde` of what is returned.

    The model that is passed stays as it is. A part of the observations is held out; the weights that predict it best
    are kept. If none predict it better than chance would, by `config.min_z` standard errors, the model is returned as
    it was. Ctrl-C ends training and keeps the best weights so far.

    Args:
        model: A model, or the folder of its weights; None for the weights that come with the package.
        observations: What `fimsde.read` returns.
        config: How; by default 100 iterations of what suits the data.
        out: Folder for weights, curve, log and checkpoints; by default nothing is kept on disk. The same call after a
            kill at any moment gives the same bytes as an undisturbed one.
        resume: Insist on going on with the run in `out`: it is an error if none was begun there.
        until: Stop after so many of the iterations, a multiple of `validation_interval`, as an interrupt would.
        options: Progress bar and TensorBoard.
    """
    from fimsde.train.finetune import run  # needs torch
    from fimsde.train.finetune.result import Finetuned

    found = run.finetune(model, observations, config, out=out, resume=resume, until=until, options=options)
    parts = {part.name: getattr(found, part.name) for part in fields(found)}
    return Finetuned(**parts | {"sde": of_estimate(found.sde, observations)})
