"""makeblastdb, of BLAST+."""

from fsage.host.tools import Tool

TOOL = Tool(("-version",), "makeblastdb: ", "blast.sif")
