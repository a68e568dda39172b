"""The server of the app as others on the network meet it: forged names, foreign origins, and what it looks up."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

from children import running_app
from fimsde.interface.app import start

server = pytest.importorskip("fimsde.interface.app.server", reason="the extra app is not installed")
client = pytest.importorskip("websockets.sync.client", reason="websockets is not installed")
from websockets.exceptions import InvalidStatus  # noqa: E402

# Python tells of every connection and look-up before it happens; each process of the app writes them down.
SPY = """
import json, os, sys
def spy(event, given):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        where = given[1] if len(given) > 1 else None
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"):
        where = given[0]
    else:
        return
    with open(os.environ["SPY_FILE"], "a") as file:
        file.write(json.dumps([event, repr(where)]) + "\\n")
sys.addaudithook(spy)
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """A running app: its port, and the file of what it looked up."""
    folder = tmp_path_factory.mktemp("app")
    (folder / "spy").mkdir()
    (folder / "spy" / "sitecustomize.py").write_text(SPY)
    seen, port = folder / "seen.jsonl", start.find_port(None)
    seen.touch()
    source = str(Path(start.__file__).parents[2])
    extra = {"PYTHONPATH": os.pathsep.join([str(folder / "spy"), source]), "SPY_FILE": str(seen)}
    with running_app(port, folder, env=os.environ | extra, stdout=subprocess.DEVNULL):
        wait_until_healthy(port)
        yield port, seen


def wait_until_healthy(port):
    deadline = time.monotonic() + 120
    while True:
        with contextlib.suppress(OSError):
            if ask(port, f"127.0.0.1:{port}", path="/_stcore/health")[0] == 200:
                return
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.2)


def ask(port, host, path="/", method="GET", **headers):
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=True)
        for key, value in {"Host": host, **headers}.items():
            connection.putheader(key, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST"])
def test_the_app_answers_under_its_own_names(app, host):
    port, _ = app
    status, page = ask(port, f"{host}:{port}")
    assert status == 200
    assert "<html" in page


FORGED = ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil@127.0.0.1", "127.0.0.1:80:80", ""]


@pytest.mark.parametrize("host", FORGED)
def test_a_page_whose_name_points_here_cannot_read_the_app(app, host):
    """DNS rebinding: the request arrives at 127.0.0.1, but for another name."""
    port, _ = app
    for path in ("/", "/_stcore/health", "/_stcore/host-config", "/media/a.csv", "/_stcore/upload_file/a/b"):
        for method in ("GET", "PUT", "OPTIONS"):
            status, text = ask(port, f"{host}:{port}" if host else "", path, method)
            assert status in (400, 403)
            assert status == 400 or text.count("\n") == 1


def test_a_page_whose_name_points_here_cannot_open_the_websocket(app):
    port, _ = app
    for host, origin in (("evil.example", "http://evil.example"), ("127.0.0.1", "http://evil.example")):
        named = f"{host}:{port}"
        with pytest.raises(InvalidStatus, match="403"), _stream(port, named, f"{origin}:{port}"):
            pass
    with _stream(port, f"127.0.0.1:{port}", f"http://127.0.0.1:{port}") as stream:
        assert stream.subprotocol == "streamlit", "the app's own page must be let in"


def _stream(port, host, origin):
    """The websocket that streamlit's page opens, to this machine but under any name."""
    return client.connect(
        f"ws://{host}/_stcore/stream",
        sock=socket.create_connection(("127.0.0.1", port)),
        origin=origin,
        subprotocols=["streamlit"],
        proxy=None,
    )


@pytest.mark.parametrize(
    ("hosts", "origins", "is_own"),
    [
        (["127.0.0.1:8501"], [], True),
        (["localhost:9000"], ["http://localhost:9000"], True),  # a forwarded port
        (["localhost"], ["http://localhost"], True),
        (["localhost:8501"], ["http://localhost:3000"], False),  # another server of this machine
        (["localhost:8501"], ["null"], False),
        (["localhost:8501"], ["http://localhost:8501", "http://evil.example"], False),
        (["localhost:8501", "evil.example"], [], False),
        ([], [], False),
        (["evil.example"], ["http://localhost:8501"], False),
    ],
)
def test_who_is_let_in(hosts, origins, is_own):
    assert server.is_own(hosts, origins) is is_own


def test_the_app_looked_up_its_outside_address(app):
    """Streamlit asks a server of Amazon who it is when it meets a foreign origin, and routes to 8.8.8.8; a page that
    only has to knock could make it do so."""
    port, seen = app
    ask(port, f"127.0.0.1:{port}")
    ask(port, f"127.0.0.1:{port}", "/_stcore/host-config", Origin="http://evil.example")
    ask(port, f"127.0.0.1:{port}", "/_stcore/upload_file/a/b", "OPTIONS", Origin="http://evil.example")
    with contextlib.suppress(InvalidStatus), _stream(port, f"127.0.0.1:{port}", "http://evil.example"):
        pass
    with _stream(port, f"127.0.0.1:{port}", f"http://127.0.0.1:{port}"):
        time.sleep(1)
    lines = [json.loads(line) for line in seen.read_text().splitlines()]
    outside = [line for line in lines if not any(name in line[1] for name in ("'127.0.0.1'", "'localhost'", "'/"))]
    assert outside == []


def test_the_spy_sees_look_ups(app, tmp_path):
    """The check above can fail: the same spy in another program."""
    _, seen = app
    file = tmp_path / "seen.jsonl"
    folder = seen.parent / "spy"
    asks = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.1', 1))"
    subprocess.run([sys.executable, "-c", asks], env=os.environ | {"PYTHONPATH": str(folder), "SPY_FILE": str(file)})
    assert "192.0.2.1" in file.read_text()


def test_options_of_the_server_keep_it_on_this_machine():
    chosen = server.OPTIONS
    assert chosen["server.address"] == "127.0.0.1"
    assert chosen["server.allowedHosts"] == ["127.0.0.1", "localhost"]
    assert chosen["server.enableCORS"] is chosen["server.enableXsrfProtection"] is True
    assert chosen["browser.gatherUsageStats"] is False


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_server_was_left_behind_when_the_program_was_ended(how, tmp_path):
    port = start.find_port(None)
    program = [sys.executable, "-c", "from fimsde.interface.cli import main; main()"]
    process = subprocess.Popen([*program, "app", "--no-browser", "--port", str(port)], stdout=subprocess.DEVNULL)
    wait_until_healthy(port)
    process.send_signal(how)
    process.wait(60)
    deadline = time.monotonic() + 60
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
        assert time.monotonic() < deadline, "the server is still there"
        time.sleep(0.2)
