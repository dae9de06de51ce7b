"""A study's report: one HTML file that opens offline; the same records give the same bytes.

`page` puts it together from modules for its sections and tables, and from the sections of a recipe's study (`view`).
What follows from the records is fsage.analysis; this package says and shows it.
"""

from fsage.report.page import answer_lines, build, contents
from fsage.report.render import CAPTIONS, draw_for_paper
