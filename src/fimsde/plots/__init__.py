"""Figures of results. They ask a `Result` and draw; every figure is ready for print.

Grey is where no data support the equation. Names like "height (mm)" carry units into every label.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fimsde.plots.bands import BandSettings

if TYPE_CHECKING:
    from fimsde.plots.figures import Kind, plot
    from fimsde.plots.landscape import plot_density, plot_potential
    from fimsde.plots.planes import plot_plane, plot_slices
    from fimsde.plots.replays import plot_paths, plot_statistics
    from fimsde.plots.sections import plot_curves, plot_sections
    from fimsde.plots.style import Picture, to_png

_LATER = {  # imported on first use, because they load matplotlib
    "Kind": "figures",
    "Picture": "style",
    "plot": "figures",
    "plot_curves": "sections",
    "plot_density": "landscape",
    "plot_paths": "replays",
    "plot_plane": "planes",
    "plot_potential": "landscape",
    "plot_sections": "sections",
    "plot_slices": "planes",
    "plot_statistics": "replays",
    "to_png": "style",
}

__all__ = [
    "BandSettings",
    "Kind",
    "Picture",
    "plot",
    "plot_curves",
    "plot_density",
    "plot_paths",
    "plot_plane",
    "plot_potential",
    "plot_sections",
    "plot_slices",
    "plot_statistics",
    "to_png",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'fimsde.plots' has no attribute {name!r}")
    return getattr(import_module(f"fimsde.plots.{_LATER[name]}"), name)
