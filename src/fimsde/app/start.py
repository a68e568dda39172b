"""Starting the app: on this machine only, without telemetry."""

import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from fimsde.errors import ConfigError

ADDRESS = "127.0.0.1"
_SCRIPT = Path(__file__).with_name("main.py")
_FIRST, _TRIED = 8501, 100  # ports
_PATIENCE = 5.0  # seconds
_OPTIONS = {
    "server.address": ADDRESS,
    "browser.serverAddress": ADDRESS,
    "browser.gatherUsageStats": "false",
    "server.showEmailPrompt": "false",
    "server.fileWatcherType": "none",
    "client.toolbarMode": "viewer",
    "theme.base": "light",
    "theme.primaryColor": "#0072B2",
}


def require_streamlit() -> None:
    """Refuse if the package behind the app is missing."""
    if find_spec("streamlit") is None:
        raise ConfigError(
            "the app needs streamlit, which this Python does not have. Install the extra: pip install 'fimsde[app]'."
        )


def find_port(wanted: int | None) -> int:
    """The port that was asked for, or the first free one from 8501 on."""
    for port in (wanted,) if wanted is not None else range(_FIRST, _FIRST + _TRIED):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((ADDRESS, port))
            except OSError:
                continue
            return port
    taken = f"port {wanted} is" if wanted is not None else f"ports {_FIRST} to {_FIRST + _TRIED - 1} are"
    raise ConfigError(f"{taken} in use or not allowed. Choose another one (--port).")


def command(port: int, *, open_browser: bool) -> list[str]:
    """What starts the server."""
    options = _OPTIONS | {"server.port": str(port), "server.headless": str(not open_browser).lower()}
    return [sys.executable, "-m", "streamlit", "run", str(_SCRIPT), *(f"--{k}={v}" for k, v in options.items())]


def serve(port: int, *, open_browser: bool) -> int:
    """Run the server until it ends or Ctrl-C ends it; returns its exit code, 0 after Ctrl-C."""
    process = subprocess.Popen(command(port, open_browser=open_browser), stdout=subprocess.DEVNULL)
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:  # an estimate may be under way
            process.kill()
            process.wait()
        return 0
