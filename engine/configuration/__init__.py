"""Configuration: what is set by files, command line and environment, in one typed model."""
