"""Studies: the ones there are, exactly; and the schema that an editor reads."""

import json

import jsonschema
import yaml
from studies import CONFIG, blocks, state_named

from fsage import recipes
from fsage.study.files import load_study
from fsage.study.schema import schema


def test_series1_is_the_published_matrix():
    study = load_study(CONFIG / "series1.yaml")
    states = recipes.expand(study)
    layouts = [f"+{seed}" for seed in range(67005, 67010)]
    assert sorted(state.name for state in states) == sorted(
        f"{a}.{b:02d}{layout}@264M"
        for a in range(10, 90, 10)
        for b in range(0, 80, 10)
        for layout in (layouts if b else [""])
    )
    for state in states:
        before, *cells, after = study.cells_of(state)
        assert (before.name, after.name) == ("reference_before", "reference_after")
        iterations = [state.nominal["structure"]] if "structure" in state.nominal else range(1, 6)
        names = {f"transfer_size-{size}M_i{i}" for size in (1, 2, 4, 8, 16, 32, 64) for i in iterations}
        if state.name in ("80.00@264M", "80.50+67005@264M"):
            traced = cells.pop()
            assert traced.name == "traced_1" and traced.params["transfer_size"] == 64 << 20
        assert {cell.name for cell in cells} == names and len(cells) == len(names)
        for cell in cells:
            assert cell.params["place"] == cell.params["iteration"]
            assert cell.params["phases"] == ["write", "read"] and cell.params["direct"]


def test_quickstart_measures_four_states_in_a_drawn_order_and_its_headline_is_among_them():
    study = load_study(CONFIG / "quickstart.yaml")
    found = [state.name.partition("@")[0] for state in recipes.expand(study)]
    assert sorted(found) == ["10.00", "40.00", "80.00", "80.50"]
    assert found != sorted(found)
    warm_up, *cells = study.cells_of(recipes.expand(study)[0], first=True)
    assert warm_up.kind == "warm_up" and all(cell.kind == "planned" for cell in cells)
    assert [cell.order for cell in (warm_up, *cells)] == list(range(1, len(cells) + 2))
    lines = {line.label: (state_named(study, line.state), state_named(study, line.against)) for line in study.headline}
    fragmented, even = lines["fragmentation"]
    assert fragmented.nominal["fullness_percent"] == even.nominal["fullness_percent"] == 40


def test_the_schema_is_up_to_date_takes_a_study_and_refuses_what_the_models_refuse():
    made = schema()
    written = json.loads((CONFIG / "study.schema.json").read_text())
    assert written == made, "run: python -m fsage.study.schema > config/study.schema.json"
    validator = jsonschema.Draft202012Validator(made)
    validator.validate(blocks())
    validator.validate(yaml.safe_load((CONFIG / "series1.yaml").read_text()))
    for wrong in (
        {"colour": 1},
        {"states": {"recipe": "pfa"}},
        {"cells": {"workload": "sequential"}},
        {"sentinels": {}},
    ):
        assert not validator.is_valid(blocks(**wrong)), wrong
