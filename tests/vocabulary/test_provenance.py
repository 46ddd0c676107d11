"""Facts of several sources: gathered, made flat, and the digest that tells machines apart."""

from __future__ import annotations

import json
import time
import types

import pytest
from fakes import nvml
from fakes.settings import make_settings

from benchrack import hookimpl
from benchrack.plugins.provenance import accelerators, call, cpu, host, software
from benchrack.records.run import Run, new_header
from benchrack.registry.registry import load_registry
from benchrack.vocabulary.devices import Device
from benchrack.vocabulary.provenance import (
    Provenance,
    flat,
    gather,
    hashed,
    machine_digest,
    without_passwords,
)

BUILT_IN = (cpu, host, accelerators, software, call)


def source(name, facts):
    return Provenance(name=name, summary="", gather=lambda: facts)


def built_in():
    return [source for module in BUILT_IN for source in module.benchrack_provenance()]


def test_topics_of_several_sources():
    assert gather([source("a", {"n": 1, "names": ("x", "y")}), source("b", {"w": 1.5})]) == {
        "a": {"n": 1, "names": ["x", "y"]},
        "b": {"w": 1.5},
    }


def test_a_source_that_breaks_does_not_stop_the_others():
    def broken():
        raise OSError("no such file")

    topics = gather([Provenance(name="bad", summary="", gather=broken), source("good", {"n": 1})])
    assert topics == {"bad": {"error": "OSError: no such file"}, "good": {"n": 1}}


@pytest.mark.parametrize("value", [{"nested": 1}, [[1]], object(), {1}])
def test_facts_are_scalars_and_lists_of_them(value):
    assert (
        "should be a JSON scalar or a list" in gather([source("a", {"fact": value})])["a"]["error"]
    )


def test_a_fact_that_is_no_number_is_null():
    facts = gather([source("a", {"x": float("nan"), "y": [1.0, float("inf")]})])["a"]
    assert facts == {"x": None, "y": [1.0, None]}


def test_flat_names_have_their_topic():
    topics = {"cpu": {"model": "Xeon", "sockets": 2}, "accelerators": {"name": ["Tesla P4"] * 4}}
    facts = flat(topics)
    assert facts["cpu_model"] == facts["cpu"] == "Xeon"
    assert facts["accelerators_name"] == facts["cards"] == ["Tesla P4"] * 4
    assert (facts["sockets"], facts["server"], facts["node"]) == (2, None, None)
    assert facts["machine"] == machine_digest(topics)


def machine(cards=("a1", "b2"), node="rack-1", model="Xeon", **other):
    return {
        "cpu": {"model": model, "sockets": 2, "cores": 40, "threads": 80},
        "host": {"node": node, "kernel": "6.1", **other},
        "accelerators": {"uuid_hash": list(cards)},
    }


def test_the_digest_stays_when_kernel_limits_and_name_change():
    """With cards, the name does not count: a container's is made anew with each start."""
    digest = machine_digest(machine())
    assert digest == machine_digest(machine(kernel="6.8", cgroup_cpus=4.0))
    assert digest == machine_digest(machine(node="3f2a91c0"))
    assert digest == machine_digest(machine(cards=("b2", "a1")))
    assert len(digest) == 12


def test_the_digest_changes_with_cards_and_cpu():
    digests = [
        machine_digest(m)
        for m in (
            machine(),
            machine(cards=["a1"]),
            machine(cards=("a1", "c3")),
            machine(model="EPYC"),
        )
    ]
    assert len(set(digests)) == 4


def test_without_cards_the_name_tells_machines_apart():
    first, second = (machine_digest(machine(cards=(), node=n)) for n in ("rack-1", "rack-2"))
    assert first != second


def test_the_digest_of_nothing_known_exists():
    assert machine_digest({}) == machine_digest({})


def test_identities_are_hashed():
    assert hashed("GPU-1") == hashed("GPU-1") != hashed("GPU-2")
    assert "GPU" not in hashed("GPU-1")


def test_the_built_in_sources_give_json_quickly(fake_nvml):
    """Less than 150 ms on a machine without cards; here with four of the fake's."""
    fake_nvml(nvml.four_v100_sxm2())
    gather(built_in())  # files that are read for the first time
    started = time.perf_counter()
    topics = gather(built_in())
    assert time.perf_counter() - started < 0.15
    assert not [facts["error"] for facts in topics.values() if "error" in facts]
    assert json.loads(json.dumps(flat(topics))) == flat(topics)
    assert len(topics["accelerators"]["name"]) == 4


def test_hook_benchrack_provenance():
    registry = load_registry()
    assert {"cpu", "host", "accelerators", "software", "call"} <= set(registry.provenance)
    conftest = types.ModuleType("conftest")
    conftest.__file__ = "conftest.py"
    conftest.benchrack_provenance = hookimpl(lambda: [source("lab", {"rack": 7})])
    registry = load_registry(conftests=[conftest])
    assert gather(registry.provenance.values())["lab"] == {"rack": 7}


def test_a_lost_card_is_no_card_of_the_machine():
    """It tells neither name nor UUID; the others keep theirs."""
    topics = machine(cards=("a1", None)) | {}
    topics["accelerators"]["name"] = ["Tesla P4", None]
    facts = flat(topics)
    assert facts["cards"] == ["Tesla P4"]
    assert facts["accelerators_name"] == ["Tesla P4", None]
    assert facts["machine"] == machine_digest(machine(cards=["a1"]))


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        (
            "--storage=elasticsearch+https://me:secret@h:92/i",
            "--storage=elasticsearch+https://…@h:92/i",
        ),
        ("https://me:se/cr@et@host/i", "https://…@host/i"),
        ("https://token@host", "https://…@host"),
        ("https://host:9200/i", "https://host:9200/i"),
        ("--dataset=imagenet:/data/a@b", "--dataset=imagenet:/data/a@b"),
    ],
)
def test_passwords_in_addresses_are_not_kept(word, kept):
    assert without_passwords([word]) == (kept,)


def test_a_run_keeps_the_command_as_provenance_does(tmp_path):
    """In its journal and in its block of the JSON."""
    address = "elasticsearch+https://me:secret@host:9200/index"
    command = ("pytest", "-m", "inference", f"--benchmark-storage={address}")
    devices = [Device(kind="cpu")]
    run = Run.begin(tmp_path, new_header("quick", command, {}, make_settings(), devices))
    expected = call.gather({}, command)["command"]
    assert list(run.block()["command"]) == list(run.header.command) == expected
    assert "secret" not in run.journal.path.read_text()
    assert "host:9200" in run.journal.path.read_text()
