"""A script that has been run, as a notebook with its outputs (nbformat 4.5): text, code, what it printed and drew."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

from script import Cell, Run


def to_notebook(run: Run, title: str) -> str:
    """The content of an .ipynb file."""
    cells: list[dict[str, Any]] = [_markdown(f"# {title}", "title")]
    for number, cell in enumerate(run.cells, start=1):
        if cell.text:
            cells.append(_markdown(cell.text, f"text-{number}"))
        if cell.code:
            cells.append(_code(cell, number))
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def title_of(script: Path) -> str:
    """The first line of the docstring of a script."""
    return script.read_text(encoding="utf-8").removeprefix('"""').splitlines()[0].rstrip(".")


def _markdown(text: str, name: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": _lines(text)}


def _code(cell: Cell, number: int) -> dict[str, Any]:
    outputs: list[dict[str, Any]] = []
    if cell.output:
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(cell.output + "\n")})
    for picture in cell.pictures:
        shown = {"image/png": b64encode(picture.read_bytes()).decode()}
        outputs.append({"output_type": "display_data", "data": shown, "metadata": {}})
    return {
        "cell_type": "code", "id": f"code-{number}", "metadata": {}, "execution_count": number,
        "source": _lines(cell.code), "outputs": outputs,
    }  # fmt: skip


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
