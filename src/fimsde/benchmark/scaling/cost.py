"""What training costs in operations, from the sizes alone: multiplications and additions of all matrix products.

A step of training takes three times the operations of the forward pass: one for it, two for the gradients. Norms,
softmaxes, dropout and the making of equations are not counted.
"""

from itertools import pairwise

from fimsde.errors import ConfigError
from fimsde.model.config import ModelConfig
from fimsde.model.paper import PaperReader
from fimsde.prior.config import Setting
from fimsde.train.config import ContextConfig, TrainConfig
from fimsde.train.pretrain.contexts import stride

A100_PEAK = 312e12  # operations per second: NVIDIA's data sheet, bfloat16 without sparsity
PUBLISHED_SECONDS = 6 * 86_400 * 4  # of a GPU: the paper's six days on four A100


def forward_operations(config: ModelConfig, tokens: int, queries: int) -> int:
    """Operations of the paper's architecture on one context of so many transitions, asked at so many locations."""
    if not isinstance(config.reader, PaperReader):
        raise ConfigError(f"variant is {config.variant}; operations are counted for the paper's architecture only.")
    d, e, f = config.max_dim, config.embed, config.feed_forward
    features = tokens * (e // 4) * (1 + 3 * d)
    mixing = 2 * tokens * e * (e // config.heads)  # keys' values, and queries times that
    encoder = config.encoder_layers * (tokens * (4 * e * e + 2 * e * f) + mixing)
    reading = 2 * queries * tokens * e  # scores, and weights times values
    layer = tokens * 2 * e * e + reading + queries * (2 * e * e + 2 * e * f)
    widths = (e, *config.head_hidden)
    heads = 3 * sum(a * b for a, b in pairwise(widths)) + widths[-1] * sum(config.reader.num_outputs)
    stacks = 3 * config.functional_layers * layer
    return 2 * (features + encoder + queries * (d * e + heads) + stacks)


def mean_tokens(contexts: ContextConfig, settings: tuple[Setting, ...]) -> float:
    """Mean number of transitions in a context of the paper's rule, where nothing is missing."""
    total = sum(setting.share for setting in settings)
    return sum(setting.share / total * _tokens(contexts, settings, setting) for setting in settings)


def step_operations(config: TrainConfig) -> float:
    """Operations of one step of training, with contexts of mean size."""
    if config.contexts.rule != "paper":
        raise ConfigError(f"contexts are {config.contexts.rule}; operations are counted for the paper's rule only.")
    tokens = mean_tokens(config.contexts, config.prior.settings)
    fixed = forward_operations(config.model, 0, config.num_queries)
    each = forward_operations(config.model, 1, config.num_queries) - fixed  # linear in the tokens
    return 3 * config.batch_size * (fixed + tokens * each)


def published_operations() -> float:
    """Operations of the whole published run."""
    config = TrainConfig.preset("paper")
    return config.loop.steps * step_operations(config)


def _tokens(contexts: ContextConfig, settings: tuple[Setting, ...], setting: Setting) -> float:
    low = max(contexts.fewest, setting.num_times)
    high = max(min(contexts.most, setting.num_paths * setting.num_times), low + 1)
    found = []
    for number in range(low, high):
        seen = -(-setting.num_times // stride(contexts, settings, setting, number))  # observations of a path
        tokens = max(1, number // setting.num_times) * (seen - 1)
        found.append(min(tokens, contexts.transitions) if contexts.transitions else tokens)
    return sum(found) / len(found)
