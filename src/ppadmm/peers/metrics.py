"""A peer's counters in Prometheus' text format: public numbers only, as in `PeerStatus`."""

from ppadmm.peers.status import PeerStatus

PHASES = ("signing", "rounds", "ending", "ended")


def prometheus(view: PeerStatus, private: bool) -> bytes:
    """Return the text for one scrape; it says whether the run is `private`, as ε alone does not."""
    run = f'run="{view.run}",agent="{view.agent}"'
    lines: list[str] = []

    def add(name: str, kind: str, words: str, *samples: tuple[str, float]) -> None:
        lines.append(f"# HELP ppadmm_{name} {words}")
        lines.append(f"# TYPE ppadmm_{name} {kind}")
        for labels, value in samples:
            both = f"{run},{labels}" if labels else run
            lines.append(f"ppadmm_{name}{{{both}}} {value:g}")

    add("round", "gauge", "Rounds this site has made.", ("", view.round))
    add("rounds", "gauge", "Rounds of the run.", ("", view.rounds))
    add("phase", "gauge", "1 for the phase the run is in.",
        *((f'phase="{phase}"', float(phase == view.phase)) for phase in PHASES))  # fmt: skip
    add("charged", "counter", "Releases paid for so far.", ("", view.charged))
    add("reserved", "gauge", "Releases that may be paid for.", ("", view.reserved))
    add("private", "gauge", "1 if the run is private; at 0 its epsilon is no guarantee.",
        ("", float(private)))  # fmt: skip
    add("epsilon", "gauge", "The most that the run may cost these records.", ("", view.epsilon))
    add("waiting_seconds", "gauge", "How long this site has been waiting.", ("", view.waiting))
    add("signatures", "gauge", "Signatures on the agreement.", ("", view.signatures))
    add("averages", "gauge", "Final averages that are here.", ("", view.averages))
    for name, words in (
        ("sent", "Messages sent."), ("bytes_sent", "Bytes of messages sent."),
        ("repeated", "Messages said again."), ("received", "Messages received."),
        ("late", "Messages that came twice or late."), ("refused", "Messages refused."),
    ):  # fmt: skip
        add(f"{name}_total", "counter", words, ("", getattr(view, name)))
    near = view.neighbours
    add("neighbour_connected", "gauge", "1 if the link is up.",
        *((f'neighbour="{o.agent}"', float(o.connected)) for o in near))  # fmt: skip
    add("neighbour_round", "gauge", "Last round heard from a neighbour.",
        *((f'neighbour="{o.agent}"', o.round) for o in near if o.round is not None))  # fmt: skip
    add("strangers", "gauge", "Certificates that connected without being a neighbour.",
        ("", len(view.strangers)))  # fmt: skip
    return ("\n".join(lines) + "\n").encode()
