"""Who must not get in, and what must not: real processes, real TLS, on loopback."""

import socket
from datetime import UTC, datetime, timedelta

import pytest

from ppadmm.errors import ProtocolError
from ppadmm.peers.link_settings import Credentials
from ppadmm.peers.zenoh.configuration import direct_configuration
from tests.peers.sites import HERE, until
from tests.peers.zenoh import links
from tests.peers.zenoh.links import CAP, RUN, Study, dialler, listener, plain

pytest.importorskip("zenoh", reason="eclipse-zenoh (extra peer) is not installed")

study = pytest.fixture(scope="module")(links.new_study)
alpha = pytest.fixture(scope="module")(links.site_alpha)
beta = pytest.fixture(scope="module")(links.site_beta)
processes = pytest.fixture(links.process_maker)
opened = pytest.fixture(links.transport_maker)


def intruder(case, study, other, alpha, to):
    """Return (name in its certificate, configuration) of one that must not get in."""
    past = datetime.now(UTC) - timedelta(days=400)
    files = {
        "expired": lambda: study.site("beta", now=past),
        "another authority": lambda: other.site("beta"),
        "another agent": lambda: study.site("gamma"),
        "no certificate": lambda: alpha,
    }[case]()
    trusting = Credentials(alpha.authority, files.certificate, files.key)
    configuration = direct_configuration(dialler(trusting, to))
    configuration["access_control"] = {"enabled": False}
    if case == "no certificate":
        tls = {"root_ca_certificate": str(alpha.authority), "enable_mtls": False}
        configuration["transport"]["link"]["tls"] = {**tls, "verify_name_on_connect": True}
    return configuration


REFUSALS = {
    "expired": "certificate expired",
    "another authority": "invalid peer certificate",
    "no certificate": "peer sent no certificates",
    "another agent": "refused 'gamma'",
}


@pytest.mark.parametrize("case", REFUSALS)
def test_intruders_deliver_and_learn_nothing_and_are_logged(
    case, study, alpha, beta, processes, tmp_path
):
    to = listener(alpha)
    victim, thief = processes(), processes()
    victim.do("start", link=plain(to))
    victim.do("publish", text=b"for beta only".hex())
    configuration = intruder(case, study, Study(tmp_path, "other"), alpha, to)
    found = thief.do("attack", configuration=configuration, run=RUN.hex(), victim=0, claims=1)
    assert found == {"links": 1 if case == "another agent" else 0, "got": 0}
    assert victim.do("receive", timeout=0.2) is None
    status = victim.do("status")
    assert status["neighbours"]["1"] == {
        "connected": False,
        "heard": None,
        "received": 0,
        "refused": 0,
    }
    assert status["strangers"] == (["gamma"] if case == "another agent" else [])
    assert REFUSALS[case] in "".join(victim.log)
    thief.do("start", link=plain(dialler(beta, to)))
    assert thief.do("receive", timeout=10) == [0, b"for beta only".hex()]


def test_what_the_intruders_try_works_for_the_neighbour_itself(alpha, beta, processes):
    """The attack is a real one: with the right certificate it gets and delivers everything."""
    to = listener(alpha)
    victim, friend = processes(), processes()
    victim.do("start", link=plain(to))
    victim.do("publish", text=b"for beta only".hex())
    configuration = direct_configuration(dialler(beta, to))
    configuration["access_control"] = {"enabled": False}
    found = friend.do("attack", configuration=configuration, run=RUN.hex(), victim=0, claims=1)
    assert found == {"links": 1, "got": 1}
    assert victim.do("receive", timeout=10) == [1, b"forged".hex()]
    assert victim.do("status")["strangers"] == []


def test_a_member_cannot_speak_for_another_member(study, alpha, beta, opened, processes):
    """Gamma is a neighbour too: it is heard on its own key and on no other."""
    gamma = study.site("gamma-two")
    to = listener(alpha, neighbours={1: "beta", 2: "gamma-two"})
    victim = opened(to)
    configuration = direct_configuration(dialler(gamma, to, agent=2))
    configuration["access_control"] = {"enabled": False}
    thief = processes()
    thief.do("attack", configuration=configuration, run=RUN.hex(), victim=0, claims=1)
    assert victim.receive(0.2) is None
    assert victim.status().neighbours[1].received == 0
    thief.do("start", link=plain(dialler(gamma, to, agent=2)))
    thief.do("publish", text=b"mine".hex())
    assert victim.receive(10) == (2, b"mine")


def test_a_server_with_a_certificate_for_another_address_gets_nothing(study, beta, opened):
    """Right authority, even the right name, wrong address: the side that dials refuses it."""
    elsewhere = listener(study.site("alpha", host="elsewhere.example"))
    server, client = opened(elsewhere), opened(dialler(beta, elsewhere))
    server.publish(b"false")
    client.publish(b"true")
    assert client.receive(1) is None
    assert server.receive(0) is None
    assert not client.status().neighbours[0].connected


def test_a_message_above_the_cap_is_refused_on_both_sides(alpha, beta, opened):
    to = listener(alpha)
    server, client = opened(to), opened(dialler(beta, to, cap=10**7))
    with pytest.raises(ProtocolError, match="has 5,001 bytes; this run's cap is 5,000"):
        server.publish(bytes(CAP + 1))
    client.publish(bytes(CAP))
    assert server.receive(10) == (1, bytes(CAP))
    for length in (CAP + 1, 20_000, 3_000_000):
        client.publish(bytes(length))
    client.publish(b"after")
    assert server.receive(10) == (1, b"after")
    assert server.status().neighbours[1].refused >= 2


def test_garbage_on_the_port_does_no_harm(alpha, beta, opened):
    to = listener(alpha)
    server, client = opened(to), opened(dialler(beta, to))
    until(lambda: server.status().neighbours[1].connected)
    port = int(to.listen[0].rpartition(":")[2])
    for seed in range(10):
        with socket.create_connection((HERE, port)) as link:
            link.sendall(bytes((seed * k) % 256 for k in range(4000)))
    with socket.create_connection((HERE, port)):
        client.publish(b"still here")
        assert server.receive(10) == (1, b"still here")
    client.close()
    again = opened(dialler(beta, to))
    again.publish(b"and again")
    assert server.receive(20) == (1, b"and again")
