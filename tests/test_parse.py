"""What fio, IOR and mdtest print: each recorded run comes out right, and nothing cut or bent gives another number."""

import contextlib
import json
import re

import pytest
from corpus import BAD, BY_NAME, GOOD, of_tool
from hypothesis import given, settings
from hypothesis import strategies as st

from fsage.base import MIB
from fsage.parse import BadOutput, fio, ior

FIO = BY_NAME["fio-3.33/write-bs1m-nj4-group"]
IOR = BY_NAME["ior-3.3.0/sweep-np2-t1m"]
MDTEST = BY_NAME["mdtest-main/u-F-i3"]


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.name)
def test_why_a_run_has_no_numbers(case):
    with pytest.raises(BadOutput, match=case.expected):
        case.parse()


@pytest.mark.parametrize(
    ("tool", "stdout", "stderr", "rc", "reason"),
    [
        (fio, FIO.stdout, "", None, "never ended"),
        (fio, FIO.stdout, "", -15, "killed by signal 15"),
        (fio, FIO.stdout, "fio: command not found", 127, "did not run to its end: fio: command not found"),
        (ior, IOR.stdout[:900], "[Errno 2] No file: 'mpirun'", 127, "to its end: .Errno 2. No file: 'mpirun'"),
        (ior, IOR.stdout[:900], "", 255, "code 255: without a word, as a launcher ends that was ended itself .a kill"),
    ],
)
def test_how_a_run_ended(tool, stdout, stderr, rc, reason):
    with pytest.raises(BadOutput, match=reason):
        tool.parse(stdout, stderr, rc)


# fio


@pytest.mark.parametrize("case", of_tool(GOOD, "fio"), ids=lambda case: case.name)
def test_a_run_of_fio(case):
    run, expected = case.parse(), case.numbers()
    for direction, transfer in (("write", run.write), ("read", run.read)):
        assert (transfer is not None) == (f"{direction}_bytes" in expected)
        if transfer:
            assert transfer.moved_bytes == expected[f"{direction}_bytes"]
            assert transfer.bw_mib_s == pytest.approx(expected[f"{direction}_mib_s"], abs=0.01)
            assert transfer.bw_mib_s == pytest.approx(transfer.moved_bytes / MIB / transfer.seconds)


def test_a_name_with_quotes_of_print_is_no_end_of_a_text():
    named = FIO.stdout.replace('"jobname" : "', '"jobname" : "\u201cmine\u201d &quot;too&quot; ')
    assert named != FIO.stdout and FIO.parse(named).write == FIO.parse().write


def test_percentiles_of_latency_where_enough_operations_tell_them_from_the_largest_one():
    run = BY_NAME["fio-3.33/randread-qd16-io_uring"].parse()
    assert run.read.latency_ms == {"p50": 0.08448, "p99": 1.646592, "p99_9": 4.227072}
    few = BY_NAME["fio-3.33/write-bs32m-nj1"].parse().write
    assert few.operations < 100 and list(few.latency_ms) == ["p50"], "fio prints a p99.9 of these too"
    assert BY_NAME["fio-3.33/write-bs4m-nj4-nogroup"].parse().write.latency_ms == {}, "four jobs' cannot be added"
    assert fio.together([run, run]).read.latency_ms == {}


@given(st.sampled_from(of_tool(GOOD, "fio")), st.floats(0, 1))
def test_json_that_is_cut_short(case, share):
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
    document = json.loads(FIO.stdout)
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


def test_options_are_echoed():
    assert (FIO.parse().options["numjobs"], FIO.parse().version) == ("4", "fio-3.33")


# IOR


@pytest.mark.parametrize("case", of_tool(GOOD, "ior"), ids=lambda case: case.name)
def test_a_run_of_ior(case):
    run, expected = case.parse(), case.numbers()
    assert run.tasks == expected["tasks"]
    assert run.version == {"ior-main": "IOR-4.1.0+dev"}.get(case.name.split("/")[0], case.name.split("/")[0].upper())
    for kind, transfers in (("write", run.write), ("read", run.read)):
        if f"{kind}_max_mib_s" not in expected:
            assert transfers == ()
            continue
        assert len(transfers) == expected["repetitions"]
        # The table has whole MiB/s from 3600 on.
        assert max(t.bw_mib_s for t in transfers) == pytest.approx(expected[f"{kind}_max_mib_s"], abs=0.5)
        moved = expected["bytes"]  # with -D each repetition has its own
        for transfer, moved_bytes in zip(transfers, moved if isinstance(moved, list) else [moved] * 9, strict=False):
            assert transfer.moved_bytes == moved_bytes
            assert transfer.moved_bytes / MIB / transfer.seconds == pytest.approx(transfer.bw_mib_s, rel=0.005)


def unchanged_or_refused(case, stdout):
    try:
        run = case.parse(stdout)
    except BadOutput:
        return
    whole = case.parse()
    assert (run.write, run.read, run.tasks) == (whole.write, whole.read, whole.tasks)


@given(st.sampled_from(of_tool(GOOD, "ior")), st.floats(0, 1))
def test_text_that_is_cut_short_or_misses_a_line_or_has_another_ranks_words_gives_no_other_number(case, share):
    at = int(share * len(case.stdout))
    unchanged_or_refused(case, case.stdout[:at])
    unchanged_or_refused(case, case.stdout[:at] + "unable to stt/ext4/md" + case.stdout[at:])
    lines = case.stdout.splitlines(keepends=True)
    del lines[int(share * (len(lines) - 1))]
    unchanged_or_refused(case, "".join(lines))


def test_an_amount_is_compared_within_the_rounding_of_its_version():
    """IOR 3.3.0 says of 800.75 MiB that they are 800.8; what is farther off was not moved."""
    case, moved = BY_NAME["ior-3.3.0/w-192k-np4"], {"800.8": 4 * 209911808, "800.7": 4 * 209911808}
    for shown in ("800.8", "800.7", "800.6", "800.9"):
        stdout = case.stdout.replace("196608    65536       0.8", f"209911808    65536       {shown}")
        assert case.parse(stdout).write[0].moved_bytes == moved.get(shown, round(float(shown) * MIB))
    exact = BY_NAME["ior-3.0.1/w-192k-np4"]
    assert exact.parse(exact.stdout.replace("65536 786432", "65536 786431")).write[0].moved_bytes == 786431


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (r"(?m)^write .* 3 *\n", "", "4 of its 5 repetitions of write"),
        (r"write     4816", "write     4916", "table gives 52.* of write where its summary gives 5218.88"),
        (
            r"write     6924",
            "write     7024",
            "table gives 7024.0 MiB/s of write where its summary gives 6923.9",
        ),
        (r"(?m)^(read +)8828.77", r"\1    nan", "gives nan"),
        (r"(?m)^(read +8828.77.*\n)", r"\1\1", "2 rows of read"),
        (r"(?m)^(write|read) .*\n", "", "summary has no whole row"),
        (r"IOR-3.3.0: MPI", "MPI", "no line 'IOR-<version>'"),
        (r"IOR-3.3.0: MPI", "IOR-2.10.3: MPI", "output of IOR 2, whose table has other columns: run IOR 3"),
        (r"#Tasks", "#T", "not that of a known version, or its lines were wrapped .*: no column '#Tasks'"),
        (r"(\d)\.(\d)", r"\1,\2", "or its numbers changed: could not convert"),
        (r"Finished  ", "WARNING: fsync(17) failed\nFinished  ", "WARNING: fsync"),
    ],
)
def test_a_run_of_ior_that_looks_whole_but_is_not(old, new, reason):
    bent = re.sub(old, new, IOR.stdout)
    assert bent != IOR.stdout
    with pytest.raises(BadOutput, match=reason):
        IOR.parse(bent)


# mdtest


@pytest.mark.parametrize("case", of_tool(GOOD, "mdtest"), ids=lambda case: case.name)
def test_a_run_of_mdtest(case):
    run, expected = case.parse(), case.numbers()
    assert run.files == expected.pop("files")
    assert dict(run.per_s) == expected
    assert run.tasks == 2


@given(st.sampled_from(of_tool(GOOD, "mdtest")), st.floats(0, 1))
def test_what_is_cut_short_or_has_another_ranks_words_gives_no_other_number(case, share):
    at = int(share * len(case.stdout))
    with contextlib.suppress(BadOutput):
        assert case.parse(case.stdout[:at]) == case.parse()
    with contextlib.suppress(BadOutput):
        run = case.parse(case.stdout[:at] + "unable to stt/ext4/md" + case.stdout[at:])
        assert run.per_s.items() <= case.parse().per_s.items(), "a row may be missed, and is then missing"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("43994.734", "-nan", "File creation is nan"),
        ("43994.734", "abc", "File creation is not a number"),
        ("Max            Min", "Min            Max", "columns Operation Min Max Mean"),
        ("   Operation", "   Operations", "columns Operations"),
        ("2 tasks, 2000 files", "", "no line like"),
    ],
)
def test_a_run_of_mdtest_that_looks_whole_but_is_not(old, new, reason):
    assert old in MDTEST.stdout
    with pytest.raises(BadOutput, match=reason):
        MDTEST.parse(MDTEST.stdout.replace(old, new))


def test_times_are_no_rates_when_another_rank_writes_into_their_heading():
    times = BY_NAME["mdtest-4.0.0/P-C"]
    with pytest.raises(BadOutput, match="two rows of File creation in one table"):
        times.parse(times.stdout.replace("SUMMARY time", "unable to stt/ext4/mdSUMMARY time"))


def test_a_row_that_mail_wrapped_is_missing_and_a_command_is_joined():
    """Of 3.3.0 a row without its last column has four words too: a colon and three numbers."""
    run = BY_NAME["mdtest-3.3.0/u-F-i3"]
    with pytest.raises(BadOutput, match="no row is whole"):
        run.parse(re.sub(r"(?m)^( +File .*) (\S+)$", r"\1\n\2", run.stdout))
    wrapped = run.stdout.replace(" '-u'", "\n'-u'")
    assert wrapped != run.stdout and run.parse(wrapped).command == run.parse().command
