"""The compiled attention against torch's in float64: sizes, extremes, threads, and when it must step aside."""

import multiprocessing
import os
from copy import deepcopy

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from fimsde.model.attention import CrossAttention, KeysValues
from fimsde.model.config import ModelConfig
from fimsde.model.fused import BlockedKeysValues, fused_attention, to_blocks


def draw(num_queries, n, *, batch=1, heads=2, head_dim=32, spread=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(batch, heads, length, head_dim) for length in (num_queries, n, n)]
    q, k, v = (torch.randn(shape, generator=generator) for shape in shapes)
    return q * spread, k, v


def exact(q, k, v):
    return scaled_dot_product_attention(q.double(), k.double(), v.double())


def largest_error(q, k, v):
    """Relative to the largest value that could be returned."""
    found = fused_attention(q, to_blocks(k, v)).double()
    return float((found - exact(q, k, v)).abs().max() / v.abs().max())


@pytest.mark.parametrize("num_queries", [1, 5, 6, 7, 100])
@pytest.mark.parametrize("n", [1, 15, 16, 127, 128, 129, 1000])
def test_every_split_into_groups_and_blocks_gives_the_exact_value(num_queries, n):
    assert largest_error(*draw(num_queries, n)) < 1e-6


@pytest.mark.parametrize(("batch", "heads", "head_dim"), [(1, 1, 16), (3, 2, 32), (2, 5, 48)])
def test_every_shape_gives_the_exact_value(batch, heads, head_dim):
    assert largest_error(*draw(9, 300, batch=batch, heads=heads, head_dim=head_dim)) < 1e-6


@pytest.mark.parametrize("spread", [1e-6, 30.0, 300.0])
def test_peaked_attention_is_exact_up_to_the_resolution_of_its_scores(spread):
    """Scores of size s carry rounding errors of s * 6e-8, which the exponential turns into relative errors."""
    q, k, v = draw(40, 700, spread=spread)
    size = float((q.double() @ k.double().mT).abs().max()) / 32**0.5
    assert largest_error(q, k, v) < 1e-6 + 2e-7 * size


@pytest.mark.parametrize("order", ["rising", "falling"])
@pytest.mark.parametrize("level", [-3000.0, 0.0, 3000.0])
def test_scores_that_wander_far_from_the_first_block_neither_overflow_nor_vanish(order, level):
    n, step = 1000, 0.7
    ramp = level + step * torch.arange(n, dtype=torch.float32) * (1 if order == "rising" else -1)
    q, k, v = draw(7, n)
    q, k = torch.zeros_like(q), torch.zeros_like(k)
    q[..., 0], k[..., 0] = 32**0.5, ramp
    assert largest_error(q, k, v) < 1e-3  # float32 resolves scores of 3700 to 2e-4
    assert torch.isfinite(fused_attention(q, to_blocks(k, v))).all()


def test_scores_far_below_zero_give_the_exact_value_wherever_they_lie():
    """In powers of two all scores of a query are the same number, from -1 to -600: the answer is the mean value."""
    levels = -torch.arange(1.0, 601.0)
    q, k, v = draw(len(levels), 200)
    q, k = torch.zeros_like(q), torch.zeros_like(k)
    q[..., 0], k[..., 0] = levels * 32**0.5 / 1.4426950408889634, 1.0
    found = fused_attention(q, to_blocks(k, v))
    torch.testing.assert_close(found, v.mean(dim=-2, keepdim=True).expand_as(found), rtol=0, atol=1e-5)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("place", ["query", "key", "value"])
def test_nan_and_infinity_are_never_hidden(bad, place):
    q, k, v = draw(8, 300)
    {"query": q, "key": k, "value": v}[place][0, 1, 3, 5] = bad
    found = fused_attention(q, to_blocks(k, v))
    assert not torch.isfinite(found[0, 1, 3 if place == "query" else slice(None)]).all()
    assert torch.isfinite(found[0, 0]).all()


@pytest.fixture
def restored_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_threads_do_not_change_the_result(restored_threads):
    q, k, v = draw(50, 400, heads=5)
    results = []
    for threads in (1, 2, 3, 8):
        torch.set_num_threads(threads)
        results.append(fused_attention(q, to_blocks(k, v)))
    assert all(torch.equal(r, results[0]) for r in results)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_process_has_its_own_threads(restored_threads):
    """Helper threads do not survive a fork: a child that waited for them would hang."""
    q, k, v = draw(10, 200, heads=4)
    blocked = to_blocks(k, v)
    torch.set_num_threads(2)
    expected = fused_attention(q, blocked)

    def compare():
        os._exit(0 if torch.equal(fused_attention(q, blocked), expected) else 1)

    child = multiprocessing.get_context("fork").Process(target=compare)
    child.start()
    child.join(timeout=60)
    child.kill()
    assert child.exitcode == 0


def test_each_query_is_answered_alone():
    q, k, v = draw(20, 300)
    together = fused_attention(q, to_blocks(k, v))
    for i in (0, 7, 19):
        assert torch.equal(fused_attention(q[:, :, i : i + 1], to_blocks(k, v))[:, :, 0], together[:, :, i])


@pytest.fixture(scope="module")
def layer():
    layer = CrossAttention(ModelConfig(embed=64, heads=2))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in layer.parameters():
            p.normal_(0, 0.2, generator=generator)
    return layer.eval()


def test_a_context_read_without_gradients_still_gives_them_for_the_queries(layer):
    generator = torch.Generator().manual_seed(2)
    encoded, h = torch.randn(1, 50, 64, generator=generator), torch.randn(1, 4, 64, generator=generator)
    with torch.no_grad():
        blocked = layer.project(encoded, masked=False)
        fast = layer(h, blocked, None)
    assert isinstance(blocked, BlockedKeysValues)
    plain = layer.project(encoded, masked=False)
    assert isinstance(plain, KeysValues)
    gradients = []
    for context in (blocked, plain):
        x = h.clone().requires_grad_()
        value = layer(x, context, None)
        assert torch.allclose(value, fast, atol=1e-6)
        (gradient,) = torch.autograd.grad(value.square().sum(), x)
        gradients.append(gradient)
    size = gradients[1].abs().max()
    assert size > 1
    assert (gradients[0] - gradients[1]).abs().max() < 1e-5 * size


@torch.no_grad()
def test_masked_or_double_or_narrow_contexts_use_plain_keys(layer):
    encoded = torch.zeros(1, 5, 64)
    assert isinstance(layer.project(encoded, masked=True), KeysValues)
    assert isinstance(deepcopy(layer).double().project(encoded.double(), masked=False), KeysValues)
    narrow = CrossAttention(ModelConfig(embed=16, heads=2))
    assert isinstance(narrow.project(encoded[..., :16], masked=False), KeysValues)
