"""The example of docs/analysis.md runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "analysis.md"


@pytest.mark.slow
def test_the_example_of_the_page_runs(tmp_path):
    """Buys a page whose code cannot rot; takes half a minute because it compares all methods."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "stable node" in done.stdout
    assert "dx1 = (" in done.stdout
    assert (tmp_path / "result" / "result.json").exists()
