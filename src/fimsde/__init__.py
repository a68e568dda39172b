"""fimsde: the stochastic differential equation behind your time series, zero-shot."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fimsde._version import __version__
from fimsde.data.observations import Observations, read
from fimsde.equations.changes import AffineSDE, ExpSDE, LogSDE
from fimsde.equations.sde import SDE, CorrelatedSDE, FunctionSDE
from fimsde.errors import CheckpointError, ConfigError, DatasetError, DataWarning, FimsdeError, InvalidObservationsError
from fimsde.simulate import Paths, simulate

if TYPE_CHECKING:
    from fimsde.analysis.compare import compare
    from fimsde.estimation import EstimatedSDE
    from fimsde.model.fim import FIMSDE
    from fimsde.plots import BandSettings, plot
    from fimsde.plots import Kind as Kind
    from fimsde.plots import Picture as Picture
    from fimsde.report import write_report
    from fimsde.results.make import estimate, finetune, fit, result
    from fimsde.results.result import Result
    from fimsde.results.storage import load, save
    from fimsde.train.finetune.config import FinetuneConfig
    from fimsde.train.finetune.result import Finetuned

# Imported on first use, because they load torch, scipy, numba or matplotlib: reading data needs none of them. Methods
# of `Result` find what stands above it by these names.
_LATER = {
    "Result": "fimsde.results.result",
    "result": "fimsde.results.make",
    "estimate": "fimsde.results.make",
    "fit": "fimsde.results.make",
    "finetune": "fimsde.results.make",
    "EstimatedSDE": "fimsde.estimation",
    "FIMSDE": "fimsde.model.fim",
    "compare": "fimsde.analysis.compare",
    "load": "fimsde.results.storage",
    "save": "fimsde.results.storage",
    "plot": "fimsde.plots",
    "BandSettings": "fimsde.plots",
    "Kind": "fimsde.plots",
    "Picture": "fimsde.plots",
    "write_report": "fimsde.report",
    "FinetuneConfig": "fimsde.train.finetune.config",
    "Finetuned": "fimsde.train.finetune.result",
}

__all__ = [  # noqa: RUF022 — in the order of the road
    "read",
    "Observations",
    "estimate",
    "EstimatedSDE",
    "FIMSDE",
    "finetune",
    "FinetuneConfig",
    "Finetuned",
    "Result",
    "result",
    "fit",
    "compare",
    "save",
    "load",
    "plot",
    "BandSettings",
    "write_report",
    "simulate",
    "Paths",
    "SDE",
    "FunctionSDE",
    "CorrelatedSDE",
    "AffineSDE",
    "LogSDE",
    "ExpSDE",
    "FimsdeError",
    "InvalidObservationsError",
    "ConfigError",
    "CheckpointError",
    "DatasetError",
    "DataWarning",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'fimsde' has no attribute {name!r}")
    value = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
