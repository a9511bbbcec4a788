"""Neighbours that hear each other: real processes, real TLS, on loopback."""

import threading
import time

import pytest

from ppadmm.errors import InputError
from ppadmm.peers.link_settings import LinkSettings
from ppadmm.peers.zenoh.configuration import direct_configuration, key_of, router_configuration
from ppadmm.peers.zenoh.router import Router
from ppadmm.peers.zenoh.session import ask_for_history
from ppadmm.peers.zenoh.transport import ZenohTransport
from tests.peers.sites import HERE, free_ports, until
from tests.peers.zenoh import links, peer_process
from tests.peers.zenoh.links import CAP, RUN, dialler, listener, plain, ring_links

pytest.importorskip("zenoh", reason="eclipse-zenoh (extra peer) is not installed")

study = pytest.fixture(scope="module")(links.new_study)
alpha = pytest.fixture(scope="module")(links.site_alpha)
beta = pytest.fixture(scope="module")(links.site_beta)
processes = pytest.fixture(links.process_maker)
opened = pytest.fixture(links.transport_maker)


def test_five_peers_in_a_ring_hear_every_round_and_one_that_is_killed_comes_back(study, processes):
    links = ring_links(study)
    peers = [processes() for _ in links]
    for peer, link in zip(peers, links, strict=True):
        peer.do("start", link=plain(link))
    for peer in peers:
        peer.ask("ring", rounds=50, d=58)
    assert [peer.answer() for peer in peers] == [{"answer": {"rounds": 50}}] * len(peers)
    peers[2].kill()
    peers[2] = processes()
    peers[2].do("start", link=plain(links[2]))
    got = set()
    until(lambda: got.add(tuple(peers[2].do("receive", timeout=10))) or len(got) == 4)
    assert got == {(j, peer_process.message(j, t, 58).hex()) for j in (1, 3) for t in (48, 49)}
    for peer in peers:
        peer.ask("ring", rounds=60, d=58, begin=50)
    assert [peer.answer()["answer"]["rounds"] for peer in peers] == [60] * len(peers)


def test_history_is_handed_on_even_after_later_messages(alpha, beta, opened):
    """Zenoh's own history drops what is older than the last message; a round is then lost."""
    to = listener(alpha)
    server, client = opened(to), opened(dialler(beta, to))
    until(lambda: client.status().neighbours[0].connected)
    for text in (b"1", b"2", b"3"):
        server.publish(text)
    assert [client.receive(10) for _ in range(3)] == [(0, b"1"), (0, b"2"), (0, b"3")]
    inner, again = client._transport, []
    session = inner._lines[0]._session

    def take(sample):
        inner._inbox.put(0, len(sample.payload), sample.payload.to_bytes)

    ask_for_history(session, key_of(RUN, 0) + "/@adv/**", take)
    until(lambda: again.append(inner.receive(1)) or len(again) == 2)
    assert set(again) == {(0, b"2"), (0, b"3")}


def test_both_sides_may_dial(alpha, beta, opened):
    ports = [f"tls/{HERE}:{port}" for port in free_ports(2)]
    ends = [
        opened(LinkSettings(RUN, 0, {1: "beta"}, alpha, CAP, (ports[0],), (ports[1],))),
        opened(LinkSettings(RUN, 1, {0: "alpha"}, beta, CAP, (ports[1],), (ports[0],))),
    ]
    for k in range(20):
        for end in ends:
            end.publish(b"%d" % k)
        assert [end.receive(10) for end in ends] == [(1, b"%d" % k), (0, b"%d" % k)]
    assert [end.receive(0.2) for end in ends] == [None, None]


def test_two_sites_that_only_dial_out_meet_at_a_router(study, alpha, beta, opened):
    endpoint = f"tls/{HERE}:{free_ports(1)[0]}"
    router = study.site("router")
    ends = [
        opened(
            LinkSettings(RUN, 0, {}, alpha, CAP, relayed={1: "beta"}, router=("router", endpoint))
        ),
        opened(
            LinkSettings(RUN, 1, {}, beta, CAP, relayed={0: "alpha"}, router=("router", endpoint))
        ),
    ]
    for text in (b"1", b"2", b"3"):
        ends[0].publish(text)
    assert ends[1].receive(0.3) is None
    configuration = router_configuration(
        RUN, {0: "alpha", 1: "beta", 2: "gamma"}, [(0, 1), (1, 2)], (endpoint,), router, CAP
    )
    with Router(configuration, ["alpha", "beta", "gamma"]) as hub:
        assert [ends[1].receive(10), ends[1].receive(10)] == [(0, b"2"), (0, b"3")]
        ends[1].publish(b"4")
        assert ends[0].receive(10) == (1, b"4")
        assert hub.members() == ("alpha", "beta")
        _gamma_at_the_router(study, ends, endpoint, hub)
    until(lambda: not ends[0].status().neighbours[1].connected)
    ends[0].publish(b"5")
    with Router(configuration, ["alpha", "beta", "gamma"]):
        assert ends[1].receive(20) == (0, b"5")


def _gamma_at_the_router(study, ends, endpoint, hub):
    """Gamma is a member, but alpha's messages are not for it, and beta's key is not its own."""
    import zenoh

    from ppadmm.peers.zenoh.configuration import relayed_configuration
    from ppadmm.peers.zenoh.session import open_session

    link = LinkSettings(
        RUN, 2, {}, study.site("gamma"), CAP, relayed={1: "beta"}, router=("router", endpoint)
    )
    configuration = {**relayed_configuration(link), "access_control": {"enabled": False}}
    session, got = open_session(configuration), []
    callback = zenoh.handlers.Callback(got.append, indirect=False)
    kept = [session.declare_subscriber("ppadmm/**", callback, allowed_origin=zenoh.Locality.REMOTE)]
    kept.append(session.declare_subscriber(key_of(RUN, 0), callback))
    session.put(key_of(RUN, 1), b"forged")
    ends[0].publish(b"not for gamma")
    assert ends[1].receive(10) == (0, b"not for gamma")
    time.sleep(0.3)
    assert "gamma" in hub.members()
    session.close()
    assert ends[0].receive(0.2) is None
    assert not [sample for sample in got if bytes(sample.payload) == b"not for gamma"]


def test_a_port_that_is_taken_is_named(alpha, opened):
    to = listener(alpha)
    opened(to)
    with pytest.raises(InputError, match=f"cannot be opened .{to.listen[0]}"):
        opened(to)


def test_a_transport_is_started_once_and_closed_twice(alpha, opened):
    end = opened(listener(alpha))
    with pytest.raises(InputError, match="started already"):
        end.start()
    end.close()
    end.close()
    with pytest.raises(InputError, match="not open"):
        end.publish(b"x")


def test_closing_does_not_wait_for_a_router_that_never_answers(alpha):
    router = ("router", f"tls/{HERE}:{free_ports(1)[0]}")
    end = ZenohTransport(LinkSettings(RUN, 0, {}, alpha, CAP, relayed={1: "beta"}, router=router))
    before = threading.active_count()
    end.start()
    end.publish(b"x")
    end.close()
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"credentials": None}, "only loopback is allowed"),
        ({"listen": ("tcp/127.0.0.1:1",)}, "Expected an endpoint like tls/"),
        ({"neighbours": {0: "alpha"}}, "other than 0"),
        ({"neighbours": {}}, "other than 0"),
        ({"relayed": {2: "x"}}, "Name the router"),
        ({"cap": 0}, "cap of a message"),
    ],
)
def test_a_seat_that_makes_no_sense_is_refused(changes, words, alpha):
    values = {"neighbours": {1: "beta"}, "credentials": alpha, "cap": CAP}
    values = {**values, "listen": ("tls/h:1",), **changes}
    with pytest.raises(InputError, match=words):
        LinkSettings(RUN, 0, **values)


def test_the_configuration_searches_for_nobody_and_denies_by_default(alpha):
    found = direct_configuration(listener(alpha))
    assert found["scouting"] == {"multicast": {"enabled": False}, "gossip": {"enabled": False}}
    assert found["access_control"]["default_permission"] == "deny"
    assert found["transport"]["shared_memory"] == {"enabled": False}
    assert found["transport"]["link"]["protocols"] == ["tls"]
    tls = found["transport"]["link"]["tls"]
    assert tls["enable_mtls"] is tls["verify_name_on_connect"] is True
    names = [subject["cert_common_names"] for subject in found["access_control"]["subjects"]]
    assert names == [["beta"]]
