"""A ledger as plain data and as plain lines."""

from typing import Any

from ppadmm.accounting.filters import rule_of
from ppadmm.ledger.balance import cost
from ppadmm.ledger.chain import Head
from ppadmm.ledger.state import Body, LedgerState, ReservedRun


def ledger_dict(books: LedgerState, head: Head) -> dict[str, Any]:
    """Return budgets and runs, without any secret."""
    return {
        "ledger": books.ledger,
        "owner": books.owner,
        "entries": head.count,
        "head": head.hash,
        "datasets": [_dataset(books, name) for name in books.datasets],
    }


def _dataset(books: LedgerState, name: str) -> dict[str, Any]:
    grant = books.grants.get(name)
    runs = [run for run in books.runs.values() if run.body["dataset"] == name]
    return {
        "dataset": name,
        "commitments": [c for c, owner in books.commitments.items() if owner == name],
        "granted": grant and _grant(grant),
        "spent": cost(books, name),
        "runs": [_run(run) for run in runs],
    }


def _grant(grant: Body) -> dict[str, Any]:
    told = {k: grant[k] for k in ("epsilon", "delta", "by", "note", "time", "seq")}
    return {**told, "rule": rule_of(grant).to_plain(), **grant["protection"]}


def _run(run: ReservedRun) -> dict[str, Any]:
    told = ("run", "time", "by", "spec", "commitment", "epsilon", "total", "delta")
    return {
        **{k: run.body[k] for k in told},
        "agents": len(run.body["agents"]),
        "charges": run.charges,
        "releases": len(run.releases),
        "state": run.outcome or "not finished",
        "counts": not run.given_back,
    }


def ledger_text(found: dict[str, Any]) -> str:
    """Return the same for people."""
    lines = [f"Ledger {found['ledger']} of {found['owner']}"]
    for dataset in found["datasets"]:
        lines += ["", *_dataset_lines(dataset)]
    lines += ["", f"{found['entries']} entries, all of which hold. Head: {found['head']}"]
    return "\n".join(lines)


def _dataset_lines(dataset: dict[str, Any]) -> list[str]:
    grant = dataset["granted"]
    if grant is None:
        return [f"{dataset['dataset']}: no budget granted"]
    note = f": {grant['note']}" if grant["note"] else ""
    return [
        f"{dataset['dataset']}: ε = {dataset['spent']:.4g} of {grant['epsilon']:g} spent, at "
        f"δ = {grant['delta']:g} ({grant['adjacency']}, {grant['rule']['name']} rule; granted by "
        f"{grant['by']} on {grant['time'][:10]}{note})",
        *(f"  {_run_line(run)}" for run in dataset["runs"]),
    ]


def _run_line(run: dict[str, Any]) -> str:
    cost_ = f"ε = {run['epsilon']:.4g} alone" if run["counts"] else "given back: nothing was drawn"
    return (
        f"{run['time'][:16].replace('T', ' ')}  {run['run']}  {cost_}, {run['charges']} charges, "
        f"{run['releases']} releases, {run['state']}, by {run['by']}"
    )


def booked_lines(entry: dict[str, Any] | None) -> list[str]:
    """Return what a run's statement says about the ledger it was charged to, if any."""
    if entry is None:
        return []
    return [
        f"Booked: run {entry['run']} of ledger {entry['ledger']} ({entry['owner']}); all "
        f"{entry['runs']} runs on {entry['dataset']!r} together cost ε = {entry['spent']:.4g} of "
        f"{entry['granted']:g} at δ = {entry['delta']:g} ({entry['adjacency']}, {entry['rule']} "
        f"rule). Head {entry['count']}: {entry['head']}."
    ]
