"""The paper's experiments for the model, the baselines and any method of yours, beside the published numbers."""

from fimsde.benchmark.run import run
from fimsde.benchmark.summary import summarise
from fimsde.methods import Method, PathMethod, named

__all__ = ["Method", "PathMethod", "named", "run", "summarise"]
