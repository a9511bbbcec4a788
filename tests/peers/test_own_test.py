"""A site's own test records: judged at home, named in peer.toml, never trained on."""

import numpy as np
import pytest

from ppadmm.errors import DataError, InputError
from ppadmm.peers.loading import load_site
from ppadmm.peers.site import read_records, site_benefit
from ppadmm.runs.evaluation import judge
from tests.peers.sites import make_sites, write_records


@pytest.fixture
def sites(tmp_path):
    found = make_sites(tmp_path, n=2, graph="complete", rounds=4)
    for i, file in enumerate(found.files):
        write_records(file.parent / "test.csv", 200, seed=90 + i)
    return found


def with_test(sites, i, name="test.csv"):
    file = sites.files[i]
    text = file.read_text("utf-8")
    file.write_text(
        text.replace('data = "data.csv"', f'data = "data.csv"\ntest = "{name}"'), "utf-8"
    )
    return file


def test_a_site_judges_the_model_on_its_own_records(sites):
    site = load_site(with_test(sites, 0), seed=1)
    terms = site.settings.party.agreement
    model = np.linspace(3.0, -1.0, terms.parameters)
    found = site_benefit(site.settings.party, site.test, model)
    records = read_records(
        sites.files[0].parent / "test.csv",
        sites.files[0].parent / "schema.toml",
        knots=terms.knots,
    )
    held = (records.data.X, records.data.y)
    assert found.together == pytest.approx(float(judge(held, model[None]).error[0]))
    assert found.test_records == 200
    assert found.records == site.settings.party.records.n
    assert 0.0 <= found.alone <= 1.0


def test_without_test_records_nothing_is_judged(sites):
    assert load_site(sites.files[0], seed=1).test is None


@pytest.mark.parametrize(("name", "error"), [("nothing.csv", DataError), ("keys", InputError)])
def test_records_that_are_not_there_are_refused_before_the_run(sites, name, error):
    with pytest.raises(error, match=name):
        load_site(with_test(sites, 0, name), seed=1)
