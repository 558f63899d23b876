"""What a plan is and how each layer is derived from the one before: tables in, tables out."""
