"""Everything that can hold records, built by the public ways from records that are known again."""

import threading
from dataclasses import replace

import numpy as np
import pyarrow.parquet
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ppadmm import (
    PrivateAdditiveClassifier,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    RunSpec,
)
from ppadmm.accounting import Budget
from ppadmm.algorithms import ALGORITHMS
from ppadmm.data import Partition, Shard, open_stream
from ppadmm.data.fingerprint import Cells, fingerprint
from ppadmm.data.multiset import Multiset
from ppadmm.data.stream.blocks import Writer
from ppadmm.data.stream.streamed import _plan
from ppadmm.datasets import load
from ppadmm.engines.ray.actors import Host
from ppadmm.engines.ray.tasks import Home
from ppadmm.estimator import training
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.ledger.sketch import Places, Sketch
from ppadmm.noise import SecureNoise
from ppadmm.peers.agreement import Agreement
from ppadmm.peers.agreement import Party as Member
from ppadmm.peers.loading import LoadedSite
from ppadmm.peers.outcome import RetrySchedule
from ppadmm.peers.site import Participant, SiteRecords
from ppadmm.peers.taking_part import SiteSettings, take_part
from ppadmm.planning.forecast import NoMasks, _coarse
from ppadmm.problem import (
    Logistic,
    Multinomial,
    StreamedRisk,
    Subproblem,
    make_graph,
    risk_of,
)
from ppadmm.problem.packed import Column, Joint
from ppadmm.runs.agent_factory import agent_factories
from ppadmm.runs.evaluation import AllScores, Binned
from ppadmm.runs.federation import make_agents
from ppadmm.runs.joint_evaluation import HeldOutRecords, _rules
from ppadmm.runs.ledger_session import LedgerOptions, open_session
from ppadmm.runs.run import execute, prepare, prepare_opened, train
from ppadmm.solvers import SOLVERS, FixedMetric, cold_start
from ppadmm.solvers.base import Point, Step
from ppadmm.solvers.each import Everyone
from ppadmm.solvers.single import At, Task
from ppadmm.studies.tune import _Plan, tune
from ppadmm.summing.masks import Masks, new_key, public_key
from ppadmm.summing.trust import LOCAL_TRUST
from tests.peers.hub import Hub
from tests.planted import SCHEMA, planted, planted_table

SPEC = RunSpec(agents=3, rounds=3, epsilon=20.0, delta=1e-3, graph="complete", beta=1e-7)
OTHERS = {"centralised": {"rounds": 1}, "one-shot": {"rounds": 1}}


def spec_of(algorithm, **changes):
    return replace(SPEC, algorithm=algorithm, **{**OTHERS.get(algorithm, {}), **changes})


def runs(data):
    """Results of every algorithm, with and without a seed."""
    for name in ALGORITHMS:
        yield train(spec_of(name), data=data)
    yield train(spec_of("pp", seed=1), data=data)
    yield train(spec_of("ipp", calibration="paper", seed=1), data=data)
    yield execute(prepare(spec_of("pp"), data))


def searches(data):
    yield tune(spec_of("pp"), (0.1, 1.0), data=data)
    yield tune(spec_of("centralised"), regularisations=(0.1, 1.0), how="repeat", data=data)


def fits(data):
    """Fitted classifiers: on arrays, and with a schema on a frame."""
    table = planted_table().to_pandas()
    public = {"delta": 1e-3, "rounds": 3, "n_agents": 3, "graph": "complete"}
    X, y = table[["age", "dose"]].to_numpy(), table["ill"].to_numpy()
    bounds = {"bounds": ([0, 0], [130, 2]), "classes": ["no", "yes"]}
    yield PrivateLogisticRegression(**public, **bounds).fit(X, y)
    yield PrivateLinearSVC(random_state=1, **public, **bounds).fit(X, y)
    yield PrivateLogisticRegression(random_state=1, schema=SCHEMA, **public).fit(table, y)
    additive = PrivateAdditiveClassifier(random_state=1, **public, **bounds).fit(X, y)
    yield from (additive, additive.explain_global())


def explained(secrets):
    """What follows from records by a model that is known."""
    table = planted_table().to_pandas()
    X, y = table[["age", "dose"]].to_numpy(), table["ill"].to_numpy()
    model = PrivateAdditiveClassifier(bounds=(0, 130), classes=["no", "yes"], random_state=1)
    found = model.fit(X, y).explain_local(X)
    secrets.numbers.append(found.scores.ravel())
    yield found


def networks(data, secrets):
    """Agents of every algorithm in the middle of a run, and what they are made from."""
    for name, changes in [*((name, {}) for name in ALGORITHMS), ("ipp", {"calibration": "paper"})]:
        prepared = prepare(spec_of(name, **changes), data)
        agents = started(prepared)
        yield from (prepared, prepared.federation, agents)
        yield from (agent.snapshot() for agent in agents)
        if prepared.spec.guaranteed and name not in ("gradient", "newton"):
            state = agents[0].snapshot().state
            secrets.numbers += [state.warm.point.ravel(), state.warm.risk_gradient.ravel()]
    yield from summing(data, secrets)
    yield _Plan(prepare(SPEC, data), ((0.1, 0.0), (1.0, 0.0)), "split", 4.0, 1.0)


def summing(data, secrets):
    """Sums: agents under masks, the same as a plan simulates it, and counts of held-out records."""
    prepared = prepare(spec_of("newton", trust="sum"), data)
    agents = started(prepared)
    yield from (agents, [agent.snapshot() for agent in agents], _coarse(agents[0].algorithm))
    other = {1: public_key(new_key())}
    yield from (Masks.between(0, new_key(), other, b"run"), NoMasks(0, b"", {}))
    tests = [HeldOutRecords(data.X.toarray(), data.y), HeldOutRecords(data.X.toarray(), data.y)]
    yield from (tests, _rules(tests, np.ones(data.d), Budget(1.0, 1e-3), LOCAL_TRUST, "zero-out"))


def started(prepared):
    """Agents that have spoken once."""
    sites = prepared.federation.sites(prepared.method, prepared.spec.budgets)
    agents = make_agents(
        prepared.spec.algorithm, sites, [prepared.settings] * len(sites), SecureNoise()
    )
    for agent in agents:
        agent.next()
    return agents


def acting(data, folder):
    """Hosts as a Ray actor has them, and their roles."""
    prepared = prepare(spec_of("pp", seed=1), data)
    own = [prepared.settings] * 3
    sent = agent_factories(prepared.federation, prepared.method, own, 1, False)
    (folder / "run").touch()
    host = Host(0, str(folder), Home())
    host.step(0, [], lambda: sent[0])
    yield from (sent, host)


def streams(folder, secrets):
    """Streamed records, some of them on disk."""
    table = planted_table(400, seed=1)
    place = folder / "records.parquet"
    pyarrow.parquet.write_table(table, place)
    opened = open_stream(str(place), SCHEMA, 20_000_000)
    dealt = replace(opened, memory=opened.pages + 20_000).deal(Partition(), 3, 0)
    blocks = [shard for part in (*dealt.parts, dealt.test) for shard in part.blocks()]
    for shard in blocks:
        secrets.add(shard.X, shard.y if shard.y.min() < 0 else None)
    prepared = prepare_opened(SPEC, opened)
    yield from (opened, dealt, prepared, started(prepared), StreamedRisk(dealt.test, Logistic()))
    own = [prepared.settings] * 3
    yield agent_factories(prepared.federation, prepared.method, own, 1, False)
    plan = _plan(opened, Partition(), 3)
    batch = next(opened._batches(plan.columns))
    writer = Writer(SCHEMA, 3, 10**6)
    writer.add(*SCHEMA.encode(batch.table), np.zeros(400, np.int32))
    parsed = SCHEMA.columns[0].parse(batch.table, ())
    cells = SCHEMA.columns[0].spread(parsed)
    secrets.numbers.append(cells.values.ravel())
    yield from (plan, batch, writer, parsed, cells, load(place, schema=SCHEMA))


def other_rows(data, secrets):
    """Records that are dense, sparse, of three classes and laid out for the kernel."""
    rng = np.random.default_rng(2)
    from scipy.sparse import csr_array

    X = rng.uniform(0.1, 0.4, (40, 4))
    y, three = np.where(rng.random(40) < 0.5, -1.0, 1.0), rng.integers(0, 3, 40).astype(float)
    secrets.add(X, y)
    secrets.labels.append(three)
    yield from (Shard(X, y), Shard(csr_array(X), y), Shard(X, three, 3), Shard(data.X, data.y))
    risks = [risk_of(Shard(X, y), Logistic()), risk_of(Shard(X, three, 3), Multinomial(3))]
    risks += [risk_of(Shard(data.X, data.y), Logistic())]
    for risk in risks:
        risk.gradient(np.zeros((1, risk.d)))
        risk.gradient(np.zeros((2, risk.d)), single=True)
    yield from (risks, data.X.T, Everyone((risks[2],)))
    sub = Subproblem(risks[2], np.array([0.1]), np.zeros((1, risks[2].d)))
    yield FixedMetric().solve(sub, cold_start(sub), 1e-8)
    codes = np.arange(40) % 7
    column = Column(codes, 7, feature=0)
    yield from (column, Joint(codes, 7, (column,)))
    scores = AllScores()
    scores.add(X[:, 0], y > 0)
    yield from (scores, Binned(X[0]))


def steps(secrets):
    """What every solver knows on its way."""
    rng = np.random.default_rng(3)
    X, y = rng.uniform(0.1, 0.4, (40, 4)), np.where(rng.random(40) < 0.5, -1.0, 1.0)
    for replicates in (1, 2):
        risk = risk_of(Shard(X, y), Logistic())
        linear = rng.normal(0, 0.01, (replicates, 4))
        sub = Subproblem(risk, np.full(replicates, 0.1), linear)
        for make in SOLVERS.values():
            found = make().solve(sub, cold_start(sub), 1e-8)
            yield from (sub, found)
    point = Point(found.point, found.warm.risk_gradient, found.warm.risk_gradient)
    yield from (point, Step(point, point, 0), At(found.point[0], found.warm.risk_gradient[0]))
    yield Task.of(sub, 1e-8)
    secrets.add(X, y)
    secrets.numbers += [found.point.ravel(), found.warm.risk_gradient.ravel()]


def remembered(data, folder):
    """What a ledger or a process knows records by."""
    known = fingerprint(data)
    with OwnerLedger.create(folder / "a.ledger", "owner") as ledger:
        ledger.grant("data frame", Budget(30.0, 1e-3))
    spec = prepare(SPEC, data).spec
    with open_session(
        LedgerOptions(folder / "a.ledger"), spec, (), name="a", schema=SCHEMA, fingerprint=known
    ) as booked:
        yield booked
    register = training.REGISTER
    yield from (register, register.earlier(register.fits[0].prints))
    rows = Multiset(1000)
    rows.add(known.digest)
    places = Places.of(known, b"key")
    yield from (known, rows, places, Sketch.of(places), Cells.of(data.table.column("age")))


def settings_of_peers(folder, **method):
    """Three sites that have an agreement."""
    keys = [Ed25519PrivateKey.from_private_bytes(bytes([i + 1]) * 32) for i in range(3)]
    public = [key.public_key().public_bytes_raw().hex() for key in keys]
    terms = Agreement(
        parties=tuple(Member(f"site {i}", public[i], 90, 20.0) for i in range(3)),
        edges=make_graph("complete", 3, 0).edges,
        schema=SCHEMA.digest(), parameters=SCHEMA.dimension, rounds=3, eta=1.0, delta=1e-3,
        beta=1e-7, weights="records", nonce="planted", patience=30.0, **method,
    )  # fmt: skip
    for i, key in enumerate(keys):
        party = Participant(terms, i, SiteRecords(SCHEMA, planted(seed=i)))
        place = folder / f"site-{i}"
        place.mkdir(parents=True)
        with OwnerLedger.create(place / "ledger", "owner") as ledger:
            ledger.grant("data frame", Budget(30.0, 1e-3))
        yield SiteSettings(party, key, terms.sign(key), place / "state", place / "ledger")


def peers(folder, **method):
    """Return results of sites that have run together, and the peers with their settings."""
    found, shown, settings = [], [], list(settings_of_peers(folder, **method))
    hub = Hub(settings[0].party.agreement.edges, cap=1 << 20)
    pace = RetrySchedule(first=0.02, longest=0.2, grace=1.0, wait=30)

    def go(setting):
        end = hub.end(setting.party.number)
        found.append(take_part(setting, end, pace, watch=shown.append))

    threads = [threading.Thread(target=go, args=(setting,)) for setting in settings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == len(shown) == 3
    loaded = LoadedSite(peer=None, settings=settings[0])
    return found, [*settings, loaded, *shown, *(peer.view() for peer in shown)]
