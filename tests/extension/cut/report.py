"""The figure of studies with the recipe `cut`."""

from __future__ import annotations

import json

from fsage.api.report import Axis, Data, Section, View, lines


def rates(data: Data) -> Section | None:
    """The rate over what is kept of each file."""
    rows = data.table.assign(x=[json.loads(text)["kept"] for text in data.table["axes"]])
    if rows["x"].nunique() < 2:
        return None
    y = Axis.with_zero("bandwidth, MiB/s", rows, 1.0)
    figure = lines("Rates over what is kept", rows, "measure", Axis("kept of each file, %"), y)
    return Section("Writing beside cut files", "Every file was cut; what is measured lies in what is free.", [figure])


VIEW = View((rates,), reference="whole files")
