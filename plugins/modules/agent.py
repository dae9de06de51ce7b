"""The documentation of fsage.fsage.agent, as `ansible-doc` shows it; what runs is plugins/action/agent.py."""

DOCUMENTATION = """
module: agent
short_description: Run one verb of the fsage agent on a host
author:
  - the fsage maintainers
description:
  - All roles of this collection stand on this action. It gives the agent (C(src/fsage/host), Python's standard library
    only) one JSON object on standard input, and the JSON that comes back is the task's result.
  - It works without the machinery of Ansible's modules. A verb costs about 0.1 s, where M(ansible.builtin.command)
    costs 0.5 s.
  - On the launcher, with Ansible's own Python, the agent is a fork of the task's process, which has loaded it. With
    another Python of a local connection it runs from this collection. Any other connection brings it along with each
    verb (600 KB, packed in 30 ms), and Python runs it from memory. Nothing that lies on the host is run, nothing is
    left there, and it cannot be out of date.
  - The interpreter is C(ansible_python_interpreter), Python 3.9 or later.
  - The variable C(fsage_target) is the target's declaration. It stands in the inventory.
  - The variable C(fsage_request) is the path of the request, a JSON file of at most 64 MiB from C(fsage request). Some
    verbs need none. The file is read and never templated, for a study's text, or what a host once answered, may stand
    in it.
  - An answer is no template either. Ansible sees of it only the keys that roles use. What is saved has its type
    (C(src/fsage/records/messages.py)) and belongs to the requested study, state and claim.
  - With C(--diff) what was changed, such as each tunable before and now, is the result's C(diff). Without it the same
    lines are shown as they come.
  - When C(ansible-playbook) is killed, its worker dies too, and the agent notices that its parent is gone.
  - "It refuses: a host without C(fsage_target); a request that is given as data (C(-e @request.json)), is no regular
    file, or is not as C(fsage request) writes it; an answer whose claim, evidence or probe is not the requested one.
    Of such an answer nothing is kept."
  - An agent that ends without an answer fails the task, with its exit code and its last line of output.
options:
  verb:
    description: What the agent shall do, a verb of C(src/fsage/host/verbs).
    type: str
    required: true
  add:
    description: More keys of the request.
    type: dict
    default: {}
  save:
    description:
      - "C({key: place}): puts what the answer holds under the key into a JSON file on the controller."
      - The request names the file under the place, or else the variable of that name does. Empty means nowhere.
    type: dict
    default: {}
  save_in:
    description: The same, where the place is a folder and the file is C(HOST.json) in it.
    type: dict
    default: {}
  fetch:
    description: "C({key: place}): copies the host's file that the answer names under the key to the controller."
    type: dict
    default: {}
  put_away:
    description:
      - The request names a file on the controller under this place, or else the variable of that name does.
      - Once the verb has ended well, C(NAME.json) there becomes C(NAME.released.json).
    type: str
    default: ""
attributes:
  check_mode:
    description: The agent gets C(--check) and changes nothing.
    support: full
"""

EXAMPLES = """
- name: Begin the next step
  fsage.fsage.agent:
    verb: apply_step
  register: begun

# Verbs without a playbook, from the command line:
#   ansible clients -m fsage.fsage.agent -a verb=probe
#   ansible clients -m fsage.fsage.agent -a verb=diagnose -e fsage_request=request.json
"""

RETURN = """
changed:
  description: Whether the verb changed something; in check mode, whether it would.
  type: bool
  returned: always
msg:
  description: One sentence, printed too.
  type: str
  returned: always
rc:
  description: 1 where the verb was refused and nothing was touched, 2 where it failed.
  type: int
  returned: always
proof:
  description: What was verified, a line each.
  type: list
  elements: str
  returned: where the verb has proof
"""
