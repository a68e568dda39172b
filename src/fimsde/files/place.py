"""Whether a folder takes new files, asked before any work is done."""

import tempfile
from contextlib import suppress
from pathlib import Path

from fimsde.errors import OutputError


def check_place(folder: Path, option: str) -> None:
    """Refuse a folder that takes no files or cannot be made; `option` of the command line named it."""
    made = [place for place in (folder, *folder.absolute().parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()  # some file systems refuse only what is tried
    except OSError as error:
        raise no_place(folder, option, error) from None
    finally:
        with suppress(OSError):
            for place in made:
                place.rmdir()


def no_place(folder: Path, option: str = "", error: OSError | None = None) -> OutputError:
    """The error for a folder that takes no files."""
    advice = f"Choose another place ({option})." if option else "Choose another place."
    if folder.exists() and not folder.is_dir():
        return OutputError(f"{str(folder)!r} is a file; expected a folder. {advice}")
    if not folder.exists() and error is None:
        return OutputError(f"there is no folder {str(folder)!r} to write into. Make it first, or choose another place.")
    reason = "the folder is read-only" if error is None else error.strerror
    return OutputError(f"cannot write into {str(folder)!r}: {reason}. {advice}")
