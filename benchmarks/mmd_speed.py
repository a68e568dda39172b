"""What one discrepancy of the paper's canonical benchmark costs: 100 against 100 paths of 500 points in two dimensions.

    python benchmarks/mmd_speed.py [--threads 2] [--json] [--store]

CPU seconds are those of this process, so other work on the machine hardly counts. The yardstick is KSig on the CPU (its
NumPy mode, float64, one thread), which needs 855 CPU-seconds for the three Gram matrices and 28.3 ms per pair.
The model is the damped linear system with 5 % stronger drift and 30 % larger diffusion, started in the reference's
states: the paper's number calls it perfect, and the numbers beside it say how much each of them notices.
"""

import argparse
import json
import tempfile
import time

import numpy as np
from record import store

from fimsde.data.observations import read
from fimsde.equations.sde import FunctionSDE
from fimsde.metrics.likelihood import transition_likelihood
from fimsde.metrics.mmd import mmd
from fimsde.metrics.signature import self_gram
from fimsde.simulate import simulate
from fimsde.systems.canonical import DAMPED_LINEAR, reference

KSIG_CPU_SECONDS = 855.0


def measure(threads: int) -> dict[str, float]:
    """CPU seconds of a first and of a second discrepancy, and the scores of the wrong model."""
    truth = DAMPED_LINEAR
    wrong = FunctionSDE(2, lambda x: 1.05 * truth.drift(x), lambda x: 1.3 * truth.diffusion(x))
    x = reference(truth)
    times = np.arange(x.shape[1]) * truth.dt
    y = simulate(wrong, x[:, 0], times, seed=1).values
    self_gram(x[:2, :10])  # compile
    with tempfile.TemporaryDirectory() as cache:
        first, cost = timed(lambda: mmd(x, y, cache=cache, threads=threads))
        second, cached_cost = timed(lambda: mmd(x, y, cache=cache, threads=threads))
    if second != first:
        raise RuntimeError(f"the cached Gram gave {second} instead of {first}")
    num_paths = len(x)
    num_pairs = num_paths**2 + num_paths * (num_paths + 1)
    held_out = read(x, dt=truth.dt)
    return {
        "cpu_seconds": cost,
        "cpu_seconds_with_cached_reference": cached_cost,
        "milliseconds_per_pair": 1e3 * cost / num_pairs,
        "times_fewer_than_ksig": KSIG_CPU_SECONDS / cost,
        "printed": first.printed,
        "value": first.value,
        "unmatched": first.unmatched,
        "p_value": first.p_value,
        "log_likelihood_of_truth": transition_likelihood(truth, held_out).mean,
        "log_likelihood_of_wrong_model": transition_likelihood(wrong, held_out).mean,
    }


def timed(work):
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    options = parser.parse_args()
    found = measure(options.threads)
    print(json.dumps(found) if options.json else "\n".join(f"{name:36s} {value:.6g}" for name, value in found.items()))
    if options.store:
        store("mmd_speed", found)


if __name__ == "__main__":
    main()
