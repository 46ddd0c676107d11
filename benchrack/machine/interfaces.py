"""This machine's network interfaces, by the addresses that they have."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path


def interface_of(address: str, root: Path = Path("/")) -> str | None:
    """The network interface that has an address, IPv4 or IPv6; None where none has it."""
    if ":" in address:
        return _interface_of_6(address, root)
    import fcntl
    import struct

    siocgifaddr = 0x8915
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(asking.fileno(), siocgifaddr, request)
            except OSError:  # no address on this one
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None


def _interface_of_6(address: str, root: Path) -> str | None:
    """By the kernel's table: a line an address, of 32 hex digits first and the interface last."""
    bare, _, scope = address.partition("%")  # `fe80::1%eth0` says it itself
    wanted = socket.inet_pton(socket.AF_INET6, bare).hex()
    with suppress(OSError):  # a kernel without IPv6
        for line in (root / "proc/net/if_inet6").read_text().splitlines():
            digits, *_, name = line.split()
            if digits == wanted and scope in ("", name):
                return name
    return None
