"""fimsde: the stochastic differential equation behind your time series, zero-shot."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fimsde._version import __version__
from fimsde.errors import CheckpointError, ConfigError, DatasetError, DataWarning, FimsdeError, InvalidObservationsError
from fimsde.observations import Observations, read
from fimsde.sde import SDE, AffineSDE, ExpSDE, FunctionSDE, LogSDE
from fimsde.simulate import Paths, simulate

if TYPE_CHECKING:
    from fimsde.analysis.baseline import fit
    from fimsde.analysis.compare import compare
    from fimsde.analysis.fitted import FittedSDE, result
    from fimsde.analysis.result import Result
    from fimsde.analysis.storage import load
    from fimsde.estimation import EstimatedSDE, estimate
    from fimsde.model.fim import FIMSDE
    from fimsde.train.finetune import finetune
    from fimsde.train.finetune_config import FinetuneConfig
    from fimsde.train.finetune_result import Finetuned

# Imported on first use, because they load torch, scipy or numba: reading data needs none of them.
_LATER = {
    "Result": "fimsde.analysis.result",
    "FittedSDE": "fimsde.analysis.fitted",
    "result": "fimsde.analysis.fitted",
    "EstimatedSDE": "fimsde.estimation",
    "estimate": "fimsde.estimation",
    "FIMSDE": "fimsde.model.fim",
    "fit": "fimsde.analysis.baseline",
    "compare": "fimsde.analysis.compare",
    "load": "fimsde.analysis.storage",
    "finetune": "fimsde.train.finetune",
    "FinetuneConfig": "fimsde.train.finetune_config",
    "Finetuned": "fimsde.train.finetune_result",
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
    "FittedSDE",
    "result",
    "fit",
    "compare",
    "load",
    "simulate",
    "Paths",
    "SDE",
    "FunctionSDE",
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
