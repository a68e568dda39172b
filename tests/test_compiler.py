"""Compiled code is kept on disk where that works; where it does not, everything works all the same."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import fimsde
from fimsde import compiler

SCRIPT = """
import warnings, numpy as np
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    from fimsde.compiled import interpolate_1d, interpolate_2d
    from fimsde.priming.compiled import count_windows
    found = interpolate_1d(np.arange(8.0)[:, None], np.zeros(1), np.ones(1), np.array([[2.5]]))
    assert abs(found[0, 0] - 2.5) < 1e-12
print(*[w.message for w in said if "kept on disk" in str(w.message)], sep="\\n")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without a home")
def test_a_read_only_installation_without_a_home_could_not_be_imported(tmp_path):
    """A user that owns nothing and has no home; numba used to raise, or to make a folder called ~ where one stood."""
    (tmp_path / "here").mkdir()
    for folder in (*reversed(tmp_path.parents), tmp_path, tmp_path / "here"):
        if folder.owner() == "root" and folder not in (Path("/"), Path("/tmp")):
            folder.chmod(folder.stat().st_mode | 0o055)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(fimsde.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        cwd=tmp_path / "here",
        user=54321,
        group=54321,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("compiled code cannot be kept on disk") == 1
    assert list((tmp_path / "here").iterdir()) == []


def double(x):
    return 2 * x


@pytest.fixture
def silent_before():
    compiler._say.cache_clear()
    yield
    compiler._say.cache_clear()


def test_no_place_for_a_cache_was_an_error(monkeypatch, silent_before):
    def nowhere(*_):
        raise RuntimeError("cannot cache function 'double': no locator available for file 'x.py'")

    monkeypatch.setattr(compiler, "_Cache", nowhere)
    with pytest.warns(UserWarning, match="compiled code cannot be kept on disk") as said:
        functions = [compiler.njit(cache=True)(double), compiler.njit(double, cache=True)]
    assert len(said) == 1
    assert [f(21) for f in functions] == [42, 42]


def test_a_full_disk_stopped_a_calculation_that_needs_none(monkeypatch, silent_before):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", full)
    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.load", lambda *_: None)
    kept = compiler.njit(cache=True)(double)
    with pytest.warns(UserWarning, match="compiled code cannot be kept on disk"):
        assert kept(21) == 42
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kept(2.5) == 5.0


def test_a_cache_cut_short_by_a_crash_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    compiler.njit(cache=True)(double)(21)
    index, data = (next(tmp_path.rglob(f"*.{kind}")) for kind in ("nbi", "nbc"))
    for file in (index, data):
        file.write_bytes(file.read_bytes()[:7])
        assert compiler.njit(cache=True)(double)(21) == 42
        assert file.stat().st_size > 7
    again = compiler.njit(cache=True)(double)
    assert again(21) == 42
    assert sum(again.stats.cache_hits.values()) == 1
    np.testing.assert_allclose(again(1.5), 3.0)
