"""What one site may say about a run over a network: about its own records, and no others."""

from typing import Any

from ppadmm.accounting import Tally
from ppadmm.peers.agreement import Agreement
from ppadmm.peers.site import PublicPart
from ppadmm.statements.consistency import ENDED
from ppadmm.statements.facts import AgentFacts, RunFacts

PUBLIC = (
    "the run agreement, with the number of records and the budget of every party",
    "the schema: columns, bounds, categories and classes (a person confirmed)",
    "the size of every party's noise, which follows from the agreement",
    "when this site spoke: times of messages are not protected",
)

SHARES = "the size of the noise of a sum and of every site's share, which follow from the agreement"


def facts_of(
    part: PublicPart,
    reserved: Tally,
    spent: Tally,
    releases: int,
    ended: str = "",
    started: str = "",
    entry: dict[str, Any] | None = None,
) -> RunFacts:
    """Return the facts of this site's part, under the digest that all signed."""
    terms = part.agreement
    own = terms.parties[part.number]
    agent = AgentFacts(
        number=part.number,
        name=own.name,
        records=part.records,
        weight=terms.site_weights[part.number],
        claimed=None if terms.recipe.noiseless else terms.epsilon_of(part.number),
        releases=max(releases - terms.trusting.announced, 0),
        reserved=reserved,
        spent=spent,
        noise=part.scales[part.number],
    )
    return RunFacts(
        method=terms.method,
        loss=part.loss.name,
        rounds=terms.rounds or 0,
        features=part.schema.dimension,
        parameters=part.parameters,
        edges=terms.edges,
        agents=(agent,),
        total=sum(party.records for party in terms.parties),
        schema=terms.schema,
        settings=terms.digest,
        public=(*PUBLIC[:2], SHARES if terms.trusting.by_sum else PUBLIC[2], PUBLIC[3]),
        started=started,
        noise_source=part.noise_source,
        not_private_because=part.not_private_because,
        warnings=(f"{ENDED}{ended}.",) if ended else (),
        caveats=_caveats(terms, own.name),
        booked=entry,
    )


def _caveats(terms: Agreement, name: str) -> tuple[str, ...]:
    """Say whose records this is about; with sums, that the claim rests on the others' noise."""
    own = f"This is about the records of {name!r} alone."
    if not terms.trusting.by_sum:
        return (own,)
    sites, c = len(terms.parties), terms.colluding
    return (
        f"{own} What this site said is masked and has its share of the noise, which protects "
        f"nothing by itself: the claim rests on the shares of the {sites - c} of {sites} sites "
        "that do not collude.",
    )
