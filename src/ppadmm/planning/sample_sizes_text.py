"""What a person reads after `ppadmm samples`."""

from dataclasses import asdict

from ppadmm.planning.sample_sizes import ErrorBound, RecordsNeeded
from ppadmm.runs.tables import fill, table

WARNING = (
    "A worst-case bound: it holds for every population whose records have norm ≤ 1, so real data "
    "usually need far fewer records. On the made-up records (`synthetic`) a simulation needed "
    "some 70 to 1,500 times fewer (docs/sample-size.md). Use it to compare settings and to see "
    "what the noise adds, and a forecast (`ppadmm plan`) to plan."
)
STATEMENT = (
    "The error is of the expected {loss} loss, not of the error rate; the private model is the "
    "average of all rounds and agents, trained with the λ̂, η and rounds above."
)


def samples_text(answer: RecordsNeeded, epsilon: float) -> str:
    """Return the records needed, the bound's parts, a table over ε and what it is worth."""
    private = answer.private[epsilon]
    blocks = [
        fill(_question(answer)),
        _records(answer, epsilon, private),
        _parts(answer, epsilon, private),
        _over_epsilon(answer),
        fill(STATEMENT.format(loss=answer.setting.loss.name)),
        fill(WARNING),
    ]
    return "\n\n".join(blocks)


def _question(answer: RecordsNeeded) -> str:
    setting = answer.setting
    return (
        f"Records per agent that are enough for an expected {setting.loss.name} loss within "
        f"{answer.error:g} of that of any classifier of norm ≤ {setting.norm:g}, with probability "
        f"{setting.confidence:g}: {setting.agents} agents ({setting.graph.name}), "
        f"{setting.features} features, δ = {answer.delta:g}"
    )


def _records(answer: RecordsNeeded, epsilon: float, private: ErrorBound) -> str:
    rounds = answer.setting.rounds
    rows = [
        ("without privacy, all records at one place", f"{answer.pooled.n:,}"),
        (f"{rounds} rounds of ADMM without noise", f"{answer.quiet.n:,}"),
        (
            f"{rounds} rounds of PP-ADMM, ε = {epsilon:g}",
            f"{private.n:,}   ({private.n - answer.quiet.n:,} for the noise)",
        ),
    ]
    return "\n".join(f"  {name:<42} {value}" for name, value in rows)


def _parts(answer: RecordsNeeded, epsilon: float, private: ErrorBound) -> str:
    bounds = (answer.pooled, answer.quiet, private)
    head = ("part of the bound", "one place", "no noise", f"ε = {epsilon:g}")
    rows = [
        (name, *(f"{asdict(bound.parts)[name]:.4f}" for bound in bounds))
        for name in asdict(private.parts)
    ]
    rows.append(("total", *(f"{bound.total:.4f}" for bound in bounds)))
    rows.append(("λ̂", *(f"{bound.regularisation:.2g}" for bound in bounds)))
    rows.append(("η", *(f"{bound.eta:.2g}" if bound.eta else "" for bound in bounds)))
    rows.append(("σ₁", *(f"{bound.sigma1:.2g}" if bound.sigma1 else "" for bound in bounds)))
    return table(head, rows)


def _over_epsilon(answer: RecordsNeeded) -> str:
    head = ("ε", "records per agent", "for the noise", "noise's part of the bound")
    rows = [
        (f"{e:g}", f"{b.n:,}", f"{b.n - answer.quiet.n:,}", f"{b.parts.noise / b.total:.1%}")
        for e, b in answer.private.items()
    ]
    return table(head, rows)
