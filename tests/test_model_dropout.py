"""Compiled dropout: the right share, an unbiased result, gradients by the same mask, and torch's generator decides."""

from math import sqrt

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from checks import check_frequencies
from fimsde.model import dropout
from fimsde.model.dropout import Dropout, attention_with_dropout


def dropped(shape, p, seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Dropout(p).train()(torch.ones(shape))


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_every_element_is_dropped_with_probability_p_and_others_keep_the_mean(p):
    found = dropped((1_000_001,), p, seed=0)
    share = round(p * 2**16) / 2**16
    check_frequencies(np.array([int((found == 0).sum()), int((found > 0).sum())]), [share, 1 - share])
    assert float(found.max()) == pytest.approx(1 / (1 - share), rel=1e-6)


def test_neighbours_and_elements_a_block_apart_are_dropped_independently():
    """Pearson's test on the four outcomes of pairs; false alarms: 1e-6 for each distance, of which there are 5."""
    found = (dropped((1 << 20,), 0.3, seed=1) == 0).numpy()
    for distance in (1, 2, 1024, 2048, 4096):
        a, b = found[:-distance], found[distance:]
        counts = np.array([[np.sum((a == i) & (b == j)) for j in (False, True)] for i in (False, True)], float)
        expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
        assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 1), distance


def test_a_mask_that_repeats_would_be_noticed():
    """Negative control of the test above: the same mask for both halves of a block."""
    found = (dropped((1 << 20,), 0.3, seed=1) == 0).numpy().reshape(-1, 2, 1024)
    found[:, 1] = found[:, 0]
    a, b = found.ravel()[:-1024], found.ravel()[1024:]
    assert np.corrcoef(a, b)[0, 1] > 0.3


def test_masks_follow_torchs_generator():
    a, b, c = (dropped((3, 50), 0.5, seed) for seed in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_the_gradient_goes_through_the_same_mask():
    x = torch.ones(7, 33, requires_grad=True)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        out = Dropout(0.4).train()(x * 1.0)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())


@pytest.mark.parametrize("masked", [False, True])
def test_attention_and_its_gradients_are_the_formula(masked):
    """softmax(q k' / sqrt(d)) times the mask of dropout, times v; torch differentiates the formula."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, n, 8, generator=generator).requires_grad_() for n in (5, 11, 11))
    mask = torch.rand(2, 11, generator=generator) > 0.3 if masked else None
    gradient = torch.randn(2, 3, 5, 8, generator=generator)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        found = attention_with_dropout(q, k, v, mask, 0.3)
        torch.manual_seed(3)
        kept = Dropout(0.3).train()(torch.ones(2, 3, 5, 11))
    assert 0 < (kept == 0).sum() < kept.numel()
    scores = q @ k.mT / sqrt(8)
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None], -torch.inf)
    expected = (scores.softmax(-1) * kept) @ v
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    for a, b in zip(
        torch.autograd.grad(found, (q, k, v), gradient), torch.autograd.grad(expected, (q, k, v), gradient), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_nothing_happens_outside_training_and_doubles_take_torchs_way(monkeypatch):
    x = torch.ones(4, 4)
    assert Dropout(0.5).eval()(x) is x
    monkeypatch.setattr(dropout, "_drop", lambda *_: pytest.fail("compiled for doubles"))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert set(Dropout(0.5).train()(torch.ones(100, dtype=torch.float64)).tolist()) == {0.0, 2.0}
