"""Results on disk: a folder with result.json, observations.safetensors and, for an estimate, the weights of its model.

Nothing that can carry code is written or read. Loading estimates again from the same data with the same weights or
method, which gives the same answers, on the same machine bit for bit; what the answers were is kept and compared.
"""

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors
import safetensors.numpy

from fimsde._version import __version__
from fimsde.data.observations import Observations, read
from fimsde.equations.sde import CorrelatedSDE
from fimsde.errors import CheckpointError, DataWarning, InvalidObservationsError
from fimsde.evidence.estimate import PosteriorSDE
from fimsde.files.outputs import write_folder
from fimsde.filter.correlation import EstimatedCorrelation
from fimsde.model.untrusted import TensorInfo, read_header, read_json
from fimsde.results.make import estimate, fit
from fimsde.results.result import Result
from fimsde.shapes import Array, Float64

if TYPE_CHECKING:  # needs torch, as all that reads or writes weights
    from fimsde.model.fim import FIMSDE

FORMAT_VERSION = 1  # a count: raised when versions before could not read what is written
RESULT, OBSERVATIONS = "result.json", "observations.safetensors"
_MOST_DRAWS = 10_000  # number of a draw in a file; by hand: all before it are made as well
_PROBES = 16  # states at which the answers are remembered; by hand: enough to notice another model, few to store
# of the size of the fields: other processors and libraries round differently, and a change of the model shows; by hand
_SAME = 1e-3


def save(result: Result, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write a result into a new folder; it appears under its name only when it is complete."""
    observations = result.observations
    if observations is None:
        raise CheckpointError(
            f"this result ({result.method}) has no observations, so it cannot be made again. {_ADVICE}"
        )
    record: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "fimsde": __version__,
        "method": result.method,
        "names": list(result.names),
        "time_unit": result.time_unit,
    }
    files: dict[str, bytes] = {}
    made = result if result.draw is None else result.draw.of
    assert isinstance(made, Result), "results are drawn from results"
    files |= _describe(made, record)
    if result.draw is not None:
        record |= {"draw": [result.draw.method, result.draw.seed, result.draw.index]}
    if isinstance(made.sde, CorrelatedSDE):
        found = isinstance(made.sde, EstimatedCorrelation)  # and will be found again
        record |= {"correlation_found" if found else "correlation": made.sde.rho.tolist()}
    x = _probes(observations)
    drift, diffusion = result.fields(x)
    files[OBSERVATIONS] = safetensors.numpy.save(
        {
            "values": np.ascontiguousarray(observations.values),
            "times": np.ascontiguousarray(observations.times),
            "path_starts": np.ascontiguousarray(observations.path_starts, np.int64),
            "answers": np.ascontiguousarray(np.stack([drift, diffusion])),  # safetensors writes memory as it lies
        }
    )
    files[RESULT] = (json.dumps(record, indent=2, allow_nan=False) + "\n").encode()
    write_folder(Path(folder), files, overwrite=overwrite)


def _describe(result: Result, record: dict[str, Any]) -> dict[str, bytes]:
    """Put down how the result is made again; returns the files that this takes."""
    sde = result.fitted
    if isinstance(sde, PosteriorSDE):
        origin = sde.settings.origin
        record |= {"kind": "evidence", "origin": list(origin) if isinstance(origin, tuple) else origin}
        return {}
    from fimsde.estimation import EstimatedSDE  # needs torch

    if isinstance(sde, EstimatedSDE):
        record |= {"kind": "estimate", "origin": None if sde.origin is None else sde.origin.tolist()}
        return _weights(sde.model)
    if result.recipe is None:
        raise CheckpointError(f"this result ({result.method}) was not made by name. {_ADVICE}")
    record |= {"kind": "baseline", "recipe": list(result.recipe)}
    return {}


_ADVICE = (
    "Results of fimsde.estimate and fimsde.fit can be saved; of any other equation save the formula, "
    "result.equation().code()."
)


def load(folder: str | Path, *, device: str = "cpu") -> Result:
    """Read a result written by `save`.

    Args:
        folder: The folder.
        device: Where the model of an estimate is to run.
    """
    folder = Path(folder)
    record = read_json(folder / RESULT)
    number = record.get("format_version")
    if number != FORMAT_VERSION:
        raise CheckpointError(
            f"{folder / RESULT} has format {number!r}, this fimsde reads {FORMAT_VERSION}. Install a newer fimsde, or "
            "estimate again."
        )
    observations, answers = _read_observations(folder, record)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # said when the result was made
        result = _made_again(folder, record, observations, device)
        rho = _to_correlation(folder, record, observations.dim)
        if "correlation" in record:
            result = result.with_correlation(rho)
        same_noise = bool(np.all(np.abs(result.correlation(observations.values[:1])[0] - rho) <= _SAME))
        if "draw" in record:
            result = _drawn_again(folder, record, result)
    _compare(result, answers, same_noise=same_noise)
    return result


def _weights(model: "FIMSDE") -> dict[str, bytes]:
    """The files of a folder of weights that `FIMSDE.from_pretrained` reads."""
    import safetensors.torch
    import torch

    from fimsde.model.weights import CONFIG, TENSORS, config_text

    wrong = [name for name, tensor in model.state_dict().items() if tensor.dtype != torch.float32]
    if wrong:
        raise CheckpointError(f"weights are saved in float32, but {wrong[0]} is not. Convert the model: model.float().")
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    return {CONFIG: config_text(model.config).encode(), TENSORS: safetensors.torch.save(tensors, {"format": "pt"})}


def _made_again(folder: Path, record: dict[str, Any], observations: Observations, device: str) -> Result:
    match record:
        case {"kind": "evidence", "origin": None | "auto" as origin}:
            return estimate(observations, origin=origin)
        case {"kind": "evidence", "origin": [*origin]} if all(isinstance(o, float | int) for o in origin):
            return estimate(observations, origin=origin)
        case {"kind": "estimate", "origin": None}:
            return estimate(observations, _model(folder, device), origin=None)
        case {"kind": "estimate", "origin": [*origin]} if all(isinstance(o, float | int) for o in origin):
            return estimate(observations, _model(folder, device), origin=origin)
        case {"kind": "baseline", "recipe": [str(method), int(seed)]}:
            return fit(observations, method, seed=seed)
        case _:
            raise CheckpointError(f"{folder / RESULT} describes no result that this fimsde knows. Estimate again.")


def _drawn_again(folder: Path, record: dict[str, Any], result: Result) -> Result:
    match record["draw"]:
        case ["posterior" | "bootstrap" as method, int(seed), int(i)] if seed >= 0 and 0 <= i < _MOST_DRAWS:
            return result.posterior(i + 1, seed, method=method)[i]
        case _:
            raise CheckpointError(f"{folder / RESULT} describes no draw that this fimsde knows. Estimate again.")


def _model(folder: Path, device: str) -> "FIMSDE":
    from fimsde.model.fim import FIMSDE  # needs torch

    return FIMSDE.from_pretrained(folder).to(device)


def _to_correlation(folder: Path, record: dict[str, Any], dim: int) -> Float64[Array, "dim dim"]:
    """That of the noise: as it was set, or as it was found, or none."""
    rows = record.get("correlation", record.get("correlation_found", np.eye(dim).tolist()))
    try:
        rho = np.array(rows, np.float64)
    except (TypeError, ValueError):
        rho = np.empty(0)
    if rho.shape != (dim, dim):
        raise CheckpointError(f"{folder / RESULT} has no {dim} x {dim} numbers as correlation. Estimate again.")
    return rho


def _read_observations(folder: Path, record: dict[str, Any]) -> tuple[Observations, Float64[Array, "2 probes dim"]]:
    file = folder / OBSERVATIONS
    match record:
        case {"names": [*names], "time_unit": None | str() as time_unit} if all(isinstance(n, str) for n in names):
            pass
        case _:
            raise CheckpointError(f"{folder / RESULT} has no list of names, or no unit of time. Estimate again.")
    _check_header(file, read_header(file), len(names))
    try:
        arrays = safetensors.numpy.load_file(file)
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}. Estimate again.") from error
    values, times, starts = arrays["values"], arrays["times"], arrays["path_starts"]
    if starts[0] != 0 or starts[-1] != len(values) or np.any(np.diff(starts) <= 0):
        raise CheckpointError(f"{file}: the paths do not cover the {len(values)} observations. Estimate again.")
    cuts = starts[1:-1]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            paths, grids = np.split(values, cuts), np.split(times, cuts)
            observations = read(paths, times=grids, names=names, time_unit=time_unit)
    except InvalidObservationsError as error:
        raise CheckpointError(f"{file} holds observations that cannot be used: {error}") from error
    return observations, arrays["answers"]


def _check_header(file: Path, found: dict[str, TensorInfo], dim: int) -> None:
    """Names, types and shapes, before any number is read."""
    match found:
        case {
            "values": TensorInfo("F64", (points, columns)),
            "times": TensorInfo("F64", (rows,)),
            "path_starts": TensorInfo("I64", (ends,)),
            "answers": TensorInfo("F64", (2, _, width)),
        } if len(found) == 4 and points == rows > 0 and columns == width == dim and ends >= 2:
            return
    raise CheckpointError(f"{file} does not hold observations of {dim} component(s) as it should. Estimate again.")


def _probes(observations: Observations) -> Float64[Array, "probes dim"]:
    return observations.values[:: max(1, observations.num_points // _PROBES)][:_PROBES]


def _compare(result: Result, answers: Float64[Array, "2 probes dim"], *, same_noise: bool) -> None:
    assert result.observations is not None, "it was loaded with them"
    now = np.stack(result.fields(_probes(result.observations)))
    largest = np.maximum(np.abs(answers).max(axis=1, keepdims=True, initial=0.0), np.finfo(np.float64).tiny)
    size = largest * np.sqrt(np.mean((answers / largest) ** 2, axis=1, keepdims=True))  # squares of 1e200 overflow
    same = now.shape == answers.shape and np.all((np.abs(now - answers) <= _SAME * size) | np.isnan(answers))
    if not (same and same_noise):
        warnings.warn(
            "the answers of this result differ from those it had when it was saved: another version of fimsde or of a "
            "library made it. Estimate again to be sure.",
            DataWarning,
            stacklevel=3,
        )
