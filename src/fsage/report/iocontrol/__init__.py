"""The figures and tables of studies of I/O control (studies.md, section 5)."""

from __future__ import annotations

from fsage.report.iocontrol.sharing import sharing
from fsage.report.iocontrol.steps import steps
from fsage.report.iocontrol.victims import victims

SECTIONS = (victims, sharing, steps)
"""Each takes the data and draws what these can fill, or nothing."""
