"""fimsde: the stochastic differential equation behind your time series, with error bars and a verdict."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fimsde._version import __version__
from fimsde.errors import (
    CheckpointError,
    ConfigError,
    DatasetError,
    DataWarning,
    FimsdeError,
    GuessWarning,
    InvalidObservationsError,
)

if TYPE_CHECKING:
    from fimsde import datasets
    from fimsde.analysis.compare import compare
    from fimsde.data.observations import Observations, read
    from fimsde.equations.changes import AffineSDE, ExpSDE, LogSDE
    from fimsde.equations.sde import SDE, CorrelatedSDE, FunctionSDE
    from fimsde.estimation import EstimatedSDE
    from fimsde.model.fim import FIMSDE
    from fimsde.plots import BandSettings, plot
    from fimsde.plots import Kind as Kind
    from fimsde.plots import Picture as Picture
    from fimsde.report import write_report
    from fimsde.report.answer import Answer as Answer
    from fimsde.report.answer import answer as answer
    from fimsde.report.many import estimate_many
    from fimsde.results.make import estimate, finetune, fit, result
    from fimsde.results.result import Result
    from fimsde.results.storage import load, save
    from fimsde.simulate import Paths, simulate
    from fimsde.train.finetune.config import FinetuneConfig
    from fimsde.train.finetune.result import Finetuned

# Imported on first use: the help of the program and a sentence about a wrong option need not even numpy, and reading
# data needs no torch. Methods of `Result` find what stands above it by these names.
_LATER = {
    "read": "fimsde.data.observations",
    "Observations": "fimsde.data.observations",
    "AffineSDE": "fimsde.equations.changes",
    "ExpSDE": "fimsde.equations.changes",
    "LogSDE": "fimsde.equations.changes",
    "SDE": "fimsde.equations.sde",
    "CorrelatedSDE": "fimsde.equations.sde",
    "FunctionSDE": "fimsde.equations.sde",
    "datasets": "fimsde.datasets",
    "simulate": "fimsde.simulate",
    "Paths": "fimsde.simulate",
    "Result": "fimsde.results.result",
    "result": "fimsde.results.make",
    "estimate": "fimsde.results.make",
    "estimate_many": "fimsde.report.many",
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
    "answer": "fimsde.report.answer",
    "Answer": "fimsde.report.answer",
    "FinetuneConfig": "fimsde.train.finetune.config",
    "Finetuned": "fimsde.train.finetune.result",
}

__all__ = [  # noqa: RUF022 — in the order of the road
    "read",
    "Observations",
    "datasets",
    "estimate",
    "estimate_many",
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
    "GuessWarning",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'fimsde' has no attribute {name!r}")
    module = import_module(_LATER[name])
    value = module if _LATER[name] == f"fimsde.{name}" and name != "simulate" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """This package. Importing its module `simulate` sets that name here, which belongs to the function in it."""

    def __setattr__(self, name: str, value: Any) -> None:
        is_its_module = name == "simulate" and isinstance(value, ModuleType)
        super().__setattr__(name, value.simulate if is_its_module else value)


sys.modules[__name__].__class__ = _Package
