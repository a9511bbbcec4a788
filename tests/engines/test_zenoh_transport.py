"""Real processes, real TLS, on loopback."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import peer_process
import pytest

from ppadmm.engines import zenoh_session
from ppadmm.engines.pki import certificates, enrolment
from ppadmm.engines.pki.authority import Authority
from ppadmm.engines.pki.enrolment import Keys
from ppadmm.engines.seat import Credentials, Seat
from ppadmm.engines.zenoh_configuration import direct_configuration, key_of, router_configuration
from ppadmm.engines.zenoh_router import Router
from ppadmm.engines.zenoh_session import ask_for_history
from ppadmm.engines.zenoh_transport import ZenohTransport
from ppadmm.errors import InputError, ProtocolError

pytest.importorskip("zenoh", reason="eclipse-zenoh (extra peer) is not installed")

RUN = bytes(range(16))
HERE = "127.0.0.1"
CAP = 5000


def free_port():
    with socket.socket() as probe:
        probe.bind((HERE, 0))
        return probe.getsockname()[1]


class Study:
    """An authority and the sites that it approved."""

    def __init__(self, folder, name="study"):
        self.folder, self.count = folder, 0
        self.authority = Authority(folder / f"{name}-authority")
        self.authority.make(name)

    def site(self, name, host=HERE, now=None):
        self.count += 1
        keys = Keys(self.folder / f"site-{self.count}")
        keys.make()
        asked = enrolment.request(keys, name, [host])
        issued = self.authority._issue(asked, 365, now or datetime.now(UTC))
        keys.certificate.write_bytes(certificates.pem([issued]))
        keys.authority.write_bytes(self.authority.file.read_bytes())
        return Credentials(keys.authority, keys.certificate, keys.tls)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return Study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def alpha(study):
    return study.site("alpha")


@pytest.fixture(scope="module")
def beta(study):
    return study.site("beta")


class Process:
    """A peer in a process of its own."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("peer_process.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "NO_COLOR": "1", "RUST_LOG": "warn"},
        )
        self.log = []

    def ask(self, name, **arguments):
        print(json.dumps([name, arguments]), file=self.process.stdin, flush=True)

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("@ "):
                return json.loads(line[2:])
            self.log.append(line)
        raise AssertionError(f"the process ended: {''.join(self.log)}")

    def do(self, name, **arguments):
        self.ask(name, **arguments)
        answer = self.answer()
        assert "error" not in answer, answer
        return answer["answer"]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def processes():
    made = []

    def make():
        made.append(Process())
        return made[-1]

    yield make
    for one in made:
        one.kill()


@pytest.fixture
def opened():
    """Open transports in this process and close them at the end."""
    made = []

    def make(seat):
        made.append(Fresh(ZenohTransport(seat)))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.close()


def plain(seat):
    """A seat as JSON, for a process."""
    files = seat.credentials
    return {
        **{name: getattr(seat, name) for name in ("agent", "cap", "listen", "connect", "router")},
        "run": seat.run.hex(),
        "neighbours": dict(seat.neighbours),
        "relayed": dict(seat.relayed),
        "credentials": [str(files.authority), str(files.certificate), str(files.key)],
    }


def ring_seats(study, n=5):
    """Agent i listens and dials agent i + 1."""
    ports = [free_port() for _ in range(n)]
    names = [f"agent-{i}" for i in range(n)]
    return [
        Seat(
            RUN,
            i,
            {j: names[j] for j in ((i - 1) % n, (i + 1) % n)},
            study.site(names[i]),
            CAP,
            listen=(f"tls/{HERE}:{ports[i]}",),
            connect=(f"tls/{HERE}:{ports[(i + 1) % n]}",),
        )
        for i in range(n)
    ]


def listener(credentials, cap=CAP, neighbours=None):
    port = free_port()
    return Seat(RUN, 0, neighbours or {1: "beta"}, credentials, cap, (f"tls/{HERE}:{port}",))


def dialler(credentials, to, agent=1, cap=CAP, name="alpha"):
    return Seat(RUN, agent, {0: name}, credentials, cap, connect=to.listen)


class Fresh:
    """A transport that hands on every message once: links may repeat, and tests count."""

    def __init__(self, transport):
        self._transport, self._seen = transport, set()
        for name in ("start", "publish", "status", "close"):
            setattr(self, name, getattr(transport, name))

    def receive(self, timeout):
        end = time.monotonic() + timeout
        while True:
            found = self._transport.receive(max(0, end - time.monotonic()))
            if found is None or found not in self._seen:
                self._seen.add(found)
                return found


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def test_five_peers_in_a_ring_hear_every_round_and_one_that_is_killed_comes_back(study, processes):
    seats = ring_seats(study)
    peers = [processes() for _ in seats]
    for peer, seat in zip(peers, seats, strict=True):
        peer.do("start", seat=plain(seat))
    for peer in peers:
        peer.ask("ring", rounds=50, d=58)
    assert [peer.answer() for peer in peers] == [{"answer": {"rounds": 50}}] * len(peers)
    peers[2].kill()
    peers[2] = processes()
    peers[2].do("start", seat=plain(seats[2]))
    got = set()
    wait_for(lambda: got.add(tuple(peers[2].do("receive", timeout=10))) or len(got) == 4)
    assert got == {(j, peer_process.message(j, t, 58).hex()) for j in (1, 3) for t in (48, 49)}
    for peer in peers:
        peer.ask("ring", rounds=60, d=58, begin=50)
    assert [peer.answer()["answer"]["rounds"] for peer in peers] == [60] * len(peers)


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
    victim.do("start", seat=plain(to))
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
    thief.do("start", seat=plain(dialler(beta, to)))
    assert thief.do("receive", timeout=10) == [0, b"for beta only".hex()]


def test_what_the_intruders_try_works_for_the_neighbour_itself(alpha, beta, processes):
    """The attack is a real one: with the right certificate it gets and delivers everything."""
    to = listener(alpha)
    victim, friend = processes(), processes()
    victim.do("start", seat=plain(to))
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
    thief.do("start", seat=plain(dialler(gamma, to, agent=2)))
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
    wait_for(lambda: server.status().neighbours[1].connected)
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


def test_history_is_handed_on_even_after_later_messages(alpha, beta, opened):
    """Zenoh's own history drops what is older than the last message; a round is then lost."""
    to = listener(alpha)
    server, client = opened(to), opened(dialler(beta, to))
    wait_for(lambda: client.status().neighbours[0].connected)
    for text in (b"1", b"2", b"3"):
        server.publish(text)
    assert [client.receive(10) for _ in range(3)] == [(0, b"1"), (0, b"2"), (0, b"3")]
    inner, again = client._transport, []
    session = inner._lines[0]._session
    ask_for_history(session, key_of(RUN, 0) + "/@adv/**", zenoh_session._taker(inner._inbox, 0))
    wait_for(lambda: again.append(inner.receive(1)) or len(again) == 2)
    assert set(again) == {(0, b"2"), (0, b"3")}


def test_both_sides_may_dial(alpha, beta, opened):
    ports = [f"tls/{HERE}:{free_port()}" for _ in range(2)]
    ends = [
        opened(Seat(RUN, 0, {1: "beta"}, alpha, CAP, (ports[0],), (ports[1],))),
        opened(Seat(RUN, 1, {0: "alpha"}, beta, CAP, (ports[1],), (ports[0],))),
    ]
    for k in range(20):
        for end in ends:
            end.publish(b"%d" % k)
        assert [end.receive(10) for end in ends] == [(1, b"%d" % k), (0, b"%d" % k)]
    assert [end.receive(0.2) for end in ends] == [None, None]


def test_two_sites_that_only_dial_out_meet_at_a_router(study, alpha, beta, opened):
    endpoint = f"tls/{HERE}:{free_port()}"
    router = study.site("router")
    ends = [
        opened(Seat(RUN, 0, {}, alpha, CAP, relayed={1: "beta"}, router=("router", endpoint))),
        opened(Seat(RUN, 1, {}, beta, CAP, relayed={0: "alpha"}, router=("router", endpoint))),
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
    wait_for(lambda: not ends[0].status().neighbours[1].connected)
    ends[0].publish(b"5")
    with Router(configuration, ["alpha", "beta", "gamma"]):
        assert ends[1].receive(20) == (0, b"5")


def _gamma_at_the_router(study, ends, endpoint, hub):
    """Gamma is a member, but alpha's messages are not for it, and beta's key is not its own."""
    import zenoh

    from ppadmm.engines.zenoh_configuration import relayed_configuration
    from ppadmm.engines.zenoh_session import open_session

    seat = Seat(
        RUN, 2, {}, study.site("gamma"), CAP, relayed={1: "beta"}, router=("router", endpoint)
    )
    configuration = {**relayed_configuration(seat), "access_control": {"enabled": False}}
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
    router = ("router", f"tls/{HERE}:{free_port()}")
    end = ZenohTransport(Seat(RUN, 0, {}, alpha, CAP, relayed={1: "beta"}, router=router))
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
        Seat(RUN, 0, **values)


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
