"""What a run does at a site with Lustre alone, on clients and servers."""

from __future__ import annotations

from collections.abc import Sequence

from fsage.api.site import (
    EVERY_S,
    Act,
    DeclaredTarget,
    Plan,
    Site,
    by_state,
    changes_server_cache,
    may_be_root,
    missing_cells,
    names_of,
)

LOCKS_A_PHASE = 12
"""Twice, and six times where others take new locks meanwhile (.host.clients)."""
COMMITS_A_WAIT = 380
"""One to four are usual; what was deleted is waited for 300 s, at most every 0.8 s (.host.space)."""
WAITS_A_STATE = 3
WAITS_A_LIFE = 8
"""Beside one after each step and each cell; a life begins and ends with an empty target."""


def acts(site: Site, target: DeclaredTarget, plans: Sequence[Plan], phases: int) -> list[Act]:
    """What is done with Lustre alone."""
    clients = names_of(site, "clients")
    servers = names_of(site, "servers")
    cells = len(missing_cells(plans))
    asks = ("lctl", "lnetctl", "lfs", "findmnt")
    asked = "how full OSTs are, where files lie, quotas and the state of connections are read"
    lustre = [Act(clients, asked, "nothing is changed", programs=asks)]
    if may_be_root(site):
        what = (
            "unused locks of the target's own mount are given back before each phase, usually twice (lru_size=clear): "
            "of who else works on that mount, too"
        )
        lustre.append(Act(clients, what, "the client takes them again", phases * LOCKS_A_PHASE, ("lctl",)))
    undone = "nothing is changed"
    counted = f"counters of the OSTs are read each {EVERY_S:g} s (obdfilter.*.stats)"
    if site.in_group("watched"):
        looks = "the launcher connects; load, kernel's log, network, counters of OSTs and noted settings are read"
        lustre.append(Act(names_of(site, "watched"), looks, undone, programs=("ssh", "lctl", "zfs")))
    if not site.in_group("servers"):
        return lustre
    lustre += [
        Act(
            servers,
            "the launcher connects by ssh as the user of its agent, and keeps that for 10 minutes",
            "closed by release",
            programs=("ssh",),
        ),
        Act(
            servers,
            "targets commit (force_sync) after files were deleted, usually four times: claim, states, cells, release",
            undone,
            COMMITS_A_WAIT * (WAITS_A_LIFE + cells + sum(WAITS_A_STATE + len(steps) for steps in by_state(plans))),
            ("lctl",),
        ),
        Act(servers, "page cache of the whole server is dropped before each phase", "the kernel reads again", phases),
        Act(
            servers,
            "counters of the OSTs are read twice at the claim, and before and after each cell (brw_stats)",
            undone,
            2 + 2 * cells,
            ("lctl",),
        ),
    ]
    if (target.spec["stop_if"] or {}).get("server_ms"):
        lustre.append(Act(servers, counted, undone, None, ("lctl",)))
    lustre.append(Act(servers, "free space of OSTs is read for evidence, once a state", undone, None, ("dumpe2fs",)))
    if changes_server_cache(plans):
        what = "ZFS's primarycache of the OSTs is set"
        lustre.append(Act(servers, what, "restored after each cell", cells, ("zfs",)))
    return lustre
