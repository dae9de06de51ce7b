"""Figures are values; each kind is drawn with its stamp inside, the same bytes each time, and said as a table."""

from __future__ import annotations

import io
import itertools
import math
import re
import zlib
from dataclasses import replace

import pandas as pd
import pytest
from fontTools.ttLib import TTFont
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from fsage.cli import main
from fsage.figures import (
    Axis,
    Bars,
    Cloud,
    Level,
    Lines,
    Place,
    Plane,
    Point,
    RunChart,
    Series,
    Strips,
    Trace,
    drawing,
    lines,
    style,
)
from fsage.figures.drawing import caption, draw, draw_all
from fsage.figures.style import COLUMNS, PAGE, ink_on

STAMP = "modelled device (IOCost, 362 MiB/s) \u00b7 ext4"
MEDIANS = (Point(10, 300.0, 295.0, 305.0, 5, (295.0, 300.0, 305.0)), Point(40, 280.0, n=4), Point(80, 210.0, n=5))
FIGURES = [
    Lines(
        "Rates, over fullness",
        (Series("writes", MEDIANS), Series("reads <b>", MEDIANS[:2])),
        Axis("full, %", ticks={10: "10", 40: "40", 80: "80"}),
        Axis("MiB/s", (0.0, 330.0)),
        (Level(300.0, "writes, clean", of="writes"),),
        note="charged",
    ),
    Bars("Shares", ("1", "2-4"), {"10.00": (80.0, 20.0), "80.50": (5.0, 95.0)}, Axis("extents"), Axis("files, %")),
    Plane(
        "Factors",
        (Place(10, 0, 1.01, 5, 0.99, 1.02, says="nothing"), Place(80, 50, 0.79, 5, 0.77, 0.83, says="a loss")),
        Axis("AA"),
        Axis("BB"),
        ((10, 50),),
        factor=True,
    ),
    Strips("Free", {"10.00": (1.0, 0.0), "80.00": (0.5,)}, 1 << 30),
    RunChart("Drift", (Cloud("planned", (1, 2), (0.99, 1.01)),), Axis("in time"), Axis("over median")),
    Trace("Requests", (Cloud("reads", (0.1,), (4096,)),), Axis("s", (0, 1)), Axis("GiB", (0, 8192))),
]


def test_each_kind_is_drawn_with_its_stamp_and_the_same_bytes_each_time():
    drawn = draw_all(FIGURES, STAMP)
    assert drawn == draw_all(FIGURES, STAMP)
    assert [each.name for each in drawn] == ["rates-over-fullness", "shares", "factors", "free", "drift", "requests"]
    assert all(STAMP in each.svg and each.pdf.startswith(b"%PDF-") for each in drawn)
    rates = drawn[0]
    assert f"{STAMP} \u00b7 charged" in rates.svg, "what is of one figure only stands after it"
    assert "reads &lt;b&gt; at 40: 280, n = 4" in rates.svg and "<b>" not in rates.svg
    content = [zlib.decompress(text) for text in re.findall(rb"stream\n(.*?)\nendstream", rates.pdf, re.DOTALL)]
    fonts = [set(TTFont(io.BytesIO(text)).keys()) for text in content if text.startswith(b"\0\1\0\0")]
    assert fonts and all("glyf" in tables and not tables & {"GDEF", "GPOS", "GSUB"} for tables in fonts)
    assert [len(figure.table()) for figure in FIGURES] == [6, 3, 3, 3, 3, 2], "each is a table too"


def test_for_a_paper_each_kind_is_as_wide_as_its_columns_and_holds_its_stamp():
    """3.5 inches; the stamp may be in several rows."""
    for figure, each in zip(FIGURES, draw_all(FIGURES, STAMP, COLUMNS[1]), strict=True):
        assert b"/MediaBox [ 0 0 252 " in each.pdf, figure.title
        written = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", each.svg))
        assert written.count("IOCost") == 1 and "ext4" in written
        sizes = [float(size) for size in re.findall(r"font(?:-size)?:\s*(?:[\w ]* )?([\d.]+)px", each.svg)]
        assert sizes and min(sizes) >= 7, (figure.title, min(sizes))


LONG = (
    replace(
        FIGURES[0],
        x=Axis("mean position of the measured files, 0 the first block of the device and 1 the last", (0, 100)),
        y=Axis("layout score: share of the blocks that follow directly on the block before them", (0.0, 330.0)),
        levels=(),
        series=tuple(Series(f"{low} to {low + 20}% full, with holes below them", MEDIANS) for low in (0, 20, 40)),
    ),
    replace(
        FIGURES[0],
        levels=(),
        y=Axis("bandwidth, MiB/s", (0.0, 410_000.0)),
        series=(Series("writing", (Point(1.0, 363_000.0), Point(2.0, 337_000.0))), Series("reading", MEDIANS)),
    ),
    replace(
        FIGURES[2], missing=((10, 50), (10, 70)), x=Axis("capacity AA, % of the empty target (nominal), as it was")
    ),
    replace(
        FIGURES[0],
        levels=(),
        x=Axis("state", ticks={place: f"40.00-O_bigalloc_C_{place}" for place in range(10, 90, 10)}),
        y=Axis("times its rate", (64.0, 512.0), {100.0: "100", 200.0: "200", 400.0: "400"}, log=True),
    ),
)


@pytest.mark.parametrize("figure", LONG, ids=("lines", "large numbers", "plane", "long names"))
@pytest.mark.parametrize("size", [COLUMNS[1], PAGE], ids=("one column", "page"))
def test_no_label_leaves_its_figure_or_lies_over_another(figure, size, monkeypatch):
    kept = []
    for module in ("drawing", "plane"):
        monkeypatch.setattr(f"fsage.figures.{module}.finish", lambda drawn, axes, *_: kept.append((drawn, axes)))
    draw(figure, STAMP, size)
    [(drawn, axes)] = kept
    canvas = FigureCanvasAgg(drawn)
    canvas.draw()
    inches = drawn.get_tightbbox(canvas.get_renderer())
    width, height = drawn.get_size_inches()
    assert min(inches.x0, inches.y0) >= 0 and inches.x1 <= width and inches.y1 <= height
    stamp = next(text for text in drawn.texts if "IOCost" in text.get_text())
    boxes = [each.get_window_extent() for each in (stamp, axes.xaxis.label, drawn.legends[0])]
    named = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert not any(box.overlaps(other) for box, other in itertools.combinations([*boxes, *named], 2))
    assert axes.get_position().x0 < 0.3


@given(st.tuples(*[st.floats(0, 1)] * 3))
def test_ink_stands_out_on_every_colour(colour):
    """WCAG 2.2, contrast of text: 4.5:1."""

    def luminance(rgb):
        parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted([luminance(colour), luminance(to_rgb(ink_on(colour)))])
    assert (high + 0.05) / (low + 0.05) >= 4.5


def test_a_plane_says_what_its_colours_mean_and_where_1_is_in_the_interval_is_grey():
    loss = FIGURES[2].places[1]
    assert "fill:#dbdbdb" not in draw(replace(FIGURES[2], places=(loss,)), STAMP).svg
    grey = replace(loss, x=10, value=0.5, low=0.4, high=1.2)
    svg = draw(replace(FIGURES[2], places=(grey, loss)), STAMP).svg
    for key in ("below 1", "above 1", "1 is within the interval, or there is none", "not measured"):
        assert f">{key}</text>" in svg
    assert svg.count("fill:#dbdbdb") == 2, "the place, and what the colour means"
    [number] = re.findall(r'<text[^>]*style="([^"]*)"[^>]*>0\.500<', svg)
    assert "fill:#ffffff" not in number, "black on grey, whatever the colour below it"


def test_a_plain_figure_has_its_title_and_stamp_in_the_caption_alone():
    for figure in (FIGURES[0], FIGURES[2]):
        svg = draw(figure, STAMP, COLUMNS[1]._replace(plain=True)).svg
        assert "IOCost" not in svg and f">{figure.title}</text>" not in svg
    assert caption(FIGURES[0], STAMP) == f"Rates, over fullness. {STAMP} \u00b7 charged."


def test_two_points_are_no_trend():
    for points in (2, 3):
        svg = draw(Lines("Some", (Series("a", MEDIANS[:points]),), Axis("x"), Axis("y", (0, 400))), STAMP).svg
        drawn = re.findall(r'<path d="M [^"]*" clip-path[^>]*stroke-width:1.6', svg)
        assert len(drawn) == points - 2


def test_an_axis_goes_below_zero_only_where_a_value_does():
    rows = pd.DataFrame({"median": [80.0, 100.0], "low": [75.0, math.nan], "high": [85.0, math.nan]})
    assert Axis.from_zero("loss, %", rows, least=10.0).limits[0] == 0
    assert Axis.from_zero("loss, %", rows.assign(median=[-5.0, 80.0]), least=10.0).limits[0] < -5


def test_a_table_of_medians_becomes_a_series_in_the_order_of_x():
    rows = [
        {"x": 40.0, "median": 2.0, "n": 5, "samples": [2.0], "line": "a"},
        {"x": 10.0, "median": 1.0, "low": 0.9, "high": 1.1, "samples": [], "line": "a"},
    ]
    [found] = lines("t", pd.DataFrame(rows), "line", Axis("x"), Axis("y")).series
    first, second = found.points
    assert found.label == "a" and first == Point(10.0, 1.0, 0.9, 1.1)
    assert replace(second, low=math.nan, high=math.nan) == Point(40.0, 2.0, n=5, samples=(2.0,))


@pytest.mark.parametrize("command", ["report", "conclude", "figures"])
def test_a_study_without_records_has_no_report_and_what_measures_it_is_said(tmp_path, monkeypatch, capsys, command):
    monkeypatch.setattr("sys.argv", ["fsage", command, "quickstart", "--target", "local", "--results", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = "".join(capsys.readouterr())
    assert ended.value.code == 1
    assert re.search(f"`./run snakemake --config results={tmp_path} target=local -- quickstart` measures", said)
    assert "index.html" not in said and not list(tmp_path.iterdir())


@pytest.mark.parametrize(("powers", "rows", "named"), [(2, 1, [0, 1, 2]), (16, 2, [*range(0, 17, 2)])])
def test_names_of_bars_do_not_touch_and_the_last_one_is_there(powers: int, rows: int, named: list[int]) -> None:
    classes = ["1", *(f"{(1 << power - 1) + 1}-{1 << power}" for power in range(1, powers + 1))]
    names, used_rows = drawing.names_of_bars(classes, drawing.LETTERS)
    assert (used_rows, list(names)) == (rows, named)
    with style.style(PAGE, **{"axes.axisbelow": True}):
        figure, axes = style.canvas("Extents of a file", "stamp", PAGE, tick_rows=rows)
        axes.bar(range(len(classes)), (1.0,) * len(classes))
        axes.set_xticks(list(names), list(names.values()), fontsize=8)
        renderer = FigureCanvasAgg(figure).get_renderer()
        boxes = [label.get_window_extent(renderer) for label in axes.get_xticklabels()]
    for row in range(rows):
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes[row::rows]))
