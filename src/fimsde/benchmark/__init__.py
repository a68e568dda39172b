"""The paper's experiments for the model, the baselines and any method of yours, beside the published numbers."""

from fimsde.benchmark.methods import Method, PathMethod, named
from fimsde.benchmark.run import run
from fimsde.benchmark.summary import summarise

__all__ = ["Method", "PathMethod", "named", "run", "summarise"]
