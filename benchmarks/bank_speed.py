"""CPU time until a context is ready for queries, by dimension and size: linear in the number of observations.

python benchmarks/bank_speed.py [--largest 1000000]
"""

import argparse
import time

import numpy as np

from fimsde.bank.bank import ask, make_bank
from fimsde.data.normalise import fit_normaliser
from fimsde.data.observations import read
from fimsde.data.transitions import to_transitions


def milliseconds(work, repeats: int) -> float:
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return 1e3 * best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=100_000)
    largest = parser.parse_args().largest
    print("CPU milliseconds, one thread, best run: bank from n observations with 2 % noise (ask at 1024 locations)")
    for dim in (1, 2, 3):
        for num in (1000, 5000, 20_000, 100_000, 1_000_000):
            if num > largest:
                continue
            rng = np.random.default_rng(0)
            x = np.zeros((num, dim))
            kicks = 0.1 * rng.standard_normal((num, dim))
            for i in range(1, num):
                x[i] = 0.99 * x[i - 1] + kicks[i]
            tr = to_transitions(read(x + 0.02 * rng.standard_normal(x.shape), dt=0.01))
            normalised = fit_normaliser(tr).transitions(tr)
            bank = make_bank(normalised)
            locations = rng.standard_normal((1024, dim))
            repeats = 25 if num <= 20_000 else 1
            made = milliseconds(lambda z=normalised: make_bank(z), repeats)
            asked = milliseconds(lambda b=bank, x=locations: ask(b, x), repeats)
            print(f"dim {dim}  n {num:>9,}  {made:8.1f} ({asked:.1f})")


if __name__ == "__main__":
    main()
