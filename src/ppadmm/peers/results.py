"""A site's part in a run over a network: its folder, and its page while it runs."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ppadmm import __version__
from ppadmm.accounting import accountant
from ppadmm.accounting.event_data import to_plain
from ppadmm.arrays import Array
from ppadmm.engines.local import Trace
from ppadmm.ledger.text import booked_lines
from ppadmm.peers.agreement_file import save_agreement
from ppadmm.peers.certified import certify_folder
from ppadmm.peers.outcome import PeerOutcome, average_of
from ppadmm.peers.peer import Peer
from ppadmm.peers.site import PublicPart
from ppadmm.peers.store import PeerStore, signatures_dict
from ppadmm.peers.taking_part import SiteResult, result_of
from ppadmm.runs.curves import fitted_curves
from ppadmm.runs.folder import (
    Missing,
    coefficients,
    draft_of,
    require_finished,
    require_new,
    try_report,
    write_json,
    writing,
)
from ppadmm.runs.report.page import render
from ppadmm.runs.run import FORMAT
from ppadmm.runs.saved import MODEL_FORMAT, RELEASES_FORMAT, SavedRun
from ppadmm.runs.specification import RunSpec
from ppadmm.statements.claims import finite_or_none

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Heard = Mapping[int, Mapping[int, Array]]
"""What each neighbour released, by round."""


def write_site_run(result: SiteResult, folder: Path, state: Path, key: "Ed25519PrivateKey") -> None:
    """Write a site's results into a new folder, all or nothing, and then sign them.

    The budget is spent by now. So nothing that comes after can take the results away: if the page
    or the certificate cannot be made, `UnfinishedError` says why and how to make it later.
    """
    require_new(folder)
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with draft_of(folder) as draft:
            _write_results(result, draft, state)
            page = try_report(draft)
    require_finished(folder, page, _try_to_sign(folder, key))


def _write_results(result: SiteResult, draft: Path, state: Path) -> None:
    outcome = result.outcome
    own = [] if result.own is None else [result.own.to_dict()]
    figures = figures_of(result)
    write_json(draft / "result.json", {**figures, "sites": own})
    write_json(draft / "model.json", model_of(result))
    trace = Trace(outcome.releases[:, None, None], outcome.spoke[:, None, None])
    curves = fitted_curves(figures, result.part.schema, outcome.model, trace)
    (draft / "curves.csv").write_text(curves.to_csv(), encoding="utf-8")
    write_json(draft / "statement.json", result.disclosure)
    lines = [result.statement.text(), *booked_lines(result.disclosure["booked"])]
    (draft / "statement.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    save_agreement(result.part.agreement, draft / "agreement.json")
    write_json(draft / "signatures.json", signatures_dict(PeerStore(state).signatures()))
    np.savez_compressed(
        draft / "releases.npz",
        releases=outcome.releases[:, None],
        spoke=outcome.spoke[:, None],
        format=np.array(RELEASES_FORMAT),
        private=np.array(result.statement.private),
    )


def _try_to_sign(folder: Path, key: "Ed25519PrivateKey") -> Missing | None:
    try:
        certify_folder(folder, key)
    except Exception as error:
        way = f"sign them with: ppadmm certify {folder} --key FILE, the site's signing.key"
        return Missing("they are not signed", error, f"when that is mended, {way}")
    return None


def model_of(result: SiteResult) -> dict[str, Any]:
    """Return the model by feature name: the same text at every site that reached the end."""
    schema, statement, outcome = result.part.schema, result.statement, result.outcome
    return {
        "format": MODEL_FORMAT,
        "private": statement.private,
        "not_private_because": list(statement.not_private_because),
        "trust": statement.trust.to_dict(),
        "classes": list(schema.label.names),
        "coefficients": coefficients(schema, outcome.model),
        "per_agent": outcome.averages.tolist(),
        "schema": schema.to_dict(),
        "schema_digest": schema.digest(),
        "run": result.part.agreement.digest,
        "ended": outcome.reason,
    }


def figures_of(result: SiteResult) -> dict[str, Any]:
    """Return the figures of a part: public numbers and what follows from releases."""
    part, statement, spoke = result.part, result.statement, result.outcome.spoke
    terms, number, schema = part.agreement, part.number, part.schema
    spent, heard = result.spent, result.neighbours
    bounds = [accountant.epsilon(tally, terms.delta).epsilon for tally in part.reserved]
    plain = {**statement.to_dict(), "epsilons": [finite_or_none(bound) for bound in bounds]}
    return {
        "format": FORMAT,
        "version": __version__,
        "started": result.started,
        "own": number,
        "algorithm": terms.algorithm,
        "calibration": terms.calibration,
        "epsilon": statement.claimed_epsilon,
        "delta": terms.delta,
        "epsilon_proven": statement.epsilon,
        "adjacency": terms.adjacency,
        "private": statement.private,
        "not_private_because": list(statement.not_private_because),
        "warnings": list(statement.warnings),
        "agents": len(terms.parties),
        "weights": terms.weighting,
        "site_weights": list(terms.site_weights),
        "agent_names": [each.name for each in terms.parties],
        "left_out": [terms.parties[i].name for i in result.outcome.left_out],
        "partition": "peers",
        "graph": {"name": "agreement", "edges": [list(edge) for edge in terms.edges]},
        "records": [each.records for each in terms.parties],
        "features": schema.dimension,
        "parameters": part.parameters,
        "classes": list(schema.label.names),
        "loss": part.loss.name,
        "rounds": len(spoke),
        "eta": terms.eta,
        "beta": terms.beta,
        "releases": [_spoken(i, number, spoke, heard) for i in range(len(terms.parties))],
        "noise": part.scales,
        "ledger": [
            {"reserved": to_plain(tally), "spent": to_plain(spent) if i == number else None}
            for i, tally in enumerate(part.reserved)
        ],
        "booked": result.facts.booked,
        "spec": _spec(part),
        "statement": plain,
    }


def _spoken(i: int, own: int, spoke: NDArray[np.bool_], heard: Heard) -> int | None:
    """How often an agent spoke, as far as it was heard here from the first round on."""
    if i == own:
        return int(spoke.sum())
    found = heard.get(i, {})
    return int(_changes(np.array(_in_order(found))).sum()) if 0 in found else None


def _in_order(found: Mapping[int, Array]) -> list[Array]:
    """Return what was said in the rounds 0, 1, … up to the first gap."""
    rounds = itertools.takewhile(found.__contains__, itertools.count())
    return [found[t] for t in rounds]


def _known(own: Array, others: Sequence[Mapping[int, Array]]) -> Array:
    """Return the releases of this site and its neighbours (t, 1 + degree, d).

    Of this site alone, where a neighbour's were not heard from the first round on.
    """
    columns = [_in_order(found) for found in others]
    t = min(len(own), *map(len, columns))
    if t < max(2, len(own) - 2):
        return own[:, None]
    return np.stack([own[:t], *(np.array(column[:t]) for column in columns)], axis=1)


def _changes(values: Array) -> NDArray[np.bool_]:
    """Say where a value is new: who is silent repeats what it said, 0 before the first word."""
    before = np.vstack([np.zeros_like(values[:1]), values[:-1]])
    return np.asarray((values != before).any(axis=1))


def _spec(part: PublicPart) -> dict[str, Any]:
    terms = part.agreement
    spec = RunSpec(
        data=part.data,
        agents=len(terms.parties),
        graph="agreement",
        epsilons=tuple(each.epsilon for each in terms.parties),
        records=tuple(each.records for each in terms.parties),
        seed=part.seed,
        # the paper's calibration allows none beside its own
        **{**vars(terms.method), "regularisation": 0.0},
    )
    return {**asdict(spec), "regularisation": terms.regularisation}


def live_page(peer: Peer, part: PublicPart, started: str) -> str:
    """Return the report of a run that goes on, from what was released so far."""
    releases, spoke = peer.so_far()
    average = average_of(releases, spoke)
    outcome = PeerOutcome(releases, spoke, average[None], peer.reason)
    result = result_of(part, peer, outcome, started)
    values = _known(releases, [result.neighbours.get(j, {}) for j in peer.near])
    marks = [_changes(values[:, k]) for k in range(values.shape[1])]
    run = SavedRun(
        name="live",
        result=figures_of(result),
        model=model_of(result),
        statement=result.statement.text(),
        releases=values,
        spoke=np.stack(marks, axis=1),
    )
    return render(run, live=peer.view())


def view_json(peer: Peer, part: PublicPart) -> bytes:
    """Return the counters of a moment as JSON, and whether the run is private."""
    reasons, terms = list(part.not_private_because), part.agreement
    trust = {"trust": terms.trust, "colluding": terms.colluding if terms.trusting.by_sum else None}
    said = {**trust, "private": not reasons, "not_private_because": reasons}
    plain = {**said, **asdict(peer.view())}
    return json.dumps(plain, allow_nan=False).encode() + b"\n"
