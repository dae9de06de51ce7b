"""What Lustre's tools print, read: on recorded output, whole and damaged."""

import errno
from functools import partial
from pathlib import Path

import pytest
from lustre_site import FINDMNT, NEIGHBOUR, SERVERS, recorded, session

from fsage.base import Failure, Refusal
from fsage.host.__main__ import way_out
from fsage.host.targets import budget
from fsage.model.declaration import complete
from fsage.studies.lustre.helper import lctl
from fsage.studies.lustre.host import clients, servers, space, stripes

MIB = 1 << 20
KIB = 1 << 10
PLACE = Path("/mnt/lustre")
DECLARED = {"mgs": "10.0.2.15@tcp", "fsname": "lustre"}


def test_lfs_df_gives_osts_and_leaves_metadata_targets_out():
    first, second = space.parse(recorded("lfs_df.txt")).osts
    assert first == ("lustre-OST0000", 0, 7693660 * KIB, 1392 * KIB, 7256456 * KIB)
    assert second.number == 1
    full = session("enospc_one_ost.txt")["lfs df /mnt/lustre"][-1]["stdout"]
    fullness = space.fullness(space.parse(full).osts)
    assert fullness["lustre-OST0000"]["fullness_percent"] == 100
    assert 8 < fullness["lustre-OST0001"]["fullness_percent"] < 9


def test_lfs_df_that_misses_an_ost_is_never_taken_for_less_capacity():
    text = recorded("lfs_df.txt")
    with pytest.raises(Failure, match="cut short"):
        space.parse("".join(text.splitlines(keepends=True)[:3]))
    with pytest.raises(Failure, match=r"its summary has .* bytes: lines are missing"):
        space.parse(text.replace(text.splitlines()[3] + "\n", ""))


def test_an_ost_that_is_not_needed_may_be_silent_and_what_passes_is_asked_again(site, monkeypatch):
    """The reason is a sentence. Nobody waits for what does not pass."""
    text = recorded("lfs_df.txt")
    line = text.splitlines()[3]

    def says(why):
        return text.replace(line, f"lustre-OST0001_UUID : {why}")

    for passing in ("Input/output error", "Cannot send after transport endpoint shutdown"):
        site.answer(f"lfs df {PLACE}", says(passing), says(passing), text)
        assert len(space.read_osts(PLACE)) == 2 and len(site.commands()) == 3
    site.answer(f"lfs df {PLACE}", says("Input/output error"), rc=5)
    assert [ost.number for ost in space.read_osts(PLACE, [0])] == [0] and len(site.commands()) == 1
    monkeypatch.setattr(space, "PASSES_S", 0.1)
    sentence = rf"how full lustre-OST0001 \(Input/output error\) of {PLACE} is, in 0 s of attempts: `lfs check"
    with pytest.raises(Failure, match=sentence):
        space.read_osts(PLACE, [1])
    site.answer(f"lfs df {PLACE}", says("Operation not permitted"), rc=5)
    with pytest.raises(Failure, match=r"lustre-OST0001 \(Operation not permitted\) of .* is, in one attempt"):
        space.read_osts(PLACE)
    mdt = text.splitlines()[1]
    site.answer(f"lfs df {PLACE}", text.replace(mdt, "MDT0000 : Input/output error"))
    with pytest.raises(Failure, match="MDT0000"):
        space.read_osts(PLACE, [0])


def test_where_lfs_df_did_not_end_once_only_those_that_answer_are_asked(tmp_path, monkeypatch):
    """A state asks often; each time two minutes passed. Then it is tried again."""
    (tmp_path / "said").write_text(recorded("lfs_df.txt"))
    (tmp_path / "lfs").write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\n[ "$2" = --lazy ] || exec sleep 60\ncat {tmp_path}/said\n'
    )
    (tmp_path / "lfs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(space, "ANSWER_S", 0.3)
    monkeypatch.setattr(space, "_did_not_end", {})
    whole, lazy = f"df {PLACE}\n", f"df --lazy {PLACE}\n"
    assert space.read_osts(PLACE) == space.read_osts(PLACE) != []
    assert (tmp_path / "asked").read_text() == whole + 2 * lazy
    monkeypatch.setattr(space, "WAITED_S", 0.0)
    space.read_osts(PLACE)
    assert (tmp_path / "asked").read_text() == whole + 2 * lazy + whole + lazy
    (tmp_path / "lfs").write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(Failure, match=r"`lfs df .*/lustre` did not end within 0\.3 s: an OST or MDT does not answer; "):
        space.read_osts(PLACE)


def test_an_error_of_io_names_what_does_not_answer(site):
    text = recorded("lfs_df.txt")
    _, _, ost, other, _, summary, *_ = text.splitlines()
    left = text.replace(ost, "OST0000             : inactive device")
    left = left.replace(summary, f"filesystem_summary:  {' '.join(other.split()[1:4])} 1% /mnt/lustre")
    spec = {"name": "l", "kind": "lustre", "directory": "/mnt/lustre/fsage", "lustre": DECLARED}
    error = OSError(errno.ESHUTDOWN, "Cannot send after transport endpoint shutdown")
    site.answer("lfs df --lazy /mnt/lustre", left)
    assert "OST0000 (deactivated) does not answer. Bring it back" in way_out(error, spec)
    site.answer("lfs df --lazy /mnt/lustre", text)
    assert way_out(error, spec) == way_out(OSError(errno.ENOSPC, ""), spec) == ""


def test_a_target_of_which_an_ost_is_lost_is_not_opened(site, monkeypatch):
    """To read what lies there would wait for ever; one that only comes back is waited for, one left out is not."""
    lost = recorded("lctl_server_uuid.txt")
    site.answer(SERVERS, lost, lost, lost.replace("DISCONN", "FULL"))
    of_mount = "ff24107519ab3800"
    site.answer(f"lfs getname {PLACE}", f"lustre-{of_mount} {PLACE}\n")

    def wait(*osts):
        clients.await_servers(PLACE, "lustre", lambda: list(osts) or None)

    wait()
    assert len(site.commands(SERVERS)) == 3
    site.answer(SERVERS, lost.replace("DISCONN", "DISCONN\tDEACTIVATED"), lost)
    wait()
    monkeypatch.setattr(clients, "PATIENCE_S", 0)
    wait(1)  # no file of it lies on OST 0
    with pytest.raises(Failure, match=r"lustre-OST0000 \(DISCONN\): no answer on .* would wait for ever"):
        wait(0, 1)
    site.answer(SERVERS, lost.replace(of_mount, NEIGHBOUR))
    wait()  # of somebody else's mount


LOOKS = [answer["stdout"] for answer in session("enospc_one_ost.txt")["lfs df /mnt/lustre"]]
EMPTY = {"lustre-OST0000": 1392 * KIB, "lustre-OST0001": 1392 * KIB}


def test_quiet_looks_are_no_proof_that_deleted_objects_are_gone(site, monkeypatch):
    """As seen: for 7 s the old numbers stay as they were, then all is free at once."""
    monkeypatch.setattr(space, "STILL_S", 5)
    site.answer("lfs df /mnt/lustre", *[LOOKS[1]] * 7, recorded("lfs_df.txt"))
    left = budget.as_left(EMPTY, 0)
    assert [ost.used_bytes for ost in space.await_frees(PLACE, lambda: None, left)] == [1392 * KIB] * 2
    assert len(site.commands("lfs df")) == 9


def test_what_a_server_has_still_to_destroy_is_waited_for(site, monkeypatch):
    monkeypatch.setattr(space, "PENDING_EVERY_S", (0,))
    monkeypatch.setattr(space, "STILL_S", 5)  # a busy machine may pause for longer than 10 ms
    pending = [3, 3, 1, 0]
    site.answer("lfs df /mnt/lustre", recorded("lfs_df.txt"))
    space.await_frees(PLACE, lambda: pending.pop(0))
    assert not pending and len(site.commands("lfs df")) == 1


def test_a_count_that_stands_still_is_not_waited_for_where_nothing_is_wrong(site):
    """As an MDT's whose OST was formatted anew."""
    site.answer("lfs df /mnt/lustre", recorded("lfs_df.txt"))
    left = budget.as_left(EMPTY, 0)
    assert [ost.used_bytes for ost in space.await_frees(PLACE, lambda: 1, left)] == [1392 * KIB] * 2
    assert len(site.commands("lfs df")) == 2, "it was looked at twice"
    site.answer("lfs df /mnt/lustre", LOOKS[1])
    for pending, more in ((0, ""), (1, "1 objects are still to be destroyed")):  # what never comes free
        said = rf"after deleting: lustre-OST0000 holds 7269\.3 MiB, where 1\.4 MiB were left; .*{more}\. Either"
        with pytest.raises(Failure, match=said):
            space.await_frees(PLACE, partial(int, pending), left)


def test_what_others_may_change_is_tolerated_and_no_more():
    then = {"a": 100 * MIB, "b": 200 * MIB}
    more = {"a": 103 * MIB, "b": 197 * MIB}
    assert budget.moved(then, more, 2 * MIB) == []
    assert budget.moved(then, more, 0) == [
        "a holds 103.0 MiB, where 100.0 MiB were left",
        "b holds 197.0 MiB, where 200.0 MiB were left",
    ]
    assert budget.moved(then, {"a": 100 * MIB}, 0) == ["b is gone"]


@pytest.mark.parametrize(
    ("directory", "declared", "says"),
    [
        ("/mnt/lustre/fsage", {"mgs": "10.0.2.16@tcp"}, "is on 10.0.2.15@tcp:/lustre, and 10.0.2.16"),
        ("/mnt/lustre/fsage", {"fsname": "scratch"}, "and 10.0.2.15@tcp:/scratch is declared"),
        ("/mnt/ost0/fsage", {}, "mounted are 10.0.2.15@tcp:/lustre at /mnt"),
        ("/mnt/lustre", {}, "declare a directory below a mount"),
    ],
)
def test_another_file_system_is_refused(site, directory, declared, says):
    site.answer(FINDMNT, recorded("findmnt_lustre.json"))
    with pytest.raises(Refusal, match=says):
        clients.client_mount(DECLARED | declared, Path(directory))


def test_a_client_is_told_from_servers_and_a_fileset_is_a_mount_of_its_file_system(site):
    text = recorded("findmnt_lustre.json")
    (client,) = clients.parse_mounts(text)
    assert client[:4] == (PLACE, "10.0.2.15@tcp", "lustre", "/")
    assert clients.parse_mounts("") == []
    site.answer(FINDMNT, text.replace(":/lustre", ":/lustre/projects"))
    assert clients.client_mount(DECLARED, PLACE / "fsage").root == "/projects"


def test_parameters_of_the_metadata_server_are_left_out(site):
    known = session("lctl_get_param_n_tunables.txt")
    site.answers(known)
    asked = next(command for command in known if "-n" not in command and "per_file" in command)
    found = lctl.get(*asked.split()[2:])
    assert len(found) == 8
    assert found["osc.lustre-OST0001-osc-ff11000110ffb000.max_rpcs_in_flight"] == "8"
    assert not any("MDT" in name for name in found)
    assert lctl.get("osc.*.read_ahead_step") == {}


def test_values_of_several_lines_stay_with_their_name():
    found = lctl.parse(session("lctl_get_param_n_tunables.txt")["lctl get_param llite.*.*read_ahead*"][0]["stdout"])
    assert found["llite.lustre-ff11000110ffb000.read_ahead_stats"].splitlines()[0].startswith("snapshot_time ")
    mntdev = lctl.parse(recorded("lctl_mntdev.txt"))
    assert mntdev["osd-ldiskfs.lustre-OST0001.mntdev"] == "/dev/vdd"
    assert mntdev["osd-ldiskfs.lustre-OST0001.fstype"] == "ldiskfs"


def test_how_long_the_requests_of_each_ost_took_is_read(site):
    """Sizes in bytes, and requests of other kinds, are left out; an OST that had none yet has zeros."""
    text = recorded("lctl_obdfilter_stats.txt") + "obdfilter.lustre-OST0002.stats=\nsnapshot_time   1.5 secs.nsecs\n"
    site.answer("lctl get_param obdfilter.lustre-OST*.stats", text)
    spec = complete({"name": "a", "kind": "lustre", "directory": "/mnt/lustre/a", "lustre": DECLARED})
    assert servers.requests_here(spec) == {
        "lustre-OST0000": [361 + 878, 505630 + 8834572],
        "lustre-OST0001": [341 + 868, 492059 + 7374032],
        "lustre-OST0002": [0, 0],
    }


def test_brw_stats_are_counted_between_two_looks():
    stats = servers.parse_stats(recorded("lctl_brw_stats.txt"))
    assert len(stats) == 8
    assert stats["disk fragmented I/Os"] == {"1": [0, 25], "2": [0, 1]}
    assert stats["disk I/O size"]["4M"] == [0, 26]
    earlier = {**stats, "disk fragmented I/Os": {"1": [0, 20]}}
    counted = servers.between(earlier, stats)
    assert counted and counted["disk fragmented I/Os"] == {"1": [0, 5], "2": [0, 1]}
    assert counted["disk I/O size"] == {}
    assert servers.between(stats, earlier) is None, "an OST that was started anew counts from zero"
    with pytest.raises(Failure, match="no histogram"):
        servers.parse_stats("")


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("lfs_getstripe_y_pfl_big.txt", [(0, 1, 4 * MIB, 1, (1,)), (64 * MIB, 2, 4 * MIB, 0, (0, 1))]),
        ("lfs_getstripe_y_pfl_small.txt", [(0, 1, 4 * MIB, 0, (0,)), (64 * MIB, 2, 4 * MIB, -1, ())]),
        ("lfs_getstripe_plain_dir_d.txt", [(0, 1, MIB, -1, ())]),
    ],
)
def test_layouts_of_files_and_directories(name, layout):
    assert [component[:5] for component in stripes.parse(recorded(name))] == layout


def test_a_directory_whose_striping_was_taken_back_has_the_default():
    said = session("lfs_setstripe_errors.txt")["lfs getstripe -d /mnt/lustre/plain"][0]["stdout"]
    assert stripes.parse(said) == [(0, 1, 4 * MIB, -1, (), "")]
    assert stripes.parse(said + "pool:          fast\n")[0].pool == "fast"
    with pytest.raises(Failure, match="no layout"):
        stripes.parse("lmm_stripe_count:  2\nlmm_stripe_size:   41943")


def test_striping_that_is_refused_fails_with_the_reason(site):
    command = "lfs setstripe -c 1 -S 1M -i 7 /mnt/lustre/d"
    site.answers({command: session("lfs_setstripe_errors.txt")["lfs setstripe -i 7 /mnt/lustre/bad_i7"]})
    declared = {"stripe_count": 1, "stripe_size_mib": 1, "first_ost": 7, "pool": None, "osts": None}
    with pytest.raises(Failure, match=r"status 22: .* Invalid argument"):
        stripes.set_on(PLACE / "d", declared, declared)
    assert site.commands() == [command]
