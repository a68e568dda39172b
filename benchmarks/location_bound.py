"""At which level U settles if gradients of single locations are held at a bound, and what the loss is there.

    python benchmarks/location_bound.py [--store]

U settles where the mean of min(exp(-U) |error|², bound) is 1. From the errors of the kept arm on development equations,
which no arm trains on or is judged on, follows by how much its U would move for every bound, all else as it is, and
what the typical loss (as in `fimsde.benchmark.scaling.judge`) and the mean loss would be. The move is found on one half
of the equations, the losses on the other, and the other way round. The pull is what share of that mean comes from the
hundredth of the locations with the largest errors: how few locations decide.
"""

import argparse
from dataclasses import replace
from statistics import fmean

import torch
from jaxtyping import Float
from paper_arm import WEIGHTS
from record import store
from torch import Tensor

from fimsde.benchmark.scaling.judge import BATCHES
from fimsde.model.fim import FIMSDE
from fimsde.train.config import TrainConfig
from fimsde.train.pretrain.batches import StreamedBatches

ARM, PRESET = "paper-0.4m-streaming-constant", "paper-0.4m"
SEED = 1_000_001  # of development equations
BOUNDS = (2.0, 3.0, 5.0, 10.0, 30.0, 100.0, float("inf"))
_MOVES = (-5.0, 20.0)  # of U; between them lies where it settles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    log_squares, log_variances = errors(FIMSDE.from_pretrained(WEIGHTS / ARM).eval())
    rows = [{"bound": None, **losses(log_squares, log_variances)}]
    rows += [{"bound": bound, **settled(log_squares, log_variances, bound)} for bound in BOUNDS]
    for row in rows:
        print(row)
    if options.store:
        rows[-1]["bound"] = "none"  # JSON knows no infinity
        store("location_bound", {"rows": rows})


@torch.no_grad()
def errors(model: FIMSDE) -> tuple[Float[Tensor, "batches batch queries"], Float[Tensor, "batches batch queries"]]:
    """Logarithms of the square errors that the loss weighs, and U."""
    config = TrainConfig.preset(PRESET)
    stream = StreamedBatches(replace(config, loop=replace(config.loop, seed=SEED)))
    found = []
    for index in range(BATCHES):
        batch = stream[index]
        drift, diffusion, log_variance = model(batch.source, batch.x)
        misses = torch.stack([drift - batch.drift, diffusion - batch.diffusion]).double()
        square = (misses.square() * batch.dims[:, None]).sum(dim=(0, 3)) / batch.dims.sum(1)[:, None]
        found.append((square.log(), log_variance.double()))
    log_squares, log_variances = zip(*found, strict=True)
    return torch.stack(log_squares), torch.stack(log_variances)


def settled(
    log_squares: Float[Tensor, "batches batch queries"],
    log_variances: Float[Tensor, "batches batch queries"],
    bound: float,
) -> dict[str, float]:
    """Where U settles, and the losses there, on the other half of the batches."""
    halves = (slice(0, None, 2), slice(1, None, 2))
    found = []
    for here, there in (halves, halves[::-1]):
        ratios = log_squares[here] - log_variances[here]
        move = settle(ratios, bound)
        pulls = (ratios - move).exp().clamp(max=bound).flatten().sort(descending=True).values
        pull = float(pulls[: len(pulls) // 100].sum() / pulls.sum())
        found.append({"move": move, "pull": pull, **losses(log_squares[there], log_variances[there] + move)})
    return {name: fmean(half[name] for half in found) for name in found[0]}


def settle(ratios: Float[Tensor, "batches batch queries"], bound: float) -> float:
    """The move of U at which the mean of min(exp(ratio - move), bound) is 1, by halving an interval."""
    low, high = _MOVES
    for _ in range(60):
        middle = (low + high) / 2
        is_low = (ratios - middle).exp().clamp(max=bound).mean() > 1
        low, high = (middle, high) if is_low else (low, middle)
    return (low + high) / 2


def losses(
    log_squares: Float[Tensor, "batches batch queries"], log_variances: Float[Tensor, "batches batch queries"]
) -> dict[str, float]:
    """The paper's loss: median over the equations of a batch, mean over batches; and the mean over all equations."""
    loss = ((log_squares - log_variances).exp() + log_variances).sum(dim=-1)
    return {"typical": float(loss.median(dim=1).values.mean()), "mean": float(loss.mean())}


if __name__ == "__main__":
    main()
