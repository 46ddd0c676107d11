"""Several machines: which this one is, how they find each other, what they must agree in."""

import dataclasses
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchrack.distributed import key
from benchrack.distributed.key import Key
from benchrack.errors import NodeError
from benchrack.nodes import joining, nodes
from benchrack.nodes.joining import Meeting
from benchrack.nodes.link import Line
from benchrack.nodes.messages import Greeting
from benchrack.nodes.nodes import Nodes, asked, difference, first_host
from benchrack.vocabulary.progress import silent

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


KEY = Key(b"0123456789abcdef")


@pytest.fixture
def endpoint():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def meeting(port, rank, count=2, *, limit_s=10.0, key=KEY, host="127.0.0.1", progress=silent):
    here = Nodes(count=count, rank=rank, host=host, port=port)
    return Meeting(nodes=here, key=key, limit_s=limit_s, silence_limit_s=5.0, progress=progress)


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
    assert [one.lines[0].receive(5) for one in others] == [{"hello": 1}] * 2
    for one in others:
        one.tell({"from": one.nodes.rank})
    assert [c.receive(5)["from"] for c in first.lines] == [1, 2]
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
        first.lines[0].receive(5)


def test_a_node_that_is_killed_is_noticed(linked):
    first, second, _ = linked
    second.lines[0]._connection.close()
    with pytest.raises(NodeError, match="ended without a word"):
        first.lines[0].receive(5)
    assert first.lines[0].pending
    assert not first.lines[1].pending


def test_a_silent_node_is_waited_for_no_longer_than_said(linked):
    with pytest.raises(NodeError, match=r"gave no answer for 0\.01 s"):
        linked[0].lines[0].receive(0.01)


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
    with pytest.raises(NodeError, match="can't be resolved here"):
        meeting(endpoint, 1, host="no-such-host.invalid").join()


def test_a_port_in_use_is_said(endpoint):
    with socket.create_server(("", endpoint)):
        (error,) = meet(meeting(endpoint, 0))
    assert f"can't listen at port {endpoint}: Address already in use" in str(error)


def test_other_software_is_refused_on_both_sides(endpoint, monkeypatch):
    versions = {"benchrack": "0.1", "torch": "2.7.1"}
    real = Line.send

    def send(line, message):
        """The node that comes says another version than node 0 has."""
        if isinstance(message, Greeting):
            other = {**versions, "benchrack": "0.2"}
            message = dataclasses.replace(message, software=other)
        real(line, message)

    monkeypatch.setattr(Line, "send", send)
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


def test_a_node_that_was_started_anew_takes_its_place(endpoint):
    with ThreadPoolExecutor(3) as threads:
        host = threads.submit(meeting(endpoint, 0, 3).join)
        first = Line(meeting(endpoint, 1, 3)._found(KEY), "node 0", 5.0)
        first.send(Greeting(rank=1, count=3, software=nodes.software()))
        first.close()
        later = [threads.submit(meeting(endpoint, rank, 3).join) for rank in (1, 2)]
        part([joined.result() for joined in (host, *later)])


# --- who may come -----------------------------------------------------------------------------


def test_another_key_is_said_at_once_and_the_others_still_meet(endpoint):
    with ThreadPoolExecutor(2) as threads:
        host = threads.submit(meeting(endpoint, 0).join)
        with pytest.raises(NodeError, match="has another key than this node: the machines") as said:
            meeting(endpoint, 1, key=Key(b"another key, as long")).join()
        assert "another key, as" not in str(said.value)
        guest = threads.submit(meeting(endpoint, 1).join)
        part([host.result(), guest.result()])


def test_strangers_neither_delay_nor_end_the_meeting(endpoint):
    """Port scanners, browsers, and whoever is curious: as many as there are."""
    words = [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x7f\xff\xff\xff", bytes(300)]
    said = []
    with ThreadPoolExecutor(2) as threads:
        host = threads.submit(meeting(endpoint, 0, progress=said.append).join)
        Line(meeting(endpoint, 1)._found(KEY), "node 0", 5.0).close()  # it listens
        strangers = [socket.create_connection(("127.0.0.1", endpoint)) for _ in range(20)]
        for number, stranger in enumerate(strangers):
            stranger.sendall(words[number % len(words)])
        guest = threads.submit(meeting(endpoint, 1, limit_s=5.0).join)
        links = [host.result(), guest.result()]
    for stranger in strangers:
        stranger.close()
    links[0].tell("measure")
    assert links[1].lines[0].receive(5) == "measure"
    assert set(said) == {"waiting for node 1 of 2"}
    part(links)


def test_nobody_listens_once_all_have_come(linked, endpoint):
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", endpoint))
    linked[0].tell("still here")
    assert [one.lines[0].receive(5) for one in linked[1:]] == ["still here"] * 2


def test_on_one_machine_no_key_is_needed(endpoint, monkeypatch, tmp_path):
    monkeypatch.setattr(key, "PLACE", tmp_path)
    links = meet(*(meeting(endpoint, rank, key=None) for rank in range(2)))
    assert [link.local_address for link in links] == ["127.0.0.1"] * 2
    part(links)


def test_a_node_without_a_key_goes_to_no_other_machine(endpoint):
    with pytest.raises(
        NodeError, match=r"no key to show at node01:.* in BENCHRACK_KEY or .*openssl rand"
    ):
        meeting(endpoint, 1, key=None, host="node01").join()


@pytest.mark.parametrize(
    ("host", "key", "address"),
    [
        ("node01", None, "127.0.0.1"),
        ("localhost", None, "127.0.0.1"),
        ("127.0.0.1", None, "127.0.0.1"),
        ("node01", KEY, "0.0.0.0"),
        ("127.0.0.1", KEY, "127.0.0.1"),
    ],
)
def test_without_a_key_node_0_listens_on_loopback_alone_and_says_so(endpoint, host, key, address):
    said = []
    with meeting(endpoint, 0, key=key, host=host, progress=said.append)._server() as server:
        assert server.getsockname()[:2] == (address, endpoint)
    warned = [words for words in said if words.startswith("warning: no other machine can come")]
    assert bool(warned) is (host == "node01" and key is None)


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("127.0.0.2", True),
        ("::1", True),
        ("node01", False),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
    ],
)
def test_an_endpoint_on_loopback_is_this_machine(host, local):
    assert Nodes(count=2, rank=0, host=host).local is local


# --- where they listen ------------------------------------------------------------------------


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
