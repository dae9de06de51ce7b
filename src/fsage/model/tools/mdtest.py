"""mdtest, of IOR.

As IOR, it names its version only at the head of a run.
"""

from fsage.model.tools import Tool

TOOL = Tool(("-n", "1", "-d", "."), "mdtest-", "ior.sif", writes=True)
