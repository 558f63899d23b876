"""Draw plans: graph_of_layer turns a layer into a graph, which is laid out or written as text.

`lay_out` places boxes for `to_svg` and `to_html`; `to_dot`, `to_mermaid`, `to_graphml` and `to_networkx`
leave placing to other tools. Nothing here imports pyspark.
"""
