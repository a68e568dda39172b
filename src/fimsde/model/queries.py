"""Plain queries of the paper: a linear map of the location, and outputs that are the fields themselves."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from fimsde.model.config import ModelConfig


class PlainQueries(nn.Linear):
    """h_0(x), shared by the three stacks."""

    log_variance_outputs = 1

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config.max_dim, config.embed)
        self.drift_outputs = self.diffusion_outputs = config.max_dim

    def prepare(self, source: object) -> None:
        """Plain queries know nothing of the context before they read it."""

    def forward(self, prepared: None, x: Float[Tensor, "batch queries max_dim"]) -> "PlainAsked":  # type: ignore[override]
        return PlainAsked(super().forward(x))


@dataclass(frozen=True)
class PlainAsked:
    """Queries on their way through the stacks."""

    h: Float[Tensor, "batch queries embed"]

    def drift(self, raw: Float[Tensor, "batch queries max_dim"]) -> Float[Tensor, "batch queries max_dim"]:
        return raw

    def diffusion(self, raw: Float[Tensor, "batch queries max_dim"]) -> Float[Tensor, "batch queries max_dim"]:
        return F.softplus(raw)

    def log_variance(self, raw: Float[Tensor, "batch queries 1"]) -> Float[Tensor, "batch queries"]:
        return raw[..., 0]
