"""One self-contained HTML page about a result: no script, no external resource, readable on a phone and in print."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fimsde.report.findings import Findings, find
    from fimsde.report.page import SIGNATURE, Page, make_page, num_steps, write_report

__all__ = ["SIGNATURE", "Findings", "Page", "find", "make_page", "num_steps", "write_report"]


def __getattr__(name: str) -> Any:
    """Imported on first use: the page loads matplotlib, findings scipy, and a summary of the data needs neither."""
    if name not in __all__:
        raise AttributeError(f"module 'fimsde.report' has no attribute {name!r}")
    return getattr(import_module(f"fimsde.report.{'findings' if name in ('Findings', 'find') else 'page'}"), name)
