"""Tests in a browser are collected where selenium is installed: `make test-browser` installs it."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("selenium") else ["test_*.py"]
