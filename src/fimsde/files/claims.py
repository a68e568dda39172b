"""The hidden name under which a result is made: locked by the operating system as long as its maker lives.

A lock ends with the process that holds it, however it ends. So whatever can be locked has no maker any more.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fimsde.errors import OutputError
from fimsde.files.ownership import MARKER, foreign_files, is_ours, mark, remove_ours
from fimsde.files.place import no_place
from fimsde.files.write import partial_files

PARTIAL, OLD = ".fimsde-partial", ".fimsde-old"  # a result in the making, and one that is being replaced
_ATTEMPTS = 20  # by hand: how often a hidden name may vanish between making and locking it until it counts as in use


@contextmanager
def claimed(target: Path, *, is_folder: bool) -> Iterator[Path]:
    """The hidden file or folder, empty, in which `target` is made. It is gone afterwards unless it was renamed.

    Raises:
        OutputError: Somebody else is making the same target.
    """
    work = hidden(target)
    lock = _claim(work, target, is_folder)
    try:
        yield work
    finally:
        if _is_at(work, lock):
            with suppress(OSError):
                _remove(work)
        os.close(lock)


def hidden(target: Path) -> Path:
    """The name of a result while it is made."""
    return target.with_name(f".{target.name}{PARTIAL}")


def tidy(folder: Path) -> None:
    """Clear away what killed runs left in a folder; a result that was being replaced gets its name back."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        for ending in (PARTIAL, OLD):
            if name.startswith(".") and name.endswith(ending):
                with suppress(OSError):  # it belongs to another user
                    _clear(folder / name[1 : -len(ending)])


def _clear(target: Path) -> None:
    work, old = hidden(target), target.with_name(f".{target.name}{OLD}")
    lock = _lock(work)
    if lock is None and os.path.lexists(work):
        return  # somebody is at work
    try:
        if lock is not None:
            _remove(work)
        if not is_ours(old):
            return
        if not os.path.lexists(target):
            old.rename(target)
        else:
            remove_ours(old, [name for name in foreign_files(old) if _same(old / name, target / name)])
    finally:
        if lock is not None:
            os.close(lock)


def _claim(work: Path, target: Path, is_folder: bool) -> int:
    for _ in range(_ATTEMPTS):
        is_new = _make(work, is_folder)
        try:
            lock = _lock(work, is_new=is_new)
            if lock is not None and is_folder:
                _empty(work)
                mark(work)
        except KeyboardInterrupt:
            if is_new:
                with suppress(OSError):
                    _remove(work)
            raise
        if lock is not None:
            return lock
        if os.path.lexists(work):
            break
    raise OutputError(
        f"another run of fimsde is writing {str(target)!r} at this moment. Wait for it, or choose another name."
    )


def _make(work: Path, is_folder: bool) -> bool:
    """Make the hidden file or folder; whether it was not there before."""
    try:
        work.mkdir() if is_folder else work.touch(exist_ok=False)
    except FileExistsError:
        if work.is_dir() != is_folder or work.is_symlink():
            raise OutputError(f"{str(work)!r} is in the way. Move it away.") from None
        return False
    except OSError:  # some file systems refuse only what is tried
        raise no_place(work.parent) from None
    return True


def _lock(path: Path, is_new: bool = False) -> int | None:
    """A descriptor that holds the lock of what stands at a path; None if another has it, or nothing stands there.

    Some file systems know no locks. There, what was made just now is taken to be one's own, and nothing else is.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_held = True
    except BlockingIOError:
        is_held = False
    except OSError:
        is_held = is_new
    if is_held and _is_at(path, descriptor):  # neither renamed nor removed since it was opened
        return descriptor
    os.close(descriptor)
    return None


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove(work: Path) -> None:
    """Remove a hidden file or folder of ours, with all that is in it."""
    if not work.is_dir():
        work.unlink()
    elif _is_left_by_us(work):
        _empty(work)
        (work / MARKER).unlink(missing_ok=True)
        work.rmdir()


def _empty(work: Path) -> None:
    """Remove all but the marker of a hidden folder, so that whoever is killed here can begin again."""
    if not _is_left_by_us(work):
        raise OutputError(f"{str(work)!r} is in the way and was not made by fimsde. Move it away.")
    for path in (work / name for name in os.listdir(work) if name != MARKER):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _is_left_by_us(work: Path) -> bool:
    """Whether a hidden folder has a marker, which is written first, or nothing but one that was being written."""
    return is_ours(work) or {path.name for path in partial_files(work, MARKER)} >= set(os.listdir(work))


def _same(one: Path, other: Path) -> bool:
    return other.exists() and one.samefile(other)
