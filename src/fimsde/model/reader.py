"""The reader of a model: everything in which kinds of models differ, behind one protocol.

`ModelConfig.reader` gives the reader of a config, the only place where the kind of a model is asked for. A reader makes
what the model reads of data, and the two parts of the model that depend on it: the features of tokens, and queries.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from fimsde.bank.identity import Identity
from fimsde.data.transitions import Transitions
from fimsde.shapes import Array, Float64

Reading = TypeVar("Reading")
Source_co = TypeVar("Source_co", covariant=True)


@dataclass(frozen=True)
class Limits:
    """f(min(max(x, low), high)) in place of f(x), and NaN where x is not finite or some |x_j| > farthest.

    Attributes:
        box: The corners low and high: farther outside, fields are held constant along each axis. None: nowhere.
        farthest: Normalised distance from which there is no answer.
    """

    box: Float[Tensor, "batch 2 max_dim"] | None = None
    farthest: float = inf

    def hold(self, x: Float[Tensor, "batch queries max_dim"]) -> Float[Tensor, "batch queries max_dim"]:
        """The places whose answers are those at x."""
        return x if self.box is None else torch.clamp(x, self.box[:, :1], self.box[:, 1:])

    def knows(self, x: Float[Tensor, "batch queries max_dim"]) -> Bool[Tensor, "batch queries"]:
        """Whether there is an answer at x."""
        return (x.abs() <= min(self.farthest, torch.finfo(x.dtype).max)).all(-1)


@runtime_checkable
class QueryState(Protocol):
    """Queries on their way through the stacks, and the way from a stack's numbers to the fields."""

    @property
    def h(self) -> Float[Tensor, "rows queries embed"]:
        """What enters the stacks."""

    def drift(self, raw: Float[Tensor, "rows queries outputs"]) -> Float[Tensor, "batch queries max_dim"]:
        """Drift f."""

    def diffusion(self, raw: Float[Tensor, "rows queries outputs"]) -> Float[Tensor, "batch queries max_dim"]:
        """Diffusion sqrt(g), not negative."""

    def log_variance(self, raw: Float[Tensor, "rows queries outputs"]) -> Float[Tensor, "batch queries"]:
        """The model's own log variance U."""


class Queries(nn.Module, ABC):
    """Locations become queries; also says where they may lie."""

    @abstractmethod
    def prepare(self, source: Any) -> Any:
        """What queries need to know of the context, made once."""

    @abstractmethod
    def limits(self, source: Any) -> Limits:
        """Where the model may be asked."""

    @abstractmethod
    def forward(self, prepared: Any, x: Float[Tensor, "batch queries max_dim"]) -> QueryState:
        """Queries at locations."""


@runtime_checkable
class Reader(Protocol[Reading, Source_co]):
    """What a kind of model reads of data, and what follows from that.

    Attributes:
        max_dim, embed: Components and width of the model.
        uses_origin: Whether a place known to be special changes what is read.
        joins_dims: Whether systems of several dimensions are read together, padded to `max_dim`.
        is_cacheable: Whether reading takes so long that pretraining may store what was read.
        tells_error_scales: Whether queries tell scales of the errors, which the primed objective needs.
        preferred_choices: Choices for drift and diffusion that an untrained model should prefer; None: it has none.
        num_outputs: Numbers that the stacks of drift, diffusion and log variance give for each query.
        num_weights: Weights of the features and the queries together.
        axes: Axes of the arrays that exported graphs take.
        token_axis: Which of them counts tokens.
        asks_arrays: Whether queries need these arrays, too.
        identity: What weights depend on besides their shapes; empty: nothing.
    """

    @property
    def max_dim(self) -> int: ...
    @property
    def embed(self) -> int: ...
    @property
    def uses_origin(self) -> bool: ...
    @property
    def joins_dims(self) -> bool: ...
    @property
    def is_cacheable(self) -> bool: ...
    @property
    def tells_error_scales(self) -> bool: ...
    @property
    def preferred_choices(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None: ...
    @property
    def num_outputs(self) -> tuple[int, int, int]: ...
    @property
    def num_weights(self) -> int: ...
    @property
    def axes(self) -> Mapping[str, str]: ...
    @property
    def token_axis(self) -> str: ...
    @property
    def asks_arrays(self) -> bool: ...
    @property
    def identity(self) -> Identity: ...

    def read_one(self, tr: Transitions, origin: Float64[Array, " dim"] | None) -> Reading:
        """What is read of one context of normalised transitions."""

    def is_finite(self, reading: Reading) -> bool:
        """Whether float32 can hold it."""

    def collate(self, readings: Sequence[Reading], dtype: torch.dtype) -> Source_co:
        """Several contexts as one batch, without limits: training asks wherever equations are known."""

    def read(
        self, contexts: Sequence[Transitions], origin: Float64[Array, " dim"] | None, dtype: torch.dtype
    ) -> Source_co:
        """Several contexts as one batch, with the limits of answers outside of them."""

    def arrays(self, tr: Transitions, origin: Float64[Array, " dim"] | None) -> dict[str, Array]:
        """What exported graphs take: one context as named arrays."""

    def source(self, arrays: Mapping[str, Tensor]) -> Source_co:
        """The same context as a batch of one."""

    def features(self) -> nn.Module:
        """The module that turns a source into tokens and a mask of real ones."""

    def queries(self) -> Queries:
        """The module that turns locations into queries."""


AnyReader = Reader[Any, Any]
