"""Which kind of cluster runs a job, and what is said of it."""

import json
import os
import stat

import pytest

from penstock.engine.commands.chosen_cluster import chosen_cluster, default_parallelism
from penstock.engine.configuration.load_configuration import load_configuration
from penstock.engine.machine.folders import STATE_DIR, home_folder, this_process
from penstock.engine.output.redaction import redact
from penstock.engine.run.clusters.cluster_submission import require_cluster_mode
from penstock.engine.run.clusters.session_folder import (
    CLUSTER_KINDS,
    ClusterOptions,
    Session,
    choose_cluster,
    describe_choice,
    find_session,
    folder_of_session,
    forget_latest,
    latest_session,
    list_sessions,
    live_session,
    record_latest,
    remove_session,
    write_session,
    write_token,
)
from penstock.engine.run.clusters.start_session import session_request, stop_session
from penstock.engine.spark.start_jvm import _explain
from penstock.engine.spark.start_settings import start_settings
from penstock.plans.errors import ConfigurationError, MachineError

HOSTILE = ["<script>alert(1)</script>", '"; rm -rf ~', "..", ".", "a/../../b", "état %2F", "-m"]


@pytest.fixture(autouse=True)
def _state(tmp_path, monkeypatch):
    monkeypatch.setenv(STATE_DIR, str(tmp_path / "state"))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)  # the tests' own names a master


def recorded(name="mine", *, alive=True):
    owner = this_process() if alive else {**this_process(), "started": "1"}
    folder = folder_of_session(name)
    session = Session(name, "local[2]", 2, 2, "1g", 1, "127.0.0.1", owner, 0, "4.2.0", "python", folder)
    write_session(session)
    return session


def test_the_first_kind_that_is_active_wins():
    recorded()
    recorded("other")
    record_latest("mine")
    conf = {"spark.master": "spark://configured:1"}
    every = ClusterOptions("local[1]", "other", conf)
    chosen = [
        choose_cluster(every),
        choose_cluster(ClusterOptions(None, "other", conf)),
        choose_cluster(ClusterOptions(None, None, conf)),
        choose_cluster(ClusterOptions()),
    ]
    forget_latest("mine")
    chosen.append(choose_cluster(ClusterOptions()))
    assert [one.kind for one in chosen] == [kind.name for kind in CLUSTER_KINDS]
    found = [one.session.name if one.session else one.master for one in chosen]
    assert found == ["local[1]", "other", "spark://configured:1", "mine", None]


def test_every_kind_says_why_it_is_not_active():
    recorded(alive=False)
    record_latest("mine")
    cluster = choose_cluster(ClusterOptions())
    lines = describe_choice(cluster)
    assert [line.partition(":")[0] for line in lines] == [kind.name for kind in CLUSTER_KINDS]
    assert lines[-2].startswith("recorded session: no, the server of 'mine', process ")
    assert "has ended" in lines[-2]
    assert lines[-1] == "local: yes, no other kind is requested; jobs run on local"


def test_a_session_that_is_asked_for_in_vain():
    recorded(alive=False)
    with pytest.raises(ConfigurationError, match=r"session 'mine': its server, process \d+ .*has ended"):
        choose_cluster(ClusterOptions(session="mine"))
    with pytest.raises(ConfigurationError, match=r".none. does not exist\n  hint: penstock"):
        live_session("none")


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_sessions_stay_names(name, tmp_path):
    session = recorded(name)
    assert session.folder.parent == tmp_path / "state" / "sessions"
    assert find_session(name) == session
    record_latest(name)
    assert latest_session() == session
    assert [one.name for one in list_sessions()] == [name]


@pytest.mark.parametrize("name", ["", "x" * 61, "\ud800"])
def test_names_that_are_refused(name):
    with pytest.raises(ConfigurationError, match="name"):
        folder_of_session(name)


def test_only_this_user_reads_the_token():
    before = os.umask(0)
    try:
        folder = folder_of_session("mine")
        write_token(folder, "secret")
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_link_in_the_way_of_the_token_is_replaced(tmp_path):
    folder, elsewhere = folder_of_session("mine"), tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    (folder / "token").symlink_to(elsewhere)
    write_token(folder, "secret")
    assert elsewhere.read_text() == "untouched"


def test_a_dead_session_is_not_killed_but_removed():
    """Another process may have its number by now."""
    session = recorded(alive=False)
    record_latest("mine")
    assert stop_session(session) is False  # and this process lives
    assert find_session("mine") is None
    assert latest_session() is None


def test_a_session_of_another_machine_is_left_alone():
    session = recorded()
    write_session(Session(**{**vars(session), "owner": {**session.owner, "host": "elsewhere"}}))
    there = find_session("mine")
    assert there is not None
    with pytest.raises(ConfigurationError, match="cannot be seen here"):
        stop_session(there)
    with pytest.raises(ConfigurationError, match="cannot be seen from here"):
        live_session("mine")


@pytest.mark.parametrize(
    "change",
    [{"owner": {}}, {"owner": []}, {"slots": "many"}, {"port": None}, {"name": ["mine"]}, {"more": 1}],
    ids=str,
)
def test_a_damaged_record_is_none(change):
    session = recorded("whole")
    damaged = json.loads((session.folder / "session.json").read_text()) | change
    (folder_of_session("mine") / "session.json").write_text(json.dumps(damaged))
    (session.folder / "registered.json").write_text("{}")
    assert list_sessions() == [session]
    assert session.registered() == {"task_managers": 0, "slots": 0}


@pytest.mark.parametrize("found", [b"\xff", b"x" * 61, b""])
def test_a_damaged_record_of_the_latest_session_is_none(found):
    recorded()
    (folder_of_session("mine").parent / ".latest").write_bytes(found)
    assert latest_session() is None
    forget_latest("mine")


def test_a_user_whose_home_takes_no_folder(monkeypatch, tmp_path):
    monkeypatch.delenv(STATE_DIR)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    (tmp_path / "home").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert list_sessions() == []
    assert latest_session() is None
    with pytest.raises(MachineError, match=f"home/.local cannot be made: .*\n  hint: {STATE_DIR} names"):
        live_session("mine")


def test_a_user_without_an_account(monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 2)
    assert str(home_folder()) == "/"
    said = str(
        _explain(
            'Exception in thread "main" java.io.IOException: Invalid UID, could not determine '
            "effective user\n\tat org.apache.hadoop.security.UserGroupInformation"
        )
    )
    assert said.startswith("Spark's JVM did not start: the user id 2147483646 has no account")


def test_a_full_home_is_named_by_the_folder_that_jars_go_to(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    failed = 'Exception in thread "main" java.io.IOException: No space left on device\n\tat '
    of_ivy = _explain(failed + "org.apache.ivy.util.FileUtil.copy(FileUtil.java:172)")
    assert isinstance(of_ivy, MachineError)
    assert of_ivy.message == f"Spark cannot store its jars in {tmp_path}/.ivy2.5.2: No space left on device"
    assert str(of_ivy.hint).startswith("spark.jars.ivy names the folder; free some space")
    read_only = _explain(
        failed.replace("No space left on device", "Read-only file system")
        + "org.apache.ivy.util.F.f(F.java:1)"
    )
    assert read_only.hint == "spark.jars.ivy names the folder"
    other = _explain(failed + "java.io.FileOutputStream.write(FileOutputStream.java:1)")
    assert other.message == "Spark's JVM did not start: No space left on device"


def test_cluster_mode_needs_a_driver_on_the_cluster():
    conf = {"spark.submit.deployMode": "cluster"}
    with pytest.raises(ConfigurationError, match=r"deployMode must be client, .*, got cluster"):
        start_settings("yarn", conf, "penstock")
    recorded()
    record_latest("mine")
    with pytest.raises(
        ConfigurationError, match=r"cannot be used with session 'mine': a session has its driver already"
    ):
        require_cluster_mode(chosen_cluster(None, None, conf, verbose=False))


def test_a_session_has_a_secret_of_its_own_where_all_its_processes_get_it():
    """Spark makes it on local, YARN and Kubernetes, and takes one for a local-cluster."""

    def asked(master, **conf):
        settings = start_settings(master, {key.replace("_", "."): value for key, value in conf.items()}, "")
        return {key: value for key, value in settings.items() if key.startswith("spark.authenticate")}

    on = {"spark.authenticate": "true"}
    assert [asked(master) for master in (None, "local", "local[2]", "local[2,3]", "yarn", "k8s://h")] == [
        on
    ] * 6
    first, second = asked("local-cluster[2,1,1024]"), asked("local-cluster[2,1,1024]")
    secret = first.pop("spark.authenticate.secret")
    assert (first, len(secret)) == (on, 64)
    assert second["spark.authenticate.secret"] != secret
    assert redact(f"it was {secret}") == "it was *********(redacted)"
    others = (asked("spark://host:7077"), asked("yarn", spark_shuffle_service_enabled="true"))
    assert others == ({}, {})
    mine = {"spark.authenticate": "true", "spark.authenticate.secret": "hunter2"}
    for master in ("spark://host:7077", "local-cluster[2,1,1024]"):
        assert asked(master, spark_authenticate="true", spark_authenticate_secret="hunter2") == mine
    assert asked("local[2]", spark_authenticate="false") == {"spark.authenticate": "false"}


def test_the_default_parallelism_in_a_session_is_its_slots(tmp_path):
    recorded()
    record_latest("mine")
    cluster, nothing = chosen_cluster(None, None, {}, verbose=False), load_configuration([], {})
    assert default_parallelism(None, nothing, cluster) == 2
    assert default_parallelism(7, nothing, cluster) == 7
    configured = load_configuration([], {"parallelism.default": "3"})
    assert default_parallelism(None, configured, cluster) is None


def test_what_is_no_record_is_no_session():
    folder = folder_of_session("mine")
    (folder / "session.json").write_text('{"name": 1}')
    assert list_sessions() == []
    remove_session(folder)
    assert not (folder / "session.json").exists()


def request(**given):
    wanted = {"master": None, "slots": 4, "slots_per_task_manager": None, "task_manager_memory": None}
    return session_request("mine", conf={}, **{**wanted, **given})


def test_slots_become_task_managers():
    local = request(task_manager_memory="2g")
    assert (local.master, local.slots_per_task_manager) == ("local[4]", 4)
    assert local.conf == {"spark.driver.memory": "2048m"}
    cluster = request(master="spark://host:7077", slots_per_task_manager=2, task_manager_memory="1728 mb")
    assert cluster.conf == {
        "spark.cores.max": "4",
        "spark.executor.cores": "2",
        "spark.executor.instances": "2",
        "spark.executor.memory": "1728m",
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"master": "local[3]"}, r"--slots 4 and --master local\[3\] contradict each other"),
        (
            {"master": "spark://h:1", "slots_per_task_manager": 3},
            "multiple of .*, which is 3; got 4\n  hint: request 6",
        ),
        ({"task_manager_memory": "much"}, "--task-manager-memory much: does not start with a number"),
    ],
)
def test_sessions_that_cannot_be(given, said):
    with pytest.raises(ConfigurationError, match=said):
        request(**given)
