"""Rounds per second, memory and restart of five peers in a ring, each a process of its own.

    python benchmarks/transport.py [--repeats 3] [--out FILE]

In a round every peer publishes one message of the length that `ppadmm.peers.messages` gives for d
parameters (98 + 16·d bytes) and waits for the same round from both neighbours; nothing is computed
or signed.
With TLS: certificates on both sides and access control; without: plain TCP on loopback, with the
same access control. Memory is the largest resident set of a process (VmHWM); a process is Python
and the transport, without numpy or the learning part. For the restart one peer is killed (SIGKILL)
in the middle of a run and started again at once; the seconds run from `start()` of its new
transport to the end of its first round. The table shows medians over the repeats and, for memory,
the largest process.
"""

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from ppadmm.peers.link_settings import Credentials, LinkSettings
from ppadmm.peers.zenoh.transport import ZenohTransport

PEERS = 5
RUN = bytes(16)
ROUNDS = {58: 1000, 100_000: 60}


def message_of(round_, length):
    return round_.to_bytes(8) + bytes(length - 8)


def length_of(d):
    from ppadmm.peers.messages import HEAD, SIGNATURE

    return HEAD.size + 16 * d + SIGNATURE


# A peer


class Worker:
    """Drives one transport through the rounds; keeps its round in a file, as a ledger would."""

    def __init__(self, plan):
        self.length, self.rounds = plan["length"], plan["rounds"]
        self.kept = Path(plan["kept"]) if plan["kept"] else None
        credentials = Credentials(*map(Path, plan["credentials"])) if plan["credentials"] else None
        neighbours = {int(k): v for k, v in plan["neighbours"].items()}
        self.link = LinkSettings(
            RUN, plan["agent"], neighbours, credentials, self.length,
            tuple(plan["listen"]), tuple(plan["connect"]),
        )  # fmt: skip

    def run(self):
        first = int(self.kept.read_text()) if self.kept and self.kept.exists() else 0
        transport, heard = ZenohTransport(self.link), set()
        started = time.perf_counter()
        transport.start()
        if first:
            transport.publish(message_of(first - 1, self.length))
        self.round(transport, first, heard)
        ready = time.perf_counter()
        print(json.dumps({"first_round": ready - started, "round": first}), flush=True)
        for t in range(first + 1, self.rounds):
            self.round(transport, t, heard)
        seconds = time.perf_counter() - ready
        print(json.dumps({"seconds": seconds, "memory": peak_memory()}), flush=True)
        sys.stdin.readline()
        transport.close()

    def round(self, transport, t, heard):
        if self.kept:
            partial = self.kept.with_suffix(".part")
            partial.write_text(str(t))
            partial.replace(self.kept)
        transport.publish(message_of(t, self.length))
        while any((j, t) not in heard for j in self.link.neighbours):
            found = transport.receive(60)
            if found is None:
                raise SystemExit(f"agent {self.link.agent} is stuck in round {t}")
            heard.add((found[0], int.from_bytes(found[1][:8])))
        heard.difference_update([(j, t) for j in self.link.neighbours])


def peak_memory():
    """Return the largest resident set of this process in MiB (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


# The ring


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def certificates(folder):
    """Return (authority, certificate, key) for each peer."""
    from ppadmm.peers.pki import enrolment
    from ppadmm.peers.pki.authority import Authority
    from ppadmm.peers.pki.enrolment import Keys

    authority, found = Authority(folder / "ca"), []
    authority.make("benchmark")
    for i in range(PEERS):
        keys = Keys(folder / str(i))
        keys.make()
        name = f"agent-{i}"
        enrolment.join(keys, name, authority.approve(enrolment.request(keys, name, ["127.0.0.1"])))
        found.append([str(keys.authority), str(keys.certificate), str(keys.tls)])
    return found


def plans(files, d, rounds, kept=None):
    protocol = "tls" if files else "tcp"
    ports = [f"{protocol}/127.0.0.1:{free_port()}" for _ in range(PEERS)]
    return [
        {
            "agent": i,
            "neighbours": {j: f"agent-{j}" for j in ((i - 1) % PEERS, (i + 1) % PEERS)},
            "credentials": files[i] if files else None,
            "listen": [ports[i]],
            "connect": [ports[(i + 1) % PEERS]],
            "length": length_of(d),
            "rounds": rounds,
            "kept": kept and str(kept / f"{i}.round"),
        }
        for i in range(PEERS)
    ]


def spawn(plan):
    process = subprocess.Popen(
        [sys.executable, __file__, "--worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    print(json.dumps(plan), file=process.stdin, flush=True)
    return process


def say(process):
    line = process.stdout.readline()
    if not line:
        raise SystemExit("a peer ended early")
    return json.loads(line)


def end(processes):
    for process in processes:
        process.stdin.close()
        process.wait()


def throughput(files, d):
    """Return (rounds per second, MiB of the largest process) of one run."""
    processes = [spawn(plan) for plan in plans(files, d, ROUNDS[d])]
    for process in processes:
        say(process)
    found = [say(process) for process in processes]
    end(processes)
    slowest = max(row["seconds"] for row in found)
    return (ROUNDS[d] - 1) / slowest, max(row["memory"] for row in found)


def restart(files, d, folder):
    """Kill one peer in the middle, start it again; return seconds to its first round."""
    kept = Path(tempfile.mkdtemp(dir=folder))
    todo = plans(files, d, 10 * ROUNDS[d], kept)
    processes = [spawn(plan) for plan in todo]
    for process in processes:
        say(process)
    time.sleep(0.5)
    processes[2].kill()
    processes[2].wait()
    processes[2] = spawn(todo[2])
    found = say(processes[2])
    assert 0 < found["round"] < 10 * ROUNDS[d]
    for process in processes:
        process.kill()
        process.wait()
    return found["first_round"]


def measure(repeats, folder):
    files, rows = certificates(folder), []
    for d in ROUNDS:
        for name, used in (("TLS", files), ("plain TCP", None)):
            runs = [throughput(used, d) for _ in range(repeats)]
            again = [restart(used, d, folder) for _ in range(repeats)]
            rows.append(
                {
                    "d": d,
                    "bytes": length_of(d),
                    "links": name,
                    "rounds_per_second": statistics.median(run[0] for run in runs),
                    "rounds_per_second_all": [run[0] for run in runs],
                    "memory_mib": max(run[1] for run in runs),
                    "restart_seconds": statistics.median(again),
                    "restart_seconds_all": again,
                }
            )
            print(table(rows[-1:]), flush=True)
    return rows


def table(rows):
    return "\n".join(
        f"| {row['d']:,} | {row['bytes']:,} | {row['links']} | {row['rounds_per_second']:,.0f} | "
        f"{row['memory_mib']:.0f} | {row['restart_seconds']:.2f} |"
        for row in rows
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        Worker(json.loads(sys.stdin.readline())).run()
        return
    before = os.getloadavg()[0]
    print(
        "| d | bytes | links | rounds/s | MiB per process | restart, s |\n|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(arguments.repeats, Path(folder))
    result = {
        "machine": {
            "system": platform.platform(),
            "cpus": os.cpu_count(),
            "load": [before, os.getloadavg()[0]],
        },
        "versions": {
            "python": platform.python_version(),
            "eclipse-zenoh": version("eclipse-zenoh"),
        },
        "peers": PEERS,
        "rounds": ROUNDS,
        "repeats": arguments.repeats,
        "rows": rows,
    }
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
