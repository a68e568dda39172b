"""Memory of the model: linear in the context, and independent of the number of queries beyond a chunk."""

import numpy as np
import pytest

from memory import run_measured

MEASURE = """
import sys
import torch
from fimsde.model.config import ModelConfig
from fimsde.model.paper import Tokens
from fimsde.model.fim import FIMSDE

n, queries = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
model = FIMSDE(ModelConfig(functional_layers=2), seed=0).eval()
def read(n):
    state, gap = torch.zeros(1, n, 3), torch.full((1, n), 0.01)
    return Tokens(state, state + 1, gap, gap > 0)
with torch.no_grad():
    model.evaluate(model.encode(read(100)), torch.zeros(1, 200, 3))  # compiles
    before = peak()
    context = model.encode(read(n))
    model.evaluate(context, torch.zeros(1, queries, 3))
print(peak() - before)
"""


def megabytes(n, queries):
    return float(run_measured(MEASURE, n, queries))


def test_a_program_measures_itself_and_not_who_started_it():
    """40 MB are seen, and 400 MB of ours are not: getrusage would say that the program had them all along."""
    ours = np.ones(50_000_000)
    program = "import numpy as np; before = peak(); x = np.ones(5_000_000); print(before, peak() - before)"
    before, grown = map(float, run_measured(program).split())
    assert before < 200 < ours.nbytes / 1e6
    assert 30 < grown < 50


@pytest.mark.slow
def test_memory_grows_linearly_with_the_context():
    """Buys the promise that no array of tokens by tokens, or queries by tokens, exists: ratio at most 2.3 per doubling.

    Three stacks of two layers hold 12 kB per transition; with the encoder's working memory less than 40 kB. The full
    eight layers hold 49 kB: 2.5 GB for 50 000 transitions.
    """
    sizes = [megabytes(n, 200) for n in (10_000, 20_000, 40_000)]
    assert sizes[1] / sizes[0] < 2.3
    assert sizes[2] / sizes[1] < 2.3
    assert sizes[2] < 40_000 * 40e-3


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_queries():
    """Buys the promise that any number of queries can be asked: 40 times more cost little more than their answers."""
    few, many = megabytes(300, 1024), megabytes(300, 40_960)
    assert many < few + 200
