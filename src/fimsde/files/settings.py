"""Nested frozen dataclasses from parsed JSON or TOML, strictly, and back to TOML."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from fimsde.errors import ConfigError

T = TypeVar("T")


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
    plain = {key: value for key, value in mapping.items() if not _is_table(value)}
    lines = [_assignment(key, value) for key, value in plain.items()]
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{key}]", *(_assignment(k, v) for k, v in value.items())]
        elif _is_table(value):
            for table in value:
                lines += ["", f"[[{key}]]", *(_assignment(k, v) for k, v in table.items())]
    return "\n".join(lines) + "\n"


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and bool(value) and isinstance(value[0], Mapping))


def _assignment(key: str, value: Any) -> str:
    return f"{key} = {json.dumps(value)}"  # numbers, strings and flat lists look the same in JSON and TOML


def short(value: object) -> str:
    """A value as it appears in a message, cut to a bearable length."""
    if isinstance(value, int) and value.bit_length() > 200:
        return "an integer of more than 60 digits"  # Python refuses to print the largest ones
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
