"""The server of the app: streamlit behind a door that opens only to who calls this machine by its own name.

A page elsewhere can make its own name point to 127.0.0.1 (DNS rebinding); the browser then lets it talk to any server
here. What gives it away is the name it asks for. Streamlit compares that name for its websocket only, and asks outside
addresses who this machine is when it meets a foreign origin: such requests must not reach it.
"""

import os
import re
import signal
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from fimsde.interface.app.start import ADDRESS
from fimsde.interface.app.work import LARGEST

NAMES = (ADDRESS, "localhost")
OPTIONS = {  # of streamlit; none of them can be changed by its configuration files
    "server.address": ADDRESS,
    "server.allowedHosts": list(NAMES),
    "server.enableCORS": True,
    "server.enableXsrfProtection": True,
    "server.headless": True,
    "server.fileWatcherType": "none",
    "server.maxUploadSize": LARGEST,
    "browser.serverAddress": ADDRESS,
    "browser.gatherUsageStats": False,
    "client.toolbarMode": "viewer",
    "theme.light.primaryColor": "#0072B2",  # light or dark as the browser asks; blues of Okabe and Ito's palette
    "theme.dark.primaryColor": "#56B4E9",
}
_SCRIPT = Path(__file__).with_name("main.py")
_OWN = re.compile(rf"({'|'.join(map(re.escape, NAMES))})(:\d+)?", re.IGNORECASE)  # any port: it may be forwarded
_FORBIDDEN = 403  # RFC 9110
_POLICY_VIOLATION = 1008  # code of a closed websocket, RFC 6455
_REFUSAL = b"This app answers to http://127.0.0.1 and http://localhost only. Open it under the address it printed.\n"


class OwnNameOnly:
    """Refuses requests, HTTP and websocket, for another host name than this machine's own or from another origin."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan" or is_own(_all(scope, b"host"), _all(scope, b"origin")):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            head = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(_REFUSAL)).encode())]
            await send({"type": "http.response.start", "status": _FORBIDDEN, "headers": head})
            await send({"type": "http.response.body", "body": _REFUSAL})


def is_own(hosts: list[str], origins: list[str]) -> bool:
    """Whether a request with these headers was meant for this machine and comes from its own page, or from none."""
    if len(hosts) != 1 or not _OWN.fullmatch(hosts[0]) or len(origins) > 1:
        return False
    return not origins or urlsplit(origins[0])[:2] == ("http", hosts[0].lower())


def _all(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _end_with_input() -> None:
    """End when the program that started this one has ended, even if it was killed."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Serve the app at a port of this machine until the process is told to end."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    app = st.App(_SCRIPT, middleware=[Middleware(OwnNameOnly)])
    app.run(config=OPTIONS | {"server.port": int(sys.argv[1])})


if __name__ == "__main__":  # python -m fimsde.interface.app.server PORT
    main()
