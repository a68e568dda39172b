"""Starting the app: on this machine only, without telemetry."""

import socket
import subprocess
import sys
import time
import webbrowser
from importlib.metadata import version
from importlib.util import find_spec

from fimsde.errors import ConfigError

ADDRESS = "127.0.0.1"  # the loop-back address: reached from this machine only
_OLDEST = (1, 62)  # version of streamlit that keeps foreign pages out; the extra `app` asks for the same
_FIRST, _TRIED = 8501, 100  # ports: streamlit's own, and as many after it; by hand
_PATIENCE = 5.0  # seconds that a server has to end; by hand
_GLANCE = 0.2  # seconds between looks at a server that is starting; by hand


def require_streamlit() -> None:
    """Refuse if the package behind the app is missing, or older than what keeps foreign pages out."""
    if find_spec("streamlit") is None:
        raise ConfigError(
            "the app needs streamlit, which this Python does not have. Install the extra: pip install 'fimsde[app]'."
        )
    found = version("streamlit")
    if tuple(int(part) for part in found.split(".")[:2]) < _OLDEST:
        needed = ".".join(map(str, _OLDEST))
        raise ConfigError(
            f"the app needs streamlit {needed} or later, this Python has {found}. Run pip install -U 'fimsde[app]'."
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


def command(port: int) -> list[str]:
    """What starts the server, which ends with its input; -P: no file of the working folder is taken for a module."""
    return [sys.executable, "-P", "-m", "fimsde.interface.app.server", str(port)]


def serve(port: int, *, open_browser: bool) -> int:
    """Run the server until it ends or Ctrl-C ends it; returns its exit code, 0 after Ctrl-C."""
    # the server ends when this pipe does: with the program, however that ends
    process = subprocess.Popen(command(port), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        if open_browser and _answers(port, process):
            webbrowser.open(f"http://{ADDRESS}:{port}")
        return process.wait()
    except KeyboardInterrupt:
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:  # an estimate may be under way
            process.kill()
            process.wait()
        return 0


def _answers(port: int, process: "subprocess.Popen[bytes]") -> bool:
    """Wait for a server; whether it came."""
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex((ADDRESS, port)) == 0:
                return True
        time.sleep(_GLANCE)
    return False
