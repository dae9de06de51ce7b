"""A play for clients is an error where the inventory has none: Ansible would skip it and report success."""

from __future__ import annotations

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: no_hosts
type: aggregate
short_description: Stop where the group clients is empty
description:
  - Ends a playbook with exit code 1 and a sentence, before anything is changed, when a play for clients has no host.
"""


class CallbackModule(CallbackBase):
    """Remembers the play that begins; a play of other groups, as servers, may have no host."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "fsage.fsage.no_hosts"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.groups = ""

    def v2_playbook_on_play_start(self, play):
        """Note the hosts of the play."""
        self.groups = play.hosts if isinstance(play.hosts, str) else ":".join(play.hosts)

    def v2_playbook_on_no_hosts_matched(self):
        """End Ansible at once: an exception in a callback would only become a warning."""
        if "clients" in self.groups.split(":"):
            raise SystemExit(
                "ERROR! group clients has no host: name at least one in the inventory's hosts.yml; nothing was touched"
            )
