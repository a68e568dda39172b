"""One self-contained HTML page about a result: no script, no external resource, readable on a phone and in print."""

from fimsde.report.findings import Findings, find
from fimsde.report.page import SIGNATURE, Page, make_page, num_steps, write_report

__all__ = ["SIGNATURE", "Findings", "Page", "find", "make_page", "num_steps", "write_report"]
