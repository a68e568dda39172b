"""Numbers of a script, kept for the pages: benchmarks/results/scripts/NAME.json.

Beside the numbers stand the command, the day and the fingerprint of the code that decides them; "unknown" if they were
copied from a page that was written before.
"""

import json
import sys
from datetime import date
from pathlib import Path
from typing import Any

from fimsde.benchmark.fingerprint import DECIDES, MEASURED, MODEL, UNKNOWN, digest_of
from fimsde.files.write import write_file

FOLDER = Path(__file__).parent / "results" / "scripts"
OURS = (*MEASURED, *MODEL)
PLACES = {  # modules and folders of the package that decide the numbers of a script
    "short_data": (*OURS, *DECIDES["kramers-moyal"]),
    "fresh_seeds": ("evidence", "bank", "data", "systems/canonical.py", "simulate.py", "equations"),
    "band_coverage": (*OURS, "analysis/band.py"),
    "posterior_numbers": ("evidence", "bank", "data", "analysis", "results"),
    "estimate_speed": ("evidence", "bank", "data"),
    "bundled_speed": (*OURS, "tabulate.py", "tabulate_kernels.py"),
    "forecast": (*OURS, "results/forecasts.py", "metrics/crps.py"),
    "startup": ("interface/cli", "__init__.py"),
    "uncertainty": (*OURS, "prior", "train/pretrain"),
    "ablation": (*OURS, "prior", "train"),
    "training_speed": ("model", "prior", "train/pretrain", "benchmark/scaling/cost.py"),
    "zero_answer": ("prior", "train/pretrain", "benchmark/scaling/judge.py"),
    "location_bound": ("model", "prior", "train/pretrain"),
    "least_squares": ("prior", "train/pretrain", "benchmark/scaling/judge.py"),
    "mmd_speed": MEASURED,
    "prior_speed": ("prior",),
    "prior_statistics": ("prior",),
}


def store(name: str, numbers: dict[str, Any]) -> None:
    """Write what a script has measured, rounded nowhere; `make tables` then puts it into the pages."""
    record = {
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "date": date.today().isoformat(),
        "code": digest_of(PLACES[name]),
        "numbers": numbers,
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_file(FOLDER / f"{name}.json", (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())


def load(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """A stored record."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def is_present(name: str, record: dict[str, Any]) -> bool:
    """Whether the present code made the numbers."""
    return record["code"] != UNKNOWN and record["code"] == digest_of(PLACES[name])
