"""The same store through delta-rs, without a JVM: what either way writes, both read and append to.

As in `engine.store`, of which this has the modules that planning needs; versions are dropped, and unfinished
writes removed, with Spark. delta-rs repeats a commit that came second by itself, even that of a new table:
every commit that must be the next one, or none, is made with STRICT.
"""
