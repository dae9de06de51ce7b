"""The results of a study with nothing in them but what is listed here: what a report is made from, and no names.

A key that is not listed stays at home with all that is below it, whoever adds it later. Numbers below listed keys
leave. Plain words below TEXTS leave too; any other text reads `withheld`. Hosts and other
targets are numbered. The names of study, target, states and of what a study varies leave: who publishes results
publishes these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from fsage.archive.crate import CrateError
from fsage.base import Json
from fsage.model import structure, tools, tuning
from fsage.plan import results
from fsage.plan.plan import Plan, load_plan
from fsage.plan.target import Target
from fsage.text import yaml_text

WITHHELD = "withheld"
TEXTS = """
allocator_reset amount_source began cache_drop cell cgroup code created digest ended features files filesystem
fingerprint free held_by input kind label launcher layout looked_at metadata name notation of pattern queue realisation
recipe reference scope sha256 state status structure study target tool way when
"""
NUMBERS = """
absent achieved after again_at_most age agree_bytes agree_share agreed aligned_free_share allocator amount_mib argv
attempt backing_read_mib_s backing_write_mib_s before beside bin_bytes bitmap block_bytes blocks buckets busiest busy_ms
bytes bytes_per_s cache_drop_s cached_names cached_pages calibration capacity_bytes capacity_percent cells
capacity_percent_achieved cell_overhead_s charged charges_buffered_writes check clients columns conditions containers
contended_files cost count counters cpu_s database declared declared_bytes_per_s deleted_files deleted_share_bytes
deleted_share_files device device_bytes device_model differ disks disturbed drawn draws drift_percent_per_hour emd_share
emd_size emptied_because epoch eviction_bytes eviction_file extents extents_of_size extents_per_file f_bavail f_bfree
f_blocks f_ffree f_files f_frsize file_size_bytes file_sizes_bytes filesystem_state_known filler filler_bytes
filler_extents filler_files flex_groups folders found fragmentation_factor fragmentation_percent fragmented_file
free_bytes free_extents free_inodes_empty free_percent free_share free_share_sample free_share_whole from_bytes
from_share fullness_percent generation generations geometry group_blocks group_bytes groups held_bytes high histogram
ideal_extents images inode_buckets inode_bytes inodes ios iowait_s irq_s journal_blocks jump_bytes jumps keep_free_space
kernel_threads_s largest_bytes largest_free_bytes launch launcher_options layout layout_score left left_bytes length
level limit_s log_blocks log_group lost_events low mb_max_linear_groups mean_bytes mean_extent_bytes mean_position
metadata_bytes model_seconds mount mount_cpu_s mount_options mount_s mounting moved_bytes nice_s noise_cov noise_seed
nominal notes of_windows offset_bytes order original osts osts_changed_bytes outer_to_inner over_percent pair_s passes
phases piece_bytes position_kurtosis position_sd position_skewness processor queries random_iops range_bytes ranges
ranges_after ranges_before ranges_moved raw rc read_bytes read_mib_s read_ms read_s reads rebuilt reserved_gdt_blocks
rotational rows run_group schema seconds seek_s segments sequences sequential_iops server_cache shared_s since_s
softirq_s source spans start start_bytes state_known statfs_empty store stores stride stripe_blocks stripe_bytes
stripes sum system_s tasks this time_limit_s timed_out to_share token tolerance_bytes tools total_bytes trace tunables
umount_cpu_s umount_s unseen_share used_bytes user_s wall_s weight whole_extents why why_none window_groups windows
write write_bytes write_mib_s write_ms write_s writes record
"""
OF_A_STUDY = {"achieved", "axes", "counts", "done", "metrics", "params", "predicted", "seconds", "step", "steps"}
"""Below these all keys leave: what a study varies, and numbers that a program names."""
IDS = {"id": "id", "claim": "id", "instance": "id", "run": "run"}
HOSTS = {"host", "hosts", "servers", "watched", "by_host", "cache_drop_hosts"}
OSTS = {"osts", "brw_stats"}
VERSIONS = {"kernel", "version", "sqlite", *tools.names()}
MAPS = {
    "notes": set(structure.kinds()),
    "tools": set(tools.names()),
    "tunables": set(tuning.NAMES),
    "tunable": {"asked", "before", "now"},
}
"""Keys of what is below these."""
OF_TEXTS = {*TEXTS.split(), *OF_A_STUDY, *MAPS["tunable"]}
LISTED = {*OF_TEXTS, *NUMBERS.split(), *HOSTS, *IDS, *VERSIONS}
PLAIN = re.compile(r"(?!/)(?!.*[\s=:(,]/)([\w .,:;+%()=<>\u00d7/-]|@(?=\d)){1,300}")
MOUNT_OPTION = re.compile(r"[a-z_]{2,20}(=\d+[kKmMgG]?)?")
OPTION = re.compile(r"(--?[A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
OPTION_VALUE = re.compile(r"\d+[kKmMgG%]?")
OF_TOOLS = {"--rw", "--ioengine", "--fallocate", "--output-format", "--clocksource"}


class Listed:
    """What may leave of values; hosts, OSTs, ids and targets but this one are numbered, the same everywhere."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._numbers: dict[str, dict[str, str]] = {}

    def number(self, kind: str, name: str) -> str:
        """What stands for a name of that kind."""
        numbered = self._numbers.setdefault(kind, {})
        return numbered.setdefault(name, f"{kind}{len(numbered) + 1}")

    def value(self, value: object, key: str = "") -> Any:
        """What may leave of a value that stands below a key."""
        if isinstance(value, dict):
            return dict(self._pairs(value, key))
        if isinstance(value, list):
            if key == "argv":
                return self.words(value)
            return [self.value(part, key) for part in value]
        if isinstance(value, str):
            return self.text(value, key)
        return value

    def _pairs(self, block: dict[str, object], key: str) -> Iterator[tuple[str, object]]:
        for name, part in block.items():
            if key in HOSTS:
                yield self.number("host", name), self.value(part, "phases")
            elif key in OSTS:
                yield self.number("ost", name), self.value(part, "ost")
            elif key in MAPS:
                if name.rpartition(".")[2] in MAPS[key]:
                    yield name.rpartition(".")[2], self.value(part, "tunable" if key == "tunables" else name)
            elif key in OF_A_STUDY or name.isdigit():
                yield name, self.value(part, key)
            elif name in LISTED:
                yield name, self.value(part, name)

    def text(self, text: str, key: str) -> str:
        """What leaves of a text."""
        if key in HOSTS:
            return self.number("host", text)
        if key in IDS:
            return self.number(IDS[key], text)
        if key == "target" and text != self.target:
            return self.number("target", text)
        if key in VERSIONS:
            version = re.search(r"\d+(\.\d+)+", text)
            if version:
                return version[0]
            return WITHHELD
        if key == "mount_options":
            return ",".join(word for word in text.split(",") if MOUNT_OPTION.fullmatch(word))
        if key in OF_A_STUDY:
            text = text.rpartition("/")[2]
        if key in OF_TEXTS and PLAIN.fullmatch(text):
            return text
        return WITHHELD

    def words(self, argv: list[str]) -> list[str]:
        """A command's program and options; values that are not numbers stay, but for words of fio's."""
        kept = []
        for word in argv:
            option = OPTION.fullmatch(word)
            if (
                (option and (option[2] is None or OPTION_VALUE.fullmatch(option[2]) or option[1] in OF_TOOLS))
                or word in tools.names()
                or word.isdigit()
            ):
                kept.append(word)
            else:
                kept.append(f"{option[1]}={WITHHELD}" if option else WITHHELD)
        return kept


def copy(plan: Plan, study_file: Path, inventory: Path, to: Path) -> tuple[Plan, Path, Path]:
    """What may leave of a study and its results, below `to`: plan, study's file, inventory.

    Raw output stays at home. Raises CrateError where the study cannot be told without a text that stays.
    """
    listed = Listed(plan.target.name)
    where = plan.results
    compare = plan.study.compare
    study = to / "config" / study_file.name
    names = [study_file, *([study_file.with_stem(compare.study)] if compare else [])]
    for path in names:
        _write_yaml(study.with_name(path.name), _study(listed, yaml_text.load(path.read_text(encoding="utf-8"))))
    place = to / "inventories" / inventory.name
    _write_yaml(place / "group_vars/all/target.yml", {"fsage_target": _declaration(plan.target)})
    folders = [where.root / kind / where.target / where.study for kind in ("records", "manifests", "states")]
    folders += [where.root / "records" / where.target / compare.study] if compare else []
    paths = [path for folder in folders for path in results.stored(folder) if not path.is_symlink()]
    taken = {path: path for path in [*paths, where.seed]} | {where.last_claim: where.claim}
    for path, known_as in taken.items():
        if path.exists():
            content = listed.value(results.read(path))
            results.write(to / "results" / known_as.relative_to(where.root), content)
    anonymous = load_plan(study, place, to / "results")
    if {state: [cell.name for cell in cells] for state, cells in anonymous.cells.items()} != {
        state: [cell.name for cell in cells] for state, cells in plan.cells.items()
    }:
        raise CrateError(
            f"{study_file}: its states or cells have names that are no plain words: --anonymous leaves them"
        )
    return anonymous, study, place


def _study(listed: Listed, study: Json) -> Json:
    """A study without words of its author's own."""
    headline = [
        {**comparison, "label": f"{comparison.get('state')} to {comparison.get('against')}"}
        for comparison in study.get("headline", [])
    ]
    return {**listed.value({**study, "headline": headline}, "axes"), "title": study["name"], "question": WITHHELD}


def _declaration(target: Target) -> dict[str, object]:
    """A target's declaration without places, hosts and users."""
    kept = {"name", "kind", "filesystem", "stores", "size_gib", "sparse", "minimum_gib", "budget_gib", "scale"}
    kept |= {"allocator_reset", "amount_mib", "launcher", "device_model"}
    declared = {key: value for key, value in target.spec.items() if key in kept}
    declared["directory"] = f"/{WITHHELD}/{target.name}"
    if target.spec["lustre"]:
        declared["lustre"] = {**target.spec["lustre"], "fsname": "lustre", "mgs": "mgs@tcp", "oss": []}
    return declared


def _write_yaml(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")
