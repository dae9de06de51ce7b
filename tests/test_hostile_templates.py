"""No text of a host, of a study's author or of a request is a template, a path or a key that Ansible obeys."""

import json
import subprocess
import sys

import preloaded
import pytest
from hostile.messages import STATE, make_plan
from sent import CLAIM
from test_playbooks import ROOT, ansible, inventory_of, request

from fsage.plan import results

pytestmark = pytest.mark.system


def pipe(place):
    """A template that leaves a file when it runs."""
    return f"{{{{ lookup('pipe', 'touch {place}') }}}}"


AGENT = """\
import json, sys
verb = sys.argv[-1]
print(json.dumps({{"changed": True, "msg": {jinja!r}, "proof": [{jinja!r}], **{answers!r}.get(verb, {{}})}}))
"""


@pytest.mark.root
def test_what_a_host_answers_is_never_a_template(tmp_path):
    ran = tmp_path / "ran"
    jinja = pipe(ran)
    everywhere = {"text": jinja, "list": [jinja], jinja: jinja}
    obeyed = {"ansible_facts": {"a": jinja}, "add_host": {"host_name": jinja}, "warnings": [jinja]}
    lost = {"lost": jinja, "undone": jinja, "remaining": jinja, "cells": [everywhere]}
    answers = {
        "apply_step": {"token": everywhere, **obeyed},
        "measure": {**lost, **obeyed},
        "scrub": obeyed,
        "osts": {"osts": [everywhere]},
        "evidence": {"evidence": everywhere},
        "probe": {"probe": everywhere},
        "bundle": {"bundle": jinja, "count": 1},
        "claim": {"claim": everywhere},
    }
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable} -SE\n" + AGENT.format(answers=answers, jinja=jinja))
    python.chmod(0o755)
    target = {"name": "evil", "kind": "directory", "home": str(tmp_path / "home")}
    inventory = inventory_of(tmp_path / "inventory", target, servers=["one"], ansible_python_interpreter=str(python))
    given = request(
        tmp_path / "request.json", [], cells=[], bundle=str(tmp_path / "b"), evidence=str(tmp_path / "evidence.json")
    )
    copies = ("-e", f"claim_copy={tmp_path / 'copy.json'}", "-e", f"probe_folder={tmp_path / 'answers'}")
    for playbook in ("scrub.yml", "populate.yml", "evidence.yml", "measure.yml", "claim.yml", "check_site.yml"):
        said = ansible(inventory, playbook, "-e", given, *copies)
        assert "Traceback" not in said.stdout + said.stderr
        assert "lookup('pipe'" in " ".join(said.stdout.split()), f"{playbook} was not answered: {said.stdout}"
        assert not ran.exists(), playbook
    assert not (tmp_path / "evidence.json").exists() and not (tmp_path / "copy.json").exists()
    assert not list(tmp_path.glob("answers/*"))


def test_the_text_of_a_claims_copy_never_runs(tmp_path):
    """It comes from a host, and requests are made of it."""
    inventory_of(tmp_path / "inventories/here", {"name": "here", "kind": "loop"})
    make_plan(tmp_path)
    ran = tmp_path / "ran"
    jinja = pipe(ran)
    copy = {**CLAIM, "id": jinja, "tools": {**CLAIM["tools"], "fio": jinja}, "stores": [{"mount": jinja}]}
    results.write(tmp_path / "results/targets/here.json", copy)
    where = ["--target", "here", "--results", "results", "--studies", "config", "--inventories", "inventories"]
    (tmp_path / "playbooks").symlink_to(ROOT / "playbooks")
    argv = ["fsage", *where, "visit", "tiny", STATE]
    said = subprocess.run(argv, cwd=tmp_path, env=preloaded.environment(), capture_output=True, text=True)
    assert not ran.exists(), "it ran"
    assert said.returncode != 0 and "Traceback" not in said.stderr, said.stderr
    assert "the request's" in said.stderr, said.stderr


@pytest.mark.long
def test_the_text_of_a_request_never_runs(tmp_path):
    inventory = inventory_of(tmp_path / "inventories/here", {"name": "here", "kind": "loop", "home": str(tmp_path)})
    jinja, path = pipe(tmp_path / "ran"), tmp_path / "request.json"
    for value in (jinja, {jinja: jinja}, [{"kind": jinja, "name": jinja}]):
        given = request(path, [], cells=[], claim="", run="", bundle="", evidence="", holder={}, gone=[])
        path.write_text(json.dumps(dict.fromkeys(json.loads(path.read_text()), value)))
        said = ansible(inventory, "scrub.yml", "measure.yml", "-e", given)
        assert said.returncode != 0 and "Traceback" not in said.stdout + said.stderr
        assert not (tmp_path / "ran").exists()
