"""No record in a text or a pickle, of any object.

Objects are built by the public ways from records that are known again (holders.py), and all
that they hold is looked at: what is printed shows none of them, and what can be pickled holds none.
"""

import importlib
import inspect
import pickle
import pkgutil
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pytest

import ppadmm
from ppadmm import records
from ppadmm.algorithms.sums import SumAlgorithm
from ppadmm.estimator import reuse_guard, training
from ppadmm.problem import kernels
from ppadmm.records import HoldsRecords
from tests.contracts.holders import (
    acting,
    explained,
    fits,
    networks,
    other_rows,
    peers,
    remembered,
    runs,
    searches,
    steps,
    streams,
)
from tests.planted import Secrets, pickled, planted, texts_of, within

EXAMPLES = 3
"""How many objects of a class are looked at."""
HOLDERS = (
    *("data", "datasets", "problem", "solvers", "algorithms", "agent", "engines", "runs", "peers"),
    *("planning", "studies", "auditing", "estimator", "doctor"),
)
"""Where records are: every class there is looked at, or is on the list below."""


PLAIN = {
    "public numbers and names": """
        algorithms.base.Recipe algorithms.defaults.Hyperparameters algorithms.defaults.Sizes
        data.sites.SiteFiles
        agent.Done agent.Wait data.stream.assignment.LabelReader datasets.named.DataSource
        data.schema.Classes data.interactions.Interaction data.interactions.Product
        studies.cell.Cell runs.ledger_session.LedgerOptions
        studies.compare.Grid mechanisms.minimiser.Place mechanisms.minimiser.FreeMinimiser
        accounting.accountant.Bound accounting.calibration.StepConstants
        problem.losses.HuberHinge problem.losses.OneMargin problem.multiclass.OneVsRest
        algorithms.statistics.LossDecrease algorithms.statistics.Movement
        solvers.newton.Newton solvers.quasi_newton.LBFGS doctor.Findings doctor.Look
        studies.plots.Style estimator.encoders.Frame estimator.training.FitTerms""",
    "looked at as each of its kinds": "estimator.base.PrivateModel algorithms.sums.SumAlgorithm",
    "noise sources, books of what was charged and released": """
        engines.ray.actors.Journal engines.vectorised.RowwiseNoise runs.scoring.ReplayedLedger
        runs.scoring.SearchLedger runs.scoring.SelectionRecord peers.site.Replayed""",
    "figures of finished runs": """
        runs.joint_evaluation.JointCounts
        studies.cell.CellResult studies.compare.ComparisonRow studies.figures.Block
        studies.figures.Figure studies.figures.Panel studies.figures.CurvePoint
        studies.figures.FigureSetting studies.figures.FigureSource studies.sweep.CellStore
        studies.sweep.Sweep auditing.membership.Membership auditing.audit.Audit
        auditing.statistics.Claim auditing.statistics.Finding runs.folder.Missing
        runs.saved.SavedRun runs.report.figures.AgentRow runs.report.figures.Coefficient
        runs.report.figures.Entry runs.report.figures.Figures runs.report.network.Node
        runs.report.svg.Axis runs.report.svg.Mark runs.report.svg.Series
        runs.bands.NoisyWalk runs.curves.DrawsCurves runs.curves.FittedCurve
        runs.curves.FittedCurves runs.report.curve_plots.CurvePlot
        runs.report.curve_plots.PlotPoint""",
    "made-up records, which anybody can make again": """
        auditing.sum_game.Coalition auditing.sum_game.SumGame
        planning.synthetic_records.SyntheticRecords auditing.attacks.ScoredRun
        auditing.audit.AgentGame auditing.audit.Game auditing.audit.GameScores
        auditing.game.ClassRecords auditing.opponents.PressFarOff
        auditing.game.MarginRecords auditing.game.Position auditing.game.Transcript
        auditing.game.NeighbouringData auditing.games.ScoreGame auditing.opponents.Echo
        auditing.opponents.FailingSolver auditing.opponents.Lean auditing.opponents.Mirror
        auditing.opponents.Press auditing.opponents.Push auditing.opponents.Steer
        auditing.opponents.Tempt auditing.opponents.TemptOutside auditing.opponents.WorstSolver
        auditing.audit.GameScores auditing.statistics.Claim auditing.statistics.Finding
        auditing.suite.AuditOptions""",
    "plans: public sizes and made-up populations": """
        planning.dealing.ByLabel planning.dealing.BySite planning.dealing.Evenly
        planning.error_ranges.Change planning.error_ranges.Forecast planning.forecast.Judged
        planning.joining.Absence planning.joining.Joining planning.joining.SiteForecast
        planning.joining.SiteGroup planning.joining_study.JoiningStudy planning.scenario.Scenario
        planning.populations.Guess planning.populations.SampleSizes
        planning.forecast.CoarseSolver planning.forecast.Population planning.forecast.Setup
        planning.forecast.ScaledRisk
        planning.result.Plan planning.result.Target planning.specification.PlanSpec
        planning.sample_bound.Choice planning.sample_bound.Parts
        planning.sample_bound.BoundSetting planning.sample_sizes.RecordsNeeded
        planning.sample_sizes.ErrorBound""",
    "keys, links and pages: they get messages, which hold what was released": """
        peers.parts.SignedWord
        peers.agreement_file.Card peers.check.ProbeAnswer
        peers.check.Check peers.check.CheckResult peers.settings.Link peers.settings.PeerFile
        peers.state.PeerState peers.status.JsonLines peers.pki.authority.Authority
        peers.pki.enrolment.Keys peers.pki.revocations.RevocationWatch
        peers.pki.revocations.Revocations peers.link_settings.Credentials
        peers.link_settings.LinkSettings peers.status_page.StatusPage peers.transport.Inbox
        peers.transport.Neighbour peers.transport.Status peers.zenoh.log.ZenohLog
        peers.zenoh.router.Router peers.pki.names.FileOf
        peers.zenoh.session.Line peers.zenoh.session.Strangers
        peers.zenoh.transport.ZenohTransport datasets.catalogue.Fetched
        peers.running.PeerDisplay peers.running.Watching peers.transport.Inbox""",
}
"""Classes that no record gets into, by reason."""


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
        patch.setattr(training, "REGISTER", reuse_guard.Register())
        folder = tmp_path_factory.mktemp("planted")
        data, secrets = planted(), Secrets.of(planted())
        results = [*runs(data), *searches(data), *fits(data)]
        done, kept = peers(folder)
        summed, summing = peers(folder / "sums", algorithm="newton", trust="sum")
        results += [*done, *summed]
        kept += summing
        kept += [
            data, *networks(data, secrets), *streams(folder, secrets), *other_rows(data, secrets),
            *steps(secrets), *remembered(data, folder), *acting(data, folder), *explained(secrets),
        ]  # fmt: skip
        found = defaultdict(list)
        for thing in within(*results, *kept):
            if len(found[type(thing)]) < EXAMPLES:
                found[type(thing)].append(thing)
    return World(dict(found), results, secrets)


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
    assert holders - set(world.things) == {HoldsRecords, SumAlgorithm}
