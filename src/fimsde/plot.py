"""Figures from results; nothing is computed here."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fimsde.errors import ConfigError
from fimsde.observations import Observations
from fimsde.sde import SDE
from fimsde.shapes import Array, Float64

_OBSERVED, _TRUTH = "#4a5568", "#c05621"
_MAX_POINTS = 20_000  # drawn per path; more cannot be told apart


def plot_paths(obs: Observations, axes: Axes, component: int = 0) -> None:
    """One component of the observations against time."""
    for k in range(obs.num_paths):
        times, values = obs.path(k)
        thin = slice(None, None, max(1, len(times) // _MAX_POINTS))
        axes.plot(times[thin], values[thin, component], lw=0.6, color=_OBSERVED)
    axes.set_xlabel("time" if obs.time_unit is None else f"time ({obs.time_unit})")
    axes.set_ylabel(obs.names[component])


def plot_field(sde: SDE, obs: Observations, *, title: str = "", label: str = "") -> Figure:
    """Observations beside drift and diffusion: curves in 1-D; arrows and a map of their size in 2-D."""
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    if sde.dim == 1:
        plot_paths(obs, left)
        x = obs.grid(401, widen=0.25)
        for axes, values, name in ((middle, sde.drift(x), "drift"), (right, sde.diffusion(x), "diffusion √g")):
            axes.plot(x[:, 0], values[:, 0], color=_TRUTH, label=label)
            _rug(axes, obs.values[:, 0])
            axes.set_xlabel(obs.names[0])
            axes.set_title(name)
            if label:
                axes.legend(frameon=False)
    elif sde.dim == 2:
        _phase_plane(obs, left)
        _arrows(sde, obs, middle, figure)
        _sizes(sde, obs, right, figure)
    else:
        raise ConfigError(
            f"the field has {sde.dim} components; a figure shows one or two. Fix the others (FunctionSDE)."
        )
    left.set_title(title or "observations")
    return figure


def _rug(axes: Axes, values: Float64[Array, " points"]) -> None:
    thin = values[:: max(1, len(values) // 2000)]
    axes.plot(
        thin, np.zeros_like(thin), "|", transform=axes.get_xaxis_transform(), color=_OBSERVED, alpha=0.3, clip_on=False
    )


def _phase_plane(obs: Observations, axes: Axes) -> None:
    for k in range(obs.num_paths):
        _, values = obs.path(k)
        thin = values[:: max(1, len(values) // _MAX_POINTS)]
        axes.plot(thin[:, 0], thin[:, 1], lw=0.5, color=_OBSERVED)
    axes.set_xlabel(obs.names[0])
    axes.set_ylabel(obs.names[1])


def _arrows(sde: SDE, obs: Observations, axes: Axes, figure: Figure) -> None:
    x = obs.grid(40, widen=0.1)
    drift = sde.drift(x)
    a, b = x.reshape(40, 40, 2)[:, 0, 0], x.reshape(40, 40, 2)[0, :, 1]
    u, v = (drift[:, j].reshape(40, 40).T for j in (0, 1))
    speed = np.hypot(u, v)
    stream = axes.streamplot(a, b, u, v, color=speed, cmap="viridis", density=1.1, linewidth=0.8, arrowsize=0.8)
    figure.colorbar(stream.lines, ax=axes, label="|drift|")
    axes.set_xlabel(obs.names[0])
    axes.set_title("drift")


def _sizes(sde: SDE, obs: Observations, axes: Axes, figure: Figure) -> None:
    x = obs.grid(60, widen=0.1)
    size = np.linalg.norm(sde.diffusion(x), axis=1).reshape(60, 60).T
    low, high = obs.box(0.1)
    image = axes.imshow(size, origin="lower", extent=(low[0], high[0], low[1], high[1]), aspect="auto", cmap="magma")
    figure.colorbar(image, ax=axes, label="|√g|")
    axes.set_xlabel(obs.names[0])
    axes.set_title("diffusion √g")
