"""What a host keeps although no target needs it any more: the agent's own zip, and connections to servers."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from fsage.agent import files
from fsage.agent.declaration import complete
from fsage.agent.lustre import servers

LIBRARY = "lib"


def leave(spec: dict[str, Any], request: dict[str, Any], check: bool) -> dict[str, Any]:
    """Close the connections that were kept to this target's servers; remove the agent unless another target is here."""
    spec = complete(spec)
    home = Path(spec["home"])
    zips = sorted(home.glob(f"{LIBRARY}/fsage-*.zip"))
    others = sorted(path.name for path in home.glob("*/") if path.name != LIBRARY)
    if others and zips:
        return {"changed": False, "msg": f"left the agent in {home / LIBRARY}: target {', '.join(others)} is here"}
    if not check:
        named = {host["name"] for host in (request.get("hosts") or {}).get("servers", [])}
        proof = servers.hang_up({*named, *spec["lustre"]["oss"]}) if spec["lustre"] else []
        for path in zips:  # the program that runs has all its modules already
            files.remove(path)
        for folder in (home / LIBRARY, home) if zips else ():
            with contextlib.suppress(OSError):  # somebody else's files
                folder.rmdir()
    else:
        proof = []
    done = "would remove" if check else "removed"
    said = f"{done} the agent from {home}" if zips else f"no agent is in {home}"
    return {"changed": bool(zips or proof), "msg": said, "proof": proof}
