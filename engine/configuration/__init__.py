"""Settings from files, command line and environment in one typed model."""
