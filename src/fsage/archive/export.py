"""A study's results as an RO-Crate: one folder, or zip, with all that a report is made from, and what made it.

RO-Crate 1.1 with the profile Process Run Crate (https://w3id.org/ro/wfrun/process) needs no service. Archives and
repositories read it, and without any software it is still a folder of JSON, YAML and Parquet. In it a project's
paths are kept (config/, inventories/, results/), so `remake` is the usual report, from other folders.
"""

from __future__ import annotations

import os
import re
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from rocrate.model.contextentity import ContextEntity
from rocrate.model.softwareapplication import SoftwareApplication
from rocrate.rocrate import ROCrate

import fsage
from fsage import dataset
from fsage.archive import anonymous
from fsage.archive import crate as crates
from fsage.archive.crate import FULL, METADATA, TABLE, CrateError
from fsage.base import message
from fsage.plan import Plan, load_plan
from fsage.plan.pool import Pool
from fsage.report.page import commit
from fsage.run.conclusion import write_report

PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
SOURCE = "#fsage"
LICENSES = "https://spdx.org/licenses/"
LICENSE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,63}")
ORGANISATION = re.compile(r"[^<>\x00-\x1f]*[^<>\s\x00-\x1f]( <https://ror\.org/[0-9a-z]{9}>)?")
AUTHOR = re.compile(r"[^<>\x00-\x1f]*[^<>\s\x00-\x1f]( <https://orcid\.org/(\d{4}-){3}\d{3}[\dX]>)?")


@dataclass(frozen=True)
class Credit:
    """`author`: a name, or 'NAME <https://orcid.org/0000-...>'; `license`: an SPDX identifier. Raises CrateError.

    `affiliation`: the author's organisation, which publishes too: a name, or 'NAME <https://ror.org/...>'.
    """

    author: str | None = None
    license: str | None = None
    affiliation: str | None = None

    def __post_init__(self) -> None:
        if self.author is not None and not AUTHOR.fullmatch(self.author):
            raise CrateError(f"author {self.author!r}: allowed are NAME and 'NAME <https://orcid.org/0000-...>'")
        if self.affiliation is not None and not ORGANISATION.fullmatch(self.affiliation):
            raise CrateError(f"affiliation {self.affiliation!r}: allowed are NAME and 'NAME <https://ror.org/...>'")
        if self.affiliation is not None and self.author is None:
            raise CrateError(f"affiliation {self.affiliation!r}: of whom? Give the author too")
        if self.license is not None and not LICENSE.fullmatch(self.license):
            raise CrateError(f"license {self.license!r}: it is an identifier of SPDX, such as CC-BY-4.0 or CC0-1.0")


@dataclass(frozen=True)
class Remade:
    """A report made anew from a crate; `same` tells whether it has the bytes of the one in the crate."""

    page: Path
    same: bool
    made_by: str
    """The code that made the report in the crate."""


def export(
    plan: Plan,
    study_file: Path,
    inventory: Path,
    to: Path,
    raw: bool = True,
    without_names: bool = False,
    credit: Credit | None = None,
) -> Path:
    """Write the crate to `to`, a new folder or a new .zip; return it. Raises CrateError.

    Without `raw` the tools' own output stays behind; the records name it and its SHA-256 all the same. `without_names`:
    nothing leaves but public columns of the table and the report that is made of these (fsage.archive.anonymous).
    `credit`: who measured, and what others may do with it.
    """
    credit = credit or Credit()
    _check_new(to, "a folder or a .zip")
    if not without_names:
        return _export(plan, study_file, inventory, to, raw, credit)
    if credit.author:
        raise CrateError(f"author {credit.author!r}: an anonymous crate names nobody; leave one of the two out")
    with tempfile.TemporaryDirectory(prefix="fsage-anonymous-") as folder:
        left = anonymous.copy(plan, study_file, inventory, Path(folder))
        return _export(*left, to, False, credit, Path(folder) / TABLE)


def _check_new(to: Path, kind: str) -> None:
    """Raise CrateError where nothing new can be made."""
    if os.path.lexists(to):
        raise CrateError(f"{to} exists: name {kind} that does not")
    if not to.parent.is_dir():
        raise CrateError(f"{to}: there is no folder {to.parent}; make it, or name another place")
    if not os.access(to.parent, os.W_OK):
        raise CrateError(f"{to}: this user cannot write to {to.parent.absolute()}; name another place")


def _export(
    plan: Plan, study_file: Path, inventory: Path, to: Path, raw: bool, credit: Credit, table: Path | None = None
) -> Path:
    """`table`: public columns in place of records."""
    if table:
        frame = dataset.read(table)
        frame = frame[frame["study"] == plan.study.name]
    else:
        frame = dataset.load(plan.files())
    if frame.empty:
        raise CrateError(f"study {plan.study.name} on target {plan.target.name} has no record in {plan.results.root}")
    write_report(Pool((plan,)), study_file, table=table)
    crate = ROCrate(version="1.1")
    crate.name = f"{plan.study.title} ({plan.study.name} on {plan.target.name})"
    crate.description = plan.study.question
    _give_credit(crate, credit)
    last = str(frame["began"].max())
    crate.root_dataset["datePublished"] = last  # not of now: the same records give the same crate
    crate.root_dataset["conformsTo"] = crate.add(ContextEntity(crate, PROFILE, {"@type": "CreativeWork"}))
    asked = [*_asked(crate, plan, study_file, inventory)]
    result_files = [*_results(crate, plan, raw, table)]
    software = crate.add(
        SoftwareApplication(crate, SOURCE, {"name": "fsage", "version": fsage.__version__, "softwareVersion": commit()})
    )
    crate.add_action(
        software,
        identifier="#measurement",
        object=asked,
        result=result_files,
        properties={
            "name": f"fsage measured {len(frame)} cells",
            "startTime": str(frame["began"].min()),
            "endTime": last,
        },
    )
    with tempfile.TemporaryDirectory(prefix=".fsage-export-", dir=to.absolute().parent) as folder:
        whole = Path(folder) / to.name
        try:
            _write(crate, whole)
        except OSError as error:
            if error.errno in FULL:  # it may name what is copied
                raise CrateError(f"{to}: {error.strerror}") from error
            raise
        whole.rename(to)
    return to


def _write(crate: ROCrate, to: Path) -> None:
    if to.suffix != ".zip":
        crate.write(to)
        return
    # `stream_zip` prints a traceback where it is closed before its end, as Ctrl-C and a full disk do.
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        for entity in (*crate.data_entities, *crate.default_entities):
            for name, chunks in groupby(entity.stream(), key=itemgetter(0)):
                with archive.open(name, "w", force_zip64=True) as file:
                    file.writelines(chunk for _, chunk in chunks)


def _give_credit(crate: ROCrate, credit: Credit) -> None:
    """Author, organisation and licence as entities of their own, as RO-Crate recommends."""
    if credit.author:
        author = crate.root_dataset["author"] = _named(crate, "Person", credit.author)
        if credit.affiliation:
            publisher = _named(crate, "Organization", credit.affiliation)
            author["affiliation"] = crate.root_dataset["publisher"] = publisher
    if credit.license:
        url = f"{LICENSES}{credit.license}"
    else:
        url = "#licence"
    work = {
        "@type": "CreativeWork",
        "name": credit.license or "not stated",
        "description": f"SPDX licence {credit.license}" if credit.license else "Ask whoever measured.",
    }
    crate.license = crate.add(ContextEntity(crate, url, work))


def _named(crate: ROCrate, kind: str, text: str) -> ContextEntity:
    """An entity for 'NAME <ADDRESS>', or NAME alone."""
    name, _, address = text.rstrip(">").partition("<")
    properties = {"@type": kind, "name": name.strip(), **({"url": address} if address else {})}
    return crate.add(ContextEntity(crate, address or f"#{kind.lower()}", properties))


def remake(crate: Path, to: Path) -> Remade:
    """Make the report of a crate's records anew, in a new folder `to`. Raises CrateError."""
    _check_new(to, "a folder")
    with crates.unpacked(crate, to.parent) as folder:
        try:
            made_by = _made_by(folder)
            report = _one_report(folder)
        except FileNotFoundError:
            raise CrateError(f"{crate} is not an RO-Crate: it has no {METADATA}") from None
        except message.Unacceptable as why:
            raise CrateError(f"{crate}: its {METADATA} {why}") from None
        except message.NotTaken as error:
            raise CrateError(f"{crate}: {error}") from None
        target = report.parent.parent.name
        study = report.parent.name
        study_file = folder / "config" / f"{study}.yaml"
        before = report.read_bytes()
        try:
            plan = load_plan(study_file, folder / "inventories" / target, folder / "results")
            if plan.target.name != target:
                raise CrateError(f"its target {target!r} is declared as {plan.target.name!r}")
            table = folder / TABLE
            page = write_report(Pool((plan,)), study_file, table=table if table.exists() else None)
        except ValueError as error:
            raise CrateError(f"{crate}: {str(error).replace(f'{folder}/', '')}") from None
        same = page.read_bytes() == before
        page.parent.rename(to)
        return Remade(to / page.name, same, made_by)


def _asked(crate: ROCrate, plan: Plan, study_file: Path, inventory: Path) -> Iterator[object]:
    """The request: the studies and the declaration of the target. Hosts and how to reach them stay private."""
    declaration = "group_vars/all/target.yml"
    places = {path: f"config/{path.name}" for path in anonymous.studies_of(plan, study_file)}
    places[inventory / declaration] = f"inventories/{plan.target.name}/{declaration}"
    for path, place in places.items():
        yield crate.add_file(path, place, properties={"encodingFormat": "application/yaml"})


def _results(crate: ROCrate, plan: Plan, raw: bool, table: Path | None) -> Iterator[object]:
    """What was measured, and in which states; of the study that this one is compared with, its records too."""
    root = plan.results.root
    target = plan.target.name
    study = plan.study.name
    kinds = {
        "records": "A record for each cell: its request, its state and its results",
        "manifests": "Which records a state has, and why cells have none",
        "states": "Evidence of each state's layout",
        "report": "The report, its figures, and all records as one table",
        **({"raw": "What the tools said, as they said it"} if raw else {}),
    }
    for kind, name in kinds.items():
        if (root / kind / target / study).is_dir():
            yield crate.add_dataset(
                root / kind / target / study, f"results/{kind}/{target}/{study}", properties={"name": name}
            )
    if plan.study.compare and plan.compared_records():
        records = f"records/{target}/{plan.study.compare.study}"
        yield crate.add_dataset(
            root / records, f"results/{records}", properties={"name": "Records that are compared with"}
        )
    if table:
        properties = {"name": "The public columns of all records", "encodingFormat": "application/vnd.apache.parquet"}
        yield crate.add_file(table, TABLE, properties=properties)
    for path, known_as, name in (
        (plan.results.last_claim, plan.results.claim, "The target's claim and calibration"),
        (plan.results.seed, plan.results.seed, "The drawn seed"),
    ):
        if path.exists():
            place = f"results/{known_as.relative_to(root)}"
            yield crate.add_file(path, place, properties={"name": name, "encodingFormat": "application/json"})


def _made_by(folder: Path) -> str:
    """The code that wrote the crate, as its metadata names it. Raises Unacceptable, NotTaken, OSError."""
    metadata = message.read((folder / METADATA).read_bytes())
    graph = metadata.get("@graph") if isinstance(metadata, dict) else None
    software = [
        entity
        for entity in (graph if isinstance(graph, list) else [])
        if isinstance(entity, dict) and entity.get("@id") == SOURCE
    ]
    version = software[0].get("softwareVersion") if software else None
    if not isinstance(version, str):
        raise message.NotTaken(f"an RO-Crate, but not one of fsage: its {METADATA} does not name {SOURCE}")
    return version


def _one_report(folder: Path) -> Path:
    """The page in a crate; its folders name target and study. Raises NotTaken."""
    pages = sorted((folder / "results" / "report").glob("*/*/index.html"))
    if len(pages) != 1:
        raise message.NotTaken(f"it holds {len(pages)} reports, not one: it was not written by `fsage export`")
    return pages[0]
