"""`ppadmm peer card, agree, sign`: from what each site offers to terms that all have signed."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ppadmm.cli import names, options
from ppadmm.cli.common import interruptible, knots_or_lines, show, trust_of
from ppadmm.cli.passphrases import PassphraseFile, opened
from ppadmm.cli.peer import PeerPath, group, quoted
from ppadmm.cli.peer_forecast import ShowForecast, forecast_lines
from ppadmm.errors import InputError


@group.command()
def card(
    file: PeerPath,
    epsilon: Annotated[float, options.epsilon("The most that the run may cost these records.")],
    out: Annotated[Path | None, options.out("FILE", "New file [NAME.card.json].")] = None,
    as_json: options.Json = False,
) -> None:
    """Write down what this site offers: its name, key, endpoint, number of records and largest ε.

    Mail it to whoever drafts the agreement. It holds no secret and no record.

    Example: ppadmm peer card hospital-a/peer.toml --epsilon 1
    """
    from ppadmm.peers.agreeing import make_card
    from ppadmm.peers.settings import PeerFile

    peer = PeerFile.load(file)
    found = make_card(peer, epsilon)
    place = out or Path(f"{peer.name}.card.json")
    found.save(place)
    n, schema = found.party.records, found.public_schema.digest()[:12]
    lines = [
        f"{place}: {n:,} records, ε ≤ {epsilon:g}, schema {schema}….",
        "Mail it to whoever drafts the agreement (ppadmm peer agree).",
    ]
    show({"file": str(place), **found.to_dict()} if as_json else lines)


@group.command(cls=names.NamingCommand)
def agree(
    cards: Annotated[list[Path], options.argument("CARD…", "What every site sent (peer card).")],
    out: Annotated[Path, options.out("FILE", "New file.")] = Path("agreement.json"),
    graph: options.Graph = "ring",
    algorithm: Annotated[
        str | None, options.algorithm("pp; with --trust sum newton", "{peer_algorithms}")
    ] = None,
    trust: options.Trust = None,
    colluding: options.Colluding = None,
    loss: options.Loss = "logistic",
    multiclass: options.Multiclass = "auto",
    delta: options.Delta = 1e-6,
    rounds: options.Rounds = None,
    eta: options.Eta = None,
    regularisation: options.Regularisation = 0.0,
    weights: options.Weights = None,
    knots: options.Knots = None,
    linear: options.Linear = False,
    patience: Annotated[
        float, options.value("S", "Seconds to wait for a silent neighbour in the run.")
    ] = 600.0,
    pace: Annotated[
        float, options.value("S", "Send S seconds after all neighbours have [at once].")
    ] = 0.0,
    repeats: Annotated[
        int | None,
        options.value(
            "K", "Sums that may be made again without a site that is away [1 with --trust sum]."
        ),
    ] = None,
    forecast: ShowForecast = True,
    as_json: options.Json = False,
) -> None:
    """Draft the agreement from the cards of all sites; send the file to every one of them.

    It is shown in words, with a forecast of what the run would bring each site.

    Example: ppadmm peer agree *.card.json --graph ring
    """
    from ppadmm.algorithms.method import MethodSpec
    from ppadmm.peers.agreeing import agreement_text, draft_agreement
    from ppadmm.peers.agreement_file import Card, save_agreement

    method = MethodSpec(
        **trust_of(trust, colluding, algorithm, as_json), loss=loss, multiclass=multiclass,
        delta=delta, rounds=rounds, eta=eta,
        regularisation=regularisation, weights=weights, knots=knots_or_lines(knots, linear),
    )  # fmt: skip
    offered = [Card.load(path) for path in cards]
    terms = draft_agreement(offered, graph, method, patience=patience, pace=pace, repeats=repeats)
    save_agreement(terms, out, new=True)
    if as_json:
        show({"file": str(out), "digest": terms.digest, "agreement": asdict(terms)})
        return
    show(agreement_text(terms))
    if forecast:
        schema = offered[0].public_schema.with_knots(terms.knots or 0)
        kept = f"{out} was written"
        show(["", *forecast_lines(terms, schema.dimension, schema.classes, kept)])
    lines = [
        f"\n{out}: written. Send it to every site, to put beside its peer.toml, read and sign:",
        "ppadmm peer sign PEER.toml",
    ]
    show(lines)


@group.command()
def sign(
    file: PeerPath,
    yes: Annotated[bool, options.flag("--yes", "Sign without being asked.")] = False,
    forecast: ShowForecast = True,
    passphrase_file: PassphraseFile = None,
    as_json: options.Json = False,
) -> None:
    """Show the agreement in words, check this site's part of it, and sign it.

    A forecast says what the run would bring each site, from the agreement's numbers alone. Nothing
    is sent: the signature goes into a file that `peer run` shows to the others.

    Example: ppadmm peer sign hospital-a/peer.toml
    """
    from ppadmm.peers.agreeing import agreement_text, review_agreement, sign_agreement
    from ppadmm.peers.settings import PeerFile

    peer = PeerFile.load(file)
    terms = peer.terms()
    party = review_agreement(peer, terms)
    reasons = list(party.public.not_private_because)
    if as_json and not yes:
        raise InputError("With --json nobody is asked; give --yes after reading the agreement.")
    if not as_json:
        show(agreement_text(terms))
        if forecast:
            schema = party.records.schema
            told = forecast_lines(terms, schema.dimension, schema.classes, "nothing was signed")
            show(["", *told])
        show(f"\nThis site is agent {peer.agent}, {peer.name!r}.")
        if reasons:
            show(f"NOT PRIVATE: {'; '.join(reasons)}.")
    if not yes:
        with interruptible("nothing was signed"):
            if not typer.confirm("Sign it?", default=False):
                raise InputError("It was not signed.")
    place = sign_agreement(peer, party, partial(opened, file=passphrase_file))
    plain = {"file": str(place), "digest": terms.digest, "not_private_because": reasons}
    text = f"{place}: signed {terms.digest[:12]}…. Next: ppadmm peer check {quoted(file)}"
    show(plain if as_json else text)
