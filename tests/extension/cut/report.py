"""The figure of studies with the recipe `cut`."""

from __future__ import annotations

from fsage.api.report import Data, Section, View, figures, words


def rates(data: Data) -> Section | None:
    """The rate over what is kept of each file."""
    rows = data.table.assign(x=data.table["axis.kept"])
    if rows["x"].nunique() < 2:
        return None
    y = figures.Axis.from_zero("bandwidth, MiB/s", rows, least=1.0)
    figure = figures.lines("Rates over what is kept", rows, "measure", figures.Axis("kept of each file, %"), y)
    [text] = words.sentences("cut/rates", kept=sorted(rows["x"].unique()))
    return Section("Writing beside cut files", text, [figure])


VIEW = View((rates,), reference="whole files")
