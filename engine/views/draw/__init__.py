"""Plans as pictures: a layer becomes a graph (`graph_of_layer`), which is laid out or written as text.

`lay_out` places what `to_svg` and `to_html` draw; `to_dot`, `to_mermaid`, `to_graphml` and `to_networkx`
leave the placing to others. Nothing here imports pyspark.
"""
