"""Compiled code is kept on disk where that works; where it does not, everything works all the same."""

import os
import re
import warnings
from pathlib import Path

import numba
import numpy as np
import pytest

import fimsde
from fimsde import compiler


def double(x):
    return 2 * x


@pytest.fixture
def silent_before():
    compiler._say.cache_clear()
    yield
    compiler._say.cache_clear()


@pytest.fixture
def read_only(monkeypatch):
    """As far as numba can see, no folder of this machine takes files."""

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("numba.core.caching._CacheLocator.ensure_cache_path", refuse)


def test_a_read_only_installation_could_not_be_imported(read_only, silent_before):
    with pytest.raises(RuntimeError, match="cannot cache function"):
        numba.njit(double, cache=True)
    with pytest.warns(UserWarning, match="compiled code cannot be kept on disk") as said:
        functions = [compiler.njit(cache=True)(double), compiler.njit(double, cache=True)]
    assert len(said) == 1
    assert [f(21) for f in functions] == [42, 42]


def test_without_a_home_numba_made_a_folder_of_that_name(tmp_path, monkeypatch, silent_before):
    """A user that the machine does not know, as containers have them."""
    monkeypatch.chdir(tmp_path)
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.warns(UserWarning, match="compiled code cannot be kept on disk"):
        assert compiler.njit(cache=True)(double)(21) == 42
    assert list(tmp_path.iterdir()) == []


def test_every_kernel_is_compiled_by_way_of_the_compiler():
    sources = {file: file.read_text() for file in Path(fimsde.__file__).parent.rglob("*.py")}
    assert any("fimsde.compiler import njit" in text for text in sources.values())
    direct = [str(file) for file, text in sources.items() if re.search(r"from numba import .*njit|numba\.njit", text)]
    assert [Path(name).name for name in direct] == ["compiler.py"]


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


@pytest.mark.parametrize("watched", [True, False])
def test_who_waits_for_the_compiler_is_told_once(watched, monkeypatch, capsys, tmp_path):
    compiler._say_that_it_takes_long.cache_clear()
    monkeypatch.setattr("sys.stderr.isatty", lambda: watched)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    for _ in range(2):
        assert compiler.njit(cache=True)(double)(np.float32(21)) == 42
    assert capsys.readouterr().err.count("compiling for this computer, once") == watched
    compiler._say_that_it_takes_long.cache_clear()
