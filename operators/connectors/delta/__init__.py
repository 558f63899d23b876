"""Delta tables as source and sink, through the package deltalake: no JVM takes part."""
