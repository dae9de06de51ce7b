"""The commands of fsage, by what they are for: what people ask, and what the jobs of the DAG call."""
