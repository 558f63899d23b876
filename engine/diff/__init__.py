"""What `penstock diff` finds."""
