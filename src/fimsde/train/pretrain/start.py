"""Random weights to begin with: as published, as local averages, or for primed models near good candidates.

"published": the authors' initialisation. "local" begins with it as well, and for runs too short to find out by small
steps, puts four things where they are needed:

- Tokens. Normalised gaps are about `target_gap` long, so increments have the size of its root. The maps of gap,
  increment and squared increment are multiplied such that tokens see numbers of size one.
- Where queries look. A location x enters as a state y does, and the weight of a transition from y is exp(c x·y), with
  c from 1/2 to 4 for the heads. For states of the standard normal law, exp(c x·y) times their density is that of the
  normal law around c x: c = 1 is a window of one standard deviation around the location.
- What they read: increments and their squares, which are added to the query where it has zeros.
- Sizes. A drift as large as the noise of a step is the inverse root of the gap: so large are answers. U begins at one
  value.

Everything else is random, and all of it is trained.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fimsde.errors import ConfigError
from fimsde.model.attention import CrossAttention
from fimsde.model.fim import FIMSDE
from fimsde.model.operator import Operator
from fimsde.model.paper import PlainQueries, TransitionFeatures
from fimsde.train.config import TrainConfig

# By hand, on equations that no arm reads.
_LOG_VARIANCE = 9.0  # U at the start: squares of fields of size 90, about the median
_NEAR_CONSTANT = 0.1  # of the last map of U
_WINDOWS = (0.5, 4.0)  # c of the first and of the last head; those between in proportion
_SQUARES = 0.3  # of the squared increments: those of a few large steps must not fill their tokens
_SPREAD = 1.5  # standard deviation of the numbers of a token, which normalisation of layers divides by
_OTHER_FEATURES = 0.3  # of queries and keys, which would otherwise look elsewhere


def new_model(config: TrainConfig) -> FIMSDE:
    """Random weights. A primed model starts near the average of its sparse candidates rather than anywhere."""
    model = FIMSDE(config.model, seed=config.loop.seed)
    if config.start == "local":
        _make_local(model, torch.Generator().manual_seed(config.loop.seed))
    if (preferred := config.model.reader.preferred_choices) is not None:
        operators = (model.drift_operator, model.diffusion_operator, model.log_variance_operator)
        for operator, choices in zip(operators, (*preferred, ()), strict=True):
            _prefer(operator, choices)
    return model


@torch.no_grad()
def _make_local(model: FIMSDE, generator: torch.Generator) -> None:
    features, config = model.encoder.features, model.config
    if not isinstance(features, TransitionFeatures):
        raise ConfigError(f'start is local for variant {config.variant}; expected "published".')
    gap, dim, quarter = float(config.target_gap), config.max_dim, config.embed // 4
    if quarter < dim or config.embed // config.heads < 2 * dim:
        raise ConfigError(f'start is local for width {config.embed}, {config.heads} heads; expected "published".')
    state, step, square = (_turned(quarter, dim, generator) for _ in range(3))
    features.dtau.weight.div_(gap)
    for part, turned, scale in (
        (features.y, state, 1.0),
        (features.dy, step, 1 / sqrt(gap)),
        (features.dy_sq, square, _SQUARES / gap),
    ):
        part.weight.copy_(scale * turned)
        part.bias.zero_()
    places = [slice(k * quarter, (k + 1) * quarter) for k in range(4)]  # of gap, state, increment, square in a token
    asked = model.locations
    assert isinstance(asked, PlainQueries), "as the features are"
    asked.weight[places[1]] = state
    asked.bias[places[1]] = 0.0
    asked.weight[places[2].start :] = 0.0
    for operator in (model.drift_operator, model.diffusion_operator, model.log_variance_operator):
        for number, layer in enumerate(operator.layers):
            attention = layer.attention
            assert isinstance(attention, CrossAttention)
            _look_nearby(attention, places[1], state, _SPREAD if number else 1.0)  # the first reads x itself
            _read(attention, [(places[2], step), (places[3], square)])
    model.drift_operator.head.output.weight.div_(sqrt(gap))
    output = model.log_variance_operator.head.output
    output.weight.mul_(_NEAR_CONSTANT)
    output.bias.fill_(_LOG_VARIANCE)


def _turned(quarter: int, dim: int, generator: torch.Generator) -> Float[Tensor, "quarter dim"]:
    """A map with orthogonal columns that spreads components of size one over numbers of size one."""
    return sqrt(quarter / dim) * torch.linalg.qr(torch.randn(quarter, dim, generator=generator))[0]


def _back(turned: Float[Tensor, "quarter dim"]) -> Float[Tensor, "dim quarter"]:
    """The inverse of `_turned` on its range."""
    return turned.mT * (turned.shape[1] / turned.shape[0])


def _look_nearby(attention: CrossAttention, place: slice, state: Float[Tensor, "quarter dim"], spread: float) -> None:
    """Weights exp(c x·y), c another one for every head."""
    width, dim = len(attention.query.weight) // attention.num_heads, state.shape[1]
    for head, c in enumerate(np.geomspace(*_WINDOWS, attention.num_heads)):
        rows, scale = slice(head * width, (head + 1) * width), sqrt(c) * width**0.25
        for weight, size in ((attention.query.weight, spread), (attention.key_value.weight, _SPREAD)):
            weight[rows] *= _OTHER_FEATURES
            weight[rows.start : rows.start + dim] = 0.0
            weight[rows.start : rows.start + dim, place] = scale * size * _back(state)


def _read(attention: CrossAttention, parts: Sequence[tuple[slice, Float[Tensor, "quarter dim"]]]) -> None:
    """Every head reads these parts of the tokens; their average over heads is added to the same parts of the query."""
    embed = len(attention.query.weight)
    width = embed // attention.num_heads
    for head in range(attention.num_heads):
        first = head * width
        for place, turned in parts:
            rows = slice(first, first + turned.shape[1])
            attention.key_value.weight[embed + rows.start : embed + rows.stop] = 0.0
            attention.key_value.weight[embed + rows.start : embed + rows.stop, place] = _SPREAD * _back(turned)
            attention.out.weight[:, rows] = 0.0
            attention.out.weight[place, rows] = _SPREAD / attention.num_heads * turned
            first = rows.stop


@torch.no_grad()
def _prefer(operator: Operator, choices: tuple[int, ...]) -> None:
    output = operator.head.output
    output.weight.mul_(0.05)
    output.bias.zero_()
    output.bias[list(choices)] = 2.0
