"""Find the differences that `penstock diff` prints."""
