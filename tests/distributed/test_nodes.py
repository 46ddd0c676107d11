"""Several machines: which this one is, how they find each other, what they must agree in."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchrack.distributed import joining, link, nodes
from benchrack.distributed.joining import Meeting, interface_of
from benchrack.distributed.nodes import Nodes, asked, difference, first_host
from benchrack.errors import NodeError

SRUN = {
    "SLURM_STEP_ID": "0",
    "SLURM_NNODES": "2",
    "SLURM_NODEID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_JOB_NODELIST": "gpu[03-04]",
}


# --- options ----------------------------------------------------------------------------------


def test_one_machine_needs_no_option():
    assert asked(None, None, None, {}) is None
    assert asked("1", None, None, {}) is None


def test_options_say_which_node_this_is():
    found = asked("2", "1", "10.0.0.1:5000", {})
    assert found == Nodes(count=2, rank=1, host="10.0.0.1", port=5000)


@pytest.mark.parametrize(
    ("endpoint", "host", "port"),
    [
        ("node01", "node01", 29400),
        ("node01:29500", "node01", 29500),
        ("[fe80::1]:29500", "fe80::1", 29500),
        ("[fe80::1]", "fe80::1", 29400),
    ],
)
def test_an_endpoint_may_leave_out_its_port(endpoint, host, port):
    found = asked("2", "0", endpoint, {})
    assert (found.host, found.port) == (host, port)
    assert asked("2", "0", found.endpoint, {}) == found


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("2", None, "a:1"), "--node-rank is missing"),
        ((None, "0", "a:1"), "--nnodes is missing"),
        (("2", "0", None), "needs --rdzv-endpoint=HOST:PORT"),
        (("two", "0", "a:1"), "--nnodes=two: expected a whole number"),
        (("0", "0", "a:1"), "--nnodes=0: expected a whole number"),
        (("2", "-1", "a:1"), "--node-rank=-1: expected a whole number"),
        (("2", "2", "a:1"), "the ranks are 0 to 1"),
        (("2", "0", "a:99999"), "expected HOST:PORT"),
        (("2", "0", "a:b:c"), "expected HOST:PORT"),
        (("2", "0", ""), "expected HOST:PORT"),
    ],
)
def test_what_does_not_fit_is_said(given, words):
    with pytest.raises(NodeError, match=words):
        asked(*given, {})


def test_srun_says_it_all():
    assert asked(None, None, None, SRUN) == Nodes(count=2, rank=1, host="gpu03")


def test_options_go_before_slurm():
    assert asked(None, None, "ib-gpu03:5000", SRUN).endpoint == "ib-gpu03:5000"
    assert asked("1", None, None, SRUN) is None


def test_a_step_on_some_nodes_of_a_job_is_what_counts():
    step = SRUN | {"SLURM_STEP_NUM_NODES": "3", "SLURM_STEP_NODELIST": "gpu[07,09-10]"}
    assert asked(None, None, None, step | {"SLURM_NNODES": "8"}).count == 3
    assert asked(None, None, None, step).host == "gpu07"


def test_a_batch_script_itself_is_one_process():
    script = {name: value for name, value in SRUN.items() if name != "SLURM_STEP_ID"}
    assert asked(None, None, None, script) is None


def test_srun_with_several_tasks_a_node_is_refused():
    with pytest.raises(NodeError, match="--ntasks-per-node=1"):
        asked(None, None, None, SRUN | {"SLURM_LOCALID": "1"})


@pytest.mark.parametrize(
    ("names", "first"),
    [
        ("gpu03", "gpu03"),
        ("gpu03,gpu04", "gpu03"),
        ("gpu[03-05,9],login", "gpu03"),
        ("gpu[9,11]", "gpu9"),
        ("rack[1-2]-node,other", "rack1-node"),
    ],
)
def test_the_first_host_of_slurms_list(names, first):
    assert first_host(names) == first


# --- what they agree in -----------------------------------------------------------------------


def test_the_first_difference_is_named_with_both_sides():
    mine = {"settings": {"seed": 0, "time_limit_s": 3}, "cases": ["a", "b"], "own": {"capacity": 1}}
    assert difference(mine, {**mine, "own": {"capacity": 4}}, "node 1") is None
    other = difference(mine, {**mine, "settings": {"seed": 0, "time_limit_s": 9}}, "node 1")
    assert "settings time_limit_s: 3 on node 0, 9 on node 1" in other
    other = difference(mine, {**mine, "cases": ["a"]}, "node 1")
    assert "cases: 2 on node 0, 1 on node 1; the first that differ are 'b' and 'none'" in other


# --- how they meet ----------------------------------------------------------------------------


@pytest.fixture
def endpoint():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def meeting(port, rank, count=2, limit_s=10.0):
    here = Nodes(count=count, rank=rank, host="127.0.0.1", port=port)
    return Meeting(nodes=here, limit_s=limit_s, silence_limit_s=5.0)


def meet(*meetings):
    """The link of each, or its error."""

    def join(one):
        try:
            return one.join()
        except NodeError as error:
            return error

    with ThreadPoolExecutor(len(meetings)) as threads:
        return list(threads.map(join, meetings))


def part(links):
    """All leave at once, as at the end of a run."""
    with ThreadPoolExecutor(len(links)) as threads:
        list(threads.map(lambda one: one.leave("done"), links))


@pytest.fixture
def linked(endpoint):
    links = meet(*(meeting(endpoint, rank, 3) for rank in range(3)))
    yield links
    part(links)


def test_nodes_meet_whoever_comes_first(linked):
    first, *others = linked
    first.tell({"hello": 1})
    assert [one.connections[0].receive(5) for one in others] == [{"hello": 1}] * 2
    for one in others:
        one.tell({"from": one.nodes.rank})
    assert [c.receive(5)["from"] for c in first.connections] == [1, 2]
    assert first.local_address == "127.0.0.1"


def test_nodes_that_agree_know_each_others_devices(linked):
    with ThreadPoolExecutor(3) as threads:
        manifests = [{"sweep": "quick", "own": {"capacity": n + 1}} for n in range(3)]
        found = list(threads.map(lambda one, m: one.compare(m, 5), linked, manifests))
    assert found == [manifests] * 3


def test_what_node_0_found_is_known_to_all(linked):
    """Such as the cases that an earlier run has, whose file is on node 0 alone."""
    told = {"3": ["resumed", "has a valid record"]}
    with ThreadPoolExecutor(3) as threads:
        found = threads.map(lambda one: one.same({} if one.nodes.rank else told, 5), linked)
    assert list(found) == [told] * 3


def test_nodes_that_differ_all_hear_how(linked):
    def compare(one):
        with pytest.raises(NodeError) as caught:
            one.compare({"sweep": "full" if one.nodes.rank == 2 else "quick"}, 5)
        return str(caught.value)

    with ThreadPoolExecutor(3) as threads:
        words = set(threads.map(compare, linked))
    (only,) = words
    assert "sweep: quick on node 0, full on node 2 (127.0.0.1)" in only


def test_a_node_that_leaves_says_why(linked):
    first, second, _ = linked
    second.leave("unknown model 'nope'")
    with pytest.raises(NodeError, match=r"node 1 .* has left the run: unknown model 'nope'"):
        first.connections[0].receive(5)


def test_a_node_that_is_killed_is_noticed(linked):
    first, second, _ = linked
    second.connections[0]._socket.close()
    with pytest.raises(NodeError, match="ended without a word"):
        first.connections[0].receive(5)
    assert not first.connections[0].open
    assert first.connections[1].open


def test_a_silent_node_is_waited_for_no_longer_than_said(linked):
    with pytest.raises(NodeError, match=r"gave no answer for 0\.01 s"):
        linked[0].connections[0].receive(0.01)


def test_who_does_not_come_is_named_on_every_node(endpoint):
    here, there = meet(meeting(endpoint, 0, 3, limit_s=1.0), meeting(endpoint, 1, 3, limit_s=1.0))
    assert "node 2 of 3 did not come" in str(here)
    assert "within 1 s" in str(here)
    assert str(there) == str(here)


def test_without_node_0_the_others_say_what_to_do(endpoint):
    (error,) = meet(meeting(endpoint, 1, limit_s=0.3))
    assert "node 0 could not be reached at 127.0.0.1" in str(error)
    assert "--node-rank=0" in str(error)


def test_a_name_that_nobody_knows_is_said_at_once(endpoint):
    here = Nodes(count=2, rank=1, host="no-such-host.invalid", port=endpoint)
    with pytest.raises(NodeError, match="can't be resolved here"):
        Meeting(nodes=here, limit_s=60, silence_limit_s=5).join()


def test_a_port_in_use_is_said(endpoint):
    with socket.create_server(("", endpoint)):
        (error,) = meet(meeting(endpoint, 0))
    assert f"can't listen at port {endpoint}: Address already in use" in str(error)


def test_other_software_is_refused_on_both_sides(endpoint, monkeypatch):
    versions = {"benchrack": "0.1", "torch": "2.7.1"}
    real = link.Connection.send

    def send(connection, message):
        """The node that comes says another version than node 0 has."""
        if "software" in message:
            message = {**message, "software": {**versions, "benchrack": "0.2"}}
        real(connection, message)

    monkeypatch.setattr(link.Connection, "send", send)
    monkeypatch.setattr(joining, "software", lambda: versions)
    here, there = meet(meeting(endpoint, 0), meeting(endpoint, 1))
    assert "version of benchrack: 0.1 on node 0, 0.2 on node 1" in str(here)
    assert str(there) == str(here)


def test_a_rank_that_comes_twice_is_refused(endpoint):
    errors = meet(*(meeting(endpoint, rank, 3) for rank in (0, 1, 1)))
    assert all("each machine has its own --node-rank" in str(error) for error in errors)


def test_other_numbers_of_nodes_are_refused(endpoint):
    here, there = meet(meeting(endpoint, 0, 3), meeting(endpoint, 1, 2))
    assert "node 1 (127.0.0.1) has --nnodes=2, node 0 has --nnodes=3" in str(here)
    assert str(there) == str(here)


def test_a_stranger_is_shown_the_door(endpoint):
    """A port scanner, or a browser, harms nobody."""
    with ThreadPoolExecutor(2) as threads:
        host = threads.submit(meeting(endpoint, 0).join)
        stranger = meeting(endpoint, 1)._connected()
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert stranger.recv(1) == b""
        stranger.close()
        guest = threads.submit(meeting(endpoint, 1).join)
        part([host.result(), guest.result()])


def test_a_node_that_was_started_anew_takes_its_place(endpoint):
    with ThreadPoolExecutor(3) as threads:
        host = threads.submit(meeting(endpoint, 0, 3).join)
        first = meeting(endpoint, 1, 3)._connected()
        software = nodes.software()
        first.sendall(
            link.json.dumps({"node": 1, "nodes": 3, "software": software}).encode() + b"\n"
        )
        first.close()
        later = [threads.submit(meeting(endpoint, rank, 3).join) for rank in (1, 2)]
        part([joined.result() for joined in (host, *later)])


def test_the_interface_of_an_address():
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.1") is None


def test_the_interface_of_an_ipv6_address(tmp_path):
    """As the kernel lists them; a link-local address may be on every interface."""
    table = tmp_path / "proc/net/if_inet6"
    table.parent.mkdir(parents=True)
    table.write_text(
        "00000000000000000000000000000001 01 80 10 80       lo\n"
        "fe800000000000000000000000000001 02 40 20 80     eth0\n"
        "fe800000000000000000000000000001 03 40 20 80      ib0\n"
    )
    assert interface_of("::1", tmp_path) == "lo"
    assert interface_of("fe80::1", tmp_path) == "eth0"
    assert interface_of("fe80::1%ib0", tmp_path) == "ib0"
    assert interface_of("2001:db8::1", tmp_path) is None
    assert interface_of("::1", tmp_path / "none") is None


@pytest.mark.parametrize(
    ("known", "family"),
    [
        ([socket.AF_INET6], socket.AF_INET6),
        ([socket.AF_INET6, socket.AF_INET], socket.AF_INET),
        ([socket.AF_INET], socket.AF_INET),
        ([], socket.AF_INET),
    ],
)
def test_a_name_with_an_ipv6_address_alone_is_listened_for_there(monkeypatch, known, family):
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: [(each, 0, 0, "", ()) for each in known]
    )
    assert joining._family("node01") == family


def test_a_name_that_node_0_does_not_know_is_listened_for_all_the_same():
    assert joining._family("no-such-host.invalid") == socket.AF_INET
