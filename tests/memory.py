"""Programs that measure their peak memory, each in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

_STATUS = Path("/proc/self/status")
_PEAK = f"""
def peak():
    \"\"\"Megabytes. What getrusage says is never below the size of the process that started this one.\"\"\"
    with open("{_STATUS}") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) / 1024
"""


def run_measured(program: str, *arguments: object) -> str:
    """What the program prints. It can call `peak()`: the largest size of its own process so far, in megabytes."""
    if not _STATUS.exists():
        pytest.skip(f"peak memory is read from {_STATUS}")
    command = [sys.executable, "-c", _PEAK + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    return done.stdout
