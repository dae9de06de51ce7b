"""Slurm's launcher."""

from fsage.agent.tools import Tool

TOOL = Tool(("--version",), "")
