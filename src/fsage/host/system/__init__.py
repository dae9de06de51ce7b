"""What every part of the agent stands on: files, places, programs, mounts, and what takes root."""
