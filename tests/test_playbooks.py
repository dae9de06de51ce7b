"""The playbooks and roles, from the command line, on real loop targets."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import footprint
import preloaded
import pytest
import yaml
from hostile.messages import action
from local_targets import claim_file
from local_targets import claimed as have_claimed
from measuring import holder
from session import wait_until
from states import MIB, fragment, populate
from tiers import first_row_of

from fsage.base.message import Unacceptable
from fsage.host.system.library import packed
from fsage.host.targets import claims
from fsage.model import structure

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
ROLES = sorted(path.parents[1].name for path in ROOT.glob("roles/*/tasks/main.yml"))
PLAYBOOKS = sorted(path.name for path in ROOT.glob("playbooks/*.yml"))

POPULATE = populate(50, sizes=(4 * MIB,), request_bytes=MIB).to_json()
FRAGMENT = fragment(30).to_json()


def specification(role: str) -> dict[str, Any]:
    """The options of a role's entry point."""
    text = (ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text()
    return yaml.safe_load(text)["argument_specs"]["main"]["options"]


@pytest.mark.parametrize("role", ROLES)
def test_defaults_specification_and_readme_of_a_role_say_the_same(role: str) -> None:
    path = ROOT / "roles" / role / "defaults" / "main.yml"
    defaults = yaml.safe_load(path.read_text()) if path.exists() else {}
    own = {key: option for key, option in specification(role).items() if key != "fsage_target"}
    assert defaults == {key: option["default"] for key, option in own.items() if not option.get("required")}
    assert all(key.startswith(f"{role}_") for key in own)
    text = (ROOT / "roles" / role / "README.md").read_text()
    assert [key for key in specification(role) if f"`{key}`" not in text] == []
    playbooks = [
        path.stem for path in ROOT.glob("playbooks/*.yml") if f"role: fsage.fsage.{role}\n" in path.read_text()
    ]
    assert playbooks
    for name in playbooks:
        assert re.search(rf"^ansible-playbook .*fsage\.fsage\.{name}\b", text, re.M), name


def test_the_page_of_the_role_names_every_kind_of_step() -> None:
    text = (ROOT / "roles/apply_step/README.md").read_text()
    table = text.partition("| kind | what |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.M)) == structure.kinds()
    own = {structure.step_type(kind).PLAYBOOK for kind in structure.kinds()}
    assert own <= set(PLAYBOOKS) and "apply_step.yml" in own


def ansible(inventory: Path, *words: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """`ansible-playbook` with `words`, as typed in the project's root; `more` are extra variables."""
    extra = ["-e", json.dumps(more)] if more else []
    results = inventory.parent / "results"
    return preloaded.call(
        "ansible-playbook", "-i", inventory, *preloaded.playbooks(*words), *extra, FSAGE_RESULTS=results
    )


def done(ran: subprocess.CompletedProcess[str]) -> int:
    """That a call succeeded; how many tasks changed something."""
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return int(re.findall(r"changed=(\d+)", ran.stdout)[-1])


def refused(ran: subprocess.CompletedProcess[str]) -> str:
    """That a call failed; the failed task's sentence."""
    assert ran.returncode != 0, ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr
    found = re.search(r"^fatal: .*FAILED! => *\n((?: .*\n)+)", ran.stdout + ran.stderr, re.M)
    assert found, ran.stdout + ran.stderr
    return " ".join(yaml.safe_load(found[1])["msg"].split())


def inventory_of(
    place: Path, spec: dict[str, Any], clients: Iterable[str] = ("one",), servers: Iterable[str] = (), **variables: str
) -> Path:
    """An inventory whose clients and servers are all this machine."""
    (place / "group_vars" / "all").mkdir(parents=True)
    (place / "group_vars" / "all" / "target.yml").write_text(yaml.safe_dump({"fsage_target": spec}))
    host = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}", **variables}
    groups = {"launcher": (), "clients": clients, "servers": servers}
    groups = {group: {"hosts": dict.fromkeys(names, host)} for group, names in groups.items()}
    (place / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}, default_flow_style=False))
    return place


def reached_by(inventory: Path, client: str = "one", **variables: Any) -> None:
    """Have a client of the inventory reached in another way."""
    hosts = yaml.safe_load((inventory / "hosts.yml").read_text())
    hosts["all"]["children"]["clients"]["hosts"][client] |= variables
    (inventory / "hosts.yml").write_text(yaml.safe_dump(hosts))


def cell(number: int, *words: str) -> dict[str, Any]:
    """A cell of one fio command that writes 16 MiB, or does what `words` say."""
    argv = ["fio", "--name=w", "--filename=w", "--rw=write", "--bs=1M", "--size=16M", "--direct=1", *words]
    return {
        "name": f"cell{number}",
        "kind": "planned",
        "order": number,
        "attempt": 1,
        "params": {},
        "phases": [{"name": "write", "argv": [*argv, "--output-format=json"], "reads": False}],
    }


def request(path: Path, steps: list[dict] | None = None, **more: Any) -> str:
    """The words that give a playbook a request."""
    path.parent.mkdir(parents=True, exist_ok=True)
    asked = {"schema": 1, "study": "test", "state": "50.30", "nominal": {}, "tuning": {}, "reuse": "nested", **more}
    if steps is not None:
        asked["steps"] = steps
    path.write_text(json.dumps(asked))
    return f"fsage_request={path}"


def mount_of(spec: dict[str, Any]) -> Path:
    """Where the first store of a claimed target is mounted."""
    return Path(json.loads(claim_file(spec).read_text())["stores"][0]["mount"])


def observations(bundle: Path) -> list[dict[str, Any]]:
    """The observations in a bundle, in the order of their names."""
    with tarfile.open(bundle) as tar:
        return [json.load(tar.extractfile(name)) for name in sorted(tar.getnames())]  # type: ignore[arg-type]  # only regular files are in it


@pytest.fixture(scope="module")
def claimed(module_target: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The declaration of a target that the playbooks created and claimed, and an inventory for it."""
    inventory = inventory_of(tmp_path_factory.mktemp("inventory") / "test", module_target)
    assert done(ansible(inventory, "local_target.yml", "claim.yml")) > 0
    return {"spec": module_target, "inventory": inventory, "mount": mount_of(module_target)}


def test_all_playbooks_are_well_formed() -> None:
    ran = ansible(ROOT / "inventories" / "local", "--syntax-check", *PLAYBOOKS)
    assert ran.returncode == 0, ran.stderr
    assert all(f"playbook: playbooks/{name}" in ran.stdout for name in PLAYBOOKS)


def test_root_is_asked_for_task_by_task() -> None:
    """By every task that changes a server; who only reads them, as a guest may, is root where the inventory says so."""
    plays = [play for name in PLAYBOOKS for play in yaml.safe_load((ROOT / "playbooks" / name).read_text())]
    assert not [play["name"] for play in plays if "become" in play]
    for role in ("format_osts", "tune_prealloc"):
        tasks = yaml.safe_load((ROOT / "roles" / role / "tasks/main.yml").read_text())
        asking = [task for task in tasks if "fsage.fsage.agent" in task and "launcher" not in str(task.get("when"))]
        assert asking and all(task["become"] for task in asking), role
    monitoring = (ROOT / "roles/monitoring/tasks").glob("*.yml")
    tasks = [task for path in monitoring for task in yaml.safe_load(path.read_text())]
    looks = {f"ansible.builtin.{name}" for name in ("assert", "fail", "include_tasks", "stat")}
    changes = [task for task in tasks if not looks & task.keys() and "delegate_to" not in task]
    assert changes and all(task.get("become") for task in changes), "what changes a server is root's"


def test_an_agent_that_ends_without_an_answer_fails_its_task_and_what_it_said_last_is_shown(tmp_path: Path) -> None:
    """One that cannot load an extension; it is a fork of Ansible's process, which goes on."""
    extension = tmp_path / "broken"
    extension.mkdir()
    (extension / "__init__.py").write_text('"""An extension."""')
    (extension / "model.py").write_text("raise ValueError('broken on purpose')")
    done = preloaded.call(
        "ansible-playbook", "-i", "inventories/local", "playbooks/check_site.yml", FSAGE_EXTENSIONS=extension
    )
    said = " ".join(done.stdout.split())
    assert "probe ended with exit code 1 and no answer; it last said: ValueError: broken on purpose (" in said
    assert done.returncode == 2 and "Traceback" not in done.stdout.partition("stderr")[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "needs a request, and none was given"),
        ("@{file}", "(not -e @request.json)"),  # as it was once given
        ("fsage_request={{{{ lookup('pipe', 'touch {ran}') }}}}", "the path of a request's file is wanted"),
    ],
)
def test_a_request_is_a_file_and_never_a_template(given: str | None, said: str, tmp_path: Path) -> None:
    inventory = inventory_of(tmp_path / "nowhere", {"name": "nowhere", "kind": "loop", "home": str(tmp_path)})
    place = {name: tmp_path / name for name in ("file", "ran")}
    place["file"].write_text(
        json.dumps({"fsage_request": {"state": f"{{{{ lookup('pipe', 'touch {place['ran']}') }}}}"}})
    )
    words = ("-e", given.format(**place)) if given else ()
    sentence = refused(ansible(inventory, "scrub.yml", *words))
    assert said in sentence and "`fsage request STUDY STATE > request.json`" in sentence
    assert sentence.endswith("nothing was touched")
    assert not place["ran"].exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("/dev/zero", "it is a device, where a file is expected"),
        ("{fifo}", "it is a FIFO, where a file is expected"),
        ("{none}", ": No such file or directory"),
        ("{deep}", "is nested deeper than 32 levels"),
        ("{list}", "is [], and a block of keys is wanted"),
        ("{empty}", "is empty: what was to write it has failed"),
    ],
)
def test_a_file_that_holds_no_request_is_refused(given: str, said: str, tmp_path: Path) -> None:
    place = {name: tmp_path / name for name in ("fifo", "none", "deep", "list", "empty")}
    os.mkfifo(place["fifo"])
    place["deep"].write_text("[" * 10**6)
    place["list"].write_text("[]")
    place["empty"].touch()
    with pytest.raises(Unacceptable) as why:
        action().request_of("scrub", given.format(**place))
    assert said in str(why.value) and "`fsage request STUDY STATE > request.json`" in str(why.value)


def test_an_inventory_without_clients_is_no_success(tmp_path: Path) -> None:
    inventory = inventory_of(tmp_path / "test", {"name": "none", "kind": "directory"})
    (inventory / "hosts.yml").write_text("all: {hosts: {one: {ansible_connection: local}}}\n")
    ran = ansible(inventory, "release.yml")
    assert ran.returncode != 0
    assert "launcher" in ran.stderr
    empty = {group: {"hosts": {}} for group in ("launcher", "clients", "servers")}
    (inventory / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": empty}}))
    ran = ansible(inventory, "evidence.yml")
    assert ran.returncode != 0
    assert (
        "group clients has no host: name at least one in the inventory's hosts.yml, and in --limit if that is given; "
        "nothing was touched" in ran.stderr
    )
    ran = ansible(inventory, "monitoring.yml")
    assert ran.returncode != 0
    assert "group servers has no host" in ran.stderr


@pytest.mark.parametrize("playbook", ["scrub.yml", "measure.yml", "tune_prealloc.yml"])
def test_a_play_that_leaves_the_launcher_out_is_refused(playbook: str, tmp_path: Path) -> None:
    inventory = inventory_of(tmp_path / "none", {"name": "none", "kind": "directory"}, ("one", "two"))
    hosts = (inventory / "hosts.yml").read_text()
    (inventory / "hosts.yml").write_text(hosts.replace("launcher:\n      hosts: {}", "launcher: {hosts: {two: {}}}"))
    sentence = refused(ansible(inventory, playbook, "--limit", "one", "-e", request(tmp_path / "request.json")))
    assert sentence == "two launches, and --limit leaves it out: name it there too; nothing was touched"


@pytest.mark.parametrize("inventory", ["local", "directory", "lustre"])
def test_every_group_is_there_and_says_what_it_is_for(inventory: str) -> None:
    said = re.findall(r"^ +(\w+): *#", text := (ROOT / "inventories" / inventory / "hosts.yml").read_text(), re.M)
    said += re.findall(r"#.*\n +(\w+):\n", text)
    assert {"launcher", "clients", "servers", "mds", "oss"} <= set(said)


@pytest.mark.root
@pytest.mark.skipif(not shutil.which("ssh"), reason="needs ssh: .ci/testbed installs it")
def test_a_host_that_does_not_answer(tmp_path: Path) -> None:
    inventory = inventory_of(tmp_path / "test", {"name": "none", "kind": "directory"}, ("one", "two"))
    reached_by(inventory, "two", ansible_connection="ssh", ansible_host="127.0.0.1", ansible_port=1)
    ran = ansible(inventory, "tune_clients.yml", "scrub.yml", "-e", request(tmp_path / "request.json", [POPULATE]))
    assert ran.returncode != 0
    assert "fatal: [two]: UNREACHABLE!" in ran.stdout + ran.stderr
    assert "Scrub" not in ran.stdout


@pytest.mark.long
@pytest.mark.root
def test_every_step_alone_first_with_check(new_target: dict[str, Any], tmp_path: Path) -> None:
    inventory = inventory_of(tmp_path / "inventory", new_target)
    home = Path(new_target["home"]) / new_target["name"]
    folders = Path(new_target["home"]), Path(new_target["image_dir"]), tmp_path / "results"
    before_all = footprint.of_target(new_target, *folders)
    copy = tmp_path / "results" / "targets" / f"{new_target['name']}.json"  # where plans and requests look for it
    bundle = tmp_path / "bundle.tar"
    more = {"cells": [cell(0), cell(1)], "bundle": str(bundle), "tuning": {"read_ahead_kb": 64}}
    asked = request(tmp_path / "request.json", [POPULATE, FRAGMENT], **more)

    def step(name: str, now: Callable[[], Any]) -> None:
        before = now()
        done(ansible(inventory, name, "-e", asked, "--check", "--diff"))
        assert now() == before, f"{name} --check changed something"
        assert done(ansible(inventory, name, "-e", asked)) > 0
        assert now() != before, f"{name} changed nothing"

    step("local_target.yml", lambda: sorted(Path(new_target["image_dir"]).glob("*")))
    step("claim.yml", lambda: [(home / "claim.json").exists(), copy.exists()])
    mount = mount_of(new_target)
    steps = ("scrub.yml", "populate.yml", "fragment.yml")
    step("tune_clients.yml", (home / "tunables.json").exists)
    for name in steps:
        step(name, lambda: claims.read_token(mount))
    assert done(ansible(inventory, "local_target.yml", "claim.yml", "tune_clients.yml", *steps, "-e", asked)) == 0
    step("measure.yml", bundle.exists)
    assert [(each["cell"], each["status"]) for each in observations(bundle)] == [("cell0", "done"), ("cell1", "done")]
    assert not list((home / "outbox").rglob("*.json")), "what arrived is forgotten"
    done(ansible(inventory, "release.yml", "--check"))
    assert (home / "claim.json").exists()
    ran = ansible(inventory, "release.yml", "local_target.yml", fsage_local_target_state="absent")
    assert done(ran) > 0
    assert f"one: nothing is mounted at {mount}" in ran.stdout
    assert not copy.exists(), "no plan believes the claim that is gone"
    copy.with_suffix(".released.json").unlink()
    copy.parent.rmdir()
    assert footprint.of_target(new_target, *folders) == before_all


@pytest.mark.long  # one playbook that is refused: test_who_asks_looks_up_a_killed_run_that_the_host_cannot
@pytest.mark.root
def test_a_target_that_another_run_holds(claimed: dict[str, Any], tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.tar"
    other = request(tmp_path / "other.json", **holder(run="other"))
    done(ansible(claimed["inventory"], "hold_target.yml", "-e", other))
    now = claims.read_token(claimed["mount"])
    asked = request(tmp_path / "request.json", [], cells=[cell(0)], bundle=str(bundle), **holder())
    for name in ("hold_target.yml", "scrub.yml", "populate.yml", "measure.yml"):
        sentence = refused(ansible(claimed["inventory"], name, "-e", asked))
        assert "is held by run other" in sentence, name
        assert "nothing was touched" in sentence
    assert claims.read_token(claimed["mount"]) == now
    assert not bundle.exists()
    done(ansible(claimed["inventory"], "hold_target.yml", "-e", other, hold_state="absent"))


@pytest.mark.parametrize(("number", "connection"), first_row_of((signal.SIGTERM, "local"), (signal.SIGKILL, "ssh")))
def test_a_stopped_measurement_leaves_no_process(
    directory_target: dict[str, Any], tmp_path: Path, number: signal.Signals, connection: str
) -> None:
    """A stand-in for ssh has the agent in a session of its own, as sshd has it, which a signal does not reach."""
    have_claimed(directory_target)
    mark = f"--description={tmp_path}"
    long = cell(1, mark, "--time_based", "--runtime=60")
    ssh, inventory = tmp_path / "ssh", inventory_of(tmp_path / "inventory", directory_target)
    ssh.write_text('#!/bin/sh\nfor word; do :; done\nsetsid /bin/sh -c "$word"\nexit $?\n')
    ssh.chmod(0o755)
    reached_by(inventory, ansible_connection=connection, ansible_ssh_executable=str(ssh))
    again = tmp_path / "again"
    long["phases"].append({"name": "again", "argv": ["touch", str(again)]})
    asked = request(tmp_path / "request.json", [], state="empty", cells=[long], bundle=str(tmp_path / "b.tar"))
    books = ["fsage.fsage.scrub", "fsage.fsage.measure"]
    argv = [str(BIN / "ansible-playbook"), "-i", str(inventory), *books, "-e", asked]
    with open(tmp_path / "log", "w") as log:
        run = subprocess.Popen(argv, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
    wait_until(lambda: processes_with(mark))
    os.killpg(run.pid, number)
    run.wait(timeout=20)
    wait_until(lambda: not processes_with(mark), 5)
    time.sleep(1)
    assert not again.exists(), "no other phase begins"


def processes_with(mark: str) -> list[int]:
    """Living processes with `mark` in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.root
def test_another_connection_brings_the_agent_and_runs_nothing_that_lies_there(
    claimed: dict[str, Any], tmp_path: Path
) -> None:
    """Over ssh's own protocol of words: a stand-in for the ssh program that runs the last word here."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\nfor word; do :; done\ncd {tmp_path} && exec /bin/sh -c "$word"\n')
    ssh.chmod(0o755)
    inventory = inventory_of(tmp_path / "inventory", claimed["spec"])
    reached_by(inventory, ansible_connection="ssh", ansible_ssh_executable=str(ssh), ansible_host="far")
    copy, ran, library = tmp_path / "claim.json", tmp_path / "ran", Path(claimed["spec"]["home"]) / "lib"
    library.mkdir()  # where earlier versions kept the agent: one that somebody put there was run as root
    with zipfile.ZipFile(library / f"fsage-{hashlib.sha256(packed()).hexdigest()[:12]}.zip", "w") as planted:
        planted.writestr("fsage/__init__.py", f"open({str(ran)!r}, 'w')")
    (tmp_path / "json.py").write_text(f"open({str(ran)!r}, 'w')")  # and a module in the current directory
    assert done(ansible(inventory, "claim.yml", "claim.yml", claim_copy=str(copy))) == 0
    assert not ran.exists() and len(list(library.iterdir())) == 1
    assert json.loads(copy.read_text())["target"] == claimed["spec"]["name"]


@pytest.mark.long
@pytest.mark.root
@pytest.mark.unshare
def test_who_asks_looks_up_a_killed_run_that_the_host_cannot(directory_target: dict[str, Any], tmp_path: Path) -> None:
    """The host numbers its processes by itself, as another machine does."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec unshare --pid --fork --mount-proc {sys.executable} "$@"\n')
    python.chmod(0o755)
    inventory = inventory_of(tmp_path / "inventory", directory_target)
    reached_by(inventory, ansible_python_interpreter=str(python))
    lease = Path(directory_target["home"]) / directory_target["name"] / "lease.json"
    lease.parent.mkdir(parents=True)
    asked = request(tmp_path / "request.json", **holder())
    living = holder(run="other", host="elsewhere", renewed=time.time())["holder"]
    lease.write_text(json.dumps(living))
    assert "is held by run other" in refused(ansible(inventory, "hold_target.yml", "-e", asked))
    lease.write_text(json.dumps({**living, "pid_start": 1}))  # its number is another process's by now
    done(ansible(inventory, "hold_target.yml", "-e", asked))
    assert json.loads(lease.read_text())["run"] == "r1"
