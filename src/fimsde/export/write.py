"""export_model: a model becomes a folder of graphs, each checked against the model before the folder appears."""

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from fimsde._version import __version__
from fimsde.data.normalise import fit_normaliser
from fimsde.data.observations import read
from fimsde.data.transitions import Transitions, to_transitions
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import CheckpointError, ConfigError
from fimsde.estimation import bundled_model
from fimsde.export.graphs import ANSWERS, ENCODED, EncoderGraph, HeadGraph
from fimsde.export.trace import SUFFIX, Arrays, Format, Graph, difference, require_extra, to_program, trace
from fimsde.files.identities import model_hash
from fimsde.files.outputs import check_new, write_folder
from fimsde.model.fim import FIMSDE
from fimsde.simulate import simulate

DESCRIPTION = "export.json"
# of the largest value: sums of float32 in another order, with a wide margin: by hand, a thousand roundings of 1e-7
TOLERANCE = 1e-4
FORMATS: tuple[Format, ...] = get_args(Format)
# observations and locations; by hand: small, and no two lengths alike
_TRACED, _CHECKED = (160, 12), ((90, 1), (301, 37))
_QUERY = "queries"


def export_model(
    model: FIMSDE | str | Path | None,
    out: str | Path,
    *,
    formats: Sequence[str] = FORMATS,
    dims: Sequence[int] | None = None,
    overwrite: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Write encoder and query head of a model as graphs that run without this package; see docs/export.md.

    Every program is run beside the model on data of other lengths than it was traced with; if they differ by more than
    1e-4 of the largest value, nothing is written.

    Args:
        model: A model or the folder of its weights; None for the bundled one.
        out: A new folder; it appears when it is complete.
        formats: "onnx" (needs the extra `export`), "torch" (`torch.export.load` reads it), or both.
        dims: Primed models: the state dimensions to write, each a pair of graphs of its own; default: 1, 2 and 3.
        overwrite: Whether a folder of that name that this package made may be replaced.
        progress: Called with a few words after every file; see `num_files`.
    """
    target = Path(out)
    check_new(target, overwrite=overwrite)
    unknown = [kind for kind in formats if kind not in FORMATS]
    if unknown or not formats:
        raise ConfigError(f"format {', '.join(unknown) or 'missing'}; expected some of {', '.join(FORMATS)}.")
    if "onnx" in formats:
        require_extra()
    model = bundled_model() if model is None else model
    model = model if isinstance(model, FIMSDE) else FIMSDE.from_pretrained(model)
    model = copy.deepcopy(model).float().cpu().eval()
    tell = progress or (lambda label: None)
    files: dict[str, bytes] = {}
    graphs = []
    for dim in dims_of(model, dims):
        for graph, examples in _graphs(model, dim):
            record = {"name": graph.name, "dim": dim, "inputs": _arrays(graph, examples[0]), "outputs": graph.outputs}
            traced, differences = trace(graph, examples[0]), {}
            for kind in (f for f in FORMATS if f in formats):
                program, name = to_program(traced, graph, kind), graph.name + SUFFIX[kind]
                worst = max(difference(program.run(example), graph(example)) for example in examples[1:])
                if not worst <= TOLERANCE:
                    raise CheckpointError(
                        f"{name} would differ from the model by {worst:.2g} of its largest value; expected at most "
                        f"{TOLERANCE:g}. Nothing was written; another version of torch or onnx may do better."
                    )
                files[name], differences[name] = program.content, worst
                tell(name)
            graphs.append(record | {"differences": differences})
    files[DESCRIPTION] = (json.dumps(_description(model, graphs), indent=1) + "\n").encode()
    write_folder(target, files, overwrite=overwrite)
    return target


def num_files(model: FIMSDE, formats: Sequence[str], dims: Sequence[int] | None = None) -> int:
    """How many graphs `export_model` writes."""
    return 2 * len(formats) * len(dims_of(model, dims))


def dims_of(model: FIMSDE, dims: Sequence[int] | None) -> tuple[int, ...]:
    """Dimensions that need graphs of their own."""
    if model.config.reader.joins_dims:
        if dims is not None:
            raise ConfigError("dims is for primed models; these graphs take systems of any dimension. Leave it out.")
        return (model.config.max_dim,)
    chosen = tuple(range(1, model.config.max_dim + 1)) if dims is None else tuple(dict.fromkeys(dims))
    if not chosen or not set(chosen) <= set(range(1, model.config.max_dim + 1)):
        raise ConfigError(f"dims is {list(chosen)}; expected some of 1 to {model.config.max_dim}.")
    return chosen


def _graphs(model: FIMSDE, dim: int) -> Iterator[tuple[Graph, Sequence[Arrays]]]:
    """Encoder and head, each with an example to trace and others to check it with."""
    reader = model.config.reader
    ending = "" if reader.joins_dims else f"-{dim}d"
    sizes = (_TRACED, *_CHECKED)
    data = [reader.arrays(_example(model, dim, num, seed), None) for seed, (num, _) in enumerate(sizes)]
    axes = {name: reader.axes[name] for name in data[0]}
    encoded = dict.fromkeys(ENCODED, f"layers rows heads {reader.token_axis} head_dim")
    encoder = Graph(f"encoder{ending}", EncoderGraph(model).eval(), axes, encoded)
    yield encoder, data
    width = "max_dim" if reader.joins_dims else "dim"
    answers = dict(zip(ANSWERS, (f"{_QUERY} {width}", f"{_QUERY} {width}", _QUERY), strict=True))
    asked = {"x": f"{_QUERY} {width}"} | encoded | (axes if reader.asks_arrays else {})
    head = Graph(f"head{ending}", HeadGraph(model, dim).eval(), asked, answers)
    examples = []
    for (_, queries), arrays in zip(sizes, data, strict=True):
        x = np.random.default_rng(queries).standard_normal((queries, dim)).astype(np.float32)
        known = {"x": x} | dict(zip(ENCODED, encoder(arrays), strict=True))
        examples.append(known | (arrays if reader.asks_arrays else {}))
    yield head, examples


def _example(model: FIMSDE, dim: int, num: int, seed: int) -> Transitions:
    """Normalised transitions of a linear system."""
    sde = FunctionSDE(dim, lambda x: -x, lambda x: np.ones_like(x))
    values = simulate(sde, np.zeros((1, dim)), 0.1 * np.arange(num), seed=seed).values
    tr = to_transitions(read(values, dt=0.1))
    return fit_normaliser(tr, model.config.statistics, model.config.target_gap).transitions(tr)


def _arrays(graph: Graph, example: Arrays) -> dict[str, dict[str, str]]:
    return {name: {"axes": axes, "dtype": str(example[name].dtype)} for name, axes in graph.inputs.items()}


def _description(model: FIMSDE, graphs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "fimsde": __version__,
        "torch": torch.__version__,
        "weights_sha256": model_hash(model),
        "config": asdict(model.config),
        "bank": model.config.reader.identity,
        "tolerance": TOLERANCE,
        "graphs": graphs,
    }
