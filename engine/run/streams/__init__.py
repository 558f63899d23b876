"""Jobs whose state lasts from one batch of a stream to the next."""
