"""One figure of a result by the name of its kind."""

from typing import Literal

from fimsde.analysis.box import Box
from fimsde.analysis.replay import replay
from fimsde.equations.sde import SDE
from fimsde.errors import ConfigError
from fimsde.plots.bands import BandSettings
from fimsde.plots.landscape import plot_density, plot_potential
from fimsde.plots.planes import plot_plane, plot_slices
from fimsde.plots.replays import plot_paths, plot_statistics
from fimsde.plots.sections import plot_curves, plot_sections
from fimsde.plots.style import Picture
from fimsde.results.result import Result

Kind = Literal["fields", "drift", "diffusion", "potential", "density", "paths", "statistics"]


def plot(
    result: Result,
    kind: Kind | str = "fields",  # any text may come: it is refused with the names of the kinds
    *,
    box: Box | None = None,
    bands: BandSettings | None = None,
    truth: SDE | None = None,
    seed: int = 0,
) -> Picture:
    """One figure of a result.

    Args:
        result: Any result.
        kind: "fields": drift and diffusion: curves with bands in 1-D, stream lines and maps in 2-D, slices in 3-D.
            "drift", "diffusion": one field along lines through the data, with bands. "potential" and "density" (1-D,
            2-D): landscape with fixed points, stationary density against the histogram. "paths", "statistics":
            simulated against observed.
        box: Lower and upper corner of what is shown; by default where the data are.
        bands: How bands are made.
        truth: Another equation, drawn beside curves.
        seed: Seed of simulated paths.
    """
    match kind:
        case "fields" if result.dim == 1:
            return plot_curves(result, box=box, bands=bands, truth=truth)
        case "fields" if result.dim == 2:
            return plot_plane(result, box=box, bands=bands)
        case "fields":
            return plot_slices(result, box=box)
        case "drift" | "diffusion":
            return plot_sections(result, kind, box=box, bands=bands, truth=truth)
        case "potential":
            return plot_potential(result, box=box)
        case "density":
            return plot_density(result, box=box)
        case "paths":
            return plot_paths(replay(result, seed=seed))
        case "statistics":
            return plot_statistics(replay(result, seed=seed))
    raise ConfigError(f"kind is {kind!r}; expected fields, drift, diffusion, potential, density, paths or statistics.")
