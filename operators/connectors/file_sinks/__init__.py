"""Writing files that are hidden until the commit, with their names, formats and folders."""
