"""A headless Chromium that tests can drive: pages of any width, clicks, files to upload, pictures of what is seen."""

import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # containers have little of it
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nothing but this machine exists
]


def find_browser():
    """The command of a browser; without one the test is skipped."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium is installed")
    return found


class Tab:
    """One page, driven over Chromium's debugging protocol."""

    def __init__(self, socket):
        self._socket, self._number, self.requests = socket, 0, []

    def call(self, method, **parameters):
        """Send a command and wait for its answer."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=120))
            if message.get("method") == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                return message["result"]

    def open(self, address, width=1200, height=1000):
        """Go to an address in a window of a size in pixels; a narrow one is a phone."""
        self.call("Network.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Page.navigate", url=address)

    def run(self, script):
        """The value of a JavaScript expression."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def wait(self, condition, seconds=120):
        """Until a JavaScript expression is true."""
        deadline = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < deadline, f"waited in vain for {condition}: {self.text()[-800:]}"
            time.sleep(0.2)

    def wait_for_text(self, text, seconds=120):
        """Until the page shows a text."""
        self.wait(f"document.body && document.body.innerText.includes({json.dumps(text)})", seconds)

    def text(self):
        """All that can be read."""
        return self.run("document.body ? document.body.innerText : ''")

    def click(self, words, kind="button"):
        """Click the first element of a kind that begins with some words."""
        found = self.run(
            f"(() => {{ const e = [...document.querySelectorAll({json.dumps(kind)})]"
            f".find(e => e.innerText.trim().startsWith({json.dumps(words)})); if (e) e.click(); return !!e; }})()"
        )
        assert found, f"no {kind} {words!r} on the page: {self.text()[:800]}"

    def upload(self, file):
        """Choose a file in the first place for files."""
        self.wait("!!document.querySelector('input[type=file]')")
        time.sleep(1)  # the page may still be changing around it
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector="input[type=file]")["nodeId"]
        self.call("DOM.setFileInputFiles", files=[str(file)], nodeId=node)

    def screenshot(self, file):
        """The whole page as a picture."""
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        Path(file).write_bytes(base64.b64decode(picture["data"]))


@contextlib.contextmanager
def new_tab():
    """A browser with one empty page."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [find_browser(), *QUIET, f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank"]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            with connect(_page(Path(profile) / "DevToolsActivePort"), max_size=None) as socket:
                yield Tab(socket)
        finally:
            process.terminate()
            process.wait()


def _page(port_file):
    """The address of the empty page; the browser writes its port into a file when it is ready."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        time.sleep(0.2)
        lines = port_file.read_text().splitlines() if port_file.exists() else []
        if lines:
            with urlopen(f"http://127.0.0.1:{lines[0]}/json", timeout=60) as answer:
                pages = [p for p in json.load(answer) if p["type"] == "page"]
            if pages:
                return pages[0]["webSocketDebuggerUrl"]
    raise AssertionError("the browser opened no page")
