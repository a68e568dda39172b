"""The seven canonical systems of the paper, and how data are drawn from any textbook system.

The recipe is the one behind the paper's tables: Euler-Maruyama with step 0.002 from a fixed initial state (the authors
in float32, here in float64). The context is every `stride`-th point of one trajectory, the first 5000 of them; noise is
relative to half the range of exactly these points, per component, and is a standard deviation (the paper's main text
calls it a variance). The reference is a second trajectory cut into 100 consecutive pieces of 500 points (the paper
speaks of 100 paths). The context spans 10 time units at stride 1 and 100 at stride 10.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fimsde.data.grid import regular_grid
from fimsde.data.observations import Observations, read
from fimsde.equations.sde import Field
from fimsde.errors import ConfigError, DatasetError
from fimsde.shapes import Array, Float, Float64
from fimsde.simulate import simulate

# The paper's protocol (section 5.1, appendix G.1); the pieces, and 20 nodes in 3-D, are those of the authors' code.
REPETITIONS = 5  # independent contexts, each with its own reference
PIECES, PIECE_LENGTH = 100, 500  # of a reference trajectory
NODES_PER_AXIS = {1: 1024, 2: 32, 3: 20}  # of the grid on which drift and diffusion are compared, by dimension

REPORT_SEED = 0  # of every reported number
DEV_SEED = 1_000_000  # seeds from here upward are for choosing models and settings; nothing with them is reported


@dataclass(frozen=True)
class System:
    """A textbook equation (an `SDE`) together with its data recipe.

    Attributes:
        name: Key in result files.
        title: Name in tables and figures.
        drift: f at locations (queries, dim).
        diffusion: sqrt(g) at locations (queries, dim).
        initial_state: Where every trajectory starts.
        box: Lower and upper end of the grid for each component.
        dt: Step of the simulation.
        stride: Simulation steps between two observations, unless asked otherwise.
        length: Observations of a context, unless asked otherwise.
    """

    name: str
    title: str
    drift: Field
    diffusion: Field
    initial_state: tuple[float, ...]
    box: tuple[tuple[float, float], ...]
    dt: float = 0.002
    stride: int = 1
    length: int = 5000

    @property
    def dim(self) -> int:
        """State dimension."""
        return len(self.initial_state)


def context(
    system: System,
    repetition: int = 0,
    *,
    noise_std: float = 0.0,
    stride: int | None = None,
    length: int | None = None,
    seed: int = REPORT_SEED,
) -> Observations:
    """The observations from which a system is to be estimated: one path, regularly observed.

    Without noise, a shorter context is the beginning of a longer one, and stride 10 is every tenth point of stride 1.

    Args:
        system: Any system.
        repetition: 0 to 4.
        noise_std: Standard deviation of the measurement noise as a share of half the range of each component.
        stride: Simulation steps between observations; the system's own by default.
        length: Number of observations; the system's own by default.
        seed: `REPORT_SEED` for reports, `DEV_SEED` and above for development.
    """
    stride = system.stride if stride is None else stride
    length = system.length if length is None else length
    if stride < 1 or length < 1 or noise_std < 0:
        raise ConfigError(f"stride {stride}, length {length}, noise_std {noise_std}; expected at least 1, 1 and 0.")
    clean = _trajectory(system, "context", repetition, (length - 1) * stride + 1, seed)[::stride]
    half_range = np.ptp(clean, axis=0) / 2
    noise = np.random.default_rng(stream(seed, system.name, "noise", repetition)).standard_normal(clean.shape)
    return read(clean + noise_std * half_range * noise, dt=stride * system.dt)


def reference(system: System, repetition: int = 0, *, seed: int = REPORT_SEED) -> Float64[Array, "paths times dim"]:
    """Clean paths of 500 points at gap `system.dt`; a model is simulated from their first points and compared."""
    whole = _trajectory(system, "reference", repetition, PIECES * PIECE_LENGTH, seed)
    return whole.reshape(PIECES, PIECE_LENGTH, system.dim).copy()


def grid(system: System) -> Float64[Array, "queries dim"]:
    """Nodes of the regular grid over the system's box, last component fastest; 1024 in 1-D, 32 by 32 in 2-D."""
    low, high = zip(*system.box, strict=True)
    return regular_grid(low, high, NODES_PER_AXIS[system.dim])


def stream(seed: int, *labels: str | int) -> np.random.SeedSequence:
    """The source of randomness for one purpose: other seeds or labels give independent streams."""
    return np.random.SeedSequence([seed, *" ".join(map(str, labels)).encode()])


def simulation_seed(seed: int, *labels: str | int) -> int:
    """A seed for `simulate` from the stream of one purpose."""
    return int(stream(seed, *labels).generate_state(1, np.uint64)[0])


def _trajectory(
    system: System, purpose: str, repetition: int, num_points: int, seed: int
) -> Float64[Array, "times dim"]:
    if not 0 <= repetition < REPETITIONS:
        raise ConfigError(
            f"repetition is {repetition}; expected 0 to {REPETITIONS - 1}. Take another seed for more data."
        )
    return _repetitions(system, purpose, num_points, seed)[repetition]


@lru_cache(maxsize=32)  # at most 4 MB each; five repetitions cost as much time as one and are asked for in turn
def _repetitions(system: System, purpose: str, num_points: int, seed: int) -> Float64[Array, "paths times dim"]:
    x0 = np.tile(np.array(system.initial_state, dtype=np.float64), (REPETITIONS, 1))
    times = np.arange(num_points) * system.dt
    paths = simulate(system, x0, times, seed=simulation_seed(seed, system.name, purpose))
    if paths.num_diverged:
        raise DatasetError(
            f"{paths.num_diverged} of {REPETITIONS} trajectories of {system.title} left the finite range with seed "
            f"{seed}, the first at time {np.nanmin(paths.diverged_at):g}. Take another seed or a smaller dt."
        )
    paths.values.flags.writeable = False  # shared by all callers
    return paths.values


def cube(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """x³ with the same last digit on every processor, unlike x**3: paths of some systems differ by it in the end."""
    return x * x * x


def _wang_drift(x: Float[Array, "queries 2"]) -> Float[Array, "queries 2"]:
    x1, x2 = x.T
    pull = 1 - x1**2 - x2**2
    return np.array([x1 * pull - x2, x2 * pull + x1]).T


def _hopf_drift(x: Float[Array, "queries 2"]) -> Float[Array, "queries 2"]:
    x1, x2 = x.T
    pull = 0.5 - x1**2 - x2**2
    return np.array([x1 * pull + x2, x2 * pull - x1]).T


def _glycolysis_drift(x: Float[Array, "queries 2"]) -> Float[Array, "queries 2"]:
    x1, x2 = x.T
    reaction = x1**2 * x2
    return np.array([-x1 + 0.08 * x2 + reaction, 0.6 - 0.08 * x1 - reaction]).T


DOUBLE_WELL = System(
    name="double_well",
    title="Double well",
    drift=lambda x: 4 * (x - cube(x)),
    diffusion=lambda x: np.sqrt(np.maximum(4 - 1.25 * x**2, 0)),
    initial_state=(0.0,),
    box=((-2.0, 2.0),),
)
WANG_2D = System(
    name="wang_2d",
    title="2D synthetic",
    drift=_wang_drift,
    diffusion=lambda x: np.sqrt(1 + x[:, ::-1] ** 2),
    initial_state=(1.5, 1.5),
    box=((-4.0, 4.0), (-4.0, 4.0)),
)
DAMPED_LINEAR = System(
    name="damped_linear",
    title="Damped linear oscillator",
    drift=lambda x: np.array([-0.1 * x[:, 0] + 2 * x[:, 1], -2 * x[:, 0] - 0.1 * x[:, 1]]).T,
    diffusion=np.ones_like,
    initial_state=(2.5, -5.0),
    box=((-2.0, 2.0), (-2.0, 2.0)),
)
DAMPED_CUBIC = System(
    name="damped_cubic",
    title="Damped cubic oscillator",
    drift=lambda x: DAMPED_LINEAR.drift(cube(x)),
    diffusion=np.ones_like,
    initial_state=(0.0, -1.0),
    box=((-2.0, 2.0), (-2.0, 2.0)),
)
DUFFING = System(
    name="duffing",
    title="Duffing oscillator",
    drift=lambda x: np.array([x[:, 1], x[:, 0] - cube(x[:, 0]) - 0.35 * x[:, 1]]).T,
    diffusion=np.ones_like,
    initial_state=(3.0, 2.0),
    box=((-4.0, 4.0), (-4.0, 4.0)),
)
GLYCOLYSIS = System(
    name="glycolysis",
    title="Selkov glycolysis",
    drift=_glycolysis_drift,
    diffusion=np.ones_like,
    initial_state=(0.7, 1.25),
    box=((-2.0, 4.0), (-2.0, 4.0)),
)
HOPF = System(
    name="hopf",
    title="Hopf bifurcation",
    drift=_hopf_drift,
    diffusion=np.ones_like,
    initial_state=(2.0, 2.0),
    box=((-2.0, 2.0), (-2.0, 2.0)),
)
CANONICAL = (DOUBLE_WELL, WANG_2D, DAMPED_LINEAR, DAMPED_CUBIC, DUFFING, GLYCOLYSIS, HOPF)
