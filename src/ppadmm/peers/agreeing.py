"""From what each site offers to terms that all have signed: cards, a draft, signatures."""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ppadmm.accounting import Budget
from ppadmm.algorithms.method import MethodSpec, choose
from ppadmm.algorithms.weights import WEIGHED
from ppadmm.data.knots import knots_for
from ppadmm.errors import InputError
from ppadmm.peers.agreement import Agreement, Party
from ppadmm.peers.agreement_file import Card, save_signature
from ppadmm.peers.loading import KeyReader, load_participant, load_records
from ppadmm.peers.settings import PeerFile
from ppadmm.peers.site import Participant
from ppadmm.problem import graph_from, loss_for
from ppadmm.runs.tables import fill
from ppadmm.statements.keys import read_key
from ppadmm.statements.trust_claim import TrustClaim


def make_card(peer: PeerFile, epsilon: float) -> Card:
    """Return what a site offers: its name, key, endpoint, number of records and largest ε.

    Parameters
    ----------
    peer : PeerFile
        The site; its records are counted, and nothing else of them goes into the card.
    epsilon : float
        The most that the run may cost these records.

    Returns
    -------
    Card
        Public among the parties: no secret and no record.
    """
    records = load_records(peer)
    endpoint = (peer.endpoint or "").removeprefix("tls/")
    party = Party(peer.name, peer.keys.public_signing_key(), records.n, epsilon, endpoint)
    return Card(peer.agent, party, records.schema.to_dict())


def draft_agreement(
    cards: Sequence[Card],
    graph: str = "ring",
    method: MethodSpec | None = None,
    *,
    patience: float = 600.0,
    pace: float = 0.0,
    repeats: int | None = None,
) -> Agreement:
    """Draft the terms of a run from the cards of all sites.

    Parameters
    ----------
    cards : sequence of Card
        One of each site, in any order.
    graph : str
        Who talks to whom: a kind such as `"ring"` or `"complete"`, or a file of edges.
    method : MethodSpec, optional
        How to train. What it leaves open is chosen from public sizes, by the same rule as in
        `ppadmm train`.
    patience : float
        Seconds to wait for a silent neighbour in the run.
    pace : float
        Send so many seconds after all neighbours have; 0 is at once.
    repeats : int, optional
        How often an exchange of each kind may be made again without a site that stays away, or
        because a part was lost in a crash. The budget covers all of them. If it is left out, that
        of `method`, and at least once with `trust = sum`.

    Returns
    -------
    Agreement
        Not signed yet. Two drafts from the same cards differ in their `nonce`.

    Raises
    ------
    InputError
        If a site is missing, two sites have other schemas, or the algorithm pools all records.
    """
    order, method = _in_order(cards), method or MethodSpec()
    if method.recipe.pooled:
        raise InputError(f"{method.algorithm!r} pools all records; peers keep theirs.")
    parties, network = tuple(each.party for each in order), graph_from(graph, len(order), 0)
    method = replace(method, knots=_knots(order, method), repeats=_repeats(method, repeats))
    schema = order[0].public_schema.with_knots(method.knots or 0)
    loss = loss_for(method.loss, schema.classes, method.multiclass)
    budgets = [Budget(party.epsilon, method.delta) for party in parties]
    sizes = (tuple(party.records for party in parties), schema.dimension, network)
    return Agreement(
        parties=parties,
        edges=network.edges,
        schema=schema.digest(),
        parameters=schema.dimension * loss.outputs,
        nonce=secrets.token_hex(8),
        patience=patience,
        pace=pace,
        **vars(choose(method, sizes, budgets, loss)),
    )


def _in_order(cards: Sequence[Card]) -> list[Card]:
    """Return the cards by number; all must be there and speak of the same schema."""
    if not cards:
        raise InputError("Expected a card of every site, got none; `ppadmm peer card` makes one.")
    if len(cards) == 1:
        raise InputError(
            "Expected the cards of two sites or more, got 1: a single site has nobody to exchange "
            "with; it trains with `ppadmm train --agents 1`."
        )
    order = sorted(cards, key=lambda each: each.agent)
    if [each.agent for each in order] != list(range(len(order))):
        raise InputError(
            f"Expected the sites 0 to {len(order) - 1}, got {[each.agent for each in order]}; "
            "their numbers are in peer.toml (agent = …)."
        )
    first, *others = [(each.party.name, each.public_schema.digest()) for each in order]
    for name, digest in others:
        if digest != first[1]:
            raise InputError(
                f"{name!r} has the schema {digest[:12]}…, {first[0]!r} has {first[1][:12]}…; take "
                "the same schema file everywhere."
            )
    return order


def _repeats(method: MethodSpec, asked: int | None) -> int:
    """Return how many repetitions are reserved: a sum that one site can stop needs one."""
    return max(method.repeats, method.trusting.announced) if asked is None else asked


def _knots(cards: Sequence[Card], method: MethodSpec) -> int:
    """Return how many knots curves get that name none: as many as were asked for, or by rule."""
    if method.knots is not None:
        return method.knots
    records = sum(each.party.records for each in cards)
    epsilon = sum(each.party.epsilon for each in cards) / len(cards)
    return knots_for(records, len(cards[0].public_schema.columns), epsilon)


def agreement_text(terms: Agreement) -> str:
    """Return the terms as a person reads them before signing: whom they trust, first of all."""
    lines = [
        f"Agreement {terms.digest}",
        *(fill(f"  {line}") for line in _trust(terms).lines()),
        f"  {terms.algorithm}, {terms.loss}, {terms.rounds} rounds, η = {terms.eta:g}, "
        f"λ = {terms.regularisation:g}, β = {terms.beta:g}",
        f"  sites count {WEIGHED[terms.weighting]}",
        f"  noise: {terms.calibration}, δ = {terms.delta:g}, {terms.adjacency}{_strictest(terms)}",
        f"  {terms.parameters} parameters, {_bends(terms)}, schema {terms.schema[:12]}…",
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


def _trust(terms: Agreement) -> TrustClaim:
    records = sum(party.records for party in terms.parties)
    return TrustClaim.of(terms, len(terms.parties), records)


def _strictest(terms: Agreement) -> str:
    """Say that sums have one ε: the strictest that a party allows."""
    return f", ε = {terms.epsilon_of(0):g} for all" if terms.trusting.by_sum else ""


def _bends(terms: Agreement) -> str:
    return f"curves of {terms.knots} knots" if terms.knots else "straight lines"


def review_agreement(peer: PeerFile, terms: Agreement) -> Participant:
    """Return a site's part in a draft, or refuse one that it could not keep.

    Parameters
    ----------
    peer : PeerFile
        The site.
    terms : Agreement
        The draft, usually `peer.terms()`.

    Returns
    -------
    Participant
        Its `public.not_private_because` says why the run would not be private; empty if it is.

    Raises
    ------
    PpadmmError
        If the draft lists this site otherwise, its noise cannot be calibrated, or the records
        cannot be read.
    """
    party = load_participant(peer, terms)
    _ = party.public.reserved  # what cannot be calibrated is refused before it is signed,
    _ = party.risk  # and so are records that cannot be read
    return party


def sign_agreement(peer: PeerFile, party: Participant, open_key: KeyReader = read_key) -> Path:
    """Sign the terms of a part that was reviewed, and write the signature down.

    Parameters
    ----------
    peer : PeerFile
        The site; its `signing.key` is read.
    party : Participant
        What `review_agreement` returned, once a person has read and accepted the terms.
    open_key : callable
        How its message key is read; one that is encrypted needs its passphrase.

    Returns
    -------
    Path
        The file of the signature. Nothing is sent: a run shows it to the others.
    """
    place = peer.folder / peer.signature
    save_signature(place, party.agreement, peer.agent, open_key(peer.keys.signing))
    return place
