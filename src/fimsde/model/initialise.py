"""Random weights as the published model was initialised, from an explicit generator."""

from math import sqrt

import torch
from torch import nn

from fimsde.model.attention import CrossAttention
from fimsde.model.correction import Correction
from fimsde.model.encoder import Encoder
from fimsde.model.operator import OutputHead
from fimsde.model.primed import TEMPERATURE, PrimedQueries


@torch.no_grad()
def initialise(model: nn.Module, generator: torch.Generator) -> None:
    """Fill every weight of `model`; the same generator state gives the same weights."""
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            bound = 1 / sqrt(module.in_features)  # Kaiming-uniform with a = sqrt(5)
            module.weight.uniform_(-bound, bound, generator=generator)
            module.bias.uniform_(-bound, bound, generator=generator)
    for module in model.modules():
        if isinstance(module, CrossAttention):
            _xavier_as_one_map(module, generator)
        elif isinstance(module, OutputHead):
            _kaiming_normal(module, generator)
        elif isinstance(module, Correction):
            module.reset()
        elif isinstance(module, PrimedQueries):
            nn.init.zeros_(module.likelihood_temperature.weight)
            nn.init.constant_(module.likelihood_temperature.bias, TEMPERATURE)
        elif isinstance(module, Encoder):
            for layer in module.layers[1:]:  # all encoder layers start equal
                layer.load_state_dict(module.layers[0].state_dict())


def _xavier_as_one_map(attention: CrossAttention, generator: torch.Generator) -> None:
    """Xavier-uniform for query, key and value taken as one map from embed to 3 embed; no biases."""
    embed = attention.query.in_features
    bound = sqrt(6 / (embed + 3 * embed))
    for linear in (attention.query, attention.key_value):
        linear.weight.uniform_(-bound, bound, generator=generator)
        linear.bias.zero_()
    attention.out.bias.zero_()


def _kaiming_normal(head: OutputHead, generator: torch.Generator) -> None:
    for linear in (*head.hidden, head.output):
        assert isinstance(linear, nn.Linear)
        linear.weight.normal_(0.0, sqrt(2 / linear.in_features), generator=generator)
        linear.bias.zero_()
