"""How large a cluster has to be for the jobs of a plan."""
