"""Set-up shared by all tests: one thread, shape checks, fixed seeds, where the reference data lie, no skips in CI."""

import os
import signal
from pathlib import Path

# Tests run side by side (pytest -n). Threads of torch and BLAS on top of that wait for each other in busy loops, where
# most of the time of all cores went. Set before anything loads them; processes started by tests inherit it.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import hypothesis
import numpy as np
import pytest
from jaxtyping import install_import_hook

from skips import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401 — hooks of pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"

# Started in the background of a script, the tests, and the programs they start and stop, would be deaf to SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)


def _checked_modules() -> list[str]:
    """Every module but the numba kernels, whose functions must reach the compiler unwrapped."""
    files = (SOURCE / "fimsde").rglob("*.py")
    modules = [".".join(f.relative_to(SOURCE).with_suffix("").parts) for f in files if not f.stem.endswith("_kernels")]
    return [m for m in modules if not m.endswith("__init__")]


if "FIMSDE_WITNESS" not in os.environ:  # seeded faults must be noticed without them, and in half the time
    install_import_hook(_checked_modules(), "checks.check_types")

hypothesis.settings.register_profile("fimsde", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fimsde"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data beside the repository; tests that need it are skipped without it."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("reference data (../shared) are not here")
    return folder


@pytest.fixture(scope="session")
def real_world(shared: Path) -> Path:
    """The folder with the four real series."""
    return shared / "data" / "real_world"


@pytest.fixture(autouse=True)
def global_random_state_is_left_alone():
    """D2: no function draws from, or seeds, NumPy's global generator. (Python's own is drawn from by beartype.)"""
    before = _global_random_state()
    yield
    assert _global_random_state() == before, "the test changed numpy's global random state"


def _global_random_state():
    name, keys, *position = np.random.get_state()
    return name, keys.tobytes(), *position  # a single draw moves the position only
