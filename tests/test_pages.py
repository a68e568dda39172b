"""The examples on pages of the documentation run as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize(
    ("page", "words", "file"),
    [
        ("analysis.md", ("stable node", "dx1 = ("), "result/result.json"),
        pytest.param("finetuning.md", ("held-out log-likelihood",), "tuned/model.safetensors", marks=pytest.mark.slow),
    ],
)
def test_the_example_of_the_page_runs(tmp_path, page, words, file):
    """Buys pages whose code cannot rot; the slow one trains weights for half a minute."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in words)
    assert (tmp_path / file).exists()
