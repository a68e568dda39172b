"""Runs of growing length that are kept side by side: a longer one begins as a copy of the longest shorter one."""

import shutil
from pathlib import Path

from fimsde.files.outputs import new_folder
from fimsde.files.write import write_file


def begun(work: Path, name: str, length: int, suffix: str = "") -> Path:
    """The place `name-length` of a run in a folder; if it is new, what the longest shorter run left stands there.

    Args:
        work: Where runs are kept; made if needed.
        name: Of the run, whatever its length: all that decides it, as a digest.
        length: Iterations.
        suffix: Of the file that a run leaves; empty for runs that leave a folder.
    """
    work.mkdir(parents=True, exist_ok=True)
    place = work / f"{name}-{length}{suffix}"
    ends = (found.name.removeprefix(f"{name}-").removesuffix(suffix) for found in work.glob(f"{name}-*{suffix}"))
    shorter = [int(end) for end in ends if end.isdecimal() and int(end) < length]
    if place.exists() or not shorter:
        return place
    source = work / f"{name}-{max(shorter)}{suffix}"
    if source.is_dir():
        with new_folder(place) as beginning:
            shutil.copytree(source, beginning, dirs_exist_ok=True)
    else:
        write_file(place, source.read_bytes())
    return place
