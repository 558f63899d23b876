"""Windows, their assigners and triggers, the window operator and the joins of the Java API."""
