"""Zenoh's configuration for a link or a router: mutual TLS, explicit links, everything else denied.

Agent i speaks on one key, `ppadmm/<run>/<i>/message`. From the certificate name of neighbour j
access control lets in what j says on its own key and j's wish to hear mine, and nothing else.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ppadmm.errors import InputError
from ppadmm.peers.link_settings import Credentials, LinkSettings, check_endpoint

FRAME = 4096
LEASE = 4000
RETRY = {"period_init_ms": 100, "period_max_ms": 2000, "period_increase_factor": 1.5}
MOST_LINKS = 1000
Allowed = Mapping[str, tuple[list[str], list[str]]]
"""Certificate name → (keys it speaks on, keys it may hear)."""


def key_of(run: bytes, agent: int) -> str:
    """Return the key on which an agent speaks."""
    return f"ppadmm/{run.hex()}/{agent}/message"


# Access control: everything that is not listed is denied


def _rules(who: str, speaks: list[str], hears: list[str]) -> list[dict[str, Any]]:
    """Allow the other side `who` to speak on `speaks` and to hear `hears`, and nothing else.

    Seen from here: its messages, answers and signs of life come in on `speaks`, mine go out on
    `hears`; its wishes come in for `hears`, mine go out for `speaks`.
    """
    saying = ["put", "reply", "declare_queryable", "liveliness_token"]
    asking = [
        "declare_subscriber",
        "query",
        "declare_liveliness_subscriber",
        "liveliness_query",
    ]
    return [
        _rule(f"{who} says", "ingress", saying, speaks),
        _rule(f"{who} asks", "ingress", asking, hears),
        _rule(f"to {who} I say", "egress", saying, hears),
        _rule(f"to {who} I ask", "egress", asking, speaks),
    ]


def _rule(name: str, flow: str, messages: list[str], keys: list[str]) -> dict[str, Any]:
    with_history = [pattern for key in keys for pattern in (key, f"{key}/@adv/**")]
    return {
        "id": name,
        "permission": "allow",
        "flows": [flow],
        "messages": messages,
        "key_exprs": with_history,
    }


def _control(allowed: Allowed, tls: bool) -> dict[str, Any]:
    """Return the section `access_control`."""
    rules, subjects, policies = [], [], []
    for name, (speaks, hears) in allowed.items():
        if not speaks or not hears:
            continue
        own = _rules(name, speaks, hears)
        rules += own
        subject = {"cert_common_names": [name]} if tls else {"link_protocols": ["tcp"]}
        subjects.append({"id": name, **subject})
        policies.append({"rules": [rule["id"] for rule in own], "subjects": [name]})
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    }


# Configuration


def _configuration(
    mode: str,
    listen: Iterable[str],
    connect: Iterable[str],
    credentials: Credentials | None,
    allowed: Allowed,
    cap: int,
) -> dict[str, Any]:
    """Return a whole Zenoh configuration: explicit endpoints, no search, caps, no shared memory."""
    return {
        "mode": mode,
        "listen": {"endpoints": list(listen), "exit_on_failure": True},
        "connect": {
            "endpoints": list(connect),
            "timeout_ms": 0 if mode == "client" else -1,
            "exit_on_failure": mode == "client",
            "retry": RETRY,
        },
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
        "open": {"return_conditions": {"connect_scouted": False, "declares": False}},
        "timestamping": {"enabled": False},
        "adminspace": {"enabled": False},
        "access_control": _control(allowed, credentials is not None),
        "transport": {
            "shared_memory": {"enabled": False},
            "unicast": {"max_sessions": MOST_LINKS, "max_links": 1, "accept_timeout": 5000},
            "link": {
                "protocols": ["tcp" if credentials is None else "tls"],
                "tx": {"lease": LEASE},
                "rx": {"max_message_size": cap + FRAME},
                **({} if credentials is None else {"tls": _tls(credentials)}),
            },
        },
    }


def _tls(credentials: Credentials) -> dict[str, Any]:
    key, certificate = str(credentials.key), str(credentials.certificate)
    return {
        "root_ca_certificate": str(credentials.authority),
        "listen_private_key": key,
        "listen_certificate": certificate,
        "connect_private_key": key,
        "connect_certificate": certificate,
        "enable_mtls": True,
        "verify_name_on_connect": True,
        "close_link_on_expiration": True,
    }


def _keys(run: bytes, agents: Iterable[int]) -> list[str]:
    return [key_of(run, agent) for agent in agents]


def direct_configuration(link: LinkSettings) -> dict[str, Any]:
    """Return the configuration of the session with the neighbours that have a direct link."""
    mine = _keys(link.run, [link.agent])
    allowed = {name: (_keys(link.run, [j]), mine) for j, name in link.neighbours.items()}
    if link.credentials is None:
        allowed = {"loopback": (_keys(link.run, link.neighbours), mine)}
    return _configuration("peer", link.listen, link.connect, link.credentials, allowed, link.cap)


def relayed_configuration(link: LinkSettings) -> dict[str, Any]:
    """Return the configuration of the session with the router."""
    if link.router is None:
        raise InputError(f"Agent {link.agent} has no router.")
    name, endpoint = link.router
    allowed = {name: (_keys(link.run, link.relayed), _keys(link.run, [link.agent]))}
    return _configuration("client", (), [endpoint], link.credentials, allowed, link.cap)


def router_configuration(
    run: bytes,
    members: Mapping[int, str],
    edges: Iterable[tuple[int, int]],
    listen: tuple[str, ...],
    credentials: Credentials,
    cap: int,
) -> dict[str, Any]:
    """Return a router's configuration: each member speaks for itself and hears its neighbours."""
    heard: dict[int, list[int]] = {}
    for i, j in edges:
        heard.setdefault(i, []).append(j)
        heard.setdefault(j, []).append(i)
    allowed = {name: (_keys(run, [i]), _keys(run, heard.get(i, ()))) for i, name in members.items()}
    for endpoint in listen:
        check_endpoint(endpoint, tls=True)
    return _configuration("router", listen, (), credentials, allowed, cap)
