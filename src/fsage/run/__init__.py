"""Run: what the jobs of the DAG do, by requests and playbooks, from the first step to the report."""
