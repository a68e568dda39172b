"""What belongs to the package: a folder that it made says so in a marker file, with the list of what was put there.

Only what a marker lists is ever removed. Files that somebody added to such a folder are theirs.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fimsde._version import __version__
from fimsde.files.write import write_file

MARKER = ".fimsde.json"
_PROGRAM = "fimsde"
_LONGEST = 1 << 24  # bytes of a marker; by hand: room for 100 000 names, and no more than this is read from a stranger


def mark(folder: Path) -> None:
    """Declare everything in a folder to be ours."""
    files = sorted(str(file.relative_to(folder)) for file in _files(folder) if file != folder / MARKER)
    record = {"made_by": _PROGRAM, "version": __version__, "files": files}
    write_file(folder / MARKER, (json.dumps(record, indent=1) + "\n").encode())


def is_ours(folder: Path) -> bool:
    """Whether this package made the folder."""
    return _read_marker(folder) is not None


def foreign_files(folder: Path) -> list[Path]:
    """Files in a folder of ours that somebody else put there, relative to it."""
    ours = {*(_read_marker(folder) or ()), MARKER}
    return [name for file in _files(folder) if str(name := file.relative_to(folder)) not in ours]


def adopt(old: Path, new: Path) -> list[Path]:
    """Give the new folder what others put into the old one, under the same names; both have it then.

    Raises:
        FileExistsError: A name that somebody else used is one of ours now.
    """
    foreign = foreign_files(old)
    for place, folders, files in os.walk(old):
        if not folders and not files:
            (new / Path(place).relative_to(old)).mkdir(parents=True, exist_ok=True)
    for name in foreign:
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(old / name, new / name, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            shutil.copy2(old / name, new / name, follow_symlinks=False)
    return foreign


def remove_ours(folder: Path, also: Iterable[Path] = ()) -> None:
    """Remove from a folder what its marker lists, and then every folder in it, and itself, that is empty.

    Args:
        folder: A folder of ours; one without a marker is left alone.
        also: Further files, relative to the folder, of which there is a copy elsewhere.
    """
    listed = _read_marker(folder)
    if listed is None:
        return
    inside = [name for name in map(Path, listed) if not name.is_absolute() and ".." not in name.parts]
    for name in (*inside, *also, Path(MARKER)):  # the marker last: whoever is killed here can begin again
        (folder / name).unlink(missing_ok=True)
    remove_empty(folder)


def remove_empty(folder: Path) -> None:
    """Remove every folder in a folder, and itself, that holds nothing."""
    for place, _, _ in os.walk(folder, topdown=False):
        if not os.listdir(place):
            os.rmdir(place)


def _files(folder: Path) -> Iterator[Path]:
    """All files and links in a folder; links are not followed."""
    for place, folders, files in os.walk(folder):
        yield from (Path(place, name) for name in files)
        yield from (Path(place, name) for name in folders if Path(place, name).is_symlink())


def _read_marker(folder: Path) -> list[str] | None:
    marker = folder / MARKER
    try:
        if marker.is_symlink() or not marker.is_file() or marker.stat().st_size > _LONGEST:
            return None
        record: Any = json.loads(marker.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    match record:
        case {"made_by": "fimsde", "files": [*names]} if all(isinstance(name, str) for name in names):
            return list(names)
    return None
