"""File systems that are made with other options: an axis of any study, and a step of its states."""

from __future__ import annotations

import pytest
from local_targets import claimed
from states import MIB, bring, populate
from studies import blocks

from fsage import recipes
from fsage.base import Refusal
from fsage.base.shell import run
from fsage.host.filesystems import named, with_options
from fsage.host.targets.opening import open_target
from fsage.studies.mkfs.model import Mkfs

EXT4 = ["mkfs.ext4", "-m", "0", "-E", "nodiscard,hash_seed=1"]


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ("", EXT4),
        ("-b 1024", [*EXT4, "-b", "1024"]),
        ("-E stripe_width=16,hash_seed=2", [*EXT4[:4], "nodiscard,hash_seed=2,stripe_width=16"]),
        ("-m 5 -O bigalloc", ["mkfs.ext4", "-m", "5", *EXT4[3:], "-O", "bigalloc"]),
    ],
)
def test_options_are_joined_with_those_that_the_command_has(options, command):
    assert with_options(EXT4, options, named("ext4").mkfs_letters) == command


@pytest.mark.parametrize(
    ("filesystem", "options"),
    [
        ("ext4", "-J device=UUID=1"),
        ("ext4", "-d tree"),
        ("xfs", "-l logdev=sda"),
        ("ext4", "-Nm 5"),
        ("ext4", "-b"),
    ],
)
def test_no_option_names_another_file_or_device(filesystem, options):
    with pytest.raises(Refusal, match=f"{options} is not allowed. Allowed are -"):
        with_options(["mkfs"], options, named(filesystem).mkfs_letters)


def test_each_state_is_made_with_each_of_them(load):
    study = blocks()
    study["states"] |= {"capacity": [40], "fragmentation": [0, 50]}
    study["mkfs"] = ["default", "-b 1024", "-O bigalloc -C 65536"]
    names = ["40.00@264M", "40.50@264M"]
    states = recipes.expand(load(study))
    assert [state.name for state in states] == [
        *names,
        *(f"{name}-b_1024" for name in names),
        *(f"{name}-O_bigalloc_C_65536" for name in names),
    ]
    assert len({state.population for state in states}) == 3
    assert states[2].steps(1, 1)[0] == Mkfs(1, "-b 1024") and states[0].steps(1, 1)[0].kind == "populate"
    study["only"] = [{"mkfs": "-b 1024"}]
    assert [state.axes["mkfs"] for state in recipes.expand(load(study))] == ["-b 1024"] * 2


@pytest.mark.parametrize("options", ["-J /dev/sda", "bigalloc", "-b", "-b 1024; reboot", "--help x"])
def test_what_is_no_pair_of_option_and_value_is_refused(refused, options):
    study = blocks()
    study["mkfs"] = [options]
    assert f"mkfs[0]: '{options}' is not an option with a value that is no path, such as '-b 1024'" in refused(study)


@pytest.mark.root
def test_a_state_is_on_a_file_system_that_was_made_so_and_the_next_is_not(spec):
    made = bring(spec, Mkfs(1, "-b 1024"), populate(20, sizes=(MIB,)))
    assert block_bytes(spec) == 1024 and made["files"] > 10 and not made["notes"]["mkfs"].get("unsupported")
    bring(spec, populate(20, sizes=(MIB,)))
    assert block_bytes(spec) == 4096
    again = bring(spec, Mkfs(1, "-b 1024"), populate(20, sizes=(MIB,)))
    assert again["digest"] == made["digest"]


@pytest.mark.root
@pytest.mark.parametrize(
    ("options", "why"),
    [("-b 65536", "mkfs with -b 65536"), ("-J size=4", "is not allowed")],
)
def test_a_level_that_mkfs_or_the_kernel_does_not_take_is_unsupported(spec, options, why):
    token = bring(spec, Mkfs(1, options), populate(10, sizes=(MIB,)))
    assert why in token["notes"]["mkfs"]["unsupported"] and block_bytes(spec) == 4096


@pytest.mark.long
@pytest.mark.root
def test_of_what_mkfs_prints_the_usage_is_no_reason(local_target):
    spec = {**local_target, "filesystem": "xfs"}
    claimed(spec)
    why = bring(spec, Mkfs(1, "-d agcount=1"), populate(10, sizes=(MIB,)))["notes"]["mkfs"]["unsupported"]
    assert "at least 2 superblocks" in why and len(why.splitlines()) == 1


def test_a_directory_is_not_made_by_fsage(directory_target):
    claimed(directory_target)
    token = bring(directory_target, Mkfs(1, "-b 1024"), populate(10, sizes=(MIB,)))
    assert "fsage does not make its file system" in token["notes"]["mkfs"]["unsupported"]


def block_bytes(spec) -> int:
    """Of the file system that a target has."""
    [device] = open_target(spec).devices
    return int(run(["dumpe2fs", "-h", device]).stdout.partition("Block size:")[2].split()[0])
