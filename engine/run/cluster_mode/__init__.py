"""Scripts whose driver runs on the cluster: what spark-submit is given for them."""
