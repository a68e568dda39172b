"""Processes that tests start: forks that may be killed, and the app as its users start it."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path


def as_script(file, *arguments, **environment):
    """Run a file of tests as a script, which finds the modules beside the tests."""
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, file, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | environment,
        check=False,
    )


def in_child(action):
    """Fork; the child does something and ends. Returns its number."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return child


def exit_code(child):
    """Wait for a child; 0 if it ended well, minus the signal if it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def running_app(port, folder, **options):
    """The app on a port while the block runs; an interrupt must end it well."""
    start = "from fimsde.interface.cli import main; main()"
    program = [sys.executable, "-c", start, "app", "--no-browser", "--port", str(port)]
    process = subprocess.Popen(program, cwd=folder, **options)
    try:
        yield
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
