"""CPU-seconds of the full-size model beside the authors' code, on the same context: one 2-D path of 5000 observations.

    python benchmarks/model_speed.py --threads 1
    python benchmarks/model_speed.py --threads 2

Random weights, float32, no gradients. Measured: drift and diffusion at 1024 locations, and one Euler step of 100 paths,
times 500. CPU-seconds of the process, the best of several repetitions, so that other work on the machine counts little.
The authors' figures were taken the same way (OpenFIM, commit cee2bb5, torch 2.13.0, one thread of an AMD EPYC). Their
encoder is timed apart, and their functional layers project keys and values in every call; ours project them when
encoding, so our times are given without and with that.
"""

import argparse
import json
import os
import platform
import resource
import time
from collections.abc import Callable
from importlib.metadata import version

AUTHORS = {"encode": 0.255, "fields": 8.040, "simulate": 366.03}  # CPU-seconds
BARS = {"fields": 2.0, "simulate": 4.0}
OBSERVATIONS, LOCATIONS, PATHS, STEPS = 5000, 1024, 100, 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of the table")
    options = parser.parse_args()
    # A thread that waits for its sibling should sleep: on a shared machine spinning would be counted as work.
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    seconds = measure(options.threads, options.repeats)
    report(seconds, options.threads, options.json)


def measure(threads: int, repeats: int) -> dict[str, float]:
    """CPU-seconds by task."""
    import numpy as np
    import torch

    from fimsde.data.normalise import fit_normaliser
    from fimsde.data.observations import read
    from fimsde.data.transitions import to_transitions
    from fimsde.model.config import ModelConfig
    from fimsde.model.fim import FIMSDE
    from fimsde.model.paper import to_tokens
    from fimsde.model.rollout import rollout

    torch.set_num_threads(threads)
    generator = np.random.default_rng(0)
    walk = np.cumsum(generator.normal(size=(OBSERVATIONS, 2)), axis=0)
    transitions = to_transitions(read(walk, dt=0.002))
    tokens = to_tokens([fit_normaliser(transitions).transitions(transitions)], ModelConfig().max_dim)
    model = FIMSDE(ModelConfig(), seed=0).eval()
    axis = torch.linspace(-2, 2, 32)
    grid = torch.stack([*torch.meshgrid(axis, axis, indexing="ij"), torch.zeros(32, 32)], dim=-1).reshape(1, -1, 3)
    start = grid[:, :: LOCATIONS // PATHS][:, :PATHS]
    dt, dims = torch.full((1, PATHS, 1), 0.01), torch.tensor([[True, True, False]])
    noise = torch.from_numpy(generator.normal(size=(1, 1, PATHS, 3))).float()
    with torch.no_grad():
        context = model.encode(tokens)
        model.evaluate(context, grid[:, :8])  # compiles
        return {
            "encode": best(lambda: model.encode(tokens), repeats),
            "fields": best(lambda: model.evaluate(context, grid), repeats),
            "simulate": STEPS * best(lambda: rollout(model, context, start, dt, noise, dims), 4 * repeats),
        }


def best(task: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        task()
        times.append(time.process_time() - begin)
    return min(times)


def report(seconds: dict[str, float], threads: int, as_json: bool) -> None:
    total = {"fields": seconds["fields"] + seconds["encode"], "simulate": seconds["simulate"] + seconds["encode"]}
    authors = {"fields": AUTHORS["fields"] + AUTHORS["encode"], "simulate": AUTHORS["simulate"] + AUTHORS["encode"]}
    ratios = {task: authors[task] / total[task] for task in BARS}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    if as_json:
        print(json.dumps({"threads": threads, "seconds": seconds, "ratios": ratios, "peak_gb": memory}))
        return
    print(f"{threads} thread(s), torch {version('torch')}, {platform.machine()}, load average {os.getloadavg()[0]:.1f}")
    print(f"{'CPU-seconds':<46}{'ours':>9}{'authors':>9}{'ratio':>8}{'bar':>6}")
    row("reading 5000 observations, keys and values too", seconds["encode"], AUTHORS["encode"])
    row("drift and diffusion at 1024 locations", seconds["fields"], AUTHORS["fields"])
    row("  with reading", total["fields"], authors["fields"], BARS["fields"])
    row("100 paths x 500 Euler steps", seconds["simulate"], AUTHORS["simulate"])
    row("  with reading", total["simulate"], authors["simulate"], BARS["simulate"])
    print(f"peak memory {memory:.2f} GB (authors 0.98 GB)")


def row(task: str, ours: float, authors: float, bar: float | None = None) -> None:
    print(f"{task:<46}{ours:>9.3f}{authors:>9.3f}{authors / ours:>8.2f}" + (f"{bar:>6.1f}" if bar else ""))


if __name__ == "__main__":
    main()
