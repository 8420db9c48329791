"""Reports that people read: one experiment, the website over all of them, and what a paper needs."""

from analysis.load import ReportError
from analysis.report.experiment import write_report
from analysis.report.paper import write_paper
from analysis.report.site import write_site

__all__ = ["ReportError", "write_paper", "write_report", "write_site"]
