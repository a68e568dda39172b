"""The numbers printed in the paper, to stand beside ours."""

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files


@dataclass(frozen=True)
class Published:
    """One entry of a table of the paper.

    Attributes:
        experiment: Which of our experiments it belongs to.
        system: Name of the system or series.
        setting: As in `Task.setting`.
        comparison: The initial law for Lorenz, else empty.
        measure: "mmd", "drift_mse" or "diffusion_mse".
        method: "bisde", "sparsegp", "latentsde", "fim", "fim-finetuned" or an ablation of "fim".
        mean: None if all runs failed (MMD) or if the paper gives no number above 1e4 (drift).
        std: None where the paper gives none.
        failures: Runs of five without a number.
    """

    experiment: str
    system: str
    setting: str
    comparison: str
    measure: str
    method: str
    mean: float | None
    std: float | None
    failures: int

    @property
    def title(self) -> str:
        """Name of the method in tables."""
        return _stored()["titles"][self.method]


def published(experiment: str) -> tuple[Published, ...]:
    """All published numbers of an experiment."""
    return tuple(Published(*row) for row in _stored()["rows"] if row[0] == experiment)


def find(experiment: str, system: str, setting: str, comparison: str, measure: str, method: str) -> Published | None:
    """The published number that a result stands beside; one without comparison stands beside all of them."""
    return _index().get((experiment, system, setting, comparison, measure, method)) or _index().get(
        (experiment, system, setting, "", measure, method)
    )


@lru_cache(maxsize=1)
def _index() -> dict[tuple[str, ...], Published]:
    entries = (Published(*row) for row in _stored()["rows"])
    return {(e.experiment, e.system, e.setting, e.comparison, e.measure, e.method): e for e in entries}


@lru_cache(maxsize=1)
def _stored() -> dict:
    return json.loads(files("fimsde.benchmark").joinpath("published.json").read_text(encoding="utf-8"))
