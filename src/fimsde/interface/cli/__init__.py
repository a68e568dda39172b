"""The command line: one thin file per command, no arithmetic here.

Exit codes: 0 done, 2 wrong input (one sentence says what), 130 interrupted, 1 anything else.
"""

import errno
import sys
import warnings
from typing import Any

import typer

from fimsde.errors import DataWarning, FimsdeError

_NO_PLACE = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG, errno.ELOOP),
)
_INTERRUPTED = "fimsde: interrupted"

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None, add_completion=True)


def _version(wanted: bool) -> None:
    if wanted:
        from fimsde import __version__

        typer.echo(f"fimsde {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """The stochastic differential equation behind your time series, zero-shot."""


def _register() -> None:
    from fimsde.interface.cli.bench import bench
    from fimsde.interface.cli.check import check
    from fimsde.interface.cli.compare import compare
    from fimsde.interface.cli.convert import convert
    from fimsde.interface.cli.demo import demo
    from fimsde.interface.cli.estimate import estimate
    from fimsde.interface.cli.export import export
    from fimsde.interface.cli.finetune import finetune
    from fimsde.interface.cli.generate import generate
    from fimsde.interface.cli.info import info
    from fimsde.interface.cli.local_app import app as local_app
    from fimsde.interface.cli.pretrain import pretrain
    from fimsde.interface.cli.report import report
    from fimsde.interface.cli.simulate import simulate

    everyday = (estimate, report, simulate, finetune, compare, check, demo, local_app)
    for command in (*everyday, bench, generate, pretrain, convert, export, info):
        app.command()(command)


def main(arguments: list[str] | None = None) -> Any:
    """Run the program; errors that fimsde raises on purpose become one sentence and exit code 2."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)
        warnings.showwarning = _show_warning  # type: ignore[assignment]  # one sentence, like errors
        try:
            return app(arguments)
        except FimsdeError as error:
            typer.echo(f"fimsde: {error}".replace("pass overwrite=True to", "use --overwrite to"), err=True)
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
        except SystemExit as stop:  # typer turns the interrupt into an exit without a word
            if isinstance(getattr(stop.__context__, "__cause__", None), KeyboardInterrupt):
                typer.echo(_INTERRUPTED, err=True)
            raise


def _show_warning(message: Warning | str, *_: Any) -> None:
    typer.echo(f"fimsde: warning: {message}", err=True)


_register()
