"""Batches: batch number i is a function of (settings, i), whoever makes it, in whatever order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from fimsde.errors import ConfigError, DatasetError, InvalidObservationsError
from fimsde.model.encoder import Source
from fimsde.prior.config import PriorConfig
from fimsde.prior.dataset import Dataset
from fimsde.prior.equation import DrawnEquation, draw_equation
from fimsde.train.config import TrainConfig
from fimsde.train.pretrain.contexts import Example, draw_num_observations, hides_curvature, make_example
from fimsde.train.processes import Part

BATCH, ITEM, SHARD, PICK = range(4)  # purposes: each has random numbers of its own
_ATTEMPTS = 20  # by hand: contexts drawn for an item until the settings are taken to be hopeless
NEXT = 1 << 40  # equations between an item and its replacement: more than any run reads


@dataclass(frozen=True)
class Batch:
    """What one step of training reads: contexts, locations and exact answers, normalised and padded.

    Attributes:
        source: The contexts as the model reads them.
        x, drift, diffusion: Locations and the exact values there.
        scored: False for locations that do not count.
        dims: True for the real components of each equation.
    """

    source: Source
    x: Float[Tensor, "batch queries max_dim"]
    drift: Float[Tensor, "batch queries max_dim"]
    diffusion: Float[Tensor, "batch queries max_dim"]
    scored: Bool[Tensor, "batch queries"]
    dims: Bool[Tensor, "batch max_dim"]

    @property
    def num_systems(self) -> int:
        """Equations in the batch."""
        return len(self.x)

    def to(self, device: torch.device) -> "Batch":
        """The same on another device."""
        return Batch(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})


class StreamedBatches(TorchDataset[Batch]):
    """Equations drawn from the prior on the fly. A batch has one dimension and setting, unless `config.mixed`.

    Never the same equation twice; or, if `config.equations` bounds their number, those of the first batches again and
    again: in every pass the batches come in another order, with other contexts and locations.
    """

    def __init__(self, config: TrainConfig, part: Part | None = None) -> None:
        self.config = config
        self.items = (part or Part()).items(config.batch_size)

    def __len__(self) -> int:
        return self.config.loop.steps

    def __getitem__(self, index: int) -> Batch:
        if self.config.mixed and not self.config.model.reader.joins_dims:
            raise ConfigError("mixed is set, but a primed model reads equations of one dimension together.")
        return gather(self.config, self.examples(index))

    def examples(self, index: int) -> list["ReadExample"]:
        """What the batch is made of."""
        config, seed = self.config, self.config.loop.seed
        first = self._first_visit(index)
        prior, num_observations = config.prior, None
        if not config.mixed:
            rng = np.random.default_rng([seed, BATCH, first])
            prior = draw_kind(config.prior, rng)
            if first != index:
                rng = np.random.default_rng([seed, BATCH, index])
            num_observations = draw_num_observations(config.contexts, prior.settings[0], rng)

        def equation(item: int, attempt: int) -> DrawnEquation:
            return draw_equation(prior, seed, first * config.batch_size + item + attempt * NEXT)

        return [draw_example(config, equation, item, num_observations, [ITEM, index, item]) for item in self.items]

    def _first_visit(self, index: int) -> int:
        """The batch that first had the equations of batch `index`."""
        per_pass = self.config.equations // self.config.batch_size
        if not per_pass or index < per_pass:
            return index
        turn, place = divmod(index, per_pass)
        return int(np.random.default_rng([self.config.loop.seed, PICK, turn]).permutation(per_pass)[place])


class StoredBatches(TorchDataset[Batch]):
    """Equations of a data set made by `fimsde generate`, for models that read dimensions together.

    Like the authors' batches, one takes its equations from neighbouring places; the order of the batches is drawn
    anew for every pass through the data.
    """

    def __init__(self, config: TrainConfig, folder: Path, part: Part | None = None) -> None:
        if not config.model.reader.joins_dims:
            raise ConfigError(
                "a primed model reads equations of one dimension together, which stored data sets do not offer; "
                "let it draw equations on the fly, or use a cache."
            )
        self.config = config
        self.items = (part or Part()).items(config.batch_size)
        self.dataset = Dataset(folder)
        if self.dataset.manifest.settings.identity != config.dataset:
            raise DatasetError(f"{folder} is not the data set of these training settings (dataset = {config.dataset}).")
        if len(self.dataset) < config.batch_size:
            raise DatasetError(
                f"{folder} holds {len(self.dataset)} equations; expected at least a batch of {config.batch_size}."
            )

    def __len__(self) -> int:
        return self.config.loop.steps

    def __getitem__(self, index: int) -> Batch:
        config, seed = self.config, self.config.loop.seed
        per_pass = len(self.dataset) // config.batch_size
        turn, place = divmod(index, per_pass)
        first = int(np.random.default_rng([seed, PICK, turn]).permutation(per_pass)[place]) * config.batch_size

        def example(item: int) -> ReadExample:
            equation = self.dataset[first + item]
            # from the same random numbers for all of them: equations with equal settings get equally many observations
            wanted = draw_num_observations(
                config.contexts, equation.setting, np.random.default_rng([seed, BATCH, index])
            )
            return draw_example(config, lambda *_: equation, item, wanted, [ITEM, index, item])

        return gather(config, [example(item) for item in self.items])


def draw_kind(prior: PriorConfig, rng: np.random.Generator) -> PriorConfig:
    """The prior restricted to one dimension and one setting, drawn by their shares."""
    dim = rng.choice(len(prior.dims), p=np.array(prior.dim_shares) / sum(prior.dim_shares))
    shares = np.array([setting.share for setting in prior.settings])
    setting = prior.settings[rng.choice(len(shares), p=shares / shares.sum())]
    return replace(prior, dims=(prior.dims[dim],), dim_shares=(1.0,), settings=(setting,))


@dataclass(frozen=True, eq=False)
class ReadExample:
    """An example, and what the reader of the model made of its context."""

    example: Example
    reading: Any


def draw_example(
    config: TrainConfig,
    equation: Callable[[int, int], DrawnEquation],
    item: int,
    num_observations: int | None,
    purpose: Sequence[int],
    num_queries: int | None = None,
) -> ReadExample:
    """The example of an item. Contexts that cannot be normalised or fitted are replaced by those of other equations.

    That happens when a component rests exactly at a fixed point: nothing can be learned from it, nor does `estimate`
    accept it. With `hidden` below one, so are most of those whose curvature does not show. The replacement is a
    function of the item as well.
    """
    reader = config.model.reader
    for attempt in range(_ATTEMPTS):
        rng = np.random.default_rng([config.loop.seed, *purpose, attempt])
        try:
            example = make_example(
                config, equation(item, attempt), num_observations, num_queries or config.num_queries, rng
            )
            if not _has_finite_answers(example):
                continue
            if config.contexts.hidden < 1 and hides_curvature(example) and rng.random() >= config.contexts.hidden:
                continue
            reading = reader.read_one(example.transitions, example.origin)
        except (InvalidObservationsError, np.linalg.LinAlgError):
            continue
        if reader.is_finite(reading):
            return ReadExample(example, reading)
    raise DatasetError(
        f"none of {_ATTEMPTS} contexts drawn for item {item} can be used. Allow longer contexts, or check the prior."
    )


def _has_finite_answers(example: Example) -> bool:
    """Whether float32 can hold the answers: not where a component almost rests while the field around it is large."""
    with np.errstate(over="ignore"):
        answers = np.float32(np.concatenate([example.drift, example.diffusion], axis=1)[example.scored])
    return bool(np.isfinite(answers).all())


def gather(config: TrainConfig, read: Sequence[ReadExample]) -> Batch:
    """Stack examples into one batch of float32 tensors."""
    examples = [r.example for r in read]
    source = config.model.reader.collate([r.reading for r in read], torch.float32)
    dims = np.zeros((len(examples), config.model.max_dim), np.bool_)
    fields_ = np.zeros((3, len(examples), len(examples[0].x), config.model.max_dim), np.float32)
    for k, example in enumerate(examples):
        dim = example.x.shape[1]
        dims[k, :dim] = True
        for part, values in zip(fields_, (example.x, example.drift, example.diffusion), strict=True):
            part[k, :, :dim] = values
    x, drift, diffusion = torch.from_numpy(fields_)
    scored = torch.from_numpy(np.stack([e.scored for e in examples]))
    return Batch(source, x, drift, diffusion, scored, torch.from_numpy(dims))
