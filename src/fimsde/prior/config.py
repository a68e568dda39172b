"""PriorConfig: the law of the synthetic equations, in one frozen object that travels with every data set.

Where the paper and the authors' code disagree, the default is what the authors' data were made with; the other reading
is `PriorConfig.paper()`. Shares are relative: (1, 2, 3) means one, two and three sixths.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import comb, isfinite
from pathlib import Path
from typing import Any, Literal

from fimsde.files.settings import build, check, read_settings, to_mapping, to_toml

MAX_DIM = (
    10  # by hand, as the next two: far beyond the paper (3 components, degree 4); a hostile config is stopped here
)
MAX_DEGREE = 10
_LARGEST_EQUATION = 10_000_000  # numbers in the paths of one equation: 40 MB


@dataclass(frozen=True)
class Setting:
    """How the paths of an equation are observed: `num_paths` paths at `num_times` times, `gap` apart."""

    gap: float  # time between observations
    substeps: int  # Euler steps per gap
    num_paths: int  # K in the paper
    num_times: int  # L in the paper; the first observation is the initial state
    share: float = 1.0  # of the equations, relative to the other settings

    def __post_init__(self) -> None:
        check(0 < self.gap < 1e9, f"gap is {self.gap:g}", "a positive time")
        check(1 <= self.substeps <= 100_000, f"substeps is {self.substeps}", "1 to 100000")
        check(self.num_paths >= 1, f"num_paths is {self.num_paths}", "at least 1")
        check(self.num_times >= 2, f"num_times is {self.num_times}", "at least 2, to have a step")
        _check_shares("share", (self.share,))


@dataclass(frozen=True)
class PolynomialConfig:
    """Degrees of drift and squared diffusion, and how many degrees may be present at once."""

    drift_degree: int = 3
    diffusion_degree: int = 2
    degrees_present: Literal["authors", "paper"] = "authors"  # uniform on 1..degree+1, or on 1..degree
    sparse_share: float = 0.0  # of the proposed equations: few terms, mostly constant diffusion (not in the paper)

    def __post_init__(self) -> None:
        check(0 <= self.sparse_share <= 1, f"sparse_share is {self.sparse_share:g}", "a share from 0 to 1")
        enough = self.drift_degree >= 3 and self.diffusion_degree >= 2
        check(not self.sparse_share or enough, "sparse equations have degrees 3 and 2", "degrees at least as high")
        least = 1 if self.degrees_present == "paper" else 0
        for name in ("drift_degree", "diffusion_degree"):
            degree = getattr(self, name)
            check(least <= degree <= MAX_DEGREE, f"{name} is {degree}", f"{least} to {MAX_DEGREE}")

    def most_degrees(self, degree: int) -> int:
        """Largest number of degrees that a polynomial of this degree may have."""
        return degree + 1 if self.degrees_present == "authors" else degree


@dataclass(frozen=True)
class CorruptionConfig:
    """What is done to the clean paths before the model sees them."""

    noise_std: tuple[float, float] = (0.0, 0.1)  # share of half the range of the clean values, uniform per equation
    noise_range: Literal["equation", "component"] = "equation"  # the range: one for all components, or one for each
    survival: tuple[float, float] = (0.9, 1.0)  # probability that an observation is kept, uniform per equation
    mix: tuple[float, float, float, float] = (3.0, 1.0, 1.0, 1.0)  # shares: clean, noise, gaps, both

    def __post_init__(self) -> None:
        check(0 <= self.noise_std[0] <= self.noise_std[1] < 1e6, f"noise_std is {self.noise_std}", "0 <= low <= high")
        check(0 < self.survival[0] <= self.survival[1] <= 1, f"survival is {self.survival}", "0 < low <= high <= 1")
        _check_shares("mix", self.mix)


@dataclass(frozen=True)
class LocationConfig:
    """Where drift and diffusion are asked for: nodes of a regular grid, and clean states on the paths."""

    grid_size: int = 2048  # nodes of the grid, before rounding to the same number on every axis
    widen: float = 0.25  # the grid reaches beyond the clean paths by this share of their range, on every side
    stored_nodes: int = 128  # grid nodes stored with targets; the whole grid follows from the box
    stored_states: int = 128  # clean states stored with targets; they cannot be recovered from noisy paths

    def __post_init__(self) -> None:
        check(1 <= self.grid_size <= 10**7, f"grid_size is {self.grid_size}", "1 to 10000000")
        check(0 <= self.widen < 1e3, f"widen is {self.widen:g}", "at least 0")
        for name in ("stored_nodes", "stored_states"):
            number = getattr(self, name)
            check(0 <= number <= 65_536, f"{name} is {number}", "0 to 65536")


def _authors_settings() -> tuple[Setting, ...]:
    return (Setting(0.1, 25, 100, 128), Setting(0.01, 5, 25, 512), Setting(0.001, 1, 12, 1024))


@dataclass(frozen=True)
class PriorConfig:
    """The law of the synthetic equations. Defaults: the authors' training data."""

    dims: tuple[int, ...] = (1, 2, 3)
    dim_shares: tuple[float, ...] = (1.0, 2.0, 3.0)  # of accepted equations
    settings: tuple[Setting, ...] = field(default_factory=_authors_settings)
    limit: float = 100.0  # an equation is rejected if any observed |component| reaches this, or is not finite
    max_proposals: int = 1_000_000  # per equation; reached only if the settings accept practically nothing
    wave_share: float = 0.0  # of the equations: no polynomials but sums of waves (not in the paper, never stored)
    polynomials: PolynomialConfig = field(default_factory=PolynomialConfig)
    corruption: CorruptionConfig = field(default_factory=CorruptionConfig)
    locations: LocationConfig = field(default_factory=LocationConfig)

    def __post_init__(self) -> None:
        check(0 < len(self.dims) <= MAX_DIM, f"dims is {self.dims}", "at least one dimension")
        for dim in self.dims:
            check(1 <= dim <= MAX_DIM, f"dims contains {dim}", f"1 to {MAX_DIM}")
        check(len(set(self.dims)) == len(self.dims), f"dims is {self.dims}", "each dimension once")
        check(len(self.dim_shares) == len(self.dims), f"dim_shares is {self.dim_shares}", "one share per dimension")
        _check_shares("dim_shares", self.dim_shares)
        check(0 < len(self.settings) <= 100, f"settings has {len(self.settings)} entries", "1 to 100")
        _check_shares("the shares of settings", tuple(setting.share for setting in self.settings))
        check(0 < self.limit < 1e30, f"limit is {self.limit:g}", "a positive bound on the states, 100 in the paper")
        check(0 <= self.wave_share <= 1, f"wave_share is {self.wave_share:g}", "a share from 0 to 1")
        check(1 <= self.max_proposals <= 10**12, f"max_proposals is {self.max_proposals}", "at least 1")
        self._check_size()

    def _check_size(self) -> None:
        dim = max(self.dims)
        for setting in self.settings:
            size = setting.num_paths * setting.num_times * dim
            check(size <= _LARGEST_EQUATION, f"an equation would hold {size} numbers", f"at most {_LARGEST_EQUATION}")
        terms = comb(max(self.polynomials.drift_degree, self.polynomials.diffusion_degree) + dim, dim)
        check(terms <= 1024, f"a polynomial would have {terms} monomials", "at most 1024; lower a degree or dims")

    @staticmethod
    def paper() -> "PriorConfig":
        """The paper's text taken literally, where the authors' data differ from it."""
        return PriorConfig(
            polynomials=PolynomialConfig(degrees_present="paper"),
            corruption=CorruptionConfig(noise_range="component", mix=(4.0, 2.0, 2.0, 1.0)),  # 1/3 and 1/3, independent
        )

    def restrict(self, dims: Sequence[int] | None = None, gaps: Sequence[float] | None = None) -> "PriorConfig":
        """The same law for some of its dimensions and gaps only; relative shares are kept."""
        config = self
        if dims is not None:
            _check_chosen("dimension", dims, self.dims)
            kept = [(d, share) for d, share in zip(self.dims, self.dim_shares, strict=True) if d in dims]
            config = replace(config, dims=tuple(d for d, _ in kept), dim_shares=tuple(share for _, share in kept))
        if gaps is not None:
            _check_chosen("gap", gaps, [setting.gap for setting in self.settings])
            config = replace(config, settings=tuple(setting for setting in self.settings if setting.gap in gaps))
        return config

    def to_mapping(self) -> dict[str, Any]:
        """The settings as nested dictionaries and lists, ready for JSON or TOML."""
        return to_mapping(self)

    def to_toml(self) -> str:
        """The settings as a TOML file."""
        return to_toml(self.to_mapping())

    @staticmethod
    def from_mapping(mapping: object) -> "PriorConfig":
        """A config from parsed JSON or TOML. Missing keys take their defaults, unknown keys are errors."""
        return build(PriorConfig, mapping, "the prior")

    @staticmethod
    def from_file(path: Path) -> "PriorConfig":
        """A config from a TOML or JSON file."""
        return PriorConfig.from_mapping(read_settings(path))


def _check_shares(name: str, shares: tuple[float, ...]) -> None:
    check(all(isfinite(s) and s >= 0 for s in shares) and sum(shares) > 0, f"{name} is {shares}", "relative shares")


def _check_chosen(name: str, chosen: Sequence[float], known: Sequence[float]) -> None:
    text = ", ".join(f"{value:g}" for value in known)
    check(len(chosen) > 0, f"no {name} is chosen", f"some of {text}")
    for value in chosen:
        check(value in known, f"{name} {value:g} is not in the settings", f"some of {text}")
