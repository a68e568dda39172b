"""Errors and CPU seconds of the optional peers on canonical systems, three repetitions (needs the extra `peers`).

    python benchmarks/peer_cells.py --systems double_well,damped_linear --noise 0.05 --stride 10

Without noise SFI is told so (`noise="absent"`), as its guide advises; else it follows its own rule. The first time is
that of a process that has compiled nothing; SFI_JAX_CACHE_DIR keeps compiled code between processes.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fimsde.baselines import peers_pysindy, peers_sfi
from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE
from fimsde.metrics.vector_field import field_error
from fimsde.systems.canonical import CANONICAL, context, grid


def methods(clean: bool) -> dict[str, Callable[[Observations], SDE]]:
    """The peers by name."""
    noise = "absent" if clean else "auto"
    return {
        "pysindy": peers_pysindy.fit,
        "sfi-linear": lambda o: peers_sfi.fit(o, replace(peers_sfi.LINEAR, noise=noise)),
        "sfi-parametric": lambda o: peers_sfi.fit(o, replace(peers_sfi.PARAMETRIC, noise=noise)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", default="double_well")
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--stride", type=int, default=10)
    parser.add_argument("--methods", default="pysindy,sfi-linear,sfi-parametric")
    options = parser.parse_args()
    for system in (s for s in CANONICAL if s.name in options.systems.split(",")):
        for name in options.methods.split(","):
            rows = []
            for repetition in range(3):
                data = context(system, repetition, noise_std=options.noise, stride=options.stride)
                before = time.process_time()
                fitted = methods(options.noise == 0)[name](data)
                seconds = time.process_time() - before
                error = field_error(fitted, system, grid(system))
                rows.append((error.drift, error.diffusion, seconds))
            drift, diffusion, _ = np.mean(rows, axis=0)
            times = ", ".join(f"{row[2]:.1f}" for row in rows)
            print(
                f"{system.name} {name}: drift {drift:.3g}, diffusion {diffusion:.3g}, CPU seconds {times}", flush=True
            )


if __name__ == "__main__":
    main()
