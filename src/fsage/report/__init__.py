"""A study's report: one HTML file that opens offline; the same records give the same bytes.

page.py puts it together from one module a section or table; a package
for each recipe that has sections of its own. What follows from the records is fsage.analysis; here is what is said and
shown of it.
"""

from fsage.report.page import CAPTIONS, answer_lines, build, contents, draw_for_paper

__all__ = ["CAPTIONS", "answer_lines", "build", "contents", "draw_for_paper"]
