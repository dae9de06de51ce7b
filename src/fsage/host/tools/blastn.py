"""blastn, of BLAST+."""

from fsage.host.tools import Tool

TOOL = Tool(("-version",), "blastn: ", "blast.sif")
