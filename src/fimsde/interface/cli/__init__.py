"""The command line: one thin file per command, no arithmetic here.

Exit codes: 0 done, 2 wrong input (one sentence says what), 130 interrupted, 1 anything else.
"""

import errno
import gc
import sys
import warnings
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from fimsde.errors import DataWarning, FimsdeError, GuessWarning

_NO_PLACE = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG, errno.ELOOP),
)
_INTERRUPTED = "fimsde: interrupted"
_COMMANDS = {  # in the order of the help: every day first; each is a function of the module of its name
    "estimate": "The equation behind a table: report, numbers, figures.",
    "check": "How far to trust it: one light, and the verdicts behind it.",
    "report": "The HTML page about a result or a table.",
    "simulate": "Paths of a result, or of the estimate of a table.",
    "compare": "All methods on your data, scored on held-out observations.",
    "app": "The same in the browser.",
    "demo": "The whole way on a simulated double well, beside the truth.",
    "info": "What is installed, or what a table or a result holds.",
    "finetune": "Adapt the recognition model to one data set.",
    "bench": "Experiments of the paper, and suites against specialists.",
    "generate": "Random equations and their paths, to train on.",
    "pretrain": "Train a recognition model.",
    "convert": "The authors' published checkpoint as weights of fimsde.",
    "export": "A recognition model as ONNX and torch.export graphs.",
}
# objects between two searches for garbage, most of which importing torch and matplotlib makes, and none of that is
# garbage; benchmarks/startup.py: a third of the time of `import torch` are such searches
_FEW_SEARCHES = 100_000


class _Commands(TyperGroup):
    """Commands, each imported when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of them; None if there is none of that name."""
        if cmd_name not in _COMMANDS:
            return None
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        module = import_module(f"fimsde.interface.cli.{'local_app' if cmd_name == 'app' else cmd_name}")
        alone.command(cmd_name, short_help=_COMMANDS[cmd_name])(getattr(module, cmd_name))
        return typer.main.get_command(alone)


app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


def _version(wanted: bool) -> None:
    if wanted:
        from fimsde import __version__

        typer.echo(f"fimsde {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """The stochastic differential equation behind your time series, with error bars and a verdict."""


def program() -> None:
    """Run as a process of its own, which ends afterwards: nobody needs what it leaves in memory."""
    gc.set_threshold(_FEW_SEARCHES)
    try:
        main()
    finally:
        gc.freeze()  # the interpreter searches all of it once more when it ends


def main(arguments: list[str] | None = None) -> Any:
    """Run the program; errors that fimsde raises on purpose become one sentence and exit code 2."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)
        warnings.showwarning = _show_warning  # type: ignore[assignment]  # one sentence, like errors
        try:
            return app(arguments)
        except FimsdeError as error:
            from fimsde.interface.cli.table import as_options

            sentence = as_options(str(error)).replace("pass overwrite=True to", "use --overwrite to")
            typer.echo(f"fimsde: {sentence}", err=True)
            sys.exit(2)
        except OSError as error:
            if error.errno not in _NO_PLACE:
                raise
            name = str(error.filename)
            place = "" if error.filename is None else f" at {name if len(name) < 200 else '...' + name[-60:]!r}"
            typer.echo(
                f"fimsde: cannot write or read{place}: {error.strerror}. Make room, or choose another place.", err=True
            )
            sys.exit(2)
        except KeyboardInterrupt:
            typer.echo(_INTERRUPTED, err=True)
            sys.exit(130)
        except SystemError as error:  # what Python makes of an interrupt that arrives inside compiled code
            if not _is_interrupt(error):
                raise
            typer.echo(_INTERRUPTED, err=True)
            sys.exit(130)
        except SystemExit as stop:  # typer turns the interrupt into an exit without a word
            if isinstance(getattr(stop.__context__, "__cause__", None), KeyboardInterrupt):
                typer.echo(_INTERRUPTED, err=True)
            raise


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether an interrupt stands behind an error, or behind what stands behind it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _show_warning(message: Warning | str, *_: Any) -> None:
    kind = "" if isinstance(message, GuessWarning) else "warning: "
    typer.echo(f"fimsde: {kind}{message}", err=True)
