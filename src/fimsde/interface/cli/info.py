"""`fimsde info`: what is installed, or what a result or a table holds."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fimsde.interface.cli import table


@table.with_columns
def info(
    columns: table.Columns,
    source: Annotated[
        Path | None, typer.Argument(help="A folder made by `fimsde estimate`, or a table; default: the installation.")
    ] = None,
    as_json: table.AsJson = False,
) -> None:
    """Print versions and the bundled model, or a summary of a result or a table.

    Example: fimsde info tracks.csv --time t --path track_id
    """
    if source is None:
        record = _installation()
    elif source.is_dir():
        result = table.open_result(source, columns, None)
        record = {"method": result.method, **_data(result.observations)}
    else:
        record = _data(table.read_table(source, columns))
    typer.echo(json.dumps(record, indent=1) if as_json else "\n".join(f"{k}: {_text(v)}" for k, v in record.items()))


def _installation() -> dict[str, Any]:
    from fimsde.estimation import BUNDLED, bundled_model
    from fimsde.files.identities import model_hash
    from fimsde.files.versions import versions
    from fimsde.model.weights import TRAINING

    model = bundled_model()
    training = json.loads((BUNDLED / TRAINING).read_text())
    return {
        **versions(),
        "model": f"{model.config.variant}, {model.config.num_parameters} parameters, up to {model.config.max_dim} "
        f"components, {training.get('steps', 0)} training steps",
        "weights_sha256": model_hash(model),
        "bank": {kind: list(lines) for kind, lines in model.config.reader.identity.items()},
    }


def _data(observations: Any) -> dict[str, Any]:
    from fimsde.data.health import health
    from fimsde.files.identities import data_hash

    found = health(observations)
    names = observations.names
    return {
        "observations": observations.num_points,
        "paths": observations.num_paths,
        "transitions": observations.num_transitions,
        "components": {n: found.quantiles[[0, 2, 4], j].tolist() for j, n in enumerate(names)},
        "time_unit": observations.time_unit,
        "gaps": list(found.gaps),
        "span": found.span,
        "remarks": list(found.remarks),
        "data_sha256": data_hash(observations),
    }


def _text(value: Any) -> str:
    match value:
        case dict():
            return "".join(f"\n  {name}: {_text(numbers)}" for name, numbers in value.items())
        case [float(low), float(middle), float(high)]:
            return f"{low:.6g} to {high:.6g}, median {middle:.6g}"
        case list():
            return "; ".join(map(str, value)) or "none"
        case float():
            return f"{value:.6g}"
    return "unknown" if value is None else str(value)
