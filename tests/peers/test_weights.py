"""Weights of parties: from the numbers of records that all signed, and from nothing else."""

from dataclasses import replace

import pytest

from ppadmm.errors import CertificateError, InputError
from ppadmm.peers.agreement_file import save_agreement
from ppadmm.peers.certified import verify_certificates
from ppadmm.peers.facts import facts_of
from ppadmm.peers.site import PublicPart
from ppadmm.statements.certificate import WEIGHT, check, issue
from ppadmm.statements.facts import disclosure_of, statement_of
from tests.peers.in_memory import agreed, graph_of, key_of
from tests.peers.sites import SCHEMA
from tests.small_runs import resigned

RECORDS = (300, 20, 4000)


def terms(**changes):
    return agreed(
        graph_of(3, "complete"), RECORDS, schema=SCHEMA.digest(), parameters=SCHEMA.dimension,
        beta=1e-7, **changes,
    )  # fmt: skip


def certificate(i, agreement, change=None):
    """The certificate of a site that has finished, as it is or changed by its own signer."""
    part = PublicPart(agreement, i, SCHEMA, "records")
    facts = facts_of(part, part.reserved[i], part.reserved[i], agreement.rounds)
    data = issue(
        disclosure_of(facts, statement_of(facts)), key_of(i), name=agreement.parties[i].name,
        model=b"m", releases=b"r", issued="2026-11-18", peers=[p.key for p in agreement.parties],
    )  # fmt: skip
    return data if change is None else resigned(data, key_of(i), change)


def divided(agent, by):
    """Make a weight smaller, with the κ that follows: noise that is too small looks sufficient."""
    agent["weight"] /= by
    for event in (*agent["reserved"], *agent["booked"]):
        if "kappa" in event:
            event["kappa"] /= by


def lighter(body):
    divided(body["statement"]["agents"][0], 10.0)


def alike(body):
    agent = body["statement"]["agents"][0]
    divided(agent, agent["weight"])
    body["statement"]["run"]["weights"] = "equal"


@pytest.fixture
def written(tmp_path):
    """Write the agreement and certificates; return their paths."""

    def write(changes):
        agreement = terms()
        save_agreement(agreement, tmp_path / "agreement.json")
        paths = [tmp_path / f"{i}.json" for i in changes]
        for path, (i, change) in zip(paths, changes.items(), strict=True):
            path.write_bytes(certificate(i, agreement, change))
        return paths, tmp_path / "agreement.json"

    return write


def test_weights_follow_from_what_all_signed():
    agreement = terms()
    assert agreement.site_weights == pytest.approx([3 * n / 4320 for n in RECORDS])
    assert replace(agreement, weights="equal").site_weights == (1.0,) * 3
    for i, part in enumerate(agreement.parties):
        said = check(certificate(i, agreement)).statement["agents"][0]
        assert (said["records"], said["weight"]) == (part.records, agreement.site_weights[i])


def test_all_certificates_of_a_run_hold_together(written):
    paths, agreement = written({0: None, 1: None, 2: None})
    keys = [party.key for party in terms().parties]
    for verdict in (
        *verify_certificates(paths, keys),
        *verify_certificates(paths, (), None, None, agreement),
    ):
        assert verdict.unchecked == ()


def test_weights_by_noise_are_those_of_the_budgets_that_all_signed(written):
    agreement = terms(weights="noise")
    first, *others = agreement.parties
    generous = replace(agreement, parties=(replace(first, epsilon=4 * first.epsilon), *others))
    assert generous.site_weights[0] > agreement.site_weights[0]
    said = [check(certificate(i, generous)).statement["agents"][0]["weight"] for i in range(3)]
    assert tuple(said) == generous.site_weights
    assert sum(said) == pytest.approx(3.0)


def test_two_sites_tell_on_a_third_by_noise_too(tmp_path):
    agreement, paths = terms(weights="noise"), [tmp_path / "0.json", tmp_path / "2.json"]
    for i, path in zip((0, 2), paths, strict=True):
        path.write_bytes(certificate(i, agreement))
    verify_certificates(paths)
    paths[1].write_bytes(certificate(2, agreement, lighter))
    with pytest.raises(CertificateError, match=r"each record of 'site 2' has a weight of"):
        verify_certificates(paths)


def test_one_site_alone_cannot_show_its_weight_and_verify_says_so(written):
    (path,), agreement = written({2: lighter})
    (verdict,) = verify_certificates([path])
    assert WEIGHT in verdict.unchecked
    with pytest.raises(CertificateError, match=r"agents is \[\[2, 'site 2', 4000, 0.2777"):
        verify_certificates([path], agreement=agreement)


def test_a_weight_of_one_under_an_agreement_by_records_is_refused(written):
    (path,), agreement = written({2: alike})
    with pytest.raises(CertificateError, match=r"run.weights is 'equal', agreed is 'records'"):
        verify_certificates([path], agreement=agreement)


def test_a_loss_that_was_not_agreed_on_is_refused(written):
    """Of an unknown one κ cannot be worked out again."""

    def unknown(body):
        lighter(body)
        body["statement"]["agents"][0]["weight"] *= 10.0
        body["statement"]["run"]["loss"] = "mine"

    (path,), agreement = written({2: unknown})
    assert any("κ" in note for note in verify_certificates([path])[0].unchecked)
    with pytest.raises(CertificateError, match=r"run.loss is 'mine', agreed is 'logistic'"):
        verify_certificates([path], agreement=agreement)


def test_two_sites_tell_on_a_third(written):
    paths, _ = written({0: None, 2: lighter})
    with pytest.raises(
        CertificateError,
        match=r"each record of 'site 2' has a weight of 6.94444e-05, of 'site 0' 0.000694444",
    ):
        verify_certificates(paths)


def test_all_lying_in_the_same_way_do_not_add_up(written):
    paths, _ = written({0: lighter, 1: lighter, 2: lighter})
    with pytest.raises(CertificateError, match=r"3 sites with records add up to 0.3"):
        verify_certificates(paths)
    assert WEIGHT in verify_certificates(paths[:2])[1].unchecked


def test_who_says_it_has_more_records_changes_nobody_elses_guarantee():
    """The others' noise is for their own n and the weights that all signed: ε stays what it was.

    What a liar gains is influence: the others' weights shrink.
    """
    honest, lie = terms(), terms()
    liar = replace(lie.parties[1], records=10**6)
    lie = replace(lie, parties=(lie.parties[0], liar, lie.parties[2]))
    assert lie.site_weights[1] > 2.98
    for i in (0, 2):
        assert lie.site_weights[i] < 0.02
        for agreement in (honest, lie):
            said = check(certificate(i, agreement)).statement
            assert said["private"]
            assert said["agents"][0]["epsilon"] <= 1.0
        mine, theirs = (PublicPart(t, i, SCHEMA, "r").rule(i) for t in (honest, lie))
        assert theirs.mechanism.reach.mu > mine.mechanism.reach.mu
        assert theirs.mechanism.noises[0].sigma1 <= mine.mechanism.noises[0].sigma1


def test_all_parties_find_the_same_radius():
    for algorithm in ("pp", "ipp", "gradient", "one-shot"):
        agreement = terms(algorithm=algorithm, regularisation=30.0)
        found = {float(PublicPart(agreement, 0, SCHEMA, "r").rule(i).radius[0]) for i in range(3)}
        assert len(found) == 1, algorithm


def test_an_agreement_in_which_nobody_has_records_has_no_weights():
    with pytest.raises(InputError, match="weighed by their records, and none has any"):
        _ = agreed(graph_of(3), 0).site_weights
