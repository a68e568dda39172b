"""Settings: nested frozen dataclasses from JSON and TOML files, strictly, back again, and compared."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from fimsde.errors import ConfigError
from fimsde.files.renamed import new_names

T = TypeVar("T")
_ABSENT = "absent"


def read_settings(file: Path) -> Any:
    """What a TOML or JSON file holds."""
    try:
        text = file.read_text()
        return json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:  # both parsers raise kinds of ValueError
        raise ConfigError(f"cannot read the settings in {file}: {error}. Expected a TOML or JSON file.") from error


def check(holds: bool, found: str, expected: str) -> None:
    """Refuse a setting unless something holds."""
    if not holds:
        raise ConfigError(f"{found}; expected {expected}.")


def build(kind: type[T], mapping: object, where: str) -> T:
    """The dataclass `kind` from nested dictionaries and lists. Unknown keys and wrong types are errors.

    Args:
        kind: A dataclass whose fields are numbers, text, words (`Literal`), tuples and dataclasses of these.
        mapping: What a JSON or TOML parser returned.
        where: What the settings are called in messages.
    """
    if not isinstance(mapping, Mapping):
        raise ConfigError(f"{where} is {short(mapping)}; expected a table of settings.")
    types = get_type_hints(kind)
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    unknown = [short(key) for key in mapping if key not in known]
    if unknown:
        raise ConfigError(f"unknown setting {', '.join(unknown[:5])} in {where}; known are {', '.join(known)}.")
    try:
        return kind(**{key: _value(types[key], value, key) for key, value in mapping.items()})
    except TypeError as error:  # a field without default is missing
        raise ConfigError(f"{where} is incomplete: {error}.") from error


def _value(kind: Any, value: Any, name: str) -> Any:
    if is_dataclass(kind):
        return build(kind, value, name)  # type: ignore[arg-type]
    if get_origin(kind) is tuple:
        return _tuple(get_args(kind), value, name)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise ConfigError(f"{name} is {short(value)}; expected one of {', '.join(get_args(kind))}.")
        return value
    if kind is bool:
        if not isinstance(value, bool):
            raise ConfigError(f"{name} is {short(value)}; expected true or false.")
        return value
    if kind is str:
        if not isinstance(value, str):
            raise ConfigError(f"{name} is {short(value)}; expected text.")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or (kind is int and not isinstance(value, int)):
        raise ConfigError(f"{name} is {short(value)}; expected {'an integer' if kind is int else 'a number'}.")
    return kind(value) if abs(value) < 1e300 else _too_large(name, value)


def _tuple(kinds: tuple[Any, ...], value: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{name} is {short(value)}; expected a list.")
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise ConfigError(f"{name} has {len(value)} entries; expected {len(kinds)}.")
    return tuple(_value(kind, entry, f"{name}[{i}]") for i, (kind, entry) in enumerate(zip(kinds, value, strict=True)))


def _too_large(name: str, value: Any) -> Any:
    raise ConfigError(f"{name} is {short(value)}; expected a finite number of moderate size.")


def to_toml(mapping: Mapping[str, Any]) -> str:
    """TOML text of a mapping whose values are numbers, words, lists of these, tables, and lists of tables."""
    return "\n".join(_toml_lines(mapping, "")) + "\n"


def _toml_lines(mapping: Mapping[str, Any], prefix: str) -> list[str]:
    """Plain settings first, then a table for each group; JSON and TOML agree on how plain values look."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in mapping.items() if not _is_table(value)]
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{prefix}{key}]", *_toml_lines(value, f"{prefix}{key}.")]
        elif _is_table(value):
            for entry in value:
                lines += ["", f"[[{prefix}{key}]]", *_toml_lines(entry, f"{prefix}{key}.")]
    return lines


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and bool(value) and isinstance(value[0], Mapping))


def to_mapping(settings: Any) -> dict[str, Any]:
    """A dataclass of settings as nested dictionaries and lists, ready for JSON or TOML."""
    mapping: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return mapping


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """What differs between two nested settings, one sentence each."""
    old, new = _flat(new_names(there)), _flat(here)
    return [
        f"{key} is {old.get(key, _ABSENT)} there and {new.get(key, _ABSENT)} here"
        for key in sorted(old | new)
        if old.get(key, _ABSENT) != new.get(key, _ABSENT)
    ]


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    match value:
        case Mapping():
            entries = [(f"{name}.{key}".lstrip("."), entry) for key, entry in value.items()]
        case list() if value and isinstance(value[0], Mapping | list):
            entries = [(f"{name}[{number}]", entry) for number, entry in enumerate(value)]
        case _:
            return {name: value}
    return {key: entry for prefix, part in entries for key, entry in _flat(part, prefix).items()}


def short(value: object) -> str:
    """A value as it appears in a message, cut to a bearable length."""
    if isinstance(value, int) and value.bit_length() > 200:
        return "an integer of more than 60 digits"  # Python refuses to print the largest ones
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
