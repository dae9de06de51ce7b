"""fio's JSON: every recorded run comes out as it should, and nothing cut or bent gives another number."""

import json

import pytest
from corpus import BAD, BY_NAME, GOOD, of_tool
from hypothesis import given, settings
from hypothesis import strategies as st

from fsage.base import MIB
from fsage.parse import BadOutput, fio

RUN = BY_NAME["fio-3.33/write-bs1m-nj4-group"]


@pytest.mark.parametrize("case", of_tool(GOOD, "fio"), ids=lambda case: case.name)
def test_good(case):
    run, expected = case.parse(), case.numbers()
    for direction, transfer in (("write", run.write), ("read", run.read)):
        assert (transfer is not None) == (f"{direction}_bytes" in expected)
        if transfer:
            assert transfer.moved_bytes == expected[f"{direction}_bytes"]
            assert transfer.bw_mib_s == pytest.approx(expected[f"{direction}_mib_s"], abs=0.01)
            assert transfer.bw_mib_s == pytest.approx(transfer.moved_bytes / MIB / transfer.seconds)


def test_a_name_with_quotes_of_print_is_no_end_of_a_text():
    named = RUN.stdout.replace('"jobname" : "', '"jobname" : "\u201cmine\u201d &quot;too&quot; ')
    assert named != RUN.stdout and RUN.parse(named).write == RUN.parse().write


def test_percentiles_of_latency_where_enough_operations_tell_them_from_the_largest_one():
    run = BY_NAME["fio-3.33/randread-qd16-io_uring"].parse()
    assert run.read.latency_ms == {"p50": 0.08448, "p99": 1.646592, "p99_9": 4.227072}
    few = BY_NAME["fio-3.33/write-bs32m-nj1"].parse().write
    assert few.operations < 100 and list(few.latency_ms) == ["p50"], "fio prints a p99.9 of these too"
    assert BY_NAME["fio-3.33/write-bs4m-nj4-nogroup"].parse().write.latency_ms == {}, "four jobs' cannot be added"
    assert fio.together([run, run]).read.latency_ms == {}


@pytest.mark.parametrize("case", of_tool(BAD, "fio"), ids=lambda case: case.name)
def test_bad(case):
    with pytest.raises(BadOutput, match=case.expected):
        case.parse()


@given(st.sampled_from(of_tool(GOOD, "fio")), st.floats(0, 1))
def test_cut_short(case, share):
    end = case.stdout.rindex("\n}") + 2
    with pytest.raises(BadOutput, match="no whole JSON document"):
        case.parse(case.stdout[: int(share * (end - 1))])


KEYS = st.sampled_from(["jobs", "read", "write", "error", "io_bytes", "runtime", "job options"])


@settings(max_examples=60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
    )
)
def test_json_of_another_shape(document):
    with pytest.raises(BadOutput):
        fio.parse("{\n" + json.dumps({"x": 1, "jobs": document})[1:], "", 0)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("jobs", 0, "error"), 5, "job j reports error 5"),
        (("jobs", 0, "write", "runtime"), 0, "less than 1 ms"),
        (("jobs", 0, "write", "io_bytes"), 0, "moved nothing"),
        (("jobs", 0, "write"), {}, "not that of a fio 3"),
        (("jobs", 0, "write", "clat_ns"), {"percentile": {"99.000000": 10**400}}, "int too large to convert to float"),
    ],
)
def test_a_document_that_is_whole_but_wrong(path, value, reason):
    document = json.loads(RUN.stdout)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(BadOutput, match=reason):
        fio.parse(json.dumps(document, indent=2), "", 0)


@pytest.mark.parametrize("other", [{"groupid": 1}, {"job options": {"startdelay": "1"}}])
def test_jobs_that_ran_one_after_another_have_no_rate_together(other):
    document = json.loads(BY_NAME["fio-3.33/two-jobs-format-first"].stdout)
    document["jobs"][1].update(other)
    with pytest.raises(BadOutput, match=r"jobs of write are of several groups"):
        fio.parse(json.dumps(document, indent=2), "", 0)


@pytest.mark.parametrize(
    ("rc", "reason"),
    [
        (None, "never ended"),
        (-15, "killed by signal 15"),
        (127, "did not run to its end: fio: command not found"),
    ],
)
def test_return_codes(rc, reason):
    with pytest.raises(BadOutput, match=reason):
        fio.parse(RUN.stdout, "fio: command not found", rc)


def test_options_are_echoed():
    assert (RUN.parse().options["numjobs"], RUN.parse().version) == ("4", "fio-3.33")
