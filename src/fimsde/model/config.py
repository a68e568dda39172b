"""ModelConfig: the sizes of a recognition model, checked before anything is allocated."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any, Literal, get_args

from fimsde.data.normalise import Statistics
from fimsde.errors import ConfigError
from fimsde.files.settings import short
from fimsde.model.bank_reader import BankReader
from fimsde.model.correction import num_correction_parameters
from fimsde.model.paper import PaperReader
from fimsde.model.reader import AnyReader

PRESETS = ("paper", "ablation-10m", "ablation-5m", "tiny", "primed", "primed-tiny")
Variant = Literal["paper", "primed"]

_LARGEST = {  # no sensible model comes near; a hostile config is stopped here
    "max_dim": 64,
    "embed": 8192,
    "encoder_layers": 128,
    "functional_layers": 128,
    "heads": 256,
    "feed_forward": 65536,
}
_LARGEST_MODEL = 500_000_000  # parameters, 2 GB in float32


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of the model and the conventions its weights were trained with. Defaults: the published model.

    Nothing in a config names code: every field is a number or one of a few words.
    """

    variant: Variant = "paper"  # what is read: single transitions, or candidates and cells (`fimsde.bank`)
    max_dim: int = 3  # state components; smaller systems are padded with zeros
    embed: int = 256  # width of tokens and queries
    encoder_layers: int = 2  # linear self-attention over the transitions
    functional_layers: int = 8  # softmax attention of queries to transitions, in each of the three stacks
    heads: int = 8  # attention heads, in encoder and stacks
    feed_forward: int = 1024  # hidden width inside every layer
    head_hidden: tuple[int, ...] = (256, 256)  # hidden widths of the output networks
    dropout: int | float = 0.1  # in training mode only
    statistics: Statistics = "observations"  # states the spatial normalisation looks at; see fimsde.data.normalise
    target_gap: int | float = 0.01  # geometric mean of the gaps after normalisation
    correction: bool = False  # finetuned models: a polynomial of their own (`fimsde.model.correction`)

    def __post_init__(self) -> None:
        _check(vars(self))
        if self.num_parameters > _LARGEST_MODEL:
            raise ConfigError(
                f"these sizes make {self.num_parameters:.3g} parameters; at most {_LARGEST_MODEL:.3g} are allowed. "
                "Reduce embed, feed_forward or the numbers of layers."
            )

    @property
    def reader(self) -> AnyReader:
        """What a model of this kind reads, and all that follows from it."""
        return reader_of(self.variant, self.max_dim, self.embed)

    @property
    def num_parameters(self) -> int:
        """Number of weights, from the sizes alone."""
        reader, e, f = self.reader, self.embed, self.feed_forward
        layer = 4 * (e * e + e) + (2 * e * f + f + e) + 4 * e  # attention, feed-forward, two norms
        widths = (e, *self.head_hidden)
        hidden = sum((a + 1) * b for a, b in pairwise(widths))
        heads = 3 * hidden + (widths[-1] + 1) * sum(reader.num_outputs)
        maps = reader.num_weights + (num_correction_parameters(self.max_dim) if self.correction else 0)
        return maps + heads + layer * (self.encoder_layers + 3 * self.functional_layers)

    @staticmethod
    def preset(name: str) -> "ModelConfig":
        """A configuration by name: `paper`, the two smaller ones of its ablation, `primed`, and tiny ones for tests."""
        match name:
            case "paper":  # 20 932 231 parameters: the published 20 965 255 less a map of 33 024 that is never used
                return ModelConfig()
            case "ablation-10m":  # 9.9 M; the paper gives only the total, so width is scaled and depth kept
                return ModelConfig(embed=176, feed_forward=704, head_hidden=(176, 176))
            case "ablation-5m":  # 5.3 M
                return ModelConfig(embed=128, feed_forward=512, head_hidden=(128, 128))
            case "tiny":  # 75 k
                return ModelConfig(embed=32, heads=4, functional_layers=2, feed_forward=64, head_hidden=(32, 32))
            case "primed":
                return ModelConfig(
                    "primed", embed=64, heads=4, functional_layers=2, feed_forward=192, head_hidden=(128,)
                )
            case "primed-tiny":
                return ModelConfig("primed", embed=16, heads=2, functional_layers=1, feed_forward=32, head_hidden=(16,))
            case _:
                raise ConfigError(f"preset {short(name)} is not known; expected one of {', '.join(PRESETS)}.")

    def to_json(self) -> str:
        """The settings as JSON text."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @staticmethod
    def from_mapping(settings: Mapping[str, Any]) -> "ModelConfig":
        """A config from parsed JSON or TOML. Missing keys take their defaults, unknown keys are errors."""
        known = [field.name for field in fields(ModelConfig)]
        unknown = sorted(short(key) for key in settings if key not in known)
        if unknown:
            raise ConfigError(f"unknown setting {', '.join(unknown[:5])}; a model config has {', '.join(known)}.")
        values = dict(settings)
        if isinstance(values.get("head_hidden"), list):
            values["head_hidden"] = tuple(values["head_hidden"])
        _check({field.name: field.default for field in fields(ModelConfig)} | values)
        return ModelConfig(**values)


def reader_of(variant: object, max_dim: int, embed: int) -> AnyReader:
    """The reader of a kind of model: the one place where kinds are told apart."""
    match variant:
        case "paper":
            return PaperReader(max_dim, embed)
        case "primed":
            return BankReader(max_dim, embed)
        case _:
            raise ConfigError(f"variant is {short(variant)}; expected one of {', '.join(get_args(Variant))}.")


def _check(settings: Mapping[str, Any]) -> None:
    """Types and ranges of all settings; on plain values, so that nothing is built from wrong ones."""
    for name, largest in _LARGEST.items():
        _check_size(name, settings[name], largest)
    embed, heads, hidden = settings["embed"], settings["heads"], settings["head_hidden"]
    if embed % 4 or embed % heads:
        raise ConfigError(f"embed is {embed} with {heads} heads; expected a multiple of heads, and of 4 (features).")
    if not isinstance(hidden, tuple) or len(hidden) > 16:
        raise ConfigError(f"head_hidden is {short(hidden)}; expected at most 16 widths, for instance [256, 256].")
    for i, width in enumerate(hidden):
        _check_size(f"head_hidden[{i}]", width, _LARGEST["embed"])
    reader_of(settings["variant"], settings["max_dim"], embed)
    if not isinstance(settings["correction"], bool):
        raise ConfigError(f"correction is {short(settings['correction'])}; expected true or false.")
    dropout, target_gap, statistics = settings["dropout"], settings["target_gap"], settings["statistics"]
    if not _is_number(dropout) or not 0 <= dropout < 1:
        raise ConfigError(f"dropout is {short(dropout)}; expected a probability of at least 0 and below 1.")
    if not _is_number(target_gap) or not 0 < target_gap < 1e6:
        raise ConfigError(f"target_gap is {short(target_gap)}; expected a positive time, 0.01 in the paper.")
    if statistics not in get_args(Statistics):
        raise ConfigError(f"statistics is {short(statistics)}; expected one of {', '.join(get_args(Statistics))}.")


def _check_size(name: str, value: object, largest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{name} is {short(value)}; expected an integer.")
    if not 1 <= value <= largest:
        raise ConfigError(f"{name} is {short(value)}; expected 1 to {largest}.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
