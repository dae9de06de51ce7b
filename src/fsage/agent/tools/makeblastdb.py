"""makeblastdb, of BLAST+."""

from fsage.agent.tools import Tool

TOOL = Tool(("-version",), "makeblastdb: ", "blast.sif")
