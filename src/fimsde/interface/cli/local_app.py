"""`fimsde app`: the local web app."""

from typing import Annotated

import typer


def app(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Default: 8501, or the next one free.")] = None,
    browser: Annotated[bool, typer.Option(help="Whether to open the page in the browser.")] = True,
) -> None:
    """Open a page for one's own table: choose columns, look at the report, download the results. Ctrl-C ends it.

    It runs on this machine, can be reached from this machine only, and sends nothing anywhere.

    Example: fimsde app --port 8600
    """
    from fimsde.interface.app.start import find_port, require_streamlit, serve

    require_streamlit()
    place = find_port(port)
    typer.echo(f"the app is at http://127.0.0.1:{place}; Ctrl-C ends it")
    code = serve(place, open_browser=browser)
    if code:
        raise typer.Exit(1)
