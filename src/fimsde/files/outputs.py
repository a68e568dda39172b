"""Where results of users appear: complete under their final name or not at all, and never in place of what is theirs.

A folder is replaced only if its marker says that this package made it, and only if it neither is nor holds the input,
the working folder or the home of the user. What others put into it stays in it. All of this is checked before the work
and once more at the moment of the renaming. While a result is made it has a hidden name beside the final one, which is
locked: a second run into the same place stops, and what a killed run left is cleared away by the next.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from fimsde.errors import OutputError
from fimsde.files.claims import OLD, claimed, tidy
from fimsde.files.ownership import adopt, is_ours, mark, remove_ours
from fimsde.files.place import no_place
from fimsde.files.write import sync

_SIGNED = 4096  # bytes at the beginning of a file in which its signature stands; by hand: ours sign in the first lines


@contextmanager
def new_folder(
    out: str | Path, *, overwrite: bool = False, inputs: Sequence[Path | None] = (), parents: bool = False
) -> Iterator[Path]:
    """A folder to write into that becomes `out` when the block ends well, and vanishes when it does not.

    Args:
        out: The final name.
        overwrite: Whether a folder of that name that this package made may be replaced.
        inputs: What the work reads; nothing that holds it is replaced.
        parents: Whether to make the folders above; they vanish with it.

    Raises:
        OutputError: The place is taken, in use, or cannot be written.
    """
    above = [place for place in Path(os.path.abspath(out)).parents if not place.exists()] if parents else []
    try:
        target = _place(out, parents)
        _check_folder(target, overwrite, inputs)
        with claimed(target, is_folder=True) as work:
            yield work
            with _speaking_of(target):
                _seal(work)
                _check_folder(target, overwrite, inputs)
                _move_folder(work, target, overwrite)
                sync(target.parent)
    except BaseException:
        for place in above:  # what was made for nothing, from the inside out
            with suppress(OSError):
                place.rmdir()
        raise


def check_new(out: str | Path, *, overwrite: bool = False, inputs: Sequence[Path | None] = ()) -> None:
    """Refuse a folder that `new_folder` would refuse, before long work; what stands above it need not exist yet."""
    _check_folder(Path(os.path.abspath(out)), overwrite, inputs)


def write_folder(folder: Path, files: Mapping[str, bytes], *, overwrite: bool = False) -> None:
    """Write files into a new folder that appears under its name only when all of them are on disk."""
    with new_folder(folder, overwrite=overwrite, parents=True) as work, _speaking_of(folder):
        for name, content in files.items():
            (work / name).write_bytes(content)


@contextmanager
def new_file(
    out: str | Path, *, overwrite: bool = False, inputs: Sequence[Path | None] = (), signature: str = ""
) -> Iterator[Path]:
    """A file to write that becomes `out` when the block ends well, and vanishes when it does not.

    Args:
        out: The final name.
        overwrite: Whether a file of that name that this package made may be replaced.
        inputs: What the work reads, and so must not be replaced.
        signature: Text by which a file of this kind is known, in its first lines; a file without it is not replaced.
    """
    target = _place(out, parents=False)
    _check_file(target, overwrite, inputs, signature)
    with claimed(target, is_folder=False) as work:
        yield work
        with _speaking_of(target):
            sync(work)
            _check_file(target, overwrite, inputs, signature)
            os.replace(work, target) if overwrite else _link(work, target)
            sync(target.parent)


def _place(out: str | Path, parents: bool) -> Path:
    """The absolute name, in a folder that exists and holds nothing that a killed run left there."""
    named = Path(os.path.abspath(out))
    parent = named.parent
    try:
        if parents:
            parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        above = f"; {str(parent)!r} is a file, no folder" if parent.is_file() else ""
        raise OutputError(f"{named} cannot be written: {error.strerror}{above}. Choose another place.") from error
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise no_place(parent)
    target = Path(os.path.realpath(parent), named.name)
    tidy(target.parent)
    return target


def _check_folder(target: Path, overwrite: bool, inputs: Sequence[Path | None]) -> None:
    if not os.path.lexists(target):
        return
    if target.is_symlink() or not target.is_dir():
        kind = "a link" if target.is_symlink() else "a file"
        raise OutputError(f"{str(target)!r} is {kind}; expected the name of a new folder. Choose another name.")
    is_free = is_ours(target) or not os.listdir(target)
    for what, place in _protected(inputs):
        if _holds(target, place):
            raise OutputError(f"{str(target)!r} exists already and is or holds {what}. Choose another name.")
    _check_replaced(target, is_free, overwrite)


def _check_file(target: Path, overwrite: bool, inputs: Sequence[Path | None], signature: str) -> None:
    if not os.path.lexists(target):
        return
    if target.is_symlink() or not target.is_file():
        kind = "a link" if target.is_symlink() else "a folder" if target.is_dir() else "no file"
        raise OutputError(f"cannot write {str(target)!r}: it is {kind}. Choose a file name.")
    for place in inputs:
        if place is not None and place.exists() and place.samefile(target):
            raise OutputError(f"{str(target)!r} is the input. Choose another name.")
    _check_replaced(target, not signature or signature.encode() in _beginning(target), overwrite)


def _check_replaced(target: Path, is_free: bool, overwrite: bool) -> None:
    if not is_free:
        raise OutputError(
            f"{str(target)!r} exists already and was not made by fimsde, so it is not replaced. Choose another name."
        )
    if not overwrite:
        raise OutputError(f"{str(target)!r} exists already. Choose another name, or pass overwrite=True to replace it.")


def _beginning(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(_SIGNED)


def _protected(inputs: Sequence[Path | None]) -> Iterator[tuple[str, Path]]:
    yield from (("the input", place) for place in inputs if place is not None)
    yield "the working folder", Path.cwd()
    if home := os.path.expanduser("~"):
        yield "the home folder", Path(home)


def _holds(folder: Path, place: Path) -> bool:
    """Whether a folder is a place, or lies anywhere above it; by what they are on the disk, not by their names."""
    inner = Path(os.path.realpath(place))
    return any(above.exists() and above.samefile(folder) for above in (inner, *inner.parents))


def _seal(work: Path) -> None:
    """Everything is on the disk, and says whose it is."""
    mark(work)
    for place, _, files in os.walk(work):
        for name in files:
            sync(Path(place, name))
        sync(Path(place))


def _move_folder(work: Path, target: Path, overwrite: bool) -> None:
    if not (overwrite and target.exists()):
        _rename(work, target)
        return
    old = target.with_name(f".{target.name}{OLD}")
    try:
        kept = adopt(target, work)
    except FileExistsError as error:
        raise OutputError(
            f"{str(target)!r} holds a file that fimsde did not make and would replace: {error.filename2}. Move it away."
        ) from None
    target.rename(old)
    try:
        work.rename(target)
    except OSError:
        old.rename(target)
        raise
    remove_ours(old, kept)


def _rename(work: Path, target: Path) -> None:
    """Renaming a folder fails by itself if the name is taken by anything but an empty folder."""
    try:
        work.rename(target)
    except OSError:
        if os.path.lexists(target):
            raise _appeared(target) from None
        raise


def _link(work: Path, target: Path) -> None:
    """A second name for the file, which is never given if it is taken; the hidden one goes afterwards."""
    try:
        os.link(work, target)
    except FileExistsError:
        raise _appeared(target) from None
    except OSError:  # a file system without hard links: checked a moment ago
        os.rename(work, target)


def _appeared(target: Path) -> OutputError:
    return OutputError(f"{str(target)!r} was made by somebody else meanwhile and stays as it is. Choose another name.")


@contextmanager
def _speaking_of(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{target} cannot be written: {error.strerror}. What was there before is unchanged."
        ) from error
