"""A pytest plugin that writes down what failed, how, and which copy of the package was tested (for `run.py`)."""

import json
import os
import sys
from pathlib import Path

import pytest

_failures: list[dict[str, str]] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        _failures.append({"test": report.nodeid, "when": report.when, "kind": call.excinfo.typename})
    return report


def pytest_collectreport(report):
    if report.failed:
        _failures.append({"test": report.nodeid, "when": "collect", "kind": "collection error"})


def pytest_sessionfinish(session, exitstatus):
    package = sys.modules.get("fimsde")
    found = {
        "package": str(Path(package.__file__).parent) if package is not None else "",
        "num_tests": session.testscollected,
        "failures": _failures,
        "code": int(exitstatus),
    }
    Path(os.environ["FIMSDE_WITNESS"]).write_text(json.dumps(found))
