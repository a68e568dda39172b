"""The estimators under one interface: from observations to an equation, or to a sampler of paths."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import gcd
from pathlib import Path
from typing import Protocol, runtime_checkable

from fimsde._version import __version__
from fimsde.baselines import (
    bisde,
    gp_increments,
    gp_weak,
    kramers_moyal,
    latent_sde,
    peers_pysindy,
    peers_sfi,
    sparse_cubic,
    sparse_gp,
)
from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE
from fimsde.errors import ConfigError
from fimsde.estimation import BUNDLED, estimate_sde
from fimsde.evidence import estimate as evidence
from fimsde.files.growing import begun
from fimsde.files.identities import SHORT, file_hash, sha256
from fimsde.model.fim import FIMSDE
from fimsde.model.weights import TENSORS, find_folder
from fimsde.simulate import Paths
from fimsde.train.checkpoint import steps
from fimsde.train.finetune.config import FinetuneConfig, stored_name
from fimsde.train.finetune.run import finetune
from fimsde.train.run_folder import CHECKPOINTS

NAMES = (
    "kramers-moyal",
    "kramers-moyal-binned",
    "kramers-moyal-linear",
    "sparse-cubic",
    "gp-increments",
    "gp-weak",
    "bisde",
    "bisde-scaled",
    "sparsegp",
    "sparsegp-improved",
    "latentsde",
    "pysindy",
    "sfi-linear",
    "sfi-parametric",
    "ours",
    "ours-origin",
    "ours-finetuned",
    "evidence",
    "evidence-unknown-origin",
)
ALIASES = {  # names for users, and those under which results are stored
    "fimsde": "evidence",
    "fimsde-unknown-origin": "evidence-unknown-origin",
    "bundled": "ours",
    "bundled-origin": "ours-origin",
    "bundled-finetuned": "ours-finetuned",
}
TITLES = {  # of the estimators of this package; results stored under other titles are shown under these
    "evidence": "fimsde",
    "evidence-unknown-origin": "fimsde, unknown origin",
    "ours": "fimsde, bundled model",
    "ours-origin": "fimsde, bundled model, known origin",
}

_LINEAR = kramers_moyal.PolynomialSettings(drift_degree=1, diffusion_degree=0)  # linear drift, constant diffusion


@runtime_checkable
class PathSampler(Protocol):
    """What a method that has no drift and diffusion returns."""

    def sample(self, reference: Observations, seed: int) -> Paths:
        """One path for every reference path, on its grid."""


@dataclass(frozen=True)
class Method:
    """A way to estimate an equation.

    Attributes:
        name: Short name, part of result files: letters, digits and dashes.
        title: Name in tables.
        fit: From observations and a seed to an equation.
        settings: A description of the settings; results with other settings are kept apart.
        at: The same method after a number of iterations, for those that train.
    """

    name: str
    title: str
    fit: Callable[[Observations, int], SDE]
    settings: str = ""
    at: Callable[[int], "Method"] | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)


@dataclass(frozen=True)
class PathMethod:
    """A way to learn from paths on one grid how to sample such paths; fields as in `Method`."""

    name: str
    title: str
    fit: Callable[[Observations, int], PathSampler]
    settings: str = ""
    at: Callable[[int], "PathMethod"] | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)


AnyMethod = Method | PathMethod


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ConfigError(f"method name {name!r}: expected letters, digits, dots and dashes; it names files.")


def named(
    names: Sequence[str],
    *,
    real_series: bool = False,
    weights: Sequence[str | Path] = (),
    work: Path | None = None,
) -> list[AnyMethod]:
    """The methods of the package by name, then one method for every folder of weights.

    Args:
        names: Some of `NAMES` or `ALIASES`; "fim" stands for the folders of weights.
        real_series: BISDE then takes a negative g for 0: in one fold its g is negative wherever there are data, and the
            paper reports no failure there.
        weights: Folders of FIM-SDE weights.
        work: Where LatentSDE and finetuning keep their training state, so that more iterations continue from fewer.
    """
    if "fim" in names and not weights:
        raise ConfigError("method fim needs weights; pass their folder (--weights DIR).")
    known = [ALIASES.get(name, name) for name in names if name != "fim"]
    found: list[AnyMethod] = [_named(name, real_series, work) for name in known]
    return found + [fim(folder) for folder in weights]


def find_method(name: str) -> Method:
    """A method that gives drift and diffusion, by name."""
    method = named([name])[0]
    if not isinstance(method, Method):
        raise ConfigError(f"{name} samples paths and gives neither drift nor diffusion. Choose another method.")
    return method


def _named(name: str, real_series: bool, work: Path | None) -> AnyMethod:
    match name:
        case "kramers-moyal":
            return _function(name, "Kramers-Moyal", kramers_moyal.fit, kramers_moyal.POLYNOMIAL)
        case "kramers-moyal-binned":
            return _function(name, "Kramers-Moyal, binned", kramers_moyal.fit, kramers_moyal.BINNED)
        case "kramers-moyal-linear":
            return _function(name, "Kramers-Moyal, linear", kramers_moyal.fit, _LINEAR)
        case "sparse-cubic":
            return _function(name, "Sparse cubic", sparse_cubic.fit, sparse_cubic.DEFAULT)
        case "gp-increments":
            return _function(name, "Gaussian process on increments", gp_increments.fit, gp_increments.DEFAULT)
        case "gp-weak":
            return _function(name, "Gaussian process, weak form", gp_weak.fit, gp_weak.DEFAULT)
        case "bisde":
            return _function(name, "BISDE", bisde.fit, replace(bisde.PAPER, clip=real_series))
        case "bisde-scaled":
            return _function(name, "BISDE, scaled", bisde.fit, replace(bisde.SCALED, clip=real_series))
        case "sparsegp":
            return _function(name, "SparseGP", sparse_gp.fit, sparse_gp.PAPER)
        case "sparsegp-improved":
            return _function(name, "SparseGP, improved", sparse_gp.fit, sparse_gp.IMPROVED)
        case "latentsde":
            return latent(latent_sde.PAPER, work=work)
        case "pysindy":
            return _function(name, "PySINDy", peers_pysindy.fit, peers_pysindy.STLSQ)
        case "sfi-linear":
            return sfi(peers_sfi.LINEAR)
        case "sfi-parametric":
            return sfi(peers_sfi.PARAMETRIC)
        case "ours":
            return replace(fim(BUNDLED), name=name, title=TITLES[name])
        case "ours-origin":
            informed = partial(_estimate, str(BUNDLED), origin_known=True)
            return replace(fim(BUNDLED), name=name, title=TITLES[name], fit=informed)
        case "evidence":
            return _function(name, TITLES[name], evidence.fit, evidence.AUTO)
        case "evidence-unknown-origin":
            return _function(name, TITLES[name], evidence.fit, evidence.STRICT)
        case "ours-finetuned":
            return finetuned(FinetuneConfig(), work=work)
        case _:
            raise ConfigError(f"unknown method {name!r}; choose from {', '.join((*ALIASES, *NAMES))}, fim.")


def _function(name: str, title: str, fit: Callable, settings: object) -> Method:
    return Method(name, title, partial(_fit, fit, settings), repr(settings))


def _fit(fit: Callable, settings: object, observations: Observations, seed: int) -> SDE:
    return fit(observations, settings, seed)


def sfi(settings: peers_sfi.SFISettings) -> Method:
    """Stochastic Force Inference with settings of one's own."""
    return _function(f"sfi-{settings.estimator}", f"SFI, {settings.estimator}", peers_sfi.fit, settings)


def fim(folder: str | Path) -> Method:
    """The recognition model with the weights in a folder, zero-shot."""
    folder = find_folder(folder)
    digest = file_hash(folder / TENSORS)[:SHORT]
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", folder.absolute().name).strip("-.") or "weights"
    return Method(f"fim-{name}", f"FIM-SDE, {name}", partial(_estimate, str(folder)), f"weights {digest}")


def _estimate(folder: str, observations: Observations, seed: int, *, origin_known: bool = False) -> SDE:
    """Nothing is random, so the seed has no use. Dictionaries of monomials, too, know that zero is special."""
    return estimate_sde(observations, _model(folder), origin=[0.0] * observations.dim if origin_known else None)


def finetuned(config: FinetuneConfig, *, until: int | None = None, work: Path | None = None) -> Method:
    """The bundled weights, finetuned on the observations; `until` some of the iterations, `work` as in `named`."""
    digest = file_hash(BUNDLED / TENSORS)[:SHORT]
    until = config.iterations if until is None else until
    return Method(
        "ours-finetuned",
        "fimsde, finetuned",
        partial(fit_finetuned, BUNDLED, config, until, work),
        f"weights {digest}, {stored_name(config)}, {until} iterations",
        partial(_finetuned_at, config, work),
    )


def _finetuned_at(config: FinetuneConfig, work: Path | None, iterations: int) -> Method:
    longer = replace(
        config,
        iterations=max(iterations, config.iterations),
        validation_interval=gcd(config.validation_interval, iterations),  # runs end where they are judged
    )
    return finetuned(longer, until=iterations, work=work)


def fit_finetuned(
    weights: Path, config: FinetuneConfig, until: int, work: Path | None, observations: Observations, seed: int
) -> SDE:
    """The best equation in the first `until` iterations of finetuning.

    Args:
        weights: Folder of the model.
        config: How the whole run is planned.
        until: Iterations of it that are done.
        work: Where runs are kept, one folder for each number of iterations; None: nowhere.
        observations: The data.
        seed: Of the run.
    """
    config = replace(config, seed=seed % 2**32)
    if not until:
        return finetune(weights, observations, replace(config, iterations=0)).sde
    if work is None:
        return finetune(weights, observations, config, until=until).sde
    data = (observations.values, observations.times, observations.path_starts)
    run = sha256(f"({stored_name(config)}, {__version__!r})", (weights / TENSORS).read_bytes(), *data)
    out = begun(work, f"finetuned-{run[:SHORT]}", until)
    return finetune(weights, observations, config, out=out, resume=bool(steps(out / CHECKPOINTS)), until=until).sde


@lru_cache(maxsize=1)
def _model(folder: str) -> FIMSDE:
    return FIMSDE.from_pretrained(folder)


def latent(settings: latent_sde.LatentSDESettings, *, work: Path | None = None) -> PathMethod:
    """LatentSDE; `work` as in `named`."""

    return PathMethod(
        "latentsde", "LatentSDE", partial(_train, settings, work), repr(settings), partial(_latent_at, settings, work)
    )


def _latent_at(settings: latent_sde.LatentSDESettings, work: Path | None, iterations: int) -> PathMethod:
    return latent(replace(settings, iterations=iterations), work=work)


def _train(
    settings: latent_sde.LatentSDESettings, work: Path | None, paths: Observations, seed: int
) -> latent_sde.FittedLatentSDE:
    if work is None:
        return latent_sde.fit(paths, settings, seed)
    run = sha256(repr((replace(settings, iterations=1), seed)), paths.values, paths.times)
    file = begun(work, f"latentsde-{run[:SHORT]}", settings.iterations, ".safetensors")
    return latent_sde.fit(paths, settings, seed, checkpoint=file)
