"""Peak memory of an estimate against the number of transitions (M1), and of many queries (M2).

    python benchmarks/memory.py [--preset paper] [--largest 50000]

Every size runs in a process of its own, so that its peak is its own. Bounds: memory at most linear (a ratio of at most
2.3 per doubling) and, for the model of the paper's size, below 4 GB at 50 000 transitions.
"""

import argparse
import os
import resource
import subprocess
import sys

import numpy as np
import torch

from fimsde.data.observations import read
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.results.make import estimate

BOUND_AT_50_000 = 4096  # MB, the process as a whole, paper preset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--largest", type=int, default=50_000)
    parser.add_argument("--one", nargs=2, type=int, metavar=("TRANSITIONS", "QUERIES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(*measure(options.preset, *options.one))
        return
    sizes = [options.largest // 2**k for k in range(10) if options.largest // 2**k >= 1000][::-1]
    print(f"{options.preset}: peak of the whole process (MB), and by how much it grew over that of the bare model")
    previous = None
    for num in sizes:
        bare, peak = in_own_process(options.preset, num, 1024)
        grown = peak - bare
        ratio = "" if previous is None else f"   {grown / previous:.2f} per doubling"
        print(f"{num:7d} transitions, 1024 queries   {peak:7.0f}   {grown:7.0f}{ratio}", flush=True)
        assert previous is None or grown / previous <= 2.3, "memory grows faster than the data"
        previous = grown
        if options.preset == "paper" and num == 50_000:
            assert peak < BOUND_AT_50_000, f"{peak:.0f} MB at 50 000 transitions"
    bare, peak = in_own_process("tiny", 1000, 1_000_000)
    print(f"tiny: 1000 transitions, 1 000 000 queries   {peak:7.0f}   {peak - bare:7.0f}")


def in_own_process(preset: str, num_transitions: int, num_queries: int) -> tuple[float, float]:
    command = [sys.executable, __file__, "--preset", preset, "--one", str(num_transitions), str(num_queries)]
    # A fixed threshold makes the allocator give back what is freed; otherwise the peak depends on its mood.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(2**20)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    bare, peak = done.stdout.split()
    return float(bare), float(peak)


def measure(preset: str, num_transitions: int, num_queries: int) -> tuple[float, float]:
    """Peak memory in MB before and after an estimate and its queries."""
    torch.set_num_threads(1)
    model = FIMSDE(ModelConfig.preset(preset)).eval()
    values = np.cumsum(np.random.default_rng(0).standard_normal((num_transitions + 1, 2)), axis=0)
    obs = read(values, dt=0.01)
    bare = peak_memory()
    sde = estimate(obs, model)
    low, high = obs.box()
    fields = sde.fields(np.random.default_rng(1).uniform(low, high, (num_queries, 2)))
    assert np.isfinite(fields).all()
    return bare, peak_memory()


def peak_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
