"""What `report` and `advice` of a study are made of, beside fsage.api.model.

A report offers VIEW, its sections:

- `View`: the sections of a report, each a function of Data, and what its states are compared with, in words;
- `Data`: the records: `frame`, a row for each, and `table`, a row for each group with its median and interval;
- `Section`: a title, a text and figures; where a function has nothing to show, it returns None;
- `Answer`: what stands on top of the report, as sentences.

Figures:

- `lines(title, rows, by, x, y)`: a line for each value of the column `by`; `Axis`: its name, limits and ticks;
- `limits_with_zero(rows, least)`: limits of an axis on which all intervals lie, and zero.

Words:

- `measures(frame)`: the rates that were measured; `joined(words)`: 'a, b and c';
- `unseeded(state)`: a state's name without the seed of its layout.

Advice offers `options(measured, states, request) -> Options`: what can be chosen.

- `Measured`: for each state the seconds that a MiB took; `AdviceRequest`: what `fsage advise` was given;
- `Options`: the choices, the usual one, and what they assume; `Choice`: one of them, by its name;
- `Parts`: which states tell of a file of some size, and with which shares.
"""

from fsage.advise.decide import AdviceRequest
from fsage.advise.measured import Choice, Measured, Options, Parts
from fsage.analysis.groups import Measure, counts, factors, params_labels, plotted
from fsage.analysis.words import Finding, bounds, joined, times
from fsage.dataset import unpacked, without
from fsage.figures import Axis, Figure, Level, Place, Plane, Strips, lines, placed, shares
from fsage.report.parts import Answer, Card, Data, Named, Section, View, by_comparisons
from fsage.report.planted import planted
from fsage.statistics import Ratio, ratio, summarise
from fsage.study.study import unseeded
