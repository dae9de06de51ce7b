"""The estimators and tests of a report. Numbers in, numbers out.

Nothing here assumes a normal distribution or many samples, and what so few samples cannot tell is said instead.
SciPy takes most of a second to import, and NumPy a tenth: both are imported where they are used, for a plan asks
`reachable` only.
"""

from fsage.statistics.comparisons import (
    ALPHA,
    adjust_exploratory,
    adjust_primary,
    compare,
    exchanged,
    reachable,
    smallest_p,
)
from fsage.statistics.intervals import (
    DRAWN,
    LAYOUT,
    MARGIN,
    PLACE,
    SAMPLE,
    TARGET,
    Interval,
    Ratio,
    Summary,
    Units,
    coefficient_of_variation,
    enough,
    factor,
    median_interval,
    ratio,
    summarise,
)
from fsage.statistics.series import LEAST_FOR_CHANGE, Trend, change, outliers, trend
