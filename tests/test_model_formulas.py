"""The model against its formulas, restated token by token in plain NumPy, and against recorded values.

The restatement shares nothing with the package but the names of the weights. test_model_parity.py shows that the same
model reproduces the authors' numbers.
"""

import math

import numpy as np
import pytest
import torch

from fimsde.data.transitions import Transitions
from fimsde.errors import InvalidObservationsError
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.model.paper import Tokens, to_tokens

CONFIG = ModelConfig(embed=8, heads=2, encoder_layers=2, functional_layers=2, feed_forward=12, head_hidden=(6, 10))


def shaken_model(config=CONFIG, seed=3):
    """Random weights in float64 with every norm and bias moved off its initial value."""
    model = FIMSDE(config, seed=seed).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=generator, dtype=torch.float64))
    return model


def random_tokens(batch, n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    y, dy = (torch.randn(batch, n, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    dtau = torch.rand(batch, n, generator=generator, dtype=torch.float64)
    mask = torch.rand(batch, n, generator=generator) < 0.7
    mask[:, 0] = True
    return Tokens(y, dy, dtau, mask)


class Restated:
    """The same model, one system at a time, in loops."""

    def __init__(self, model):
        self.weights = {name: t.detach().numpy() for name, t in model.state_dict().items()}
        self.config = model.config
        self.axis_of_the_key_softmax = 0

    def linear(self, name, x):
        return self.weights[f"{name}.weight"] @ x + self.weights[f"{name}.bias"]

    def norm(self, name, x):
        centred = x - x.mean()
        return (
            centred / math.sqrt((centred**2).mean() + 1e-5) * self.weights[f"{name}.weight"]
            + self.weights[f"{name}.bias"]
        )

    def block(self, name, x, attended):
        h = self.norm(f"{name}.norm_attended", x + attended)
        hidden = np.array([0.5 * a * (1 + math.erf(a / math.sqrt(2))) for a in self.linear(f"{name}.widen", h)])
        return self.norm(f"{name}.norm", h + self.linear(f"{name}.narrow", hidden))

    def encode(self, y, dy, dtau):
        tokens = []
        for i in range(len(y)):
            parts = {"dtau": dtau[i : i + 1], "y": y[i], "dy": dy[i], "dy_sq": dy[i] ** 2}
            tokens.append(np.concatenate([self.linear(f"encoder.features.{k}", v) for k, v in parts.items()]))
        for layer in range(self.config.encoder_layers):
            name = f"encoder.layers.{layer}"
            mixed = self.linear_attention(f"{name}.attention", tokens)
            tokens = [self.block(f"{name}.block", t, m) for t, m in zip(tokens, mixed, strict=True)]
        return tokens

    def linear_attention(self, name, tokens):
        queries, keys, values = (
            np.array([self.linear(f"{name}.{part}", t) for t in tokens]) for part in ("query", "key", "value")
        )
        width = self.config.embed // self.config.heads
        mixed = np.zeros_like(queries)
        for head in range(self.config.heads):
            mine = slice(head * width, (head + 1) * width)
            over_sequence = softmax(keys[:, mine], axis=self.axis_of_the_key_softmax)
            for i in range(len(tokens)):
                over_features = softmax(queries[i, mine], axis=0)
                for j in range(len(tokens)):
                    mixed[i, mine] += over_features @ over_sequence[j] * values[j, mine]
        return [self.linear(f"{name}.out", m / (math.sqrt(width) + 1e-8)) for m in mixed]

    def operate(self, stack, x, encoded):
        h = self.linear("locations", x)
        for layer in range(self.config.functional_layers):
            name = f"{stack}_operator.layers.{layer}"
            h = self.block(f"{name}.block", h, self.attention(f"{name}.attention", h, encoded))
        for j in range(len(self.config.head_hidden)):
            a = self.linear(f"{stack}_operator.head.hidden.{j}", h)
            h = np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in a])
        return self.linear(f"{stack}_operator.head.output", h)

    def attention(self, name, h, encoded):
        embed, width = self.config.embed, self.config.embed // self.config.heads
        query = self.linear(f"{name}.query", h)
        projected = np.array([self.linear(f"{name}.key_value", e) for e in encoded])
        read = np.zeros(embed)
        for head in range(self.config.heads):
            mine = slice(head * width, (head + 1) * width)
            weights = softmax(projected[:, :embed][:, mine] @ query[mine] / math.sqrt(width), axis=0)
            read[mine] = weights @ projected[:, embed:][:, mine]
        return self.linear(f"{name}.out", read)


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def test_the_model_computes_its_formulas():
    model, tokens = shaken_model(), random_tokens(batch=2, n=9)
    x = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    with torch.no_grad():
        context = model.encode(tokens)
        drift, diffusion = model.evaluate(context, x)
        log_variance = model.log_variance(context, x)
    restated = Restated(model)
    for b in range(2):
        real = tokens.mask[b]
        assert not real.all()
        encoded = restated.encode(*(t[b][real].numpy() for t in (tokens.y, tokens.dy, tokens.dtau)))
        np.testing.assert_allclose(context.encoded[b][real], encoded, rtol=1e-10, atol=1e-12)
        for q in range(4):
            at = x[b, q].numpy()
            np.testing.assert_allclose(drift[b, q], restated.operate("drift", at, encoded), rtol=1e-10)
            softplus = np.log1p(np.exp(restated.operate("diffusion", at, encoded)))
            np.testing.assert_allclose(diffusion[b, q], softplus, rtol=1e-10)
            np.testing.assert_allclose(log_variance[b, q], restated.operate("log_variance", at, encoded)[0], rtol=1e-10)


def test_the_restatement_notices_a_softmax_over_the_wrong_axis():
    model, tokens = shaken_model(), random_tokens(batch=1, n=9)
    restated = Restated(model)
    arrays = [t[0][tokens.mask[0]].numpy() for t in (tokens.y, tokens.dy, tokens.dtau)]
    right = restated.encode(*arrays)
    restated.axis_of_the_key_softmax = 1
    assert np.abs(np.array(right) - restated.encode(*arrays)).max() > 1e-2


def recorded_inputs():
    i = torch.arange(12, dtype=torch.float64)
    y = torch.stack([torch.sin(i), torch.cos(2 * i), 0.1 * i], dim=-1)[None]
    dy = torch.stack([0.1 * torch.cos(i), -0.2 * torch.sin(i), 0.05 * torch.cos(3 * i)], dim=-1)[None]
    tokens = Tokens(y, dy, (0.01 + 0.001 * i)[None], torch.ones(1, 12, dtype=torch.bool))
    return tokens, torch.tensor([[[0.0, 0.0, 0.0], [1.0, -0.5, 2.0]]], dtype=torch.float64)


def test_seeded_weights_give_the_recorded_values():
    """Moves only with the architecture, the initialisation or torch's generator; a change needs a changelog line."""
    tokens, x = recorded_inputs()
    with torch.no_grad():
        drift, diffusion, log_variance = FIMSDE(ModelConfig.preset("tiny"), seed=0).double().eval()(tokens, x)
    expected_drift = [[-0.0722853536, 0.130501314, -0.864090503], [-0.465979377, -0.837317705, 0.344104692]]
    expected_diffusion = [[0.996886244, 0.89515192, 1.91628749], [0.875414566, 1.75320166, 3.52611022]]
    expected_log_variance = [0.348505363, 0.510413899]
    np.testing.assert_allclose(drift[0], expected_drift, rtol=1e-5)
    np.testing.assert_allclose(diffusion[0], expected_diffusion, rtol=1e-5)
    np.testing.assert_allclose(log_variance[0], expected_log_variance, rtol=1e-5)


def test_float32_stays_within_its_bound_of_float64():
    """E11: 1e-4 of the largest value is promised; with random weights the full-size blocks reach a few 1e-6."""
    model, x = (
        FIMSDE(ModelConfig(functional_layers=2), seed=1).eval(),
        torch.randn(1, 30, 3, generator=torch.Generator().manual_seed(2)),
    )
    tokens = random_tokens(batch=1, n=300)
    exact, single = ([], [])
    for results, dtype in ((exact, torch.float64), (single, torch.float32)):
        cast = Tokens(*(t.to(dtype) for t in (tokens.y, tokens.dy, tokens.dtau)), torch.ones_like(tokens.mask))
        with torch.no_grad():
            results.extend(model.to(dtype)(cast, x.to(dtype)))
    for a, b in zip(exact, single, strict=True):
        assert float((a - b).abs().max() / a.abs().max()) < 1e-5


def test_initial_weights_follow_the_stated_laws():
    """Bounds and second moments of each kind of weight; 6 standard errors of a variance estimate."""
    model = FIMSDE(
        ModelConfig(embed=128, heads=8, feed_forward=512, functional_layers=2, head_hidden=(256, 64)), seed=5
    )
    state = model.state_dict()
    uniform_of = {"encoder.layers.0.attention.key": 128, "drift_operator.layers.1.block.narrow": 512, "locations": 3}
    for name, fan_in in uniform_of.items():
        for part in ("weight", "bias"):
            check_uniform(state[f"{name}.{part}"], 1 / math.sqrt(fan_in))
    attention = "log_variance_operator.layers.0.attention"
    for part in ("query", "key_value"):
        check_uniform(state[f"{attention}.{part}.weight"], math.sqrt(6 / (128 + 3 * 128)))
        assert not state[f"{attention}.{part}.bias"].any()
    check_uniform(state[f"{attention}.out.weight"], 1 / math.sqrt(128))
    assert not state[f"{attention}.out.bias"].any()
    for name, fan_in in {"hidden.0": 128, "hidden.1": 256, "output": 64}.items():
        weight = state[f"drift_operator.head.{name}.weight"]
        ratio = float(weight.double().square().mean()) * fan_in / 2
        assert abs(ratio - 1) < 6 * math.sqrt(2 / weight.numel())
        assert not state[f"drift_operator.head.{name}.bias"].any()
    for name, value in {"weight": 1, "bias": 0}.items():
        assert (state[f"drift_operator.layers.0.block.norm.{name}"] == value).all()


def check_uniform(weight, bound):
    assert weight.abs().max() <= bound
    ratio = float(weight.double().square().mean()) / (bound**2 / 3)
    assert abs(ratio - 1) < 6 * math.sqrt(0.8 / weight.numel())


def test_encoder_layers_start_equal_and_functional_layers_do_not():
    model = FIMSDE(ModelConfig.preset("tiny"), seed=4)
    first, second = (layer.state_dict() for layer in model.encoder.layers)
    assert all(torch.equal(first[name], second[name]) for name in first)
    layers = model.drift_operator.layers
    assert not torch.equal(layers[0].block.widen.weight, layers[1].block.widen.weight)
    assert not torch.equal(layers[0].block.widen.weight, model.diffusion_operator.layers[0].block.widen.weight)


def test_the_seed_decides_the_weights_and_torch_global_state_does_not_matter():
    before = torch.get_rng_state()
    a, b, c = (FIMSDE(ModelConfig.preset("tiny"), seed=s).state_dict() for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["locations.weight"], c["locations.weight"])


def test_dropout_acts_in_training_mode_only():
    tokens, x = recorded_inputs()
    model = FIMSDE(ModelConfig.preset("tiny"), seed=0).double()
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        drawn = [model.train()(tokens, x)[0] for _ in range(2)]
        fixed = [model.eval()(tokens, x)[0] for _ in range(2)]
    assert not torch.equal(*drawn)
    assert torch.equal(*fixed)


def test_no_queries_give_an_empty_answer():
    tokens, x = recorded_inputs()
    model = FIMSDE(ModelConfig.preset("tiny"), seed=0).double().eval()
    drift, diffusion, log_variance = model(tokens, x[:, :0])
    assert drift.shape == diffusion.shape == (1, 0, 3)
    assert log_variance.shape == (1, 0)


def transitions(n, dim):
    generator = np.random.default_rng(n)
    return Transitions(
        y=generator.normal(size=(n, dim)),
        dy=generator.normal(size=(n, dim)),
        dtau=generator.random(n),
        path=np.zeros(n, np.int64),
    )


def test_contexts_of_unequal_size_are_padded_with_zeros():
    short, long = transitions(3, 1), transitions(5, 2)
    tokens = to_tokens([short, long], ModelConfig.preset("tiny").max_dim, torch.float64)
    assert tokens.mask.tolist() == [[True] * 3 + [False] * 2, [True] * 5]
    np.testing.assert_array_equal(tokens.y[0, :3, :1], short.y)
    np.testing.assert_array_equal(tokens.dy[1, :, :2], long.dy)
    np.testing.assert_array_equal(tokens.dtau[1], long.dtau)
    assert not tokens.y[0, 3:].any()
    assert not tokens.y[:, :, 2].any()
    assert not tokens.dtau[0, 3:].any()


@pytest.mark.parametrize(
    ("context", "words"), [((4, 4), "context 0 has 4 components.*at most 3"), ((0, 2), "context 0 has no transitions")]
)
def test_contexts_the_model_cannot_read_are_refused(context, words):
    with pytest.raises(InvalidObservationsError, match=words):
        to_tokens([transitions(*context)], ModelConfig.preset("tiny").max_dim)
