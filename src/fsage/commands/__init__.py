"""The commands of fsage, by what they are for: what people ask, and what the jobs of the DAG call.

A command imports what it works with when it is called: its module has what its help needs, and nothing more.
"""
