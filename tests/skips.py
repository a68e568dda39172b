"""In CI nothing is left out: a test that skips itself there fails, unless its reason is one that CI cannot help.

Elsewhere a missing browser or missing reference data only skip the tests that need them.
"""

import os

import pytest

ALLOWED = "root "  # how such a reason begins: CI runs as root, whom no permission stops


def _fail_in_ci(report):
    """The report itself, or a failure in place of a skip."""
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith(ALLOWED):
            report.outcome = "failed"
            report.longrepr = f"skipped, which CI (CI=true) does not allow: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return _fail_in_ci((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return _fail_in_ci((yield))
