"""blastn, of BLAST+."""

from fsage.agent.tools import Tool

TOOL = Tool(("-version",), "blastn: ", "blast.sif")
