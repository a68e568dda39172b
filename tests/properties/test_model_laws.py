"""What the network must not notice, with random weights in float64: order, padding, company, chunks.

The laws of units and time (E1 to E3) belong to the normaliser and are tested with it and with `estimate`.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fimsde.data.transitions import Transitions
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.model.paper import Tokens, to_tokens

CONFIG = ModelConfig(embed=16, heads=2, functional_layers=2, feed_forward=16, head_hidden=(16,))
SEEDS = st.integers(0, 10**6)
SIZES = st.integers(1, 40)


@pytest.fixture(scope="module")
def model():
    model = FIMSDE(CONFIG, seed=0).double().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return model


def transitions(n, dim, seed):
    generator = np.random.default_rng([seed, n, dim])
    return Transitions(
        y=generator.normal(size=(n, dim)),
        dy=0.3 * generator.normal(size=(n, dim)),
        dtau=generator.uniform(0.001, 0.1, n),
        path=np.zeros(n, np.int64),
    )


def queries(num, seed, batch=1):
    return torch.randn(batch, num, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tokens_of(*contexts):
    return to_tokens(contexts, CONFIG.max_dim, torch.float64)


def answers(model, tokens, x):
    """Drift, diffusion and U side by side, (batch, queries, 7)."""
    with torch.no_grad():
        context = model.encode(tokens)
        return torch.cat([*model.evaluate(context, x), model.log_variance(context, x)[..., None]], dim=-1)


def assert_unchanged(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@given(n=SIZES, dim=st.integers(1, 3), seed=SEEDS)
def test_the_order_of_transitions_does_not_matter(model, n, dim, seed):
    """E4."""
    tr = transitions(n, dim, seed)
    order = np.random.default_rng(seed).permutation(n)
    shuffled = Transitions(tr.y[order], tr.dy[order], tr.dtau[order], tr.path)
    x = queries(5, seed)
    assert_unchanged(answers(model, tokens_of(shuffled), x), answers(model, tokens_of(tr), x))


@given(n=SIZES, extra=st.integers(1, 50), seed=SEEDS, scale=st.sampled_from([0.0, 1.0, 1e6]))
def test_masked_tokens_do_not_matter_wherever_they_stand(model, n, extra, seed, scale):
    """E6: tokens marked as padding are mixed in at random places, with any content."""
    tokens, x = tokens_of(transitions(n, 3, seed)), queries(4, seed)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(n + extra, generator=generator)
    junk = [
        scale * torch.randn(1, extra, *t.shape[2:], generator=generator, dtype=t.dtype)
        for t in (tokens.y, tokens.dy, tokens.dtau)
    ]
    parts = [torch.cat([t, j], dim=1)[:, order] for t, j in zip((tokens.y, tokens.dy, tokens.dtau), junk, strict=True)]
    mask = torch.cat([tokens.mask, torch.zeros(1, extra, dtype=torch.bool)], dim=1)[:, order]
    assert_unchanged(answers(model, Tokens(*parts, mask), x), answers(model, tokens, x))


@given(sizes=st.lists(st.tuples(SIZES, st.integers(1, 3)), min_size=2, max_size=4), seed=SEEDS)
def test_other_systems_in_the_batch_do_not_matter(model, sizes, seed):
    """E8: each alone, all together, and in reverse order."""
    contexts = [transitions(n, dim, seed + i) for i, (n, dim) in enumerate(sizes)]
    x = queries(3, seed, batch=len(contexts))
    together = answers(model, tokens_of(*contexts), x)
    backwards = answers(model, tokens_of(*contexts[::-1]), x.flip(0)).flip(0)
    alone = torch.cat([answers(model, tokens_of(tr), x[i : i + 1]) for i, tr in enumerate(contexts)])
    assert_unchanged(together, alone)
    assert_unchanged(backwards, alone)


@given(dim=st.integers(1, 2), n=SIZES, seed=SEEDS)
def test_zeros_in_the_padded_components_are_padding(model, dim, n, seed):
    """E7: a system of one or two components is the same system written with three, the others being zero."""
    tr, x = transitions(n, dim, seed), queries(4, seed)
    wide = Transitions(*(np.pad(a, ((0, 0), (0, 3 - dim))) for a in (tr.y, tr.dy)), tr.dtau, tr.path)
    assert_unchanged(answers(model, tokens_of(wide), x), answers(model, tokens_of(tr), x))


@given(num=st.integers(1, 12), chunk=st.integers(1, 15), seed=SEEDS)
def test_queries_are_answered_alike_together_apart_and_in_chunks(model, num, chunk, seed):
    """E9, E12."""
    x = queries(num, seed)
    with torch.no_grad():
        context = model.encode(tokens_of(transitions(20, 3, seed)))
        for field in (model.drift, model.diffusion, model.log_variance):
            together = field(context, x)
            assert_unchanged(field(context, x, chunk=chunk), together)
            assert_unchanged(field(context, x.flip(1)).flip(1), together)
            assert_unchanged(torch.cat([field(context, one) for one in x.split(1, dim=1)], dim=1), together)


@given(n=SIZES, copies=st.integers(2, 4), seed=SEEDS)
def test_repeating_the_whole_context_changes_nothing(model, n, copies, seed):
    """E10: normalised attention sees only the empirical distribution, so a duplicated data set is the same data set."""
    tr, x = transitions(n, 2, seed), queries(4, seed)
    repeated = Transitions(*(np.concatenate([a] * copies) for a in (tr.y, tr.dy, tr.dtau, tr.path)))
    assert_unchanged(answers(model, tokens_of(repeated), x), answers(model, tokens_of(tr), x))


def test_the_laws_can_fail(model):
    """A transition more, a location moved or one number changed is noticed."""
    tr, x = transitions(20, 3, 0), queries(4, 0)
    base = answers(model, tokens_of(tr), x)
    y = tr.y.copy()
    y[3, 0] += 0.1
    changed = [tokens_of(transitions(21, 3, 0)), tokens_of(Transitions(y, tr.dy, tr.dtau, tr.path))]
    assert all((answers(model, tokens, x) - base).abs().max() > 1e-5 for tokens in changed)
    assert (answers(model, tokens_of(tr), x + 0.1) - base).abs().max() > 1e-5
