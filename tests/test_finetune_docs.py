"""The example of docs/finetuning.md runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "finetuning.md"


@pytest.mark.slow
def test_the_example_of_the_page_runs(tmp_path):
    """Buys a page whose code cannot rot; takes a minute because it finetunes the bundled model."""
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
    assert "held-out log-likelihood" in done.stdout
    assert (tmp_path / "tuned" / "model.safetensors").exists()
