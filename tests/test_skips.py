"""A test that is skipped in CI is a failure, so that a missing browser or package cannot go unseen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.fixture
def browser():
    pytest.skip("no Chromium is installed")

def test_that_passes(): pass
def test_in_a_browser(browser): pass
def test_of_an_extra(): pytest.importorskip("no_such_package", reason="the extra is not installed")
@pytest.mark.skipif(True, reason="root writes everywhere")
def test_that_root_forbids(): pass
@pytest.mark.xfail(reason="known", strict=True)
def test_that_is_expected_to_fail(): assert False
"""
MODULE = "import pytest\npytest.importorskip('no_such_package', reason='the extra is not installed')\n"


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize(
    ("ci", "outcome"),
    [("true", "1 failed, 1 passed, 1 skipped, 1 xfailed, 2 errors"), ("", "1 passed, 4 skipped, 1 xfailed")],
)
def test_skipped_tests_fail_in_ci_but_those_that_root_forbids(tmp_path, workers, ci, outcome):
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_whole_module.py").write_text(MODULE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "skips", "-n", workers, "--continue-on-collection-errors", "-ra"],
        cwd=tmp_path,
        env={**os.environ, "CI": ci, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in done.stdout.splitlines()[-1], done.stdout + done.stderr
    assert done.returncode == (1 if ci else 0)
    if ci:
        assert "does not allow: no Chromium is installed" in done.stdout
