"""Reports that people read: one experiment, the website over all of them, and what a paper needs."""

from analysis.load import ReportError
from analysis.report.experiment import write_report

__all__ = ["ReportError", "write_report"]
