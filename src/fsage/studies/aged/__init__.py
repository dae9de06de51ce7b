"""File systems that were aged by use, beside replicas of their free space."""
