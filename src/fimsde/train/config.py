"""TrainConfig: everything a pretraining run depends on, in one frozen object that is written beside its results."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from fimsde.errors import ConfigError
from fimsde.files.settings import build, check, read_settings, short, to_mapping, to_toml
from fimsde.model.config import ModelConfig
from fimsde.prior.config import CorruptionConfig, LocationConfig, PolynomialConfig, PriorConfig, Setting

PRESETS = ("paper", "primed", "paper-1.6m", "paper-0.4m", "paper-0.1m", "paper-tiny", "primed-tiny")
Objective = Literal["authors", "paper", "primed"]


@dataclass(frozen=True)
class ContextConfig:
    """What the model sees of an equation, and where it is asked; `fimsde.train.pretrain.contexts` has both rules."""

    rule: Literal["paper", "primed"] = "paper"
    fewest: int = 128  # observations in the smallest context
    most: int = 12_800  # paper: bound of the largest one; primed contexts may be as large as the data
    transitions: int = 0  # paper: contexts are thinned, in time first, to about so many transitions; 0: they are not
    cut_share: float = 0.3  # primed: contexts made shorter in time rather than by leaving out paths
    widen: float = 0.9  # primed: most that half of the locations reach beyond the data, share of the range
    far: float = 8.0  # primed: standard deviations beyond which a location does not count
    known_origin: float = 0.3  # primed: share of the equations that come with their true origin
    hidden: float = 1.0  # primed: share kept of the equations whose curvature the paths do not show

    def __post_init__(self) -> None:
        check(1 <= self.fewest <= self.most, f"fewest is {self.fewest}, most is {self.most}", "1 <= fewest <= most")
        check(self.transitions >= 0, f"transitions is {self.transitions}", "a number, or 0 for all")
        for name in ("cut_share", "known_origin", "hidden"):
            check(0 <= getattr(self, name) <= 1, f"{name} is {getattr(self, name):g}", "a share from 0 to 1")
        check(0 <= self.widen < 100, f"widen is {self.widen:g}", "0 to 100")
        check(self.far > 0, f"far is {self.far:g}", "a positive number of standard deviations")


@dataclass(frozen=True)
class OptimiserConfig:
    """AdamW."""

    learning_rate: float = 1e-5
    weight_decay: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.999)

    def __post_init__(self) -> None:
        check(0 < self.learning_rate < 10, f"learning_rate is {self.learning_rate:g}", "a small positive number")
        check(0 <= self.weight_decay < 10, f"weight_decay is {self.weight_decay:g}", "at least 0")
        check(all(0 <= b < 1 for b in self.betas), f"betas is {self.betas}", "two numbers from 0 to below 1")


@dataclass(frozen=True)
class ScheduleConfig:
    """The learning rate as a share of its largest value."""

    kind: Literal["constant", "cosine", "root"] = "constant"  # root: falls with the root of the steps after warm-up
    warm_up: int = 0  # steps of linear growth from zero
    final: float = 0.02  # cosine: share at the last step

    def __post_init__(self) -> None:
        check(self.warm_up >= 0, f"warm_up is {self.warm_up}", "at least 0 steps")
        check(0 <= self.final <= 1, f"final is {self.final:g}", "a share from 0 to 1")


@dataclass(frozen=True)
class LoopConfig:
    """How weights are improved, whatever the loss: shared by pretraining and finetuning."""

    steps: int = 1_300_000
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    clip: float = 0.0  # largest norm of the gradient; 0: none
    ema_decay: float = 0.0  # of the averaged weights; 0: no averaging
    ema_part: int = 50  # averages look back over one such part of the steps done, until `ema_decay` is reached
    precision: Literal["float32", "bfloat16"] = "float32"  # bfloat16 acts on hardware that has it, never on a CPU
    non_finite: Literal["skip", "stop"] = "skip"  # steps whose loss or gradient is not finite: left out and counted
    checkpoint_interval: int = 5_000  # steps
    log_interval: int = 100  # steps
    seed: int = 10  # of weights, batches and dropout

    def __post_init__(self) -> None:
        for name in ("steps", "ema_part", "checkpoint_interval", "log_interval"):
            check(getattr(self, name) >= 1, f"{name} is {getattr(self, name)}", "at least 1")
        check(self.clip >= 0 and isfinite(self.clip), f"clip is {self.clip:g}", "a norm, or 0 for none")
        check(0 <= self.ema_decay < 1, f"ema_decay is {self.ema_decay:g}", "0 (none) to below 1")
        check(0 <= self.seed < 2**32, f"seed is {self.seed}", "0 to 2**32 - 1")


@dataclass(frozen=True)
class TrainConfig:
    """A pretraining run. Defaults: the paper's, with the authors' reductions of the loss."""

    model: ModelConfig = field(default_factory=ModelConfig)
    prior: PriorConfig = field(default_factory=PriorConfig)
    contexts: ContextConfig = field(default_factory=ContextConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)
    objective: Objective = "authors"  # reductions of the paper's loss ("authors", "paper"), or the primed one
    batch_size: int = 64  # equations per step, all processes together
    num_queries: int = 32  # locations per equation and step
    mixed: bool = False  # drawn on the fly: every equation of a batch has its own dimension, setting and context size
    location_clip: float = 0.0  # weighted square error of a location above which its gradient is held; 0: none
    start: Literal["published", "local"] = "published"  # random weights; `fimsde.train.pretrain.start` has both
    validation_batches: int = 0  # batches of held-out equations on which every checkpoint is judged; 0: none
    equations: int = 0  # drawn on the fly: how many different ones, read again and again; 0: never the same one twice
    cache_equations: int = 0  # primed: read this many stored contexts again and again; 0: never the same one twice
    dataset: str = ""  # checksum of the data set of `fimsde generate` to read; empty: equations are drawn on the fly

    def __post_init__(self) -> None:
        check(1 <= self.batch_size <= 100_000, f"batch_size is {self.batch_size}", "1 to 100000")
        check(1 <= self.num_queries <= 100_000, f"num_queries is {self.num_queries}", "1 to 100000")
        check(self.validation_batches >= 0, f"validation_batches is {self.validation_batches}", "at least 0")
        clip = self.location_clip
        check(clip >= 0 and isfinite(clip), f"location_clip is {clip:g}", "a positive number, or 0 for none")
        check(clip == 0 or self.objective != "primed", f"location_clip is {clip:g}", "0 for the primed objective")
        enough = self.equations >= self.batch_size or not self.equations
        check(enough, f"equations is {self.equations}", f"a batch ({self.batch_size}) or more, or 0 for no bound")
        stored = bool(self.cache_equations or self.dataset)
        check(not (self.equations and stored), f"equations is {self.equations}", "0 where contexts or data are stored")
        check(not (self.mixed and stored), "mixed is set", "false where contexts or data are stored")
        check(self.cache_equations >= 0, f"cache_equations is {self.cache_equations}", "at least 0")

    @staticmethod
    def preset(name: str) -> "TrainConfig":
        """A run by name: the paper's, smaller ones for two cores, ours, and tiny ones for tests."""
        match name:
            case "paper":
                return TrainConfig(loop=LoopConfig(precision="bfloat16"))
            case "paper-1.6m":
                return _smaller_paper(embed=96, functional_layers=4)
            case "paper-0.4m":
                return _smaller_paper(embed=64, functional_layers=2)
            case "paper-0.1m":
                return _smaller_paper(embed=32, functional_layers=2)
            case "primed":
                return _primed()
            case "paper-tiny":
                setting = Setting(0.05, 2, 4, 64)
                return TrainConfig(
                    model=replace(ModelConfig.preset("tiny"), encoder_layers=1, functional_layers=1),
                    prior=PriorConfig(settings=(setting,), locations=LocationConfig(64, 0.25, 1, 4)),
                    contexts=ContextConfig(fewest=64, most=256),
                    loop=_tiny_loop(),
                    batch_size=4,
                    num_queries=4,
                )
            case "primed-tiny":
                primed = _primed()
                setting = Setting(0.05, 2, 2, 300)
                return replace(
                    primed,
                    model=replace(ModelConfig.preset("primed-tiny"), dropout=0.0),
                    prior=replace(primed.prior, settings=(setting,), dims=(1, 2), dim_shares=(1.0, 1.0), limit=100.0),
                    loop=_tiny_loop(),
                    batch_size=2,
                    num_queries=6,
                    validation_batches=2,
                )
            case _:
                raise ConfigError(f"preset {short(name)} is not known; expected one of {', '.join(PRESETS)}.")

    def to_mapping(self) -> dict[str, Any]:
        """The settings as nested dictionaries and lists, ready for JSON or TOML."""
        return to_mapping(self)

    def to_toml(self) -> str:
        """The settings as a TOML file."""
        return to_toml(self.to_mapping())

    @staticmethod
    def from_mapping(mapping: object) -> "TrainConfig":
        """A config from parsed JSON or TOML. Missing keys take their defaults, unknown keys are errors."""
        if not isinstance(mapping, Mapping) or not isinstance(mapping.get("model", {}), Mapping):
            raise ConfigError(f"the training settings are {short(mapping)}; expected tables of settings.")
        rest = {key: value for key, value in mapping.items() if key != "model"}
        return replace(
            build(TrainConfig, rest, "the training settings"), model=ModelConfig.from_mapping(mapping.get("model", {}))
        )

    @staticmethod
    def from_file(path: Path) -> "TrainConfig":
        """A config from a TOML or JSON file."""
        return TrainConfig.from_mapping(read_settings(path))


def _smaller_paper(embed: int, functional_layers: int) -> TrainConfig:
    """The paper's recipe for two cores: prior, loss, normalisation, locations and optimiser are the published ones.

    What differs: width and depth, and no dropout. Contexts are thinned to 256 transitions: in time, as far as gaps stay
    within those of the prior, then at random; paths and locations are those of the whole context. 16 equations per
    step, the share of one of the authors' four processes, each of its own kind. For hundreds of times fewer steps the
    learning rate is 100 to 300 times larger after a warm-up, in proportion to 1 / width, and then falls with the root
    of the steps; with it come bounds on gradients, weights that start as local averages, and averages over the last
    tenth of the steps. All of this has no end, so that arms can be judged at any step, and gone on with. By hand;
    docs/scaling.md says what each is for.
    """
    return TrainConfig(
        model=ModelConfig(
            embed=embed,
            functional_layers=functional_layers,
            heads=embed // 16,
            feed_forward=4 * embed,
            head_hidden=(embed, embed),
            dropout=0.0,
        ),
        contexts=ContextConfig(transitions=256),
        loop=LoopConfig(
            steps=9_600,
            optimiser=OptimiserConfig(learning_rate=0.096 / embed),
            schedule=ScheduleConfig("root", warm_up=300),
            clip=1.0,
            ema_decay=0.998,
            ema_part=10,
            checkpoint_interval=100,
            log_interval=10,
        ),
        batch_size=16,
        mixed=True,
        location_clip=2.0,
        start="local",
        validation_batches=32,
    )


def _primed() -> TrainConfig:
    """User-like contexts: single long paths at several gaps, and the paper's settings with fewer paths."""
    settings = (
        Setting(0.1, 25, 40, 128, 2.0),
        Setting(0.01, 5, 16, 512, 2.0),
        Setting(0.001, 1, 8, 1024, 2.0),
        Setting(0.002, 1, 1, 5000, 3.0),
        Setting(0.02, 10, 1, 5000, 3.0),
        Setting(0.01, 5, 1, 5000, 2.0),
        Setting(0.1, 25, 1, 3000, 1.5),
        Setting(0.05, 20, 2, 1500, 1.5),
        Setting(0.005, 5, 1, 8000, 1.5),
        Setting(0.025, 25, 60, 41, 1.0),
        Setting(0.002, 1, 1, 10_000, 1.0),
    )
    return TrainConfig(
        model=replace(ModelConfig.preset("primed"), dropout=0.0),
        prior=PriorConfig(
            dim_shares=(0.25, 0.45, 0.30),
            settings=settings,
            corruption=CorruptionConfig((0.0, 0.12), noise_range="component", mix=(0.42, 0.43, 0.05, 0.1)),
            locations=LocationConfig(stored_nodes=1, stored_states=128),
            polynomials=PolynomialConfig(sparse_share=0.85),
            wave_share=0.2,
        ),
        contexts=ContextConfig(rule="primed", fewest=250, hidden=0.15),
        loop=LoopConfig(
            steps=50_000,
            optimiser=OptimiserConfig(1.2e-3, 1e-3, (0.9, 0.98)),
            schedule=ScheduleConfig("cosine", warm_up=200),
            clip=1.0,
            ema_decay=0.998,
            checkpoint_interval=1_000,
            log_interval=10,
        ),
        objective="primed",
        batch_size=32,
        num_queries=48,
        validation_batches=16,
    )


def _tiny_loop() -> LoopConfig:
    return LoopConfig(
        steps=6, optimiser=OptimiserConfig(1e-3), clip=1.0, ema_decay=0.9, checkpoint_interval=2, log_interval=1
    )
