"""FinetuneConfig: how a model is adapted to one data set."""

from dataclasses import dataclass
from math import inf
from typing import Literal, get_args

from fimsde.files.renamed import renamed
from fimsde.files.settings import check
from fimsde.train.config import LoopConfig, OptimiserConfig, ScheduleConfig

ObjectiveName = Literal["dense", "sparse", "filtered"]
Parameters = Literal["all", "heads", "low-rank"]


@renamed("0.3")
@dataclass(frozen=True)
class FinetuneConfig:
    """Settings of finetuning. The paper's own are `FinetuneConfig.paper`; those that are None follow from the data."""

    iterations: int = 100  # 0: the model as it is
    # dense: Gaussian likelihood of single steps. sparse: the paper's squared error of simulated states. filtered:
    # Gaussian likelihood through sub-steps with measurement noise. auto: dense or filtered, whichever suits the data.
    objective: str = "auto"
    parameters: str = "all"  # which weights learn: all, the output networks, or a low-rank change of all
    correction: bool = True  # add a polynomial of its own to the model, see `fimsde.model.correction`
    first_guess: bool = True  # begin with the correction that closed forms give, see `fimsde.train.finetune.start`
    num_scored: int | None = None  # starts scored in an iteration, drawn anew each time
    substeps: int | None = None  # steps per gap; of second order in filtered if several, of Euler otherwise
    look_ahead: int | None = None  # observations after each start that are scored
    observation_noise: str = "auto"  # filtered: "learnt", "none", or learnt if the data show any ("auto")
    learning_rate: float = 3e-4
    warm_up: int = 10  # iterations in which the learning rate grows to its largest value
    schedule: Literal["cosine", "constant"] = "cosine"
    clip: float = 1.0  # largest norm of the gradient; 0: none
    rank: int = 4  # of low-rank changes
    hold_out: float = 0.15  # share of the data that only judges; 0: none, and the last weights are kept
    # Standard errors by which held-out data must be predicted better for weights to be kept. If nothing is gained, one
    # of eleven judgements passes 3 by chance in at most 4 % of runs, 2 in up to 33 % (Student's t, twenty stretches).
    min_z: float = 3.0
    validation_interval: int = 10  # iterations between judgements, and between checkpoints
    patience: int = 5  # judgements without a new best before training ends
    seed: int = 0

    def __post_init__(self) -> None:
        _among("objective", self.objective, ("auto", *get_args(ObjectiveName)))
        _among("parameters", self.parameters, get_args(Parameters))
        _among("observation_noise", self.observation_noise, ("auto", "learnt", "none"))
        _among("schedule", self.schedule, ("cosine", "constant"))
        check(0 <= self.iterations <= 1_000_000, f"iterations is {self.iterations}", "0 to 1000000")
        for name in ("num_scored", "substeps", "look_ahead"):
            value = getattr(self, name)
            check(value is None or 1 <= value <= 100_000, f"{name} is {value}", "1 to 100000, or None")
        for name in ("rank", "validation_interval", "patience"):
            check(getattr(self, name) >= 1, f"{name} is {getattr(self, name)}", "at least 1")
        check(0 <= self.hold_out <= 0.5, f"hold_out is {self.hold_out:g}", "a share of the data, 0 to 0.5")
        check(0 <= self.min_z < inf, f"min_z is {self.min_z:g}", "a number of standard errors, 0 or more")
        self.loop()

    @staticmethod
    def paper(objective: Literal["dense", "sparse"]) -> "FinetuneConfig":
        """The published settings: all weights, a constant learning rate, nothing held out."""
        return FinetuneConfig(
            objective=objective,
            correction=False,
            num_scored=512 if objective == "dense" else 32,
            substeps=1 if objective == "dense" else 10,
            look_ahead=1,
            learning_rate=1e-5,
            warm_up=0,
            schedule="constant",
            clip=0.0,
            hold_out=0.0,
        )

    def loop(self) -> LoopConfig:
        """The same for the loop that all training shares."""
        return LoopConfig(
            steps=max(1, self.iterations),
            optimiser=OptimiserConfig(self.learning_rate, weight_decay=0.0),
            schedule=ScheduleConfig(self.schedule, self.warm_up),
            clip=self.clip,
            checkpoint_interval=self.validation_interval,
            log_interval=1,
            seed=self.seed,
        )


def stored_name(config: FinetuneConfig) -> str:
    """The settings as text that tells runs and results apart; as it was before `min_z` had this name, to find those."""
    return repr(config).replace("min_z=", "proof=")


def _among(name: str, value: object, allowed: tuple[str, ...]) -> None:
    check(value in allowed, f"{name} is {value!r}", f"one of {', '.join(allowed)}")
