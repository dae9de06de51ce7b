"""A play for clients, or a whole playbook, without a host is an error: Ansible would skip it and report success."""

from __future__ import annotations

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: no_hosts
type: aggregate
short_description: Stop where the group clients is empty
description:
  - Ends a playbook with exit code 1 and a sentence, before anything is changed, when a play for clients has no host.
    So it does when no play had one.
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
            end("clients")

    def v2_playbook_on_stats(self, stats):
        """End Ansible with an error where nothing was done on any host."""
        if not stats.processed:
            end(self.groups)


def end(group):
    """End Ansible."""
    raise SystemExit(
        f"ERROR! group {group} has no host: name at least one in the inventory's hosts.yml, and in --limit if that is "
        "given; nothing was touched"
    )
