"""Which addresses may be connected to where private networks are not allowed. Knows no network."""

import ipaddress

# Addresses in which others are written: what is behind them is decided by who translates them.
_DISGUISES = tuple(
    (ipaddress.IPv6Network(network), what)
    for network, what in (
        ("::ffff:0:0/96", "an IPv4 address written as IPv6"),
        ("::/96", "an IPv4 address written as IPv6"),
        ("2002::/16", "a 6to4 address"),
        ("2001::/32", "a Teredo address"),
        ("64:ff9b::/96", "a NAT64 address"),
        ("64:ff9b:1::/48", "a NAT64 address"),
    )
)


def refusal(address: str) -> str:
    """What is wrong with an address that a name was resolved to; empty if it may be connected to."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return "no address"
    if ip.is_unspecified:
        return "no address of a machine"
    if ip.is_loopback:
        return "this machine"
    if ip.is_link_local:
        return "a link-local address"
    if ip.is_multicast:
        return "a multicast address"
    if isinstance(ip, ipaddress.IPv6Address):
        for network, what in _DISGUISES:
            if ip in network:
                return what
        if ip.is_site_local:
            return "an address of a private network"
    return "" if ip.is_global else "an address of a private network"
