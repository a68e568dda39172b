"""What finetuning returns: the adapted model, its estimate, and how well both predict held-out data."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from fimsde.equations.sde import SDE
from fimsde.model.fim import FIMSDE
from fimsde.train.finetune.config import ObjectiveName
from fimsde.train.finetune.gain import Gain

S = TypeVar("S", bound=SDE)
Ended = Literal["finished", "stopped early", "interrupted"]


@dataclass(frozen=True)
class Judgement:
    """How well a model predicts held-out observations.

    Attributes:
        iteration: After how many iterations.
        loss: What the best weights are chosen by, smaller is better: minus the log-likelihood, or the squared error of
            the sparse objective. None if it is not finite.
        log_likelihood: Nats per observed component, in the units of the data. None if it is not finite.
        gain: By how much the loss is smaller than that of the model as it was, where no window counts for more than one
            nat per component; see `paired_gain`. None if it is not finite.
        gain_error: Standard error of that, paired over stretches of time. None if it is not finite.
        lost_paths: Of 64 simulated paths, those that left the data by more than their range. Weights that lose more
            than three, and more than the model as it was, are not kept.
    """

    iteration: int
    loss: float | None
    log_likelihood: float | None
    gain: float | None
    gain_error: float | None
    lost_paths: int

    def is_proven(self, min_z: float) -> bool:
        """Whether the gain is positive, and more than `min_z` standard errors."""
        if self.gain is None or self.gain_error is None:
            return False
        return Gain(self.gain, self.gain_error).is_proven(min_z)


@dataclass(frozen=True, eq=False)
class Finetuned(Generic[S]):
    """A model adapted to a data set, and how that went.

    Attributes:
        model: The best weights. `fimsde.estimate(observations, model)` reads data with them.
        sde: That estimate for all observations, in the units of the data; from `fimsde.finetune` it is a `Result`.
        objective: What was minimised.
        reason: Why this objective.
        before: The model as it was, on held-out data.
        after: The best weights, on the same data.
        verdict: In one sentence, what is returned and why.
        curve: All judgements, in the order of iterations.
        iterations: Iterations done.
        ended: "finished", "stopped early" because nothing got better, or "interrupted".
        skipped: Iterations left out because loss or gradient were not finite.
        seconds: Of training.
    """

    model: FIMSDE = field(repr=False)
    sde: S = field(repr=False)
    objective: ObjectiveName
    reason: str
    before: Judgement
    after: Judgement
    verdict: str
    curve: tuple[Judgement, ...]
    iterations: int
    ended: Ended
    skipped: int
    seconds: float

    def report(self) -> dict[str, Any]:
        """All but model and estimate, ready for JSON."""
        plain = {
            key: value for key, value in vars(self).items() if key not in ("model", "sde", "before", "after", "curve")
        }
        judged = {"before": asdict(self.before), "after": asdict(self.after), "curve": [asdict(j) for j in self.curve]}
        return plain | judged

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the weights, with the report as their record; `FIMSDE.from_pretrained` loads them."""
        self.model.save_pretrained(folder, overwrite=overwrite)
