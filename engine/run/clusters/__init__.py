"""The place where jobs run: kinds of clusters, sessions, and slots."""
