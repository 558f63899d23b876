def test_views_of_topologies_that_are_refused_later_are_pointed_to(golden, tmp_path):
    later = "execution_graph_refusals: what Flink says of the first of them"
    (line,) = (line for line in golden if line["topology"]["name"] == later)
    given, full, enough = tmp_path / "in.jsonl", tmp_path / "full", tmp_path / "enough"
    given.write_text(f"{json.dumps(line['topology'])}\n{json.dumps(chain(2))}")
    assert (
        run("plan", given, "--out", full)[0] == run("plan", given, "--out", enough, "--until", "job_graph")[0]
    )
    code, written, said = run("export", full, "--format", "flink-plan")
    assert (code, sum("flink_plan" in json.loads(one) for one in written.splitlines())) == (0, 1)
    assert "1 topology is refused after the job_graph: plan --until job_graph to have that" in said
    code, written, said = run("export", enough, "--format", "flink-plan")
    found = {one["name"]: one for one in map(json.loads, written.splitlines())}
    assert (code, said, found[later]["flink_plan"]) == (0, "", line["expected"]["flink_plan"])
