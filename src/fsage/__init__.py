"""fsage: what fullness and fragmentation cost on a file system, measured."""

import os
import sys

__version__ = "0.1.0"

# As Python's own variables, not where it is isolated (-I): agents and root's helper have what was sent to them alone.
if os.environ.get("FSAGE_EXTENSIONS") and not sys.flags.isolated:
    from fsage.extensions import extend

    extend(os.environ["FSAGE_EXTENSIONS"])
