"""Jobs of real programs as topologies: an agent in the program's JVM writes each job's StreamGraph."""
