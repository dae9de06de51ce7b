"""Counting a study: where a new file lies over many layouts of each state, and what that costs a declared device.

Nothing is timed, so it works at any load, on all processors at once. What is counted is kept layout by layout.
"""

from fsage.count.expected import expected
from fsage.count.page import answer, kept_answer, kept_page, kept_sections, write_page
from fsage.count.tables import pieces, table, write_tables
from fsage.count.work import Counted, count

__all__ = [
    "Counted",
    "answer",
    "count",
    "expected",
    "kept_answer",
    "kept_page",
    "kept_sections",
    "pieces",
    "table",
    "write_page",
    "write_tables",
]
