"""A study's report: one HTML file that opens offline; the same records give the same bytes.

page.py puts it together from one module a section or table; groups.py has the statistics, headline.py the words.
"""

from fsage.report.headline import headline
from fsage.report.page import build

__all__ = ["build", "headline"]
