"""One item of the synthetic world: an equation, its observed paths, and targets. Item i is a function of (seed, i)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from fimsde.data.observations import Observations, read
from fimsde.errors import ConfigError
from fimsde.prior.config import LocationConfig, PriorConfig, Setting
from fimsde.prior.corruption import Corruption, corrupt_paths, draw_corruption
from fimsde.prior.law_kernels import draw_category
from fimsde.prior.locations import grid_nodes, stored_locations, widened_box
from fimsde.prior.noise_kernels import derive, uniform
from fimsde.prior.paths import draw_clean_paths, draw_wave_paths
from fimsde.prior.polynomials import PolynomialSDE
from fimsde.prior.waves import WaveSDE
from fimsde.shapes import Array, Bool, Float, Float64

MAX_SEED = 2**63 - 1  # the largest signed 64-bit integer, which other languages and file formats hold as well
_HEADER, _PATHS, _CORRUPTION, _LOCATIONS = range(4)  # purposes: each has random numbers of its own


@dataclass(frozen=True, eq=False)
class DrawnEquation:
    """An accepted equation of the prior with corrupted observations and exact targets.

    Attributes:
        index: Its number in the stream or data set.
        sde: The equation itself, exact at any location.
        setting: How its paths are observed.
        corruption: What was done to the clean paths.
        values: Observed values in float32, with noise; defined at all times, whether observed or not.
        mask: True where the value was observed.
        box: Corners of the clean paths, widened: the domain of the grid of locations.
        locations: Stored locations in float32: nodes of the grid, then clean states on the paths.
        drift: Drift at the stored locations, float32.
        diffusion: Diffusion sqrt(g) at the stored locations, float32.
        num_proposals: Equations drawn until this one was accepted.
    """

    index: int
    sde: PolynomialSDE | WaveSDE
    setting: Setting
    corruption: Corruption
    values: Float[Array, "paths times dim"]
    mask: Bool[Array, "paths times"]
    box: Float64[Array, "2 dim"]
    locations: Float[Array, "queries dim"]
    drift: Float[Array, "queries dim"]
    diffusion: Float[Array, "queries dim"]
    num_proposals: int

    @property
    def dim(self) -> int:
        """State dimension."""
        return self.sde.dim

    @property
    def times(self) -> Float64[Array, " times"]:
        """Observation times, the same for all paths."""
        return self.setting.gap * np.arange(self.setting.num_times)

    def grid(self, config: LocationConfig) -> Float64[Array, "nodes dim"]:
        """All nodes of the regular grid over the box, of which `locations` holds a few."""
        return grid_nodes(config, self.box)

    def observations(self) -> Observations:
        """What a user would see of this equation; paths of which nothing survived are left out."""
        seen = self.mask.any(axis=1)
        return read(self.values[seen].astype(np.float64), times=self.times, mask=self.mask[seen])


def draw_equation(config: PriorConfig, seed: int, index: int) -> DrawnEquation:
    """Item `index` of the stream with this seed. Nothing else decides it: neither order nor number of workers."""
    item = _item_key(seed, index)
    counter = np.array([derive(item, _HEADER)], np.uint64)
    dim = config.dims[draw_category(counter, np.array(config.dim_shares))]
    setting = config.settings[draw_category(counter, np.array([s.share for s in config.settings]))]
    corruption = draw_corruption(config.corruption, counter)
    is_wave = config.wave_share > 0 and uniform(counter) < config.wave_share
    draw = draw_wave_paths if is_wave else draw_clean_paths
    clean = draw(config, dim, setting, np.uint64(derive(item, _PATHS)))
    values, mask = corrupt_paths(config.corruption, corruption, clean, np.uint64(derive(item, _CORRUPTION)))
    box = widened_box(config.locations, clean)
    locations = stored_locations(config.locations, box, clean, np.uint64(derive(item, _LOCATIONS)))
    return DrawnEquation(
        index=index,
        sde=clean.sde,
        setting=setting,
        corruption=corruption,
        values=values,
        mask=mask,
        box=box,
        locations=locations,
        drift=clean.sde.drift(locations).astype(np.float32),
        diffusion=clean.sde.diffusion(locations).astype(np.float32),
        num_proposals=clean.num_proposals,
    )


def _item_key(seed: int, index: int) -> np.uint64:
    if not 0 <= seed <= MAX_SEED or not 0 <= index <= MAX_SEED:
        raise ConfigError(f"seed is {seed} and item number is {index}; expected integers from 0 to 2**63 - 1.")
    return np.uint64(derive(np.uint64(seed), index))


def stream(config: PriorConfig, seed: int, start: int = 0) -> Iterator[DrawnEquation]:
    """Items start, start + 1, ... without end and without a disk; item i equals item i of the stored data set."""
    return (draw_equation(config, seed, index) for index in count(start))
