"""Writing files: parts that lie hidden until the commit, their names, formats and folders."""
