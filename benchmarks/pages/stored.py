"""What is stored, as the pages ask for it."""

from functools import cached_property, lru_cache
from math import exp, fsum, log
from pathlib import Path
from typing import Any

from record import load

from fimsde.benchmark.published import Published, find
from fimsde.benchmark.results import Measurement, read_all
from fimsde.benchmark.summary import Cell, summarise
from fimsde.benchmark.tasks import Experiment

RESULTS = Path(__file__).parents[1] / "results"
EXPERIMENTS: tuple[Experiment, ...] = ("canonical", "lorenz", "real-world", "context-size", "out-of-class")
FIELDS = {"drift": "drift_mse", "diffusion": "diffusion_mse"}
SETTINGS = {  # as the pages name them: noise / gap
    "0/0.002": "rho=0,dtau=0.002",
    "0/0.02": "rho=0,dtau=0.02",
    "0.05/0.002": "rho=0.05,dtau=0.002",
    "0.05/0.02": "rho=0.05,dtau=0.02",
}
SYSTEMS = {
    "double_well": "double well",
    "wang_2d": "2-D synthetic",
    "damped_linear": "damped linear",
    "damped_cubic": "damped cubic",
    "duffing": "Duffing",
    "glycolysis": "glycolysis",
    "hopf": "Hopf",
}


class Stored:
    """Results of experiments and of scripts in one folder."""

    def __init__(self, folder: Path = RESULTS) -> None:
        self.folder = folder
        self.results = lru_cache(self._results)
        self.cells = lru_cache(self._cells)

    def _results(self, experiment: Experiment) -> list[Measurement]:
        return read_all(self.folder, experiment, seed=0)

    def _cells(self, experiment: Experiment) -> list[Cell]:
        return summarise(self.results(experiment))

    @cached_property
    def _index(self) -> dict[tuple[str, ...], Cell]:
        every = [cell for experiment in EXPERIMENTS for cell in self.cells(experiment)]
        return {(c.experiment, c.system, c.setting, c.comparison, c.measure, c.method): c for c in every}

    def cell(
        self, experiment: Experiment, system: str, setting: str, comparison: str, measure: str, method: str
    ) -> Cell | Published:
        """A cell of ours, or of the paper if the method is one of its names."""
        key = (experiment, system, setting, comparison, measure, method)
        paper = method.removeprefix("paper:")
        found = self._index.get(key) if paper == method else find(*key[:-1], paper)
        if found is None:
            raise KeyError(f"no stored result of {' '.join(filter(None, key))}")
        return found

    def ratio(self, method: str, field: str, system: str, setting: str) -> float:
        """The error of a method on a canonical system, divided by that of the published model."""
        place = "canonical", system, SETTINGS[setting], "", FIELDS[field]
        return self.cell(*place, method).mean / self.cell(*place, "paper:fim").mean

    def mean_ratio(self, method: str, field: str, setting: str) -> float:
        """The geometric mean over the seven systems."""
        return geometric_mean([self.ratio(method, field, system, setting) for system in SYSTEMS])

    def script(self, name: str) -> Any:
        """The numbers of a script."""
        return load(name, self.folder / "scripts")["numbers"]


def geometric_mean(values: list[float]) -> float:
    """exp of the mean logarithm."""
    return exp(fsum(map(log, values)) / len(values))
