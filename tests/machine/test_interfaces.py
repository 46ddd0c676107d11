"""Which network interface has an address."""

from benchrack.machine.interfaces import interface_of


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
