"""IOR.

It names its version only at the head of a run, so that it makes a smallest one: its help, which 3.3 gives with status 0
for whatever it does not understand, says nothing of it.
"""

from fsage.model.tools import Tool

TOOL = Tool(("-w", "-t", "1k", "-b", "1k", "-o", "ior"), "IOR-", "ior.sif", writes=True)
