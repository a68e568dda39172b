"""The log of a run: one JSON object per line, cut back to the step that training resumes from."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from fimsde.errors import CheckpointError, ConfigError
from fimsde.files.write import write_file

FILE = "log.jsonl"


class Log:
    """Lines {"step": i, "loss": ..., ...}; a number that is not finite is null.

    Args:
        out: Folder of the run.
        start: Lines of this step and later ones are from a part of the run that is being repeated, and are dropped.
        tensorboard: Also write events for TensorBoard.
        is_main: Other processes write nothing.
    """

    def __init__(self, out: Path, start: int, tensorboard: bool, is_main: bool) -> None:
        self._path = out / FILE
        self._file: TextIO | None = None
        self._events = _summary_writer(out, start) if tensorboard and is_main else None
        if is_main:
            with self._writing():
                out.mkdir(parents=True, exist_ok=True)
                # in one step: a kill right after the start must not cost what is kept
                kept = [line for line in read_log(out) if line["step"] < start]
                write_file(self._path, "".join(json.dumps(line) + "\n" for line in kept).encode())
                self._file = self._path.open("a")

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for open_ in (self._file, self._events):
            if open_ is not None:
                open_.close()

    def write(self, step: int, numbers: dict[str, float | bool | None]) -> None:
        """One line, at once on disk as far as the operating system is concerned."""
        if self._file is not None:
            with self._writing():
                self._file.write(json.dumps({"step": step, **numbers}) + "\n")
                self._file.flush()
        if self._events is not None:
            for name, value in numbers.items():
                if value is not None:
                    self._events.add_scalar(name, float(value), step)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CheckpointError(
                f"cannot write {self._path}: {error.strerror}. Make room there, or choose another folder (--out)."
            ) from error


def read_log(out: Path, name: str = FILE) -> list[dict[str, Any]]:
    """The lines of a run's log; a last line that a kill cut short is left out."""
    if not (out / name).exists():
        return []
    text = (out / name).read_text(errors="replace")
    return [_parsed(out / name, i, line) for i, line in enumerate(text[: text.rfind("\n") + 1].splitlines())]


def _parsed(path: Path, i: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CheckpointError(f"line {i + 1} of {path} is damaged: {line[:40]!r}. Remove the line and run again.")
    return found


def _summary_writer(out: Path, start: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError("TensorBoard is not installed; install it with `pip install fimsde[train]`.") from error
    return SummaryWriter(str(out / "tensorboard"), purge_step=start)
