"""The ways to a result: from the recognition model, from a baseline, from any equation, from a finetuned model."""

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fimsde.data.observations import Observations, read
from fimsde.equations.sde import SDE
from fimsde.errors import ConfigError
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


def estimate(
    observations: Any,
    model: "FIMSDE | str | Path | None" = None,
    *,
    origin: Float[Array, " dim"] | Sequence[float] | None = None,
) -> Result:
    """Estimate the stochastic differential equation behind the observations.

    Args:
        observations: What `fimsde.read` returns, or a table or the name of a file, which it reads without options.
        model: A model, or the folder of its weights; by default the weights that come with the package.
        origin: A state around which you expect the equation to have few terms (an equilibrium, a centre of symmetry),
            in the units of the data. Primed models use it; without it the place is averaged over.

    Returns:
        The equation in the units of the data, per unit of their time; `.sde` is the `EstimatedSDE`.
    """
    from fimsde import estimation  # needs torch

    data = read(observations)
    return of_estimate(estimation.estimate_sde(data, model, origin=origin), data)


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
    sde = found.fit(observations, seed)
    names, unit = observations.names, observations.time_unit
    return Result(sde, names, unit, observations, found.title, found.fit, recipe=(method, seed))


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
