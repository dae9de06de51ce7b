"""The report of striping studies: times of phases, nodes, the servers' cache, and results that must agree."""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd
import pytest
import recorded
from records import CONFIG

from fsage import dataset
from fsage.analysis import conditions
from fsage.analysis.groups import summarise
from fsage.base import typed
from fsage.plan import Plan, results
from fsage.plan.pool import Pool
from fsage.plan.target import load_target
from fsage.report.parts import Data
from fsage.run import conclusion
from fsage.site import page
from fsage.site.inspect import Host, Site
from fsage.studies.striping.report import phase_times, scaling
from fsage.studies.striping.report.layouts import layouts, server_cache
from fsage.studies.striping.report.layouts import results as results_section
from fsage.study.files import load_study


def planned(name, tmp_path, was="", now=""):
    """A study of config/, changed, and all its cells with their states."""
    text = (CONFIG / f"{name}.yaml").read_text()
    assert was in text
    (tmp_path / f"{name}.yaml").write_text(text.replace(was, now))
    study, target = load_study(tmp_path / f"{name}.yaml"), load_target(CONFIG.parent / "inventories" / "osts")
    plan = Plan(study, target, results.Results(tmp_path, "osts", name), None)
    return plan, [(plan.states[state], cell) for state, cell in plan.all_cells()]


def record(plan, state, cell, **metrics):
    """A record of a planned cell: one that was taken, with other metrics."""
    found = {"state": state.name, "nominal": state.nominal, "metrics": metrics, "study": plan.study.name}
    of_cell = {"cell": cell.name, "kind": cell.kind, "order": cell.order, "params": cell.params}
    taken = recorded.taken("striping")[0]
    steps = typed.to_json(state.steps(plan.target.file_scale, plan.study.states.seed))
    found["layout"] = {**taken["layout"], "steps": steps}
    return {**taken, "id": f"{state.name} {cell.name}", **found, **of_cell}


def data_of(plan, records):
    """What the report's sections are drawn from."""
    paths = []
    for each in records:
        paths.append(plan.results.record(each["state"], each["cell"]))
        results.write(paths[-1], each)
    frame = dataset.load(paths)
    return Data(summarise(frame), list(plan.states), pd.DataFrame(), [], frame)


@pytest.mark.long
def test_time_over_nodes_has_a_line_for_each_layout(tmp_path):
    plan, cells = planned("striping_scaling", tmp_path)
    stripes = {"scaling.4": 4, "scaling.16": 16, "scaling.64": 64, "scaling.128": 128, "scaling.dynamic": 60}
    records = []
    for state, cell in cells:
        seconds = 100 + stripes[state.name] * cell.params["nodes"] / 512 + cell.params["iteration"] / 100
        records.append(record(plan, state, cell, read_seconds=seconds, read_bw_mib_s=8e4 / seconds))
    section = scaling(data_of(plan, records))
    [figure] = section.figures
    assert len(figure.series) == 5 and figure.y.label == "s"
    assert list(figure.x.ticks.values()) == ["16", "32", "64", "128", "256", "512"]
    [slowest] = [line for line in figure.series if line.label == "scaling.128 (static)"]
    assert [round(point.y) for point in slowest.points] == [104, 108, 116, 132, 164, 228], "more stripes, more nodes"
    assert "the dynamic layout always beats 128 OSTs" in section.text
    [side_by_side] = phase_times(data_of(plan, records)).figures
    points = {line.label: [side_by_side.name_of(point) for point in line.points] for line in side_by_side.series}
    assert points["dynamic"] == ["scaling.dynamic"] and len(points["static"]) == 4, "those with most nodes only"


@pytest.mark.long
def test_with_and_without_the_servers_cache_stand_side_by_side(tmp_path):
    plan, cells = planned("striping", tmp_path, "server_cache: kept", "server_cache: [kept, none]")
    records = []
    for state, cell in cells:
        rate = {"kept": 100.0, "none": 62.0}[cell.params["server_cache"]] * (1 + cell.params["iteration"] / 1000)
        records.append(record(plan, state, cell, write_bw_mib_s=rate * 1.5, read_bw_mib_s=rate))
    section = server_cache(data_of(plan, records))
    [row] = [row for row in section.table if row[:2] == ["IOR.4", "read"]]
    assert row[2:5] == ["100.3", "none", "62.19"] and re.match(r"0\.62x \(0\.6[12] to 0\.6[23]\)", row[5])
    assert len(section.table) == 1 + 6 * 2 and "7% of its write and 38% of its read" in section.text
    heads, row, *_ = layouts(data_of(plan, records)).table
    rates = dict(zip(heads, row, strict=True))
    assert rates["write, server_cache kept, MiB/s"].startswith("150.4"), "each set of parameters with its own"
    assert rates["write, server_cache none, MiB/s"].startswith("93.28")


ON_NODES = ("iterations: 5", "nodes: [1, 2]\n  iterations: 2")


def test_results_that_differ_between_layouts_are_named_and_the_study_has_not_succeeded(tmp_path):
    plan, cells = planned("striping", tmp_path, *ON_NODES)
    same = {"index_bw_mib_s": 9.0, "index_checksum": 2**48 - 1, "models_checksum": 12345}
    records = [record(plan, state, cell, **same) for state, cell in cells]
    section = results_section(data_of(plan, records))
    assert section.text.startswith("The same in every layout and every cell: index, models. ") and not section.warnings
    assert section.table[1:] == [["index", "24", "6", str(2**48 - 1)], ["models", "24", "6", "12345"]]
    lines, code = conclusion.conclude(Pool((plan,)))
    assert code == 0 and not any("results differ" in line for line in lines)

    for each in records:
        if each["state"] == "IOR.5" and each["params"]["iteration"] == 2:
            each["metrics"] = {**same, "models_checksum": 12346}
    section = results_section(data_of(plan, records))
    assert section.text.startswith("The same in every layout and every cell: index. ") and len(section.warnings) == 1
    lines, code = conclusion.conclude(Pool((plan,)))
    said = (
        "results differ: models has checksum 12346 in IOR.5 nodes-1_i2, IOR.5 nodes-2_i2, and 12345 in 22 other cells"
    )
    assert code == 1 and any(line.startswith(said) for line in lines)


def test_a_study_of_which_nothing_could_be_measured_has_not_succeeded(tmp_path):
    plan, cells = planned("striping", tmp_path, *ON_NODES)
    none = {"status": "unsupported", "why": "this kernel has no scheduler cfq", "phases": []}
    data_of(plan, [{**record(plan, state, cell), **none} for state, cell in cells])
    lines, code = conclusion.conclude(Pool((plan,)))
    assert code == 1 and "nothing was measured: this kernel has no scheduler cfq (24 cells)" in lines
    data_of(plan, [record(plan, *cells[0], index_bw_mib_s=9.0)])
    lines, code = conclusion.conclude(Pool((plan,)))
    assert code == 0 and "nothing was measured" not in " ".join(lines)


def test_another_amount_of_work_may_give_another_result_but_no_other_way_of_doing_it():
    def row(state, checksum, **params):
        known = {"status": "valid", "kind": "planned", "state": state, "cell": "i1", "models_checksum": checksum}
        return known | {f"param.{name}": value for name, value in params.items()}

    rows = [row("A", 1.0, flows=10, nodes=1), row("B", 1.0, flows=10, nodes=2), row("A", 2.0, flows=20, nodes=1)]
    assert not conditions.disagreements(pd.DataFrame(rows))
    rows += [row("B", 3.0, flows=10, nodes=1, distribution="asynchronous"), {**rows[0], "status": "failed"}]
    (said,) = conditions.disagreements(pd.DataFrame(rows))
    assert said.startswith("results differ: models has checksum 3 in B i1, and 1 in 2 other cells")


def test_the_owner_of_a_site_is_told_of_the_servers_cache_and_which_study_cannot_be(tmp_path):
    hosts = [Host(name, (group,), None) for name, group in (("n1", "clients"), ("oss1", "servers"))]
    site = Site(hosts, ("clients", "servers"))
    without, _ = planned("striping", tmp_path, "server_cache: kept", "server_cache: none")
    kept, _ = planned("striping", tmp_path)
    assert page.changed(site, [kept]) == []
    assert page.changed(site, [without, kept]) == [
        "ZFS's primarycache of the OSTs on oss1, put back as it was after each cell"
    ]
    calibration = {"cell_overhead_s": 1.0, "write_mib_s": 2.0, "read_mib_s": 4.0}
    claim = {"kind": "loop", "target": "osts", "stores": [{"mount": "/m"}] * 16, "amount_mib": 320}
    larger, _ = planned("striping_scaling", tmp_path)
    fits, cannot = page.estimates([kept, replace(larger, claim={**claim, "calibration": calibration})])
    assert "cannot" not in fits["time"] and "are more than target osts was claimed with" in cannot["time"]
