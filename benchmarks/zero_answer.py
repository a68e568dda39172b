"""What the paper's loss is for an answer of zero, on the held-out equations of the arms: lines to read curves against.

    python benchmarks/zero_answer.py [--store]

Drift and diffusion are answered with zero everywhere, and U is the best that knows: nothing (one number for all
equations, the best for the typical loss), the equation (the logarithm of its mean square), or the location (of its
square). The typical loss is as in `fimsde.benchmark.scaling.judge`: the median over a batch, averaged over batches.
"""

import argparse
from statistics import fmean

import torch
from record import store

from fimsde.benchmark.scaling.judge import held_out
from fimsde.train.config import TrainConfig

_LEAST = 1e-6  # mean square of a field that is zero


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    options = parser.parse_args()
    squares = [
        (batch.drift.square().sum(-1) + batch.diffusion.square().sum(-1)) / batch.dims.sum(1)[:, None]
        for (batch,) in held_out(TrainConfig.preset("paper-0.4m"))
    ]
    levels = [torch.full((1, 1), level) for level in torch.linspace(0, 30, 121).tolist()]
    rows = {
        "nothing": min(typical(squares, [level] * len(squares)) for level in levels),
        "the equation": typical(squares, [torch.log(s.mean(1, keepdim=True) + _LEAST) for s in squares]),
        "the location": typical(squares, [torch.log(s + _LEAST) for s in squares]),
    }
    spread = torch.quantile(torch.cat(squares).flatten().sqrt(), torch.tensor([0.05, 0.5, 0.95])).tolist()
    for name, loss in rows.items():
        print(f"U knows {name}: typical loss {loss:.1f}")
    print("size of the fields, 5 %, median, 95 %:", *(f"{size:.3g}" for size in spread))
    if options.store:
        store("zero_answer", {"rows": rows, "spread": spread})


def typical(squares: list[torch.Tensor], log_variances: list[torch.Tensor]) -> float:
    """Median over the equations of a batch, mean over batches."""
    losses = [(torch.exp(-u) * s + u).sum(1) for s, u in zip(squares, log_variances, strict=True)]
    return fmean(float(loss.median()) for loss in losses)


if __name__ == "__main__":
    main()
