package penstock.flink;

/** A small topology with every kind of transformation and every partitioner. */
final class EveryKind {
    static final String LINE =
            """
            {"name": "every-kind", "parallelism": 2, "transformations": [
              {"id": 1, "kind": "source", "name": "source"},
              {"id": 2, "kind": "legacy_source", "name": "legacy_source", "slot_sharing_group": "own"},
              {"id": 3, "kind": "partition", "partitioner": "hash", "inputs": [1]},
              {"id": 4, "kind": "one_input", "name": "one_input", "inputs": [3], "uid": "keyed",
                "managed_memory": {"OPERATOR": 1}, "slot_scope": ["STATE_BACKEND"]},
              {"id": 5, "kind": "one_input", "name": "one_input", "inputs": [4], "chaining": "ALWAYS"},
              {"id": 6, "kind": "async", "name": "async", "inputs": [2]},
              {"id": 7, "kind": "side_output", "tag": "late", "inputs": [5]},
              {"id": 8, "kind": "partition", "partitioner": "rebalance", "inputs": [6]},
              {"id": 9, "kind": "two_input", "name": "two_input", "inputs": [7, 8]},
              {"id": 10, "kind": "partition", "partitioner": "forward", "inputs": [9]},
              {"id": 11, "kind": "partition", "partitioner": "shuffle", "inputs": [6]},
              {"id": 12, "kind": "union", "inputs": [10, 11]},
              {"id": 13, "kind": "source", "name": "source"},
              {"id": 14, "kind": "multi_input", "name": "multi_input", "inputs": [12, 13]},
              {"id": 15, "kind": "partition", "partitioner": "broadcast", "inputs": [14]},
              {"id": 16, "kind": "sink", "name": "sink", "inputs": [15]},
              {"id": 17, "kind": "partition", "partitioner": "global", "inputs": [14]},
              {"id": 18, "kind": "sink", "name": "sink", "inputs": [17]},
              {"id": 19, "kind": "partition", "partitioner": "custom", "inputs": [14]},
              {"id": 20, "kind": "sink", "name": "sink", "inputs": [19]},
              {"id": 21, "kind": "partition", "partitioner": "rescale", "inputs": [14]},
              {"id": 22, "kind": "sink", "name": "sink", "inputs": [21], "parallelism": 4},
              {"id": 23, "kind": "sink", "name": "sink", "inputs": [14], "writer": {}, "committer": {}}]}
            """;

    private EveryKind() {}
}
