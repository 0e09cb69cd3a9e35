"""Which addresses are refused where private networks are not allowed."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.remote.addresses import refusal


@pytest.mark.parametrize(
    "address",
    ["93.184.216.34", "8.8.8.8", "172.15.0.1", "172.32.0.1", "2606:4700::1111", "2a00:1450:4001:80b::200e"],
)
def test_public_addresses_may_be_connected_to(address: str) -> None:
    assert refusal(address) == ""


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1", "this machine"),
        ("127.255.255.254", "this machine"),
        ("::1", "this machine"),
        ("0.0.0.0", "no address of a machine"),
        ("::", "no address of a machine"),
        ("0.1.2.3", "an address of a private network"),
        ("10.0.0.1", "an address of a private network"),
        ("172.16.0.1", "an address of a private network"),
        ("172.31.255.255", "an address of a private network"),
        ("192.168.1.1", "an address of a private network"),
        ("100.64.0.1", "an address of a private network"),
        ("198.18.0.1", "an address of a private network"),
        ("240.0.0.1", "an address of a private network"),
        ("255.255.255.255", "an address of a private network"),
        ("fd00::1", "an address of a private network"),
        ("fec0::1", "an address of a private network"),
        ("2001:db8::1", "an address of a private network"),
        ("169.254.169.254", "a link-local address"),
        ("fe80::1", "a link-local address"),
        ("fe80::1%eth0", "a link-local address"),
        ("224.0.0.1", "a multicast address"),
        ("239.255.255.250", "a multicast address"),
        ("ff02::1", "a multicast address"),
        ("::ffff:127.0.0.1", "an IPv4 address written as IPv6"),
        ("::ffff:8.8.8.8", "an IPv4 address written as IPv6"),
        ("::127.0.0.1", "an IPv4 address written as IPv6"),
        ("2002:7f00:1::", "a 6to4 address"),
        ("2002:808:808::1", "a 6to4 address"),
        ("2001:0:4136:e378::1", "a Teredo address"),
        ("64:ff9b::7f00:1", "a NAT64 address"),
        ("64:ff9b:1::a00:1", "a NAT64 address"),
        # Only the name service may take these for addresses; what it makes of them is looked at.
        ("2130706433", "no address"),
        ("0177.0.0.1", "no address"),
        ("0x7f.1", "no address"),
        ("127.1", "no address"),
        ("localhost", "no address"),
        ("", "no address"),
    ],
)
def test_others_may_not(address: str, why: str) -> None:
    assert refusal(address) == why


@given(st.ip_addresses(v=4))
def test_no_address_is_reached_in_disguise(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    for network in ("::", "::ffff:0:0", "64:ff9b::"):
        assert refusal(str(ipaddress.IPv6Address(int(ipaddress.IPv6Address(network)) + number)))
    assert refusal(str(ipaddress.IPv6Address((0x2002 << 112) + (number << 80))))


@given(st.ip_addresses())
def test_what_is_not_global_is_refused(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if not address.is_global or address.is_multicast:
        assert refusal(str(address))
