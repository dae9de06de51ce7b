"""The command `fsage advise`."""

from __future__ import annotations

import json

from fsage import dataset
from fsage.advise.advice import Advice, AdviceRequest, advise
from fsage.advise.show import as_dict, show
from fsage.plan.plan import Plan
from fsage.text.terminal import Terminal


def run(plan: Plan, request: AdviceRequest, as_json: bool) -> None:
    """Advise on a plan's records and print it. Raises ValueError for bad input, and where nothing is measured."""
    records = dataset.load(plan.results.record(state, cell.name) for state, cell in plan.all_cells())
    if records.empty:
        raise ValueError(
            f"study {plan.study.name} has no record on target {plan.target.name} in {plan.results.records('')}: "
            f"`{plan.commands.measure}` measures"
        )
    advice = advise(plan.study, records, [(state, cell.name, cell.kind) for state, cell in plan.all_cells()], request)
    if as_json:
        print(json.dumps(as_dict(advice, _files(plan, advice)), indent=1))
    else:
        show(advice, Terminal())


def _files(plan: Plan, advice: Advice) -> dict[str, list[str]]:
    """State -> the record files of its samples."""
    used = {state for cost in advice.weighed.costs for state in cost.parts}
    rows = advice.measured.rows
    return {
        state: [str(plan.results.record(state, cell)) for cell in rows.loc[rows["state"] == state, "cell"]]
        for state in advice.measured.seconds_per_mib
        if state in used
    }
