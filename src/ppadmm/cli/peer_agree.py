"""`ppadmm peer card, agree, sign`: from what each site offers to terms that all have signed."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ppadmm.cli.common import ALGORITHM_NAMES, Json, interruptible, show, size
from ppadmm.cli.peer import PeerPath, group, quoted, refuse_existing
from ppadmm.errors import DataError, InputError

if TYPE_CHECKING:
    from ppadmm.peers.agreement import Agreement
    from ppadmm.peers.agreement_file import Card
    from ppadmm.peers.settings import PeerFile
    from ppadmm.peers.site import Participant, SiteRecords


@group.command()
def card(
    file: PeerPath,
    epsilon: Annotated[
        float, typer.Option(metavar="ε", help="The most that the run may cost these records.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="New file [NAME.card.json].")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write down what this site offers: its name, key, endpoint, number of records and largest ε.

    Mail it to whoever drafts the agreement. It holds no secret and no record.

    Example: ppadmm peer card hospital-a/peer.toml --epsilon 1
    """
    from ppadmm.peers.agreement import Party
    from ppadmm.peers.agreement_file import Card
    from ppadmm.peers.settings import PeerFile
    from ppadmm.runs.folder import write_json

    peer = PeerFile.load(file)
    records = peer_records(peer)
    endpoint = (peer.endpoint or "").removeprefix("tls/")
    key = peer.keys.public_signing_key()
    party = Party(peer.name, key, records.n, epsilon, endpoint)
    schema = records.schema
    found = Card(peer.agent, party, schema.digest(), schema.dimension, schema.classes)
    place = out or Path(f"{peer.name}.card.json")
    refuse_existing(place)
    write_json(place, found.to_dict())
    if as_json:
        show({"file": str(place), **found.to_dict()})
        return
    show(f"{place}: {records.n:,} records, ε ≤ {epsilon:g}, schema {schema.digest()[:12]}….")
    show("Mail it to whoever drafts the agreement (ppadmm peer agree).")


@group.command()
def agree(
    cards: Annotated[
        list[Path], typer.Argument(metavar="CARD…", help="What every site sent (peer card).")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="New file.")] = Path("agreement.json"),
    graph: Annotated[
        str,
        typer.Option(metavar="KIND", help="Who talks to whom: ring, complete, …, or a file."),
    ] = "ring",
    algorithm: Annotated[
        str, typer.Option(metavar="NAME", help=f"{ALGORITHM_NAMES.replace(' centralised,', '')}.")
    ] = "pp",
    loss: Annotated[str, typer.Option(metavar="NAME", help="logistic or huber-hinge.")] = (
        "logistic"
    ),
    multiclass: Annotated[
        str, typer.Option(metavar="NAME", help="multinomial, one-vs-rest or auto.")
    ] = "auto",
    delta: Annotated[float, typer.Option(metavar="δ", help="Of every party's budget.")] = 1e-6,
    rounds: Annotated[
        int | None, typer.Option(metavar="T", help="Rounds [by rule, from public sizes].")
    ] = None,
    eta: Annotated[
        float | None, typer.Option(metavar="η", help="Penalty [by rule, from public sizes].")
    ] = None,
    regularisation: Annotated[float, typer.Option(metavar="λ", help="Weight of ½‖θ‖².")] = 0.0,
    patience: Annotated[
        float,
        typer.Option(metavar="S", help="Seconds to wait for a silent neighbour in the run."),
    ] = 600.0,
    pace: Annotated[
        float,
        typer.Option(metavar="S", help="Send S seconds after all neighbours have [at once]."),
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Draft the agreement from the cards of all sites; send the file to every one of them.

    Example: ppadmm peer agree *.card.json --graph ring
    """
    from ppadmm.peers.agreement_file import Card, save_agreement

    refuse_existing(out)
    order = _in_order([Card.load(path) for path in cards])
    given = {
        "algorithm": algorithm, "loss": loss, "multiclass": multiclass, "delta": delta,
        "patience": patience, "pace": pace,
    }  # fmt: skip
    terms = _draft(order, graph, given, rounds, eta, regularisation)
    save_agreement(terms, out)
    if as_json:
        show({"file": str(out), "digest": terms.digest, "agreement": asdict(terms)})
        return
    show(in_words(terms))
    show(f"\n{out}: written. Send it to every site, to put beside its peer.toml, read and sign:")
    show("ppadmm peer sign PEER.toml")


@group.command()
def sign(
    file: PeerPath,
    yes: Annotated[bool, typer.Option("--yes", help="Sign without being asked.")] = False,
    as_json: Json = False,
) -> None:
    """Show the agreement in words, check this site's part of it, and sign it.

    Nothing is sent: the signature goes into a file that `peer run` shows to the others.

    Example: ppadmm peer sign hospital-a/peer.toml
    """
    from ppadmm.peers.agreement_file import save_signature
    from ppadmm.peers.pki.key_files import read_signing_key
    from ppadmm.peers.settings import PeerFile

    peer = PeerFile.load(file)
    terms = peer.terms()
    party = peer_party(peer, terms)
    _ = party.public.reserved  # what cannot be calibrated is refused before it is signed,
    _ = party.risk  # and so are records that cannot be read
    if as_json and not yes:
        raise InputError("With --json nobody is asked; give --yes after reading the agreement.")
    if not as_json:
        show(in_words(terms))
        show(f"\nThis site is agent {peer.agent}, {peer.name!r}.")
        if party.public.not_private_because:
            show(f"NOT PRIVATE: {'; '.join(party.public.not_private_because)}.")
    if not yes:
        with interruptible("nothing was signed"):
            if not typer.confirm("Sign it?", default=False):
                raise InputError("It was not signed.")
    place = peer.folder / peer.signature
    save_signature(place, terms, peer.agent, read_signing_key(peer.keys.signing))
    if as_json:
        reasons = list(party.public.not_private_because)
        show({"file": str(place), "digest": terms.digest, "not_private_because": reasons})
        return
    show(f"{place}: signed {terms.digest[:12]}…. Next: ppadmm peer check {quoted(file)}")


def peer_records(peer: "PeerFile") -> "SiteRecords":
    """Read a site's records and schema, as its file says."""
    from ppadmm.peers.site import read_records

    if not peer.schema:
        raise InputError("peer.toml names no schema; give schema = …")
    place = peer.folder / peer.schema
    if not place.is_file():
        raise DataError(
            f"There is no schema at {place}; put the schema file there that all sites use (one of "
            "them drafts it with `ppadmm schema` and confirms it)."
        )
    memory = None if peer.memory is None else size("memory", peer.memory)
    return read_records(peer.folder / peer.data if peer.data else None, place, memory)


def peer_party(peer: "PeerFile", terms: "Agreement", seed: int | None = None) -> "Participant":
    """Return a site's part in an agreement, after a look at every entry that concerns it."""
    from ppadmm.peers.site import Participant

    party = Participant(terms, peer.agent, peer_records(peer), seed)
    listed = terms.parties[peer.agent]
    if listed.name != peer.name:
        raise InputError(f"Agent {peer.agent} of the agreement is {listed.name!r}, not this site.")
    if listed.key != peer.keys.public_signing_key():
        raise InputError(
            f"The agreement lists another message key for {peer.name!r} than this site has."
        )
    return party


def _in_order(cards: "list[Card]") -> "list[Card]":
    """Return the cards by number; all must be there and speak of the same schema."""
    order = sorted(cards, key=lambda each: each.agent)
    if [each.agent for each in order] != list(range(len(order))):
        raise InputError(
            f"Expected the sites 0 to {len(order) - 1}, got {[each.agent for each in order]}; "
            "their numbers are in peer.toml (agent = …)."
        )
    first = order[0]
    for each in order:
        if (each.schema, each.features, each.classes) != (
            first.schema, first.features, first.classes
        ):  # fmt: skip
            raise InputError(
                f"{each.party.name!r} has the schema {each.schema[:12]}…, {first.party.name!r} has "
                f"{first.schema[:12]}…; take the same schema file everywhere."
            )
    return order


def _draft(
    cards: "list[Card]",
    graph: str,
    given: dict[str, Any],
    rounds: int | None,
    eta: float | None,
    regularisation: float,
) -> "Agreement":
    """Choose what was left open from public sizes, by the same rule as `ppadmm train`."""
    import secrets

    from ppadmm.accounting import Budget
    from ppadmm.algorithms.method import MethodSpec, choose
    from ppadmm.peers.agreement import Agreement
    from ppadmm.problem import graph_from, loss_for

    terms = {"patience": given.pop("patience"), "pace": given.pop("pace")}
    method = MethodSpec(rounds=rounds, eta=eta, regularisation=regularisation, **given)
    if method.recipe.pooled:
        raise InputError(f"{method.algorithm!r} pools all records; peers keep theirs.")
    parties, network = tuple(each.party for each in cards), graph_from(graph, len(cards), 0)
    loss = loss_for(method.loss, cards[0].classes, method.multiclass)
    budgets = [Budget(party.epsilon, method.delta) for party in parties]
    sizes = (tuple(party.records for party in parties), cards[0].features, network.degrees)
    return Agreement(
        parties=parties,
        edges=network.edges,
        schema=cards[0].schema,
        parameters=cards[0].features * loss.outputs,
        nonce=secrets.token_hex(8),
        **vars(choose(method, sizes, budgets, loss)),
        **terms,
    )


def in_words(terms: "Agreement") -> str:
    """Return the terms as a person reads them."""
    lines = [
        f"Agreement {terms.digest}",
        f"  {terms.algorithm}, {terms.loss}, {terms.rounds} rounds, η = {terms.eta:g}, "
        f"λ = {terms.regularisation:g}, β = {terms.beta:g}",
        f"  noise: {terms.calibration}, δ = {terms.delta:g}, {terms.adjacency}",
        f"  {terms.parameters} parameters, schema {terms.schema[:12]}…",
        f"  a silent neighbour is waited for {terms.patience:g} s",
    ]
    if terms.pace:
        lines.append(f"  a message leaves {terms.pace:g} s after those that it waited for came")
    for i, party in enumerate(terms.parties):
        near = ", ".join(map(str, terms.graph.neighbours(i)))
        where = party.endpoint or "dials out only"
        lines.append(
            f"  agent {i}: {party.name}, {party.records:,} records, ε ≤ {party.epsilon:g}, "
            f"{where}; talks to {near}"
        )
    return "\n".join(lines)
