"""No record in a text or a pickle, of any object.

Objects are built by the public ways from records that are known again (tests/planted.py), and all
that they hold is looked at: what is printed shows none of them, and what can be pickled holds none.
"""

import importlib
import inspect
import pickle
import pkgutil
import threading
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import pyarrow.parquet
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import ppadmm
from ppadmm import PrivateLinearSVC, PrivateLogisticRegression, RunSpec, records
from ppadmm.accounting import Budget
from ppadmm.algorithms import ALGORITHMS
from ppadmm.data import Partition, Shard, open_stream
from ppadmm.data.fingerprint import Cells, fingerprint
from ppadmm.data.multiset import Multiset
from ppadmm.data.stream.blocks import Writer
from ppadmm.data.stream.streamed import _plan
from ppadmm.engines.ray.actors import Host
from ppadmm.engines.ray.tasks import Home
from ppadmm.estimator import classifiers, reuse_guard
from ppadmm.ledger.owner import OwnerLedger
from ppadmm.ledger.sketch import Places, Sketch
from ppadmm.noise import SecureNoise
from ppadmm.peers.agreement import Agreement
from ppadmm.peers.agreement import Party as Member
from ppadmm.peers.loading import LoadedSite
from ppadmm.peers.outcome import RetrySchedule
from ppadmm.peers.site import Participant, SiteRecords
from ppadmm.peers.taking_part import SiteSettings, take_part
from ppadmm.problem import (
    Logistic,
    Multinomial,
    StreamedRisk,
    Subproblem,
    kernels,
    make_graph,
    risk_of,
)
from ppadmm.problem.packed import Column, Joint
from ppadmm.records import HoldsRecords
from ppadmm.runs.agent_factory import agent_factories
from ppadmm.runs.evaluation import AllScores, Binned
from ppadmm.runs.federation import make_agents
from ppadmm.runs.ledger_session import LedgerOptions, open_session
from ppadmm.runs.run import execute, prepare, prepare_opened, train
from ppadmm.solvers import SOLVERS, FixedMetric, cold_start
from ppadmm.solvers.base import Point, Step
from ppadmm.solvers.each import Everyone
from ppadmm.solvers.single import At, Task
from ppadmm.studies.tune import _Plan, tune
from tests.peers.hub import Hub
from tests.planted import SCHEMA, Secrets, pickled, planted, planted_table, texts_of, within

SPEC = RunSpec(agents=3, rounds=3, epsilon=20.0, delta=1e-3, graph="complete", beta=1e-7)
OTHERS = {"centralised": {"rounds": 1}, "one-shot": {"rounds": 1}}
EXAMPLES = 3
"""How many objects of a class are looked at."""
HOLDERS = (
    *("data", "datasets", "problem", "solvers", "algorithms", "agent", "engines", "runs", "peers"),
    *("planning", "studies", "auditing", "estimator", "doctor"),
)
"""Where records are: every class there is looked at, or is on the list below."""


def spec_of(algorithm, **changes):
    return replace(SPEC, algorithm=algorithm, **{**OTHERS.get(algorithm, {}), **changes})


PLAIN = {
    "public numbers and names": """
        algorithms.base.Recipe algorithms.defaults.Hyperparameters algorithms.defaults.Sizes
        agent.Done agent.Wait data.stream.assignment.LabelReader datasets.named.DataSource
        data.schema.Classes studies.cell.Cell runs.ledger_session.LedgerOptions
        studies.compare.Grid mechanisms.minimiser.Place mechanisms.minimiser.FreeMinimiser
        accounting.accountant.Bound accounting.calibration.StepConstants
        problem.losses.HuberHinge problem.losses.OneMargin problem.multiclass.OneVsRest
        problem.risk.NoRecords algorithms.statistics.LossDecrease algorithms.statistics.Movement
        solvers.newton.Newton solvers.quasi_newton.LBFGS doctor.Findings doctor.Look
        studies.plots.Style""",
    "noise sources, books of what was charged and released": """
        engines.ray.actors.Journal engines.vectorised.RowwiseNoise runs.scoring.ReplayedLedger
        runs.scoring.SearchLedger runs.scoring.SelectionRecord peers.site.Replayed""",
    "figures of finished runs": """
        studies.cell.CellResult studies.compare.ComparisonRow studies.figures.Block
        studies.figures.Figure studies.figures.Panel studies.figures.CurvePoint
        studies.figures.FigureSetting studies.figures.FigureSource studies.sweep.CellStore
        studies.sweep.Sweep auditing.membership.Membership auditing.audit.Audit
        auditing.statistics.Claim auditing.statistics.Finding runs.folder.Missing
        runs.saved.SavedRun runs.report.figures.AgentRow runs.report.figures.Coefficient
        runs.report.figures.Entry runs.report.figures.Figures runs.report.network.Node
        runs.report.svg.Axis runs.report.svg.Mark runs.report.svg.Series""",
    "made-up records, which anybody can make again": """
        planning.synthetic_records.SyntheticRecords auditing.attacks.ScoredRun
        auditing.audit.AgentGame auditing.audit.Played
        auditing.game.ClassRecords
        auditing.game.MarginRecords auditing.game.Position auditing.game.Transcript
        auditing.game.NeighbouringData auditing.games.ScoreGame auditing.opponents.Echo
        auditing.opponents.FailingSolver auditing.opponents.Lean auditing.opponents.Mirror
        auditing.opponents.Press auditing.opponents.Push auditing.opponents.Steer
        auditing.opponents.Tempt auditing.opponents.TemptOutside auditing.opponents.WorstSolver
        auditing.audit.Played auditing.statistics.Claim auditing.statistics.Finding
        auditing.suite.AuditOptions""",
    "plans: public sizes and made-up populations": """
        planning.populations.Guess planning.populations.SampleSizes planning.forecast.Scenario
        planning.forecast.CoarseSolver planning.forecast.Population planning.forecast.Setup
        planning.forecast.ScaledRisk planning.result.Change planning.result.Forecast
        planning.result.Plan planning.result.Target planning.specification.PlanSpec
        planning.sample_bound.Choice planning.sample_bound.Parts
        planning.sample_bound.BoundSetting planning.sample_sizes.RecordsNeeded
        planning.sample_sizes.ErrorBound""",
    "keys, links and pages: they get messages, which hold what was released": """
        engines.ray.actors.Stored peers.agreement_file.Card peers.check.ProbeAnswer
        peers.check.Check peers.check.CheckResult peers.settings.Link peers.settings.PeerFile
        peers.state.PeerState peers.status.JsonLines peers.pki.authority.Authority
        peers.pki.enrolment.Keys peers.pki.revocations.RevocationWatch
        peers.pki.revocations.Revocations peers.link_settings.Credentials
        peers.link_settings.LinkSettings peers.status_page.StatusPage peers.transport.Inbox
        peers.transport.Neighbour peers.transport.Status peers.zenoh.log.ZenohLog
        peers.zenoh.router.Router
        peers.zenoh.session.Line peers.zenoh.session.Strangers
        peers.zenoh.transport.ZenohTransport datasets.catalogue.Fetched
        peers.running.PeerDisplay peers.running.Watching peers.transport.Inbox""",
}
"""Classes that no record gets into, by reason."""


# -- everything that can hold records ------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """All objects that were built, and what must not be seen of them."""

    things: dict
    results: list
    secrets: Secrets


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    pytest.importorskip("numba")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(kernels.VARIABLE, "numba")
        patch.setattr(classifiers, "REGISTER", reuse_guard.Register())
        folder = tmp_path_factory.mktemp("planted")
        data, secrets = planted(), Secrets.of(planted())
        results = [*runs(data), *searches(data), *fits(data)]
        done, kept = peers(folder)
        results += done
        kept += [
            data, *networks(data, secrets), *streams(folder, secrets), *other_rows(data, secrets),
            *steps(secrets), *remembered(data, folder), *acting(data, folder),
        ]  # fmt: skip
        found = defaultdict(list)
        for thing in within(*results, *kept):
            if len(found[type(thing)]) < EXAMPLES:
                found[type(thing)].append(thing)
    return World(dict(found), results, secrets)


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


def networks(data, secrets):
    """Agents of every algorithm in the middle of a run, and what they are made from."""
    for name, changes in [*((name, {}) for name in ALGORITHMS), ("ipp", {"calibration": "paper"})]:
        prepared = prepare(spec_of(name, **changes), data)
        agents = started(prepared)
        yield from (prepared, prepared.scene, agents)
        yield from (agent.snapshot() for agent in agents)
        if prepared.spec.guaranteed and name != "gradient":
            state = agents[0].snapshot().state
            secrets.numbers += [state.warm.point.ravel(), state.warm.risk_gradient.ravel()]
    yield _Plan(prepare(SPEC, data), ((0.1, 0.0), (1.0, 0.0)), "split", 4.0, 1.0)


def started(prepared):
    """Agents that have spoken once."""
    sites = prepared.scene.sites(prepared.spec.algorithm)
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
    sent = agent_factories(prepared.scene, "pp", own, 1, False)
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
    yield agent_factories(prepared.scene, "pp", [prepared.settings] * 3, 1, False)
    plan = _plan(opened, Partition(), 3)
    batch = next(opened._batches(plan.columns))
    writer = Writer(SCHEMA, 3, 10**6)
    writer.add(*SCHEMA.encode(batch.table), np.zeros(400, np.int32))
    yield from (plan, batch, writer)


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
    register = classifiers.REGISTER
    yield from (register, register.earlier(register.fits[0].prints))
    rows = Multiset(1000)
    rows.add(known.digest)
    places = Places.of(known, b"key")
    yield from (known, rows, places, Sketch.of(places), Cells.of(data.table.column("age")))


def settings_of_peers(folder):
    """Three sites that have an agreement."""
    keys = [Ed25519PrivateKey.from_private_bytes(bytes([i + 1]) * 32) for i in range(3)]
    public = [key.public_key().public_bytes_raw().hex() for key in keys]
    terms = Agreement(
        parties=tuple(Member(f"site {i}", public[i], 90, 20.0) for i in range(3)),
        edges=make_graph("complete", 3, 0).edges,
        schema=SCHEMA.digest(), parameters=SCHEMA.dimension, rounds=3, eta=1.0, delta=1e-3,
        beta=1e-7, nonce="planted", patience=30.0,
    )  # fmt: skip
    for i, key in enumerate(keys):
        party = Participant(terms, i, SiteRecords(SCHEMA, planted(seed=i)))
        place = folder / f"site-{i}"
        place.mkdir(parents=True)
        with OwnerLedger.create(place / "ledger", "owner") as ledger:
            ledger.grant("data frame", Budget(30.0, 1e-3))
        yield SiteSettings(party, key, terms.sign(key), place / "state", place / "ledger")


def peers(folder):
    """Return results of sites that have run together, and the peers with their settings."""
    found, shown, settings = [], [], list(settings_of_peers(folder))
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


# -- what is asked of them -----------------------------------------------------------------------


def test_the_planted_records_are_known_again_in_texts_and_bytes():
    """The test can fail: numbers, labels and names are seen where they are."""
    data = planted()
    secrets = Secrets.of(data)
    for shown in (data.X.toarray(), data.X.numeric[:, 0] - 0.0, data.y, data.table["name"]):
        assert secrets.in_text(texts_of(shown))
        assert secrets.in_bytes(pickle.dumps(np.asarray(shown)))
    assert secrets.in_bytes(pickle.dumps(data.X.toarray().astype(np.float32)))
    assert secrets.in_bytes(pickle.dumps(data.X.toarray().tolist()))
    assert not secrets.in_text(texts_of(np.random.default_rng(0).random(10_000)))
    assert not secrets.in_bytes(pickle.dumps(np.random.default_rng(0).random(10_000)))


def test_nothing_shows_a_record(world):
    shown = {
        kind.__name__: found
        for kind, things in world.things.items()
        for thing in things
        if (found := world.secrets.in_text(texts_of(thing)))
    }
    assert shown == {}


def test_no_careless_pickle_holds_a_record(world):
    held = {
        kind.__name__: found
        for kind, things in world.things.items()
        for thing in things
        if (data := pickled(thing)) and (found := world.secrets.in_bytes(data))
    }
    assert held == {}


def test_what_holds_records_refuses_with_the_way_out(world):
    holders = [t for things in world.things.values() for t in things if holds(type(t))]
    assert len(holders) > 60
    for holder in holders:
        name = type(holder).__name__
        with pytest.raises(TypeError, match=f"This {name} holds records.*moving_records"):
            pickle.dumps(holder)
        assert repr(holder).startswith((f"<{name}", f"{name} of"))


def test_results_are_pickled_as_they_are(world):
    for result in world.results:
        again = pickle.loads(pickle.dumps(result))
        if hasattr(result, "to_dict"):
            assert again.to_dict() == result.to_dict()
        assert not [thing for thing in within(result) if holds(type(thing))]


def holds(kind):
    return issubclass(kind, HoldsRecords) or kind.__reduce_ex__ is records.reduced


def classes():
    """Return every class of the package, by module and name."""
    found = {}
    for info in pkgutil.walk_packages(ppadmm.__path__, "ppadmm."):
        module = importlib.import_module(info.name)
        for kind in vars(module).values():
            if inspect.isclass(kind) and kind.__module__ == info.name:
                found[f"{info.name.removeprefix('ppadmm.')}.{kind.__name__}"] = kind
    return found


def public():
    """Return the classes that a package or module lists as its own, and all where records are."""
    listed = set()
    for name in ["ppadmm", *(i.name for i in pkgutil.walk_packages(ppadmm.__path__, "ppadmm."))]:
        module = importlib.import_module(name)
        listed |= {getattr(module, each) for each in getattr(module, "__all__", ())
                   if inspect.isclass(getattr(module, each))}  # fmt: skip
    for name, kind in classes().items():
        if name.split(".")[0] in HOLDERS and not kind.__name__.startswith("_"):
            listed.add(kind)
    return {
        kind
        for kind in listed
        if not issubclass(kind, Exception) and not getattr(kind, "_is_protocol", False)
    }


def test_every_public_class_is_looked_at(world):
    """A new class belongs among the objects above, or on the list with a reason."""
    known = {name for names in PLAIN.values() for name in names.split()}
    unknown = {k.__module__ + "." + k.__name__ for k in public() - set(world.things)}
    unknown = {name.removeprefix("ppadmm.") for name in unknown}
    assert not (unknown - known), " ".join(sorted(unknown - known))
    gone = " ".join(sorted(known - unknown))
    assert not gone, f"these are looked at, or gone: strike them off: {gone}"


def test_every_holder_is_looked_at(world):
    holders = {kind for kind in classes().values() if holds(kind)}
    assert holders - set(world.things) == {HoldsRecords}
