"""Whom a run trusts: told first, in words of its own, and checked against the noise."""

import json
import math

import pytest

from ppadmm.errors import CertificateError, InputError
from ppadmm.runs.certificates import verdicts_text
from ppadmm.runs.folder import model_dict
from ppadmm.runs.specification import RunSpec
from ppadmm.runs.text import summary
from ppadmm.statements import trust_claim
from ppadmm.statements.certificate import check
from ppadmm.statements.claims import LOCAL_PERSONS, SUM_PERSONS
from ppadmm.statements.recheck import require_true
from ppadmm.statements.trust_claim import TrustClaim
from tests.small_runs import finished, folder_of
from tests.statements.signed import certificate, forged, statement

OF_LOCAL = (
    *trust_claim.UNITS.values(), *trust_claim.SEEN.values(), *trust_claim.AGAINST.values(),
    *trust_claim.ASSUMED.values(), *LOCAL_PERSONS, "private by itself", "of an agent are covered",
    "rests on its own noise alone", "all other agents", "one record of one agent",
)  # fmt: skip
OF_SUMS = (
    *trust_claim.SUM_UNITS.values(), *SUM_PERSONS, trust_claim.FOLLOWED, trust_claim.SECURE,
    trust_claim.UNNOTICED, "sums are covered", "in sums of", "collude", "masked",
    "share of the noise",
)  # fmt: skip
LOCAL, SUMS = ("private", "newton", "pooled", "unequal"), ("sums", "seeded-sums", "unequal-sums")


def told(name):
    """All that a person reads about the privacy of a run, as one text."""
    result = finished(name)
    page = (folder_of(name) / "report.html").read_text()
    files = json.dumps([result.disclosure(), model_dict(result)], ensure_ascii=False)
    return "\n".join([summary(result), str(result.statement), files, page]).replace("\n  ", " ")


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_is_never_told_in_words_of_local_noise(name):
    text = told(name)
    assert [words for words in OF_LOCAL if words in text] == []


@pytest.mark.parametrize("name", LOCAL)
def test_local_noise_is_never_told_in_words_of_sums(name):
    text = told(name)
    assert [words for words in OF_SUMS if words in text] == []


def test_the_first_line_of_a_sum_names_it_with_its_numbers():
    said = str(finished("sums").statement).splitlines()
    assert said[0].startswith("PRIVATE, in sums of 4 sites, at most 2 colluding: ε = ")
    assert said[1].startswith("Trust: sum, N = 4 sites, c = 2 of them may collude. ")
    assert "any 2 of the 4 sites that put together what they know" in said[2]
    assert "at most c = 2 of the N = 4 sites" in said[3]
    assert said[3].count("; that ") == 2
    assert said[4] == trust_claim.UNNOTICED


def test_local_trust_is_the_second_line():
    assert "\nTrust: local, N = 4 sites. " in str(finished("private").statement)
    assert "\nTrust: one place for all records. " in str(finished("pooled").statement)


def test_a_run_that_is_not_private_holds_against_nobody():
    text = str(finished("seeded-sums").statement)
    assert text.startswith("NOT PRIVATE")
    assert "\nTrust model of a private run of this kind: sum, N = 4 sites" in text
    assert "It holds" not in text
    assert "Trust" not in str(finished("bare").statement)


@pytest.mark.parametrize(
    ("c", "words"),
    [
        (0, "everybody outside the sites, and none of the sites themselves"),
        (1, "any one of the 9 sites, its own noise taken off"),
        (4, "any 4 of the 9 sites that put together"),
    ],
)
def test_against_whom_follows_from_c(c, words):
    assert words in TrustClaim("sum", 9, c, 0, 100).against


def test_the_report_names_trust_in_its_verdict():
    page = (folder_of("sums") / "report.html").read_text()
    verdict = page[page.index('id="verdict"') : page.index("<nav")]
    for words in ("in sums of 4 sites, at most 2 colluding", "N = 4 sites", "c = 2", "assumed"):
        assert words in verdict


def test_all_sites_of_a_sum_have_the_strictest_budget():
    said = finished("unequal-sums").disclosure()
    assert {agent["claimed"] for agent in said["agents"]} == {1.0}
    assert said["epsilon"] <= 1.0
    assert len({agent["noise"]["sigma1"] for agent in said["agents"]}) == 1


@pytest.mark.parametrize("name", ["newton", *SUMS])
def test_a_true_statement_of_newton_is_true(name):
    assert require_true(statement(name)) == []


def test_a_share_is_as_large_as_n_and_c_make_it():
    """4 sites, 2 of whom may collude: 2 shares are the noise of the sum."""
    said = statement("sums")
    slopes = max(
        said["agents"][0]["reserved"], key=lambda e: (e["event"] == "Gaussian", e["times"])
    )
    alone = 2.0 / said["trust"]["records"] / slopes["ratio"]
    assert said["agents"][0]["noise"]["sigma1"] == pytest.approx(alone / math.sqrt(2), rel=2e-3)


# -- lies that a signer could tell -------------------------------------------------------------


def local_words(said):
    """Call sums local, in all the words of it."""
    claim = TrustClaim("local", said["trust"]["sites"], None, 0, said["trust"]["records"])
    said.update(trust=claim.to_dict(), unit=claim.unit(said["adjacency"]))


def another_c(c):
    def change(said):
        plain = said["trust"]
        said["trust"] = TrustClaim("sum", plain["sites"], c, 0, plain["records"]).to_dict()

    return change


def smaller(name, factor):
    def change(said):
        for agent in said["agents"]:
            agent["noise"][name] *= factor

    return change


def more_records(said):
    plain = said["trust"]
    claim = TrustClaim("sum", plain["sites"], plain["colluding"], 0, 2 * plain["records"])
    said["trust"] = claim.to_dict()


def fewer_events(said):
    for agent in said["agents"]:
        agent["reserved"] = agent["reserved"][2:]
        agent["booked"] = agent["booked"][2:]
        agent["releases"] -= 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (local_words, "the terms release|share of the noise"),
        (lambda said: said["trust"].update(kind="local"), "collude"),
        (lambda said: said.update(unit=trust_claim.UNITS["replace-one"]), "It speaks of"),
        (another_c(1), "its share of the noise"),
        (another_c(3), "its share of the noise"),
        (another_c(4), "cannot collude"),
        (lambda said: said["trust"].update(colluding=1), "Its words are not those of trust"),
        (lambda said: said["trust"].update(sees="Nobody sees anything."), "Its words are not"),
        (lambda said: said["trust"].update(assumes=[]), "Its words are not"),
        (lambda said: said["trust"].update(sites=5), "names 5 sites, its network has 4"),
        (smaller("sigma1", 0.99), "its share of the noise, sigma1"),
        (smaller("sigma_moments", 0.5), "its share of the noise, sigma_moments"),
        (smaller("sigma1", 0.0), "names no noise sigma1"),
        (more_records, "records, its agents have"),
        (fewer_events, "its share of the noise, sigma_moments"),
        (lambda said: said.update(epsilon=0.5 * said["epsilon"]), "the events give|the largest"),
        (lambda said: said["agents"][0].update(claimed=9.0), "one ε for all sites"),
        (lambda said: said["run"].update(algorithm="pp"), "has no sums"),
    ],
)  # fmt: skip
def test_a_signer_who_changes_a_sum_is_refused(change, words):
    with pytest.raises(CertificateError, match=words):
        check(forged(lambda body: change(body["statement"]), "sums"))


def test_a_raised_budget_is_not_what_was_calibrated():
    """A larger ε than the events give is true, and told."""

    def raised(body):
        for agent in (*body["statement"]["agents"], body["statement"]):
            agent["epsilon"] = 1.5 * agent["epsilon"]

    with pytest.raises(CertificateError, match="It claims ε = 3"):
        check(forged(raised, "sums"))


@pytest.mark.parametrize("factor", [0.5, 0.99])
def test_local_noise_that_is_too_small_for_its_events_is_refused(factor):
    with pytest.raises(CertificateError, match="the terms release"):
        check(forged(lambda body: smaller("sigma1", factor)(body["statement"]), "newton"))


def test_verify_says_what_it_checked_and_what_nobody_can(tmp_path):
    verdict = check(certificate("sums"))
    text = verdicts_text([tmp_path], [verdict]).replace("\n  ", " ")
    assert "PRIVATE, in sums of 4 sites, at most 2 colluding" in text
    assert "its share of the noise, from N, c and the records of all sites" in text
    assert "that no site lied in a sum" in text
    assert "no site lied" not in verdicts_text([tmp_path], [check(certificate("newton"))])
    assert verdict.to_dict()["trust"]["colluding"] == 2


# -- what cannot be ----------------------------------------------------------------------------


def test_an_algorithm_without_sums_is_refused_with_the_way_out():
    with pytest.raises(InputError, match=r"'pp' needs what each site says.*choose one of: newton"):
        RunSpec(trust="sum")


@pytest.mark.parametrize(
    ("sites", "c", "words"), [(1, 0, "two sites or more"), (2, 2, "colluding below 2")]
)
def test_sums_need_somebody_who_does_not_collude(sites, c, words):
    with pytest.raises(InputError, match=words):
        RunSpec(algorithm="newton", trust="sum", colluding=c).trusting.honest(sites)
