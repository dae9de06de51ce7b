"""Texts from public reports, each with its right value or the reason why it is refused (data/trials, reconstructed)."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsage.parse import BadOutput, fio, ior, mdtest

HERE = Path(__file__).parent / "data" / "trials"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("02-fio-tausworthe/sprandom", (4_931_584, 10.003, 0.470)),
        ("02-fio-tausworthe/cpuio", (4_931_584, 10.003, 0.470)),
        ("04-fio-windows/crlf", (3 << 30, 3.002, 1023.3)),
        ("05-fio-group-options/group", (1 << 30, 5.21, 196.5)),
    ],
)
def test_what_a_run_of_fio_moved(name, values):
    run = fio.parse((HERE / f"{name}.stdout").read_bytes().decode(), "", 0)
    moved = run.read or run.write
    assert (moved.moved_bytes, moved.seconds) == values[:2]
    assert moved.bw_mib_s == pytest.approx(values[2], abs=0.05)
    if "group" in name:
        assert run.options == {"direct": "1", "ioengine": "libaio"}, "filename_format is another job's"
    if "cpuio" in name:
        assert run.options["filename"] == "/dev/sdk", "those of the job that read"


@pytest.mark.parametrize(
    ("parser", "name", "reason"),
    [
        (fio, "01-fio219-kib/4gib", "fio-2.19-66-gd44a counts io_bytes in KiB"),
        (fio, "01-fio219-kib/one-op", "fio-2.19-66-gd44a counts io_bytes in KiB"),
        (fio, "01-fio219-kib/fio210-no-timestamp-ms", "fio-2.10 counts io_bytes in KiB"),
        (fio, "02-fio-tausworthe/randread", "exceeds 32-bit tausworthe random generator.; fio: Switching"),
        (fio, "06-fio-eio/eio", "err=5/file:io_u.c:1896, func=io_u error, error=Input/output error"),
        (fio, "06-fio-eio/quota-error-0", "err=122/.* error=Disk quota exceeded"),
        (mdtest, "07-mdtest193-fastest/quiet", "mdtest-1.9.3 with -u and 32 tasks prints .* fastest task"),
        (mdtest, "07-mdtest193-fastest/verbose", "mdtest-1.9.3 with -u and 32 tasks prints .* fastest task"),
        (mdtest, "07-mdtest193-fastest/phase-T", "mdtest-1.9.3 with -u and 2 tasks prints .* fastest task"),
        (ior, "09-ior-stonewall-one-size/one-repetition", "10052.0 MiB/s .* summary gives 9345.5; .* table is right"),
        (ior, "09-ior-stonewall-one-size/three-repetitions", "10052.0 MiB/s .* 9345.5; .* table is right"),
        (ior, "10-ior-epoch-seconds/512gib", "gives 0.00 where a number above 0 must be"),
        (ior, "10-ior-epoch-seconds/no-warning", "gives 0.000000 where a number above 0 must be"),
        (ior, "10-ior-epoch-seconds/with-warning", "WARNING: inconsistent file size"),
    ],
)
def test_why_a_run_gives_no_number(parser, name, reason):
    with pytest.raises(BadOutput, match=reason):
        parser.parse((HERE / f"{name}.stdout").read_bytes().decode(), "", 0)


def test_the_fastest_task_is_that_of_all_where_clocks_start_together():
    text = (HERE / "07-mdtest193-fastest/phase-T.stdout").read_text()
    for alike in (text.replace(' "-u"', ""), text.replace('"-T"', '"-T" "-t"'), text.replace("2 total", "1 total")):
        assert mdtest.parse(alike, "", 0).per_s == {"File stat": 8000.0}
    with pytest.raises(BadOutput, match="fastest task"):
        mdtest.parse(text.replace('"-F" "-u"', '"-Fu"'), "", 0)


SOUND = HERE.parent / "corpus" / "fio-3.33" / "write-bs1m-nj4-group.stdout"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda text: text.replace('"bw_bytes"', 'oops\n"bw_bytes"', 1),
            "line .* was written by something else: 'oops",
        ),
        (lambda text: text[:2000], "it was cut short"),
        (lambda text: "  read: IOPS=1\n", "begins with '  read: IOPS=1.* --output-format=json"),
        (
            lambda text: text.replace('"io_bytes" : 268435456', '"io_bytes" : 262144'),
            "262144 bytes in .* bytes a second",
        ),
    ],
)
def test_why_a_document_is_not_whole(change, reason):
    bent = change(SOUND.read_text())
    assert bent != SOUND.read_text()
    with pytest.raises(BadOutput, match=reason):
        fio.parse(bent, "", 0)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "".join(f"> {line}" for line in text.splitlines(keepends=True)),
        lambda text: "\x1b[1m" + text.replace("\n", "\x1b[0m\n", 3),
    ],
    ids=["mark", "windows", "mail", "colours"],
)
@pytest.mark.parametrize(
    ("parser", "name"),
    [
        (fio, "fio-3.33/write-bs1m-nj4-group"),
        (ior, "ior-3.3.0/sweep-np2-t1m"),
        (mdtest, "mdtest-main/u-F-i3"),
    ],
)
def test_what_mail_and_editors_add_changes_no_number(parser, name, change):
    text = (HERE.parent / "corpus" / f"{name}.stdout").read_text()
    assert parser.parse(change(text), "", 0) == parser.parse(text, "", 0)
