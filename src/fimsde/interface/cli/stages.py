"""What is being done, one line for every stage, on a terminal; nothing where nobody looks (a pipe, a log file)."""

import sys

import typer


def stage(text: str) -> None:
    """Say what begins now."""
    if sys.stderr.isatty():
        typer.echo(f"{text} ...", err=True)
