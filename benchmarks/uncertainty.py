"""Does U know where the estimate is wrong? Rank correlation of U with the squared error on held-out equations.

    python benchmarks/uncertainty.py [WEIGHTS] [--batches 12] [--store]

Equations and contexts of the training prior that no run trains on, 32 to a batch. Spearman's correlation over all
scored locations (errors relative to the natural size of the fields, drift and diffusion together, as U counts them),
its mean over equations (where in a data set is the estimate wrong?), and the correlation between equations of their
means (which data set is it that cannot be trusted?).
"""

import argparse
from dataclasses import replace

import numpy as np
import torch
from record import store
from scipy.stats import spearmanr

from fimsde.estimation import bundled_model
from fimsde.model.bank_features import answers
from fimsde.model.fim import FIMSDE
from fimsde.train.config import TrainConfig
from fimsde.train.pretrain.validation import validation_batches


@torch.no_grad()
def uncertainty_and_error(model: FIMSDE, batch) -> tuple[torch.Tensor, torch.Tensor]:
    """U and the log of the mean relative squared error, (batch, queries)."""
    context = model.encode(batch.source)
    drift, diffusion = model.evaluate(context, batch.x)
    known = answers(batch.source, batch.x[..., : batch.source.dim])
    dims = batch.source.dim
    relative = [
        ((found - true)[..., :dims] / size).square().mean(-1)
        for found, true, size in (
            (drift, batch.drift, known.drift_size),
            (diffusion, batch.diffusion, known.diffusion_size),
        )
    ]
    return model.log_variance(context, batch.x), torch.stack(relative).mean(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", nargs="?")
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = FIMSDE.from_pretrained(arguments.weights).eval() if arguments.weights else bundled_model()
    config = replace(TrainConfig.preset("primed"), validation_batches=arguments.batches)
    everywhere, inside, means = [], [], []
    for batch in validation_batches(config):
        known, error = uncertainty_and_error(model, batch)
        for u, e, scored in zip(known, error, batch.scored, strict=True):
            u, e = u[scored].numpy(), e[scored].numpy()
            if len(u) > 2 and np.ptp(u) > 0 and np.ptp(e) > 0:
                everywhere.append((u, e))
                inside.append(spearmanr(u, e).statistic)
                means.append((u.mean(), np.log(e).mean()))
    u, e = (np.concatenate(parts) for parts in zip(*everywhere, strict=True))
    print(f"{len(means)} equations, {len(u)} locations; rank correlation of U and squared error")
    everywhere_too = float(spearmanr(u, e).statistic)
    between = float(spearmanr(*np.array(means).T).statistic)
    print(f"  over all locations  {everywhere_too:.3f}")
    print(f"  inside an equation  {np.mean(inside):.3f} (mean)")
    print(f"  between equations   {between:.3f}")
    if arguments.store:
        numbers = {"equations": len(means), "all": everywhere_too, "inside": float(np.mean(inside)), "between": between}
        store("uncertainty", numbers)


if __name__ == "__main__":
    main()
