"""Cards, a draft and signatures from Python, without a network."""

from dataclasses import replace

import pytest

from ppadmm.algorithms.method import MethodSpec
from ppadmm.data import Label, Numeric, Schema
from ppadmm.errors import DataError, InputError
from ppadmm.peers.agreeing import (
    agreement_text,
    draft_agreement,
    make_card,
    review_agreement,
    sign_agreement,
)
from ppadmm.peers.agreement_file import load_signature
from ppadmm.peers.enrolling import new_site

SCHEMA = Schema(columns=(Numeric("age", 0, 100),), label=Label("ill", ("yes",), ("no",)))


@pytest.fixture
def sites(tmp_path):
    """Two sites with keys and forty records each; nothing was agreed yet."""
    found = [new_site(name, k, None, tmp_path / name) for k, name in enumerate(["north", "south"])]
    for site in found:
        rows = "".join(f"{20 + k},{'yes' if k % 3 else 'no'}\n" for k in range(40))
        (site.folder / "data.csv").write_text(f"age,ill\n{rows}")
        (site.folder / "schema.toml").write_text(SCHEMA.to_toml())
    return found


def drafted(sites, **method):
    cards = [make_card(site, 2.0) for site in sites]
    return draft_agreement(cards, "complete", MethodSpec(**method))


def test_from_cards_to_a_signature(sites):
    terms = drafted(sites, rounds=3, delta=1e-4)
    assert [party.records for party in terms.parties] == [40, 40]
    assert (terms.rounds, terms.delta, terms.algorithm) == (3, 1e-4, "pp")
    assert terms.digest in agreement_text(terms)
    assert "agent 1: south, 40 records, ε ≤ 2, dials out only; talks to 0" in agreement_text(terms)
    for k, site in enumerate(sites):
        part = review_agreement(site, terms)
        assert part.public.not_private_because == ()
        place = sign_agreement(site, part)
        assert terms.is_signed(k, load_signature(place, terms, k))
        assert not terms.is_signed(1 - k, load_signature(place, terms, k))


def test_what_is_left_open_is_chosen_from_public_sizes(sites):
    cards = [make_card(site, 2.0) for site in sites]
    first, second = draft_agreement(cards, "complete"), draft_agreement(cards[::-1], "complete")
    assert first.nonce != second.nonce
    assert replace(first, nonce=second.nonce) == second
    assert first.rounds >= 1
    assert first.eta > 0


def test_a_single_site_has_nobody_to_agree_with(sites):
    with pytest.raises(InputError, match=r"two sites or more, got 1.*`ppadmm train --agents 1`"):
        drafted(sites[:1])


def test_a_site_may_have_a_folder_of_files(sites):
    folder = sites[0].folder / "files"
    folder.mkdir()
    for name in ("first.csv", "second.csv"):
        (folder / name).write_text((sites[0].folder / "data.csv").read_text())
    assert make_card(replace(sites[0], data="files"), 2.0).party.records == 80


def test_a_card_has_no_record_in_it(sites):
    card = make_card(sites[0], 2.0)
    assert set(card.to_dict()) == {"format", "agent", "party", "schema"}
    assert set(card.to_dict()["party"]) == {"name", "key", "records", "epsilon", "endpoint"}
    assert card.schema == Schema.from_toml(sites[0].folder / sites[0].schema).to_dict()


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"algorithm": "centralised"}, "'centralised' pools all records"),
        ({"algorithm": "magic"}, "Unknown algorithm 'magic'"),
        ({"delta": 2.0}, "Expected 0 < delta < 1, got 2.0"),
        ({"eta": -1.0}, "-1.0"),
    ],
)
def test_terms_that_cannot_be_are_refused(sites, terms, words):
    with pytest.raises(InputError, match=words):
        drafted(sites, **terms)


def test_cards_of_nobody_and_of_one_site_twice(sites):
    card = make_card(sites[0], 2.0)
    with pytest.raises(InputError, match="a card of every site, got none"):
        draft_agreement([])
    with pytest.raises(InputError, match=r"Expected the sites 0 to 1, got \[0, 0\]"):
        draft_agreement([card, card])


def test_records_that_are_not_those_of_the_card_are_not_signed_for(sites):
    terms = drafted(sites)
    with (sites[0].folder / "data.csv").open("a") as file:
        file.write("50,yes\n")
    with pytest.raises(DataError, match="has 41 records, the agreement says 40"):
        review_agreement(sites[0], terms)
    assert not (sites[0].folder / sites[0].signature).exists()


def test_a_site_is_never_overwritten(sites):
    key = sites[0].keys.signing.read_bytes()
    with pytest.raises(InputError, match="exists already and is not overwritten"):
        new_site("north", 0, None, sites[0].folder)
    assert sites[0].keys.signing.read_bytes() == key
