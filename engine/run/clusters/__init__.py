"""Where jobs run: kinds of clusters, sessions, and slots."""
