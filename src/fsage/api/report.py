"""What `report` and `advice` of a study are made of, beside fsage.api.model.

A report offers VIEW, its sections:

- `View`: the sections of a report, each a function of Data, and what its states are compared with, in words;
- `Data`: `frame`, the records; `table`, a row for each group with its median and interval; `samples`, `usual` and
  `at_largest_transfer`, the valid records; `comparisons` and `cards`, what the study compares; `notes` and `axes_of`;
- `Section`: a title, a text, figures and a table, in which NONE is for what is not known; where a function has nothing
  to show, it returns None;
- `Answer`: what stands on top of the report: sentences, a figure, and a `Card` for each comparison;
- `by_comparisons(data, named, codes)`: the answer of a study that compares pairs of states; `Named`: a state in words;
- `planted(data)`: the section, and the answer, on values that were planted in a modelled disk;
- `unseeded(state)`: a state's name without its seed.

What else they use are modules. `dataset` has of rows of records:

- `unpacked(rows, family, *names)`: columns `FAMILY.NAME` by their names alone; `values_of(rows, family)`: by row;
- `parameters(rows)`: the sets of parameters, by their text; `without(rows, *names)`: that text without some of them;
- `levels(rows)`: each state's levels on the axes; `lists(text)`: lists of numbers that stand in a cell.

`statistics` has:

- `Ratio`: one rate over another, with its interval; less than its MARGIN does not matter. `ratio(values, reference)`,
  and `factor(units, reference)` of the column `units` of two rows;
- `PLACE`, `SAMPLE`: the units of an interval over one layout;
- `summarise(values)`: n, median, interval and coefficient of variation.

`groups` has of rows of the table:

- `factors(rows)`: those that have a ratio to the clean state, as that;
- `plotted(shown)`: a Ratio, or samples, as the columns of a row that a figure draws;
- `counts(rows)`: how many samples they have, '3 to 5'; `params_labels(rows)`: a short name for each set of parameters;
- `Measure.of(name)`: what the name of a measure says: `name`, `unit`, `plural`, `doing`.

`figures` has:

- `lines(title, rows, by, x, y)`: a line for each value of the column `by`; `Level`: a value to compare with;
- `Axis`: its name, limits and ticks; `around`, `from_zero` and `powers` make one for rows;
- `placed(rows, column)`: a place on an axis for each value of a column; `doubling(rows, column)`: its logarithm;
- `shares(title, amounts, x, y)`: shares by class; `Plane`: numbers over two axes, each a `Place`; `Strips`: free space;
- `Figure`: any of them.

`words` has:

- `Finding(ratio)`: a ratio in a sentence; `times(ratio)`: in a table; `bounds(low, high)`: an interval in a table;
- `joined(words)`: 'a, b and c'; `short_names(states)`: of each the shortest name that tells them apart;
- `sentences("STUDY/NAME", **data)`: what the template NAME.j2 in the study's folder says of data, a line each. It has
  filters `joined`, `counted`, `size`, `times`, `percent`, and macros of finding.j2: `said`, `between`, `interval`;
- `paragraph(clauses)`: each with a capital and its end.

`counted` has, where nothing is timed:

- `section(frame, title, text, names)`: a table of the columns of these names, which are counts;
- `metadata(data)`: that of workload metadata; `answer(section)`: the answer by either;
- `again(rows, by, names)`: a sentence on how many cells counted the same again;
- `not_counted(rows, head, column)`: the section that says why rows have no counts.

Advice offers `options(measured, states, request) -> Options`: what can be chosen.

- `Measured`: for each state the seconds that a MiB took; `AdviceRequest`: what `fsage advise` was given;
- `Options`: the choices, the usual one, and what they assume;
- `Choice`: one of them: its name, and a function from the size of a file to the states that tell of it, with shares.
"""

from fsage import dataset, figures, statistics
from fsage.advise import AdviceRequest
from fsage.advise.measured import Choice, Measured, Options
from fsage.analysis import groups, words
from fsage.report import counted
from fsage.report.parts import Card, Data, Section
from fsage.report.planted import planted
from fsage.report.view import Answer, Named, View, by_comparisons
from fsage.study.comparisons import unseeded
