"""Every kind of page in a real browser, as on a desktop and on a phone: no violation, error, request or overflow."""

from __future__ import annotations

import csv
import re
import time
from pathlib import Path

import pytest
from browser import PROGRAM, Browser, Seen, axe_core
from recorded import STUDIES, measured, taken, taken_states
from records import TARGET, contents, gave_nothing, make_evidence, make_records, make_store, store, traced
from tiers import first_of

from fsage import dataset
from fsage.evidence import page as evidence_page
from fsage.figures.drawing import draw
from fsage.figures.style import Panel
from fsage.report.compare import compare, history
from fsage.report.page import Page
from fsage.site import page as site_page
from fsage.site.inspect import Host, Site

pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="needs chromium: .ci/testbed installs it"),
    pytest.mark.skipif(axe_core() is None, reason="needs axe-core: FSAGE_DEVELOP=1 ./run true installs it"),
]
BAD = """<!doctype html>
<title>x</title>
<img src="http://127.0.0.1:9/x.png">
<p style="width: 3000px">x</p>
<script>y()</script>
"""
ROWS = 8
"""Of a table; those that follow are like them, and take most of a browser's time."""


def drawn(page: Page) -> str:
    """A report's HTML, of each kind of figure one drawn: drawing all takes most of a report's time."""
    kinds = {type(figure): figure for figure in reversed(page.figures)}
    shown = {figure.name: draw(figure, page.stamp) for figure in kinds.values()}
    empty = '<svg viewBox="0 0 10 10" role="img" aria-label="{}"></svg>'
    panels = {each.name: Panel(each.title, each.name, empty.format(each.name), b"") for each in page.figures}
    return re.sub(r"<tbody>.*?</tbody>", _shortened, page.html(panels | shown), flags=re.S)


def _shortened(body: re.Match[str]) -> str:
    rows = body[0].split("</tr>")
    return body[0] if len(rows) <= ROWS + 1 else "</tr>".join([*rows[:ROWS], "</tbody>"])


def a_site() -> Site:
    answer = {"root": True, "kernel": "6.1.0", "memory_bytes": 64 << 30, "tools": {}, "places": [], "claim": None}
    lost = Host("oss1", ("servers",), None, time.time(), "No route to host")
    return Site([Host("n1", ("clients",), answer, time.time()), lost], ("clients", "servers"))


@pytest.fixture(scope="module", params=first_of((), STUDIES), ids=["some", "all"])
def pages(request, quickstart, tmp_path_factory) -> list[Path]:
    """The kinds that are looked at most, each with as much on it as there can be; or all, and each measured study."""
    root = tmp_path_factory.mktemp("pages")
    records = make_records(quickstart)
    requests = store([traced(dict(records[-1]))], root / "traces")
    for record in records[3:5]:
        gave_nothing(record, "write: exit code 1")
    layouts = make_evidence(quickstart, root / "evidence")
    texts = {"quickstart": drawn(contents(quickstart, records, root / "a", layouts, traced=requests))}
    for name in request.param:
        states = taken_states(name, root / f"{name}-states")
        texts[name] = drawn(contents(measured(name), taken(name), root / name, states))
    texts["evidence"] = evidence_page({"what": "/dev/sdx1", "seconds": 0.2, "stores": [make_store(80, 50)]})
    site_page.write(a_site(), TARGET, [], ["oss1 does not answer"], root / "site.html")
    tables = []
    for number in (1, 2):
        frame = dataset.load(store(make_records(quickstart, number), root / f"records{number}"))
        tables.append(root / f"table{number}")
        dataset.write(frame, tables[-1])
    if request.param:
        for record in records:
            gave_nothing(record, "write: exit code 1")
        texts["failed"] = drawn(contents(quickstart, records, root / "b"))
        texts["history"] = history(tables, root / "history").read_text(encoding="utf-8")
    for name, text in texts.items():
        (root / f"{name}.html").write_text(text, encoding="utf-8")
    return [*root.glob("*.html"), compare(*tables, root / "compared")]


@pytest.mark.long
def test_a_reader_sorts_filters_downloads_and_copies_without_a_mouse(pages):
    """What is chosen stands in the address, and comes back with it."""
    [page] = [each for each in pages if each.stem == "quickstart"]
    table = 'document.querySelector("table[data-again]")'
    states = f"[...{table}.tBodies[0].rows].filter(row => !row.hidden).map(row => row.cells[0].innerText)"
    with Browser() as browser, browser.page(page) as session:

        def found(script: str):
            return browser.evaluate(session, script)

        found(f'{table}.closest("details").open = true')
        for key, code, text, order in (("Enter", 13, "\r", "ascending"), (" ", 32, " ", "descending")):
            found(f'{table}.querySelector("th[data-column] button").focus()')
            about = {"key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}
            for kind in ("keyDown", "keyUp"):
                browser.send("Input.dispatchKeyEvent", session, type=kind, **about)
            assert found(f'{table}.querySelector("th[data-column]").ariaSort') == order
            assert found(states) == sorted(found(states), reverse=order == "descending")
        first = found(states)[-1]
        found(
            f'const box = {table}.parentElement.previousElementSibling.querySelector("input[type=search]"); '
            f'box.value = "{first}"; box.dispatchEvent(new Event("input", {{bubbles: true}}))',
        )
        assert set(found(states)) == {first} and "?text=" in found("location.href")
        saved = found(
            """new Promise(done => {
              const make = URL.createObjectURL;
              URL.createObjectURL = (blob) => { blob.text().then(done); return make.call(URL, blob); };
              document.querySelector(".controls button[title^=download]").click();
            })""",
        )
        _, *rows = csv.reader(saved.splitlines())
        assert len(rows) == len(found(states)) and {row[0] for row in rows} == {first} and "again" not in saved
        copied = found(
            f"""new Promise(done => {{
              Object.defineProperty(navigator, "clipboard", {{value: {{writeText: done}}}});
              [...{table}.querySelectorAll("button")].find(one => one.textContent === "ran").click();
            }})""",
        )
        assert "fio" in copied and "--rw=" in copied
        found("location.reload()")
        browser.events.clear()
        browser.wait("Page.loadEventFired")
        assert set(found(states)) == {first}, "the address brings the filter back"


def test_every_kind_of_page_on_a_light_desktop_and_a_dark_phone(pages, tmp_path):
    (tmp_path / "bad.html").write_text(BAD)
    axe = axe_core().read_text(encoding="utf-8")
    with Browser() as browser:
        bad = browser.look(tmp_path / "bad.html", axe)
        seen = {page.stem: browser.look(page, axe) for page in pages}
        with browser.page(next(page for page in pages if page.stem == "quickstart")) as session:
            browser.send("Emulation.setEmulatedMedia", session, media="print")
            printed = browser.evaluate(session, 'document.querySelector("figcaption").innerText')
    caption = "Beside this page: figures/the-states-that-are-compared.svg, .pdf and .csv"
    assert printed == caption, "nothing is left of the buttons, which only a screen has"
    assert bad.requests == ["http://127.0.0.1:9/x.png"] and bad.errors and len(bad.too_wide) == 2
    assert {violation.split()[0] for violation in bad.violations} >= {"html-has-lang", "image-alt", "landmark-one-main"}
    assert seen.keys() >= {"quickstart", "evidence", "site", "index"}
    assert len(seen) == 4 or seen.keys() >= {"failed", "history", *STUDIES}
    assert {name: each for name, each in seen.items() if each != Seen()} == {}
