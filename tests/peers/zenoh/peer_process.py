"""A peer in a process of its own, driven by lines of JSON on standard input.

Its answers begin with "@ "; all other lines on standard output are Zenoh's own log.
"""

import json
import logging
import sys
import time

import numpy as np

from ppadmm.peers.link_settings import Credentials, LinkSettings
from ppadmm.peers.zenoh import session as zenoh_session
from ppadmm.peers.zenoh.configuration import key_of
from ppadmm.peers.zenoh.transport import ZenohTransport


def link_of(plain):
    """Read a link from JSON: numbers became texts, tuples became lists."""
    for name in ("neighbours", "relayed"):
        plain[name] = {int(k): v for k, v in plain.get(name, {}).items()}
    for name in ("listen", "connect"):
        plain[name] = tuple(plain.get(name, ()))
    plain["router"] = tuple(plain["router"]) if plain.get("router") else None
    plain["credentials"] = Credentials(*plain["credentials"]) if plain["credentials"] else None
    return LinkSettings(**{**plain, "run": bytes.fromhex(plain["run"])})


def message(agent, round_, d):
    """d numbers that only this agent sends in this round."""
    return np.full(d, 1000.0 * agent + round_).tobytes()


class Peer:
    """One method for each thing that a test can ask for."""

    def start(self, link):
        self.link = link_of(link)
        self.transport = ZenohTransport(self.link)
        self.transport.start()

    def publish(self, text):
        self.transport.publish(bytes.fromhex(text))

    def receive(self, timeout):
        found = self.transport.receive(timeout)
        return None if found is None else [found[0], found[1].hex()]

    def status(self):
        status = self.transport.status()
        rows = {k: vars(v) for k, v in status.neighbours.items()}
        return {"neighbours": rows, "strangers": status.strangers}

    def ring(self, rounds, d, begin=0):
        """Say round t, wait until every neighbour has said it, go on; nothing is said twice."""
        heard = set()
        for t in range(begin, rounds):
            self.transport.publish(message(self.link.agent, t, d))
            end = time.monotonic() + 20
            while any((j, t) not in heard for j in self.link.neighbours):
                found = self.transport.receive(max(0, end - time.monotonic()))
                if found is None:
                    return {"stuck": t}
                values = np.frombuffer(found[1])
                assert len(values) == d
                assert (values == values[0]).all()
                heard.add((found[0], int(values[0] - 1000 * found[0])))
        return {"rounds": rounds}

    def attack(self, configuration, run, victim, claims):
        """Speak and ask without any access control of my own; return what came back."""
        session = zenoh_session.open_session(configuration)
        got = []
        kept = [session.declare_subscriber(key_of(bytes.fromhex(run), victim), got.append)]
        forged = zenoh_session.new_publisher(session, key_of(bytes.fromhex(run), claims))
        for _ in range(4):
            forged.put(b"forged")
            session.put(key_of(bytes.fromhex(run), victim), b"forged", allowed_destination=REMOTE)
            time.sleep(0.15)
        links = len(session.info.links())
        everything = key_of(bytes.fromhex(run), victim) + "/@adv/**"
        zenoh_session.ask_for_history(session, everything, got.append)
        time.sleep(0.5)
        kept.clear()
        session.close()
        return {"links": links, "got": len(got)}

    def close(self):
        self.transport.close()


def main():
    global REMOTE
    import zenoh

    REMOTE = zenoh.Locality.REMOTE
    logging.basicConfig(level=logging.INFO, stream=sys.stdout)
    zenoh_session.show_zenoh_log("warn")
    peer = Peer()
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = {"answer": getattr(peer, name)(**arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        # In one piece: `print` writes the end of a line apart, and a log's line may come between.
        sys.stdout.write(f"@ {json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
