"""What `report` of a study is made of.

- `View`: the sections of a report, each a function of Data, and the words of its reference;
- `Data`: the study's records: `frame`, a row for each, and `table`, a row for each group with median and interval;
- `Section`: a title, a text and figures;
- `lines(title, rows, by, x, y)`: a figure with a line for each value of a column; `Axis`: its name, limits and ticks;
- `Answer`: what stands on top of a report, as sentences;
- `measures(frame)`: the rates that were measured; `joined(words)`: 'a, b and c';
- `unseeded(state)`: a state's name without the seed of its layout;
- `limits_with_zero(rows, least)`: limits of an axis that show all intervals, and zero.
"""

from fsage.analysis.groups import measures
from fsage.analysis.words import joined
from fsage.figures import Axis, limits_with_zero, lines
from fsage.report.parts import Answer, Data, Section, View
from fsage.study.study import unseeded
