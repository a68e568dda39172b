"""FIMSDE, the recognition model: one encoder, three operators; normalised coordinates only, no data handling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import ModelHubMixin
from jaxtyping import Bool, Float
from torch import Tensor, nn

from fimsde.data.transitions import Transitions
from fimsde.model.config import ModelConfig
from fimsde.model.correction import Correction
from fimsde.model.encoder import Encoder, Source
from fimsde.model.initialise import initialise
from fimsde.model.operator import LayerContext, Operator
from fimsde.model.primed import PrimedContext
from fimsde.model.reader import Limits, QueryState
from fimsde.model.untrusted import read_json, read_tensors
from fimsde.model.weights import TENSORS, TRAINING, find_folder, read_config, write_weights
from fimsde.shapes import Array, Float64

CHUNK = 1024  # queries evaluated at a time; bounds memory, does not change results


@dataclass(frozen=True)
class Context:
    """What the model remembers of a data set: made once, read by every query.

    Attributes:
        source: The data as the model read them.
        queries: What queries need to know before they read; plain ones need nothing.
        limits: Where the model may be asked, and where its fields are held.
        encoded: Encoded transitions or cells.
        mask: True for real ones; None when all are, which is the fast case.
        drift, diffusion, log_variance: Keys and values of each functional layer of the three stacks.
    """

    source: Source
    queries: PrimedContext | None
    limits: Limits
    encoded: Float[Tensor, "rows n embed"]
    mask: Bool[Tensor, "rows n"] | None
    drift: tuple[LayerContext, ...]
    diffusion: tuple[LayerContext, ...]
    log_variance: tuple[LayerContext, ...]


class FIMSDE(nn.Module, ModelHubMixin):
    """In-context estimator of drift and diffusion.

    The hub's general mixin gives `push_to_hub`. Loading and saving are ours: the hub's torch variant falls
    back to pickles.

    Args:
        config: Sizes.
        seed: Seed of the random weights. None leaves the weights without storage, for a loader to fill.
    """

    training_record: Mapping[str, Any]  # how the weights came about, as stored beside them

    def __init__(self, config: ModelConfig, *, seed: int | None = 0) -> None:
        super().__init__()
        self.config = config
        self.training_record = {}
        with torch.device("meta"):  # no storage, and no draw from torch's global generator
            self.encoder = Encoder(config)
            self.locations = config.reader.queries()
            of_drift, of_diffusion, of_log_variance = config.reader.num_outputs
            self.drift_operator = Operator(config, of_drift)
            self.diffusion_operator = Operator(config, of_diffusion)
            self.log_variance_operator = Operator(config, of_log_variance)
            self.correction = Correction(config.max_dim) if config.correction else None
        if seed is not None:
            self.to_empty(device="cpu")
            initialise(self, torch.Generator().manual_seed(seed))

    def read(
        self, contexts: Sequence[Transitions], origin: Float64[Array, " dim"] | None = None, *, limited: bool = True
    ) -> Source:
        """Normalised transitions as this model reads them: step by step, or as banks of candidates and cells.

        Args:
            contexts: One or more systems; a primed model reads systems of one dimension together.
            origin: Primed models: a place known to be special, in normalised coordinates. See `make_bank`.
            limited: Whether fields are held far outside these data (`Limits`). Not for training, which must not depend
                on the order in which gradients of held and free places are added up.
        """
        weight, reader = next(self.parameters()), self.config.reader
        if limited:
            return reader.read(contexts, origin, weight.dtype).to(weight.device)
        return reader.collate([reader.read_one(tr, origin) for tr in contexts], weight.dtype).to(weight.device)

    def encode(self, source: Source) -> Context:
        """Read the data of a batch of systems."""
        encoded, mask = self.encoder(source)
        masked = not bool(mask.all())
        return Context(
            source=source,
            queries=self.locations.prepare(source),
            limits=self.locations.limits(source),
            encoded=encoded,
            mask=mask if masked else None,
            drift=self.drift_operator.project(encoded, masked=masked),
            diffusion=self.diffusion_operator.project(encoded, masked=masked),
            log_variance=self.log_variance_operator.project(encoded.detach(), masked=masked),
        )

    def drift(
        self, context: Context, x: Float[Tensor, "batch queries max_dim"], *, chunk: int = CHUNK
    ) -> Float[Tensor, "batch queries max_dim"]:
        """Drift f at each location, held and NaN as the context's limits say. Padded components have no meaning."""
        held = context.limits.hold(x)
        state = self.locations(context.queries, held)
        known = context.limits.knows(x)[..., None]
        return torch.where(known, self._drift(context, held, state, chunk), torch.nan)

    def diffusion(
        self, context: Context, x: Float[Tensor, "batch queries max_dim"], *, chunk: int = CHUNK
    ) -> Float[Tensor, "batch queries max_dim"]:
        """Diffusion sqrt(g) at each location, not negative, within the same limits as the drift."""
        held = context.limits.hold(x)
        state = self.locations(context.queries, held)
        known = context.limits.knows(x)[..., None]
        return torch.where(known, self._diffusion(context, held, state, chunk), torch.nan)

    def evaluate(
        self, context: Context, x: Float[Tensor, "batch queries max_dim"], *, chunk: int = CHUNK
    ) -> tuple[Float[Tensor, "batch queries max_dim"], Float[Tensor, "batch queries max_dim"]]:
        """Drift and diffusion at each location."""
        held = context.limits.hold(x)
        state = self.locations(context.queries, held)
        known = context.limits.knows(x)[..., None]
        return (
            torch.where(known, self._drift(context, held, state, chunk), torch.nan),
            torch.where(known, self._diffusion(context, held, state, chunk), torch.nan),
        )

    def log_variance(
        self, context: Context, x: Float[Tensor, "batch queries max_dim"], *, chunk: int = CHUNK
    ) -> Float[Tensor, "batch queries"]:
        """The model's own log variance U at each location, one number for drift and diffusion together.

        Nothing that trains U moves the encoder or the queries.
        """
        state = self.locations(context.queries, context.limits.hold(x))
        raw = self.log_variance_operator(state.h.detach(), context.log_variance, context.mask, chunk)
        return torch.where(context.limits.knows(x), state.log_variance(raw), torch.nan)

    def _drift(
        self, context: Context, held: Float[Tensor, "batch queries max_dim"], state: QueryState, chunk: int
    ) -> Float[Tensor, "batch queries max_dim"]:
        drift = state.drift(self.drift_operator(state.h, context.drift, context.mask, chunk))
        return drift if self.correction is None else self.correction.drift(drift, held)

    def _diffusion(
        self, context: Context, held: Float[Tensor, "batch queries max_dim"], state: QueryState, chunk: int
    ) -> Float[Tensor, "batch queries max_dim"]:
        diffusion = state.diffusion(self.diffusion_operator(state.h, context.diffusion, context.mask, chunk))
        return diffusion if self.correction is None else self.correction.diffusion(diffusion, held)

    def forward(
        self, source: Source, x: Float[Tensor, "batch queries max_dim"]
    ) -> tuple[
        Float[Tensor, "batch queries max_dim"], Float[Tensor, "batch queries max_dim"], Float[Tensor, "batch queries"]
    ]:
        """Drift, diffusion and U in one call, as a training step needs them."""
        context = self.encode(source)
        return (*self.evaluate(context, x), self.log_variance(context, x))

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls, path_or_hub_id: str | Path, *, allow_download: bool = False, revision: str | None = None
    ) -> "FIMSDE":
        """Load weights from a local folder, or from a Hugging Face Hub repository.

        Args:
            path_or_hub_id: A folder written by `save_pretrained`, or a hub id ("owner/name").
            allow_download: Let a hub id use the network; without it only a copy already on this machine is read.
            revision: Version of the hub repository.
        """
        folder = find_folder(path_or_hub_id, allow_download=allow_download, revision=revision)
        model = cls(read_config(folder), seed=None)
        shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        model.load_state_dict(read_tensors(folder / TENSORS, shapes), assign=True)
        if (folder / TRAINING).exists():
            model.training_record = read_json(folder / TRAINING)
        return model.requires_grad_(True).eval()

    def save_pretrained(  # type: ignore[override]
        self,
        folder: str | Path,
        *,
        training: Mapping[str, Any] | None = None,
        overwrite: bool = False,
        config: None = None,
        model_card_kwargs: None = None,
    ) -> None:
        """Write config, weights, card and training record into a new folder, in one atomic step.

        Args:
            folder: Where to; must not exist unless `overwrite` is set.
            training: How the weights came about; by default what they were loaded with.
            overwrite: Replace a folder of that name that this package made. What others put there stays.
            config, model_card_kwargs: Unused; `push_to_hub` passes them.
        """
        record = self.training_record if training is None else training
        write_weights(Path(folder), self.config, self.state_dict(), record, overwrite=overwrite)
