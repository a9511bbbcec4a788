"""Drafts of schema files: what a person gets to correct and confirm."""

import datetime
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppadmm.data import Categorical, Numeric, Schema, infer_schema, suggest_schema
from ppadmm.data.suggest import round_out, suggest_toml
from ppadmm.datasets import load
from ppadmm.errors import DataError, InputError

N = 200
RNG = np.random.default_rng(5)
YES = ["yes", "no"] * (N // 2)


def draft(**columns):
    """The draft of a table with these columns and a label, as text and as a schema."""
    text = suggest_toml(pa.table(columns | {"ill": YES}), "ill", "people.csv")
    return text, Schema.from_dict(tomllib.loads(text))


def one(**columns):
    """The comments and the column that a draft has for its only column."""
    text, schema = draft(**columns, other=RNG.random(N))
    block = text.split("[[columns]]")[1]
    return block, schema.columns[0]


def left_out(cells):
    text, schema = draft(column=cells, other=RNG.random(N))
    assert [c.name for c in schema.columns] == ["other"]
    return next(line for line in text.splitlines() if line.startswith('# - "column": '))


def test_a_draft_says_that_it_is_not_public_until_a_person_confirms_it():
    text, schema = draft(age=RNG.integers(18, 90, N))
    assert not schema.confirmed
    assert "drafted from data are not public until a person confirms them" in text
    assert "Then set confirmed = true." in text
    assert "private: false" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_file_is_drafted_edited_and_confirmed(tmp_path):
    table = {"age": RNG.integers(18, 90, N), "sex": ["f", "m"] * (N // 2), "ill": YES}
    pa.csv.write_csv(pa.table(table), tmp_path / "people.csv")
    pq.write_table(pa.table(table), tmp_path / "people.parquet")
    text = suggest_schema(tmp_path / "people.csv", "ill")
    assert suggest_schema(tmp_path / "people.parquet", "ill") == text.replace(".csv", ".parquet")
    (tmp_path / "s.toml").write_text(text)
    assert not load(
        tmp_path / "people.csv", schema=Schema.from_toml(tmp_path / "s.toml")
    ).schema.confirmed
    (tmp_path / "s.toml").write_text(text.replace("confirmed = false", "confirmed = true", 1))
    data = load(tmp_path / "people.csv", schema=Schema.from_toml(tmp_path / "s.toml"))
    assert data.schema.confirmed
    assert data.schema.with_knots(0).dimension == 4


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (18, 89, (0, 100)),
        (0, 4.98, (0, 5)),
        (0.2, 1.1, (0, 1.5)),
        (1998, 2021, (1990, 2030)),
        (-40, 35, (-40, 40)),
        (-7, -3, (-7, -3)),
        (12, 27_602, (0, 30_000)),
        (0, 100, (0, 100)),
        (36.1, 41.9, (36, 42)),
    ],
)
def test_bounds_are_round_numbers(low, high, expected):
    assert round_out(low, high) == expected


@given(st.floats(-1e200, 1e200), st.floats(-1e200, 1e200))
def test_bounds_hold_what_they_were_drawn_from(a, b):
    low, high = round_out(min(a, b), max(a, b))
    assert low <= min(a, b)
    assert max(a, b) <= high


def test_numbers_texts_and_truth_values():
    _, schema = draft(
        age=[18, 89, *RNG.integers(20, 80, N - 2)],
        sex=["f", "m"] * (N // 2),
        smoker=[True, False] * (N // 2),
        weight=[*RNG.normal(75, 9, N - 1).round(1), None],
    )
    assert schema.columns == (
        Numeric("age", 0, 100),
        Categorical("sex", ("f", "m")),
        Categorical("smoker", ("false", "true")),
        schema.columns[3],
    )
    assert schema.columns[3].low <= 50 < 100 <= schema.columns[3].high


def test_no_extreme_value_is_quoted():
    text, _ = draft(pay=[12_345, 987_654, *RNG.integers(50_000, 90_000, N - 2)])
    assert "12345" not in text
    assert "987654" not in text


def test_few_whole_numbers_may_be_codes():
    text, c = one(grade=RNG.permutation([1, 2, 3, 4] * (N // 4)))
    assert c == Numeric("grade", 1, 4, whole=True)
    assert c.shape == "line"
    assert 'categories = ["1", "2", "3", "4"]' in text
    assert "# Whole numbers: a knot for every second one" in text
    assert "codes" not in one(flag=[0, 1] * (N // 2))[0]
    more = one(grade=RNG.permutation([0, 5, 10, 20] * (N // 4)))[1]
    assert more == Numeric("grade", 0, 20, whole=True)


@pytest.mark.parametrize("values", [(0, 1), (1, 2), (0.5, 7.25)])
def test_two_values_are_a_line_unless_some_are_missing(values):
    """In a line missing is 0, which is one of the two."""
    text, c = one(flag=list(values) * (N // 2))
    assert c.shape == "line"
    assert "# Two values: a line says all that there is to say.\n" in text
    text, c = one(flag=[None, None, *list(values) * (N // 2 - 1)])
    assert (c.shape, c.knots) == ("curve", 2)
    assert "# Two values and missing ones: a curve, where missing has a place of its own.\n" in text
    text, c = one(flag=[999, 999, *list(values) * (N // 2 - 1)])
    assert (c.shape, c.knots, c.missing) == ("curve", 2, ("999",))


def test_no_knot_depends_on_how_often_a_value_occurs():
    rare = [1, 2, 3, 4, *[1] * (N - 4)]
    assert one(grade=rare)[1] == one(grade=[1, 2, 3, 4] * (N // 4))[1]
    skewed = np.exp(RNG.normal(0, 2, N))
    assert one(cost=skewed)[1].knots is None


def test_spellings_of_one_category_become_synonyms():
    cells = RNG.permutation(["F", "f", " f", "M", "New York", "new  york", "NEWYORK", "d"] * 25)
    text, c = one(sex=cells)
    assert c == Categorical(
        "sex", ("M", "d", "f", "new  york"), {"f": ["F"], "new  york": ["NEWYORK", "New York"]}
    )
    assert "# Texts that differ by capitals or blanks only are taken for one: check" in text
    assert 'synonyms = {"f" = ["F"], ' in text
    assert "synonyms" not in one(sex=["f", "m"] * (N // 2))[0]


def test_many_rare_texts_may_be_others():
    usual = ["home", "work"] * (N // 2)
    rare = [f"rare {k}" for k in range(6)]
    remark = "Many are rare: list the common ones and write other = true for the rest."
    assert remark in one(place=usual[6:] + rare)[0]
    assert remark not in one(place=usual[4:] + rare[:4])[0]
    assert "or list the common ones and write other = true" in left_out(
        [f"town {i // 2}" for i in range(N)]
    )


@pytest.mark.parametrize(("code", "rest"), [(999, (0, 90)), (-9, (0, 90)), (-99, (20, 80))])
def test_a_code_for_missing_is_pointed_out_and_does_not_move_a_bound(code, rest):
    text, c = one(age=[code] * 5 + list(RNG.integers(*rest, N - 5)))
    assert f"# {code} stands apart, so it is taken for missing in this column: check it.\n" in text
    assert c.missing == (str(code),)
    assert 0 <= c.low < c.high <= 100


def test_values_that_belong_together_do_not_stand_apart():
    assert "stands apart" not in one(x=RNG.integers(900, 1000, N))[0]
    assert "stands apart" not in one(x=RNG.integers(-99, 100, N))[0]


def test_a_long_tail_is_pointed_out():
    assert 'scale = "log"' in one(cost=np.exp(RNG.normal(6, 2, N)))[0]
    assert 'scale = "log"' not in one(cost=RNG.random(N))[0]


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (range(1000, 1000 + N), "another whole number in every record: an identifier"),
        ([f"p-{i}" for i in range(N)], "another text in every record: an identifier"),
        ([f"town {i // 2}" for i in range(N)], "more than 50 different texts"),
        (["CH"] * N, "the same value in every record"),
        ([7.5] * N, "the same value in every record"),
        (pa.nulls(N), "it holds no values"),
        (["", "?"] * (N // 2), "it holds no values"),
        ([datetime.date(2020, 1, 1 + i % 9) for i in range(N)], "it holds date32[day]; make it"),
        ([b"a", b"b"] * (N // 2), "it holds binary"),
        ([*map(str, range(30, 30 + N - 1)), "about 50"], "mostly numbers, but some cells"),
    ],
)
def test_columns_that_are_no_features_are_left_out_with_the_reason(cells, why):
    assert why in left_out(cells)


def test_an_identifier_is_known_by_its_name():
    pay = RNG.choice(np.arange(30_000, 90_000), N, replace=False)
    text, schema = draft(patient_id=pay, pay=pay)
    assert [c.name for c in schema.columns] == ["pay"]
    assert "Another value in every record: if it is an identifier, remove the column." in text
    assert '# - "patient_id": another whole number in every record: an identifier' in text


def test_markers_of_missing_values_are_found(tmp_path):
    def some(marker, cells):
        return ["?" if i % 9 == 1 else marker if i % 9 == 0 else c for i, c in enumerate(cells)]

    numbers = [str(i % 50 + 30) for i in range(N)]
    table = {
        "a": some("NA", numbers),
        "b": some("-", numbers),
        "c": some("N/A", ["x", "y"] * (N // 2)),
        "d": some("None", ["Minor", "Major"] * (N // 2)),
        "e": some("nan", numbers),
        "ill": YES,
    }
    pa.csv.write_csv(pa.table(table), tmp_path / "a.csv")
    text = suggest_schema(tmp_path / "a.csv", "ill")
    schema = Schema.from_dict(tomllib.loads(text))
    assert schema.missing == ("", "?", "NA", "N/A", "nan", "-")
    assert '("NA", "N/A", "nan", "-" were found in the file)' in text
    assert [c for c in schema.columns if c.name != "d"] == [
        Numeric("a", 0, 80),
        Numeric("b", 0, 80),
        Categorical("c", ("x", "y")),
        Numeric("e", 0, 80),
    ]
    assert schema.columns[3] == Categorical("d", ("Major", "Minor", "None"))
    assert load(tmp_path / "a.csv", schema=schema).n == N


def test_names_cannot_write_into_the_file():
    name = 'x"\nconfirmed = true\n#'
    for cells in (RNG.random(N), ["same"] * N):
        _, schema = draft(**{name: cells, "other": RNG.random(N)})
        assert not schema.confirmed


def test_which_column_is_the_label_is_asked_with_what_might_be():
    table = pa.table({"age": range(N), "sex": ["f", "m"] * (N // 2), "ill": YES})
    with pytest.raises(InputError, match=r"'a\.csv' is the label.*two-valued are: sex, ill"):
        suggest_toml(table, None, "a.csv")
    with pytest.raises(InputError, match="none has two values"):
        suggest_toml(table.select(["age"]), None, "a.csv")
    with pytest.raises(DataError, match="no column 'sick'"):
        suggest_toml(table, "sick", "a.csv")
    with pytest.raises(DataError, match=r"No column of 'a\.csv' besides the label"):
        suggest_toml(table.select(["age", "ill"]), "ill", "a.csv")


def test_a_name_that_columns_share_is_left_out():
    table = pa.table([YES, list(range(N)), list(range(N)), RNG.random(N)], ["ill", "a", "a", "b"])
    text = suggest_toml(table, "ill", "people.csv")
    assert '# - "a": 2 columns have this name; rename them' in text
    assert [c.name for c in Schema.from_dict(tomllib.loads(text)).columns] == ["b"]


def test_an_identifier_is_known_by_its_name_whatever_stands_around_it():
    text, _ = draft(**{"Patienten-Nr.": RNG.permutation(10**6)[:N]}, other=RNG.random(N))
    assert '# - "Patienten-Nr.": another whole number in every record: an identifier' in text


def test_a_table_without_a_feature_is_refused_with_the_reasons():
    table = pa.table([YES, list(range(N)), list(range(N))], ["ill", "a", "a"])
    with pytest.raises(DataError, match=r"can be a feature \('a': 2 columns have this name"):
        suggest_toml(table, "ill", "people.csv")


def test_decimal_commas_are_pointed_out_not_taken_for_categories():
    cells = [f"{k % 40},{k % 7}" for k in range(N)]
    assert "numbers with a decimal comma; write a point" in left_out(cells)
    with pytest.raises(DataError, match="row 1: expected a finite number; correct"):
        infer_schema(pa.table({"x": cells, "ill": YES}), "ill")
    lists = [f"{k % 3},a" for k in range(N)]
    assert draft(x=lists)[1].columns[0] == Categorical("x", ("0,a", "1,a", "2,a"))


@pytest.mark.parametrize(
    "name", ["patient_id", "patientId", "PatientID", "id", "ID_patient", "Fall-Nr.", "case number"]
)
def test_an_identifier_that_repeats_is_left_out_with_the_reason(name):
    for cells in (RNG.permutation([*range(N // 4)] * 4) * 7, [f"p-{i % 40}" for i in range(N)]):
        text, schema = draft(**{name: cells}, other=RNG.random(N))
        assert [c.name for c in schema.columns] == ["other"]
        assert f'# - "{name}": looks like an identifier, by its name; if it holds public' in text
        assert "p-1" not in text


@pytest.mark.parametrize("name", ["paid", "number_of_children", "covid", "no_of_visits"])
def test_names_that_are_no_identifiers_of_persons(name):
    assert one(**{name: RNG.integers(0, 90, N)})[1] == Numeric(name, 0, 100)


def test_numbers_in_a_row_that_hardly_repeat_are_an_identifier_whatever_they_are_called():
    twice = RNG.permutation([*range(500, 500 + N // 2 + 1), *range(500, 500 + N // 2 - 1)])
    assert "looks like an identifier: numbers in a row, most of them in one" in left_out(twice)
    assert one(age=[18, 89, *RNG.integers(18, 90, N - 2)])[1] == Numeric("age", 0, 100)


def test_a_first_schema_has_no_identifiers_either():
    table = {"patient_id": [1, 1, 2, 2] * 5, "age": range(20), "ill": YES[:20]}
    assert [c.name for c in infer_schema(table, "ill").columns] == ["age"]
    del table["age"]
    with pytest.raises(DataError, match=r"'patient_id' is called an identifier; rename it, or"):
        infer_schema(table, "ill")


def test_what_a_draft_of_a_csv_file_lists_can_be_read(tmp_path):
    """Codes and classes as the file spells them: the schema is for texts."""
    rows = [f"{k % 2}.0,0{k % 3},{k % 4}.0,2024-01-{k % 28 + 1:02d}" for k in range(N)]
    (tmp_path / "a.csv").write_text("\n".join(["ill,ward,grade,day", *rows, ""]))
    text = suggest_schema(tmp_path / "a.csv", "ill")
    assert 'positive = ["1"]\nnegative = ["0"]' in text
    assert 'categories = ["00", "01", "02"]' in text
    assert 'categories = ["0", "1", "2", "3"]' in text
    assert '# - "day": it holds date32[day]; make it numbers or categories first' in text
    schema = Schema.from_dict(tomllib.loads(text))
    listed = (Categorical("ward", ("00", "01", "02")), Categorical("grade", tuple("0123")))
    for columns in (schema.columns, listed):
        data = load(tmp_path / "a.csv", schema=Schema(columns, schema.label))
        assert data.y.tolist() == [-1.0, 1.0] * (N // 2)
