"""The run page: who may ask, what it shows, and what its button does."""

import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from html import escape
from typing import Any
from urllib.parse import urlsplit

import pytest

from penstock.engine.commands.main import app
from penstock.engine.machine.folders import STATE_DIR
from penstock.engine.run.runtime.job_records import write_state
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.open_plan import open_plan
from penstock.engine.store.write_plan import write_version
from penstock.engine.views.ui import run_figures as shown_run
from penstock.engine.views.ui.run_figures import find_run, list_runs, run_figures, seconds, short, size
from penstock.engine.views.ui.serve import MOST_STRANGERS, PATIENCE_SECONDS, RunPageServer, serve_run_page
from penstock.plans.printable import printable
from tests.engine.run.streams.test_stream_records import stream
from tests.engine.views.draw.pictures import ATTACKS, hostile_topology
from tests.engine.views.ui.made_up_runs import example, state_of, submit
from tests.project.hostile_text import OBEYED

FRAUD = example("fraud-detection")
RUN = f"{7:032x}"
FURTHER = MOST_STRANGERS + 3


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(STATE_DIR, str(tmp_path / "state"))


@pytest.fixture(scope="module")
def server() -> Iterator[RunPageServer]:
    running = RunPageServer(0, None)
    thread = threading.Thread(target=serve_run_page, args=(running,))
    thread.start()
    yield running
    running.shutdown()
    thread.join()


class Answer:
    """What came back."""

    def __init__(self, response: http.client.HTTPResponse, text: str) -> None:
        self.status, self.text = response.status, text
        self.headers = response.headers

    def header(self, name: str) -> str:
        """The value of a header that must be there."""
        return str(self.headers[name])


def ask(
    server: RunPageServer, path: str, method: str = "GET", body: str = "", token: bool = True, **headers: str
) -> Answer:
    """One request, with the cookie unless there is to be no `token`; underscores in headers are hyphens."""
    port = server.guard.port
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    sent.setdefault("Host", f"127.0.0.1:{port}")
    if token:
        sent.setdefault("Cookie", f"{server.guard.cookie}={server.guard.token}")
    if method == "POST":
        sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, body or None, sent)
        response = connection.getresponse()
        return Answer(response, response.read().decode())
    finally:
        connection.close()


def test_the_link_gives_a_cookie_that_no_script_and_no_other_site_gets(server):
    link = urlsplit(server.link)
    answer = ask(server, f"/?{link.query}", token=False)
    assert (answer.status, answer.header("Location")) == (303, "/")
    cookie = answer.header("Set-Cookie")
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    assert ask(server, "/", token=False, Cookie=cookie.partition(";")[0]).status == 200


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/", "/view.js", "/?token=wrong", f"/runs/{RUN}", f"/runs/{RUN}/events"])
def test_without_the_token_it_refuses(server, path):
    submit(FRAUD, 7)
    for headers in ({}, {"Cookie": f"{server.guard.cookie}=wrong"}, {"Cookie": "\xff=;;"}):
        answer = ask(server, path, token=False, **headers)
        assert answer.status == 403
        assert "fraud" not in answer.text


@pytest.mark.parametrize("host", ["example.com", "127.0.0.1", "127.0.0.1:1", "evil.127.0.0.1:80", ""])
def test_under_another_name_it_refuses(server, host):
    assert ask(server, "/", Host=host).status == 421


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/page.css/..",
        "/run.html.j2",
        "/serve.py",
        "/runs/",
        f"/runs/{RUN}/cancel",
        f"/runs/{RUN}/../x",
        f"/runs/{'f' * 32}",
        "/runs/%2e%2e",
        "/jobs",
    ],
)
def test_nothing_is_read_but_its_own_routes(server, path):
    assert ask(server, path).status == 404


def test_every_answer_has_a_policy_without_scripts_of_others(server):
    for path, method in (("/", "GET"), ("/view.js", "GET"), ("/nothing", "GET"), ("/", "PUT")):
        answer = ask(server, path, method)
        policy = answer.header("Content-Security-Policy")
        assert policy.startswith("default-src 'none'; script-src 'self'")
        assert "unsafe" not in policy
        assert answer.header("X-Content-Type-Options") == "nosniff"
        assert answer.header("Cache-Control") == "no-store"


def test_a_job_is_shown_with_its_plan_and_how_it_goes(server):
    submit(FRAUD, 7, of_vertices={1: "FINISHED", 2: "RUNNING"})
    assert f'href="/runs/{RUN}"' in ask(server, "/").text
    page = ask(server, f"/runs/{RUN}").text
    assert page.count('class="node') == 5
    assert page.count("<tr data-key=") == 5
    assert "FINISHED 8 of 8, 10.0k in, 4,000 out" in page
    assert "<script>" not in page
    assert not re.search(r"<[^>]*\son\w+=|style=", page)


def test_figures_of_a_vertex():
    submit(FRAUD, 7, of_vertices={1: "FINISHED"})
    run = find_run(RUN, None)
    assert run is not None
    first = next(one for one in run_figures(run).vertices if one.key == "v1")
    assert (first.records, first.bytes) == ("10,000 in, 4,000 out", "16.0 KiB in, 80 B out")
    assert first.skew == "2.40"  # 3,000 of a mean of 1,250
    assert first.busy == "22.0 s, longest 8.0 s"  # seven subtasks of 2 s, and one of 8 s
    assert first.attempts == "8"
    assert first.measured == "Map: seen 80; Map: length 1 to 7, mean 4 of 16"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (seconds(0), "0.0 s"),
        (seconds(61_900), "1 min 1 s"),
        (seconds(7_260_000), "2 h 1 min"),
        (size(1023), "1023 B"),
        (size(3 << 40), "3.0 TiB"),
        (short(9_999), "9,999"),
        (short(2_500_000), "2.5M"),
    ],
)
def test_amounts_are_short(text, shown):
    assert text == shown


def test_names_stay_names(server):
    topology = hostile_topology()
    submit(topology, 7, "FAILED", {1: "FAILED"}, failure=f"ValueError: {ATTACKS[3]}")
    for path in ("/", f"/runs/{RUN}"):
        page = ask(server, path).text
        assert not OBEYED.search(page.replace("\n", ""))
        assert "<script>alert" not in page
        assert "<img" not in page
        assert escape(printable(ATTACKS[0])) in page


@pytest.mark.slow
def test_events_tell_how_a_job_goes_until_it_is_over(server):
    folder, plan = submit(FRAUD, 7)
    connection = http.client.HTTPConnection("127.0.0.1", server.guard.port, timeout=20)
    cookie = f"{server.guard.cookie}={server.guard.token}"
    connection.request("GET", f"/runs/{RUN}/events", headers={"Cookie": cookie})
    response = connection.getresponse()
    assert response.getheader("Content-Type") == "text/event-stream; charset=utf-8"

    def event() -> dict[str, Any]:
        line = response.readline().decode()
        while not line.startswith("data: {"):
            assert line
            line = response.readline().decode()
        found: dict[str, Any] = json.loads(line.removeprefix("data: "))
        return found

    assert {one["state"] for one in event()["vertices"]} == {"CREATED"}
    states = dict.fromkeys(plan["job_vertices"]["vertex"].to_pylist(), "FINISHED")
    write_state(folder, state_of(plan, RUN, "FINISHED", states))
    while not (now := event())["is_final"]:
        pass
    assert (now["state"], {one["state"] for one in now["vertices"]}) == ("FINISHED", {"FINISHED"})
    assert response.read().decode().strip().startswith("event: over")
    connection.close()


def test_the_button_cancels(server):
    folder, _ = submit(FRAUD, 7)
    page = ask(server, f"/runs/{RUN}").text
    (form,) = re.findall(r'name="form_token" value="(\w+)"', page)
    assert form != server.guard.token
    origin = f"http://127.0.0.1:{server.guard.port}"
    answer = ask(server, f"/runs/{RUN}/cancel", "POST", f"form_token={form}", Origin=origin)
    assert (answer.status, answer.header("Location")) == (303, f"/runs/{RUN}")
    assert (folder / "cancel").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ("form_token=wrong", {}, 403),
        ("", {"Content-Length": "0"}, 403),
        ("FORM", {"Origin": "https://example.com"}, 403),
        ("FORM", {"Origin": "null"}, 403),
        ("FORM", {"Origin": "http://127.0.0.1:1"}, 403),
        ("FORM", {"Cookie": "a=b"}, 403),
        ("x" * 5000, {}, 413),
    ],
)
def test_forms_of_others_cancel_nothing(server, body, headers, status):
    folder, _ = submit(FRAUD, 7)
    body = body.replace("FORM", f"form_token={server.guard.form_token()}")
    assert ask(server, f"/runs/{RUN}/cancel", "POST", body, **headers).status == status
    assert not (folder / "cancel").exists()


@pytest.mark.slow
def test_runs_of_a_store_are_shown(tmp_path):
    store = str(tmp_path / "store")
    _, plan = submit(example("word-count"), 5, "FINISHED")
    for run_id in (f"{5:032x}", f"{9:032x}"):
        tables = {**plan, **state_of(plan, run_id, "FINISHED", {1: "FINISHED"})}
        write_version(DeltaRsTables(store), tables, planner_version="1", options={"run": run_id})
    assert {one.job_id for one in list_runs(store)} == {f"{5:032x}", f"{9:032x}"}
    stored = find_run(f"{9:032x}", store)
    assert stored is not None
    assert run_figures(stored).vertices[0].records == "6,000 in, 2,000 out"


def test_strangers_make_room_for_whoever_has_the_token(server):
    """Connections that say nothing, or that send a head without end, each for as long as it can."""
    strangers = [socket.create_connection(("127.0.0.1", server.guard.port)) for _ in range(FURTHER)]
    try:
        for one in strangers[::2]:
            one.sendall(b"GET / HTTP/1.1\r\nX: ")
        assert ask(server, "/").status == 200
        time.sleep(PATIENCE_SECONDS)
        assert [ask(server, "/").status for _ in range(3)] == [200] * 3
        strangers[0].settimeout(20)
        assert strangers[0].recv(1) == b""  # the one that has waited longest
    finally:
        for one in strangers:
            one.close()


@pytest.mark.parametrize("cookie", ["\\" * 15_000, '"' + "\\0" * 5_000, "a=b;" * 3_000, "=" * 15_000])
def test_a_cookie_takes_no_longer_than_it_is_long(cookie, server):
    began = time.process_time()
    assert not server.guard.has_cookie(f"{server.guard.cookie}={cookie * 5}")
    assert ask(server, "/", token=False, Cookie=f"{server.guard.cookie}={cookie}").status == 403
    assert time.process_time() - began < 2
    sent = f"{cookie}; {server.guard.cookie}={server.guard.token}"
    assert server.guard.has_cookie(sent)


def test_the_token_is_looked_for_before_anything_else(server):
    """Whatever else is wrong with the request of a stranger, the answer is the same."""
    for head in (b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xff\r\n\r\n", b"GET http://[ HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.guard.port), timeout=20) as connection:
            connection.sendall(head)
            answer = connection.makefile("rb").read()
        assert b" 403 " in answer.split(b"\r\n")[0]


def test_heads_are_bounded(server):
    with socket.create_connection(("127.0.0.1", server.guard.port), timeout=20) as connection:
        try:
            connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * (1 << 20))
            answer = connection.recv(1)
        except OSError:  # it is closed while more is sent
            answer = b""
    assert answer == b""
    cookie = f"{server.guard.cookie}={server.guard.token}"
    assert ask(server, "/", token=False, Cookie=f"{'a=b; ' * 2_000}{cookie}").status == 200


def test_a_page_that_is_kept_up_to_date_looks_at_its_own_job_only(server, monkeypatch):
    submit(FRAUD, 7)
    monkeypatch.setattr(shown_run, "list_jobs", lambda: pytest.fail("all jobs are listed"))
    monkeypatch.setattr(shown_run, "_runs_of", lambda store: pytest.fail("the store is read"))
    assert find_run(RUN, "store") is not None


@pytest.mark.slow
def test_a_version_of_a_store_is_read_once(tmp_path, monkeypatch):
    store = str(tmp_path / "store")
    _, plan = submit(example("word-count"), 5, "FINISHED")
    opened = []

    def noted(*given):
        opened.append(given)
        return open_plan(*given)

    monkeypatch.setattr(shown_run, "open_plan", noted)
    for number in range(9, 12):
        tables = {**plan, **state_of(plan, f"{number:032x}", "FINISHED", {1: "FINISHED"})}
        write_version(DeltaRsTables(store), tables, planner_version="1", options={"run": str(number)})
        assert len([one for one in list_runs(store) if isinstance(one, shown_run.StoredRun)]) == number - 8
    assert [version for _, version in opened] == [1, 2, 3]


def test_a_port_that_is_taken_is_said(server, capsys):
    with pytest.raises(SystemExit) as end:
        app(["ui", "--port", str(server.guard.port)], prog_name="penstock")
    assert end.value.code == 2
    assert "choose another" in capsys.readouterr().err


def test_a_stream_is_shown_with_its_batches(server, tmp_path):
    folder = tmp_path / "state <b>"
    recorded = stream(folder, 1, 2)
    listed = ask(server, "/")
    (link,) = re.findall(r'href="(/streams/[0-9a-f]{32})"', listed.text)
    assert escape(str(folder)) in listed.text
    assert str(folder) not in listed.text
    recorded.begin(2, "0f3a")
    recorded.fail("job failed in operator '<i>Total'")
    page = ask(server, link)
    assert page.status == 200
    shown = re.sub(r"<[^>]+>", "|", page.text)
    assert "job failed in operator &#39;&lt;i&gt;Total&#39;" in page.text
    assert ">FAILED<" in page.text
    for text in ("2024-05-01T10:00:00.000Z", "1.5 s", "1.3 KiB", "300 B", "addBatch 0.1 s", "0f3a", "clicks"):
        assert text in shown
    assert shown.index("|1|") < shown.index("|0|")  # the newest batch first
    assert ask(server, f"/streams/{'f' * 32}").status == 404
    assert ask(server, link, token=False).status == 403
