"""Columns of times, of vectors, of numbers in local notation, and of texts that hardly repeat."""

import json
import random
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import fmcli

QUICK = ("-q", "-e", "2", "--holdout", "0", "--no-quick-search")
DAYS = [datetime(2024, 2, 27) + timedelta(hours=11 * n, minutes=n) for n in range(120)]


def write(path, header, rows, delimiter=","):
    """Write a table with a label y, which is 0 or 1."""
    lines = [delimiter.join([*header, "y"]), *(delimiter.join([*row, str(n % 2)]) for n, row in enumerate(rows))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def features_of(days, hours, name="when"):
    """Return the features of times, by Python's own calendar."""
    found = [f"{name}.month={days.month}:1", f"{name}.weekday={days.isoweekday()}:1"]
    found += [f"{name}.hour={days.hour}:1"] if hours else []
    number = np.float32(days.replace(tzinfo=UTC).timestamp() / 86400)
    return found, number


FORMS = {
    "iso": ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:00Z", "%Y-%m-%d %H:%M:00 UTC", "%Y/%m/%d %H:%M:00.5"),
    "day": ("%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y %H:%M", "%d/%m/%Y %I:%M %p"),
    "names": ("%d-%b-%Y", "%d %B %Y", "%b %d, %Y %H:%M", "%B %d %Y"),
    "month": ("%m/%d/%Y", "%m-%d-%Y %H:%M", "%m/%d/%Y %I:%M:00%p", "%m/%d/%Y %H:%M+00:00"),
}


@pytest.mark.parametrize("form", [one for forms in FORMS.values() for one in forms])
def test_times_are_months_weekdays_hours_and_days(run, tmp_path, form):
    hours = "%M" in form
    write(tmp_path / "t.csv", ["when"], [[f"{one:{form}}"] for one in DAYS], "\t")
    lines = run.ok("convert", "-q", "--label", "y", "t.csv").stdout.decode().splitlines()
    for line, day in zip(lines, DAYS, strict=True):
        *categories, number = line.split()[1:]
        expected, days = features_of(day if hours else datetime(day.year, day.month, day.day), hours)
        assert categories == expected
        assert number.startswith("when:")
        assert abs(np.float32(number.removeprefix("when:")) - days) <= (1e-3 if hours else 0)
    run.ok("train", *QUICK, "--label", "y", "-o", "m.fm", "t.csv")
    later = f"{datetime(2031, 12, 31, 9):{form}}"
    (tmp_path / "new.csv").write_text(f'when\n"{later}"\n')
    run.ok("predict", "-q", "m.fm", "new.csv")
    (tmp_path / "new.csv").write_text("when\nsoon\n")
    done = run.fails(65, "predict", "m.fm", "new.csv")
    assert "new.csv:2:1: found 'soon', expected a date and time in the column 'when'; dates and t" in done.stderr


def test_ends_of_lines_and_commas_of_numbers_are_named(run, tmp_path):
    (tmp_path / "t.csv").write_text("a;y\n" + "x;1;;\nz;0;;\n" * 5)
    done = run.fails(65, "train", "--label", "y", "t.csv")
    assert "t.csv:2:1: found 'x;1;;', expected 2 cells; the row has 4, and" in done.stderr
    assert "delete the ;; at the ends of lines, or name these columns" in done.stderr
    rows = "".join(f"{n},6;{n % 2}\n" for n in range(100))
    for text, names in (("price, EUR;y\n" + rows, ()), (rows, ("--columns", "price,y"))):
        (tmp_path / "t.csv").write_text(text)
        done = run.fails(65, "train", "--label", "y", *names, "t.csv")
        assert "t.csv:1: found commas and semicolons in all lines, as many semicolons in each" in done.stderr
        assert "use --delimiter ';' if semicolons separate cells, or --delimiter , if commas do" in done.stderr
        done = run.fails(65, "train", "--label", "y", *names, "--delimiter", ";", "t.csv")
        assert "use --decimal , if" in done.stderr
        more = (*names, "--delimiter", ";", "--decimal", ",")
        run.ok("train", *QUICK, "--label", "y", *more, "-o", "m.fm", "t.csv")
        assert len(run.ok("predict", "-q", "m.fm", "t.csv").stdout.split()) == 100
    (tmp_path / "t.csv").write_text('a,"b;c",y\n1.5,"x;y",0\n2.5,u,1\n')
    run.ok("train", *QUICK, "--label", "y", "-o", "m.fm", "t.csv")


def test_the_whole_column_tells_what_dates_begin_with(run, tmp_path):
    write(tmp_path / "t.csv", ["a", "b"], [["03/04/2025", "01-02-2025"], ["04/13/2025", "21-07-2025"]] * 40)
    columns = json.loads(run.ok("train", "--label", "y", "--print-schema", "t.csv").stdout)
    assert columns["orders"] == {"a": "month", "b": "day"}
    assert columns["hours"] == []
    write(tmp_path / "t.csv", ["a", "b"], [["03/04/2025", "x"], ["04/05/2025", "y"]] * 40)
    done = run.fails(65, "train", "--label", "y", "t.csv")
    assert "the column 'a' has dates such as '03/04/2025': the day or the month may be first" in done.stderr
    assert "2025-12-31; use --ignore a to leave them out, or --categorical a for names" in done.stderr
    run.ok("train", *QUICK, "--label", "y", "--categorical", "a", "-o", "m.fm", "t.csv")
    done = run.fails(65, "train", "--label", "y", "--holdout", "time:a:0.1", "t.csv")
    assert ": the day or the month may be first; write them as 2025-12-31\n" in done.stderr
    write(tmp_path / "t.csv", ["a"], [["13/04/2025"], ["04/13/2025"]] * 40)
    assert "day is first in some, and the month in others" in run.fails(65, "train", "--label", "y", "t.csv").stderr
    write(tmp_path / "t.csv", ["a"], [["13/04/2025"], ["soon"], ["14/04/2025"]] * 40)
    done = run.fails(65, "train", "--label", "y", "t.csv")
    assert "found 'soon' (line 3) in the column 'a', where other cells are dates; use --missing-values" in done.stderr
    run.ok("train", *QUICK, "--label", "y", "--missing-values", "soon", "-o", "m.fm", "t.csv")


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%m-%d-%Y %H:%M", "%d.%m.%Y"])
def test_rows_are_split_and_held_out_by_dates(run, tmp_path, form):
    days = [DAYS[n * 7 % len(DAYS)] for n in range(len(DAYS))]
    write(tmp_path / "t.csv", ["when", "row"], [[f"{one:{form}}", f"r{n}"] for n, one in enumerate(days)])
    run.ok("split", "-q", "--by-time", "when", "--shares", "2/1", "t.csv", "a.csv", "b.csv")
    first, last = (
        [datetime.strptime(line.split(",")[0], form) for line in (tmp_path / name).read_text().splitlines()[1:]]
        for name in ("a.csv", "b.csv")
    )
    assert len(first) + len(last) == len(days)
    assert max(first) < min(last)
    fixed = ["-q", "-m", "linear", "-s", "sgd", "-e", "2", "--no-refit", "--no-quick-search", "--label", "y", "-o", "m"]
    run.ok("train", *fixed, "--categorical", "row", "--holdout", "time:when:0.3", "t.csv")
    run.ok("export", "m", "w.txt")
    text = (tmp_path / "w.txt").read_text()
    weights, names = (text.split(f"array {name} ")[1].splitlines()[1].split() for name in ("w", "features"))
    seen = {int(name.removeprefix("row=r")) for name, one in zip(names, weights, strict=True) if float(one)}
    times = [datetime.strptime(f"{one:{form}}", form) for one in days]
    held = [times[n] for n in range(len(times)) if n not in seen]
    assert held
    assert max(times[n] for n in seen) < min(held)


def test_dates_whose_order_nothing_tells_split_nothing(run, tmp_path):
    write(tmp_path / "t.csv", ["when"], [["03/04/2025"], ["04/05/2025"]] * 5)
    done = run.fails(65, "split", "--by-time", "when", "t.csv", "a.csv", "b.csv")
    assert "t.csv: the column 'when' has dates such as '03/04/2025': the day or" in done.stderr
    write(tmp_path / "t.csv", ["when"], [["03/04/2025"], ["soon"]] * 5)
    assert "soon" in run.fails(65, "split", "--by-time", "when", "t.csv", "a.csv", "b.csv").stderr
    write(tmp_path / "t.csv", ["when"], [[f"{n},5"] for n in range(9)], ";")
    run.ok("split", "-q", "--by-time", "when", "--decimal", ",", "--shares", "1/1", "t.csv", "a.csv", "b.csv")
    assert (tmp_path / "a.csv").read_text().splitlines()[-1] == "3,5;1"


def test_missing_times_and_vectors_are_means_and_a_feature(run, tmp_path):
    days = ["2024-01-01", "NA", "2024-01-03", ""]
    write(tmp_path / "t.csv", ["when", "emb"], [[days[n % 4], ("1|2", "?", "3|6", "")[n % 4]] for n in range(8)])
    schema = run.ok("train", "--label", "y", "--vector", "emb", "--print-schema", "t.csv").stdout
    (tmp_path / "s.json").write_bytes(schema)
    done = run.ok("convert", "--schema", "s.json", "t.csv")
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "0 when.month=1:1 when.weekday=1:1 when:19723 emb[0]:1 emb[1]:2"
    assert lines[1] == "1 when:19724 when=:1 emb[0]:2 emb[1]:4 emb=:1"
    assert lines[3] == "1 when:19724 when=:1 emb[0]:2 emb[1]:4 emb=:1"
    text = run.ok("train", "-e", "2", "--label", "y", "--vector", "emb", "-o", "m.fm", "t.csv").stderr
    assert "column when  time      2 distinct, such as 2024-01-01, features month, weekday and days since 1970" in text
    assert "4 missing (NA): filled with the mean 2024-01-02 and marked by the feature when=" in text
    filled = "4 missing (?): filled with the means of their places"
    assert f"column emb   vector    numbers, such as 1|2, 2 numbers each, {filled}" in text
    (tmp_path / "new.csv").write_text("when,emb\n,\nNA,?\n")
    assert len({*run.ok("predict", "-q", "m.fm", "new.csv").stdout.split()}) == 1


def test_the_means_of_a_long_vector_stand_for_an_empty_cell(run, tmp_path):
    """The line of such a row is far longer than the row."""
    cell = "[" + " ".join(f"{number}.25" for number in range(1, 3001)) + "]"
    write(tmp_path / "v.csv", ["v"], [[cell], *[[""]] * 50])
    lines = run.ok("convert", "-q", "--label", "y", "--vector", "v", "v.csv").stdout.decode().splitlines()
    assert {line.split(" ", 1)[1] for line in lines[1:]} == {f"{lines[0].split(' ', 1)[1]} v=:1"}


def test_frames_files_and_joins_have_the_same_times(run, tmp_path):
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    parquet = pytest.importorskip("pyarrow.parquet")
    write(tmp_path / "t.csv", ["when"], [[f"{one:%Y-%m-%d %H:%M:%S}"] for one in DAYS])
    expected = fmcli.train(tmp_path / "t.csv", label="y", epochs=2, holdout=0, quick_search=False).predict(
        tmp_path / "t.csv"
    )
    labels = [n % 2 for n in range(len(DAYS))]
    table = pa.table({"when": pa.array(DAYS, pa.timestamp("ms")), "y": labels})
    frames = [
        *(pd.DataFrame({"when": DAYS, "y": labels}), pl.DataFrame({"when": DAYS, "y": labels}), table),
        pa.table({"when": pa.array(DAYS, pa.timestamp("ns", "UTC")), "y": labels}),
    ]
    for frame in frames:
        model = fmcli.train(frame, label="y", epochs=2, holdout=0, quick_search=False)
        np.testing.assert_array_equal(model.predict(frame), expected)
        np.testing.assert_array_equal(model.predict(tmp_path / "t.csv"), expected)
    parquet.write_table(table, tmp_path / "t.parquet")
    run.ok("train", *QUICK, "--label", "y", "-o", "m.fm", "t.parquet")
    parquet.write_table(pa.table({"when": pa.array([one.date() for one in DAYS])}), tmp_path / "days.parquet")
    (tmp_path / "days.csv").write_text("when\n" + "".join(f"{one:%Y-%m-%d}\n" for one in DAYS))
    of_csv, of_parquet = (run.ok("predict", "-q", "m.fm", f"days.{kind}").stdout for kind in ("csv", "parquet"))
    assert of_csv == of_parquet
    write(tmp_path / "orders.csv", ["id"], [[f"k{n % 60}"] for n in range(240)])
    (tmp_path / "ids.csv").write_text("id,when\n" + "".join(f"k{n},{DAYS[n]:%d/%m/%Y}\n" for n in range(60)))
    done = run.ok("convert", "-q", "--label", "y", "--join", "id=ids.csv", "orders.csv").stdout.decode().splitlines()
    assert done[1].split()[:4] == ["1", "id=k1:1", "when.month=2:1", "when.weekday=2:1"]


def test_numbers_in_local_notation(run, tmp_path):
    plain = [[f"{1000 + 7.25 * n:.2f}"] for n in range(400)]
    write(tmp_path / "plain.csv", ["price"], plain)
    run.ok("train", *QUICK, "--label", "y", "-o", "plain.fm", "plain.csv")
    expected = run.ok("predict", "-q", "plain.fm", "plain.csv").stdout
    numbers = [float(row[0]) for row in plain]
    forms = {
        ",": (lambda x: f"{x:.2f}".replace(".", ","), lambda x: f"{x:_.2f}".replace(".", ",").replace("_", ".")),
        ".": (lambda x: f'"{x:,.2f}"', lambda x: f"${x:.2f}", lambda x: f"{x:.2f} %", lambda x: f'"€{x:,.2f}"'),
    }
    for mark, spellings in forms.items():
        for spelling in spellings:
            write(tmp_path / "t.csv", ["price"], [[spelling(x)] for x in numbers], ";" if mark == "," else ",")
            done = run.fails(65, "train", "--label", "y", "-o", "m.fm", "t.csv")
            assert f"the column 'price' has numbers such as '{spelling(numbers[0]).strip(chr(34))}'" in done.stderr
            assert f"use --decimal {mark} if" in done.stderr or f"or --decimal {mark} if" in done.stderr
            run.ok("train", *QUICK, "--label", "y", "--decimal", mark, "-o", "m.fm", "t.csv")
            assert run.ok("predict", "-q", "m.fm", "t.csv").stdout == expected
            run.ok("train", *QUICK, "--label", "y", "--decimal", mark, "--bins", "4", "-o", "m.fm", "t.csv")
    model = fmcli.train(tmp_path / "t.csv", label="y", decimal=".", epochs=2, holdout=0, quick_search=False)
    np.testing.assert_allclose(model.predict(tmp_path / "t.csv"), np.array(expected.split(), float), rtol=1e-6)
    with pytest.raises(ValueError, match=r"decimal is .;.; it must be , or"):
        fmcli.train(tmp_path / "t.csv", label="y", decimal=";")
    done = run.fails(2, "split", "--decimal", ",", "t.csv", "a", "b")
    assert "--decimal is for the numbers of --by-time" in done.stderr


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        (lambda n: f"{n % 28 + 1:02d}/{n % 12 + 1:02d}/24", "dates such as '01/01/24', whose years have two digits"),
        (lambda n: f"{n % 28 + 1:02d}.{n % 12 + 1:02d}.24", "dates such as '01.01.24', whose years have two digits"),
        (lambda n: f"{n % 30}.5{'kM'[n % 2]}", "numbers with the units 'M' and 'k', such as '0.5k'"),
    ],
)
def test_texts_that_repeat_are_not_names_if_they_are_dates_or_have_units(run, tmp_path, cell, told):
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{cell(n)},{n % 5}\n" for n in range(400)))
    assert told in run.fails(65, "train", "--label", "y", "t.csv").stderr
    run.ok("train", "-q", "-e", "1", "--holdout", "0", "--label", "y", "--categorical", "x", "-o", "m.fm", "t.csv")


@pytest.mark.parametrize("cell", [lambda n: f"1.{n % 12}.24", lambda n: f"{n % 30}{'ABC'[n % 3]}"])
def test_versions_and_seats_are_names(run, tmp_path, cell):
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{cell(n)},{n % 5}\n" for n in range(400)))
    done = run.ok("train", "-e", "1", "--holdout", "0", "--label", "y", "-o", "m.fm", "t.csv")
    assert "column x  category" in done.stderr


def test_ids_that_a_spreadsheet_has_rounded_are_asked_about(run, tmp_path):
    """Each may stand for several ids; under another name, such numbers are quantities."""
    for name in ("user_id", "energy"):
        rows = "".join(f"{1.23 + n % 20 / 100:.2f}E+15,{n % 5}\n" for n in range(400))
        (tmp_path / f"{name}.csv").write_text(f"{name},y\n{rows}")
    told = run.fails(65, "train", "--label", "y", "user_id.csv").stderr
    assert "'user_id' (rounded numbers, such as 1.23E+15) is a number or an id" in told
    done = run.ok("train", "-e", "1", "--holdout", "0", "--label", "y", "-o", "m.fm", "energy.csv")
    assert "column energy  number" in done.stderr


@pytest.mark.parametrize("unit", [" kg", "sqft", " km/h"])
def test_numbers_with_a_unit_are_told(run, tmp_path, unit):
    """Letters that differ, as in seats, are names."""
    rows = [f"{n}{unit},{n % 30}{'ABC'[n % 3]},{n}\n" for n in range(90)]
    (tmp_path / "t.csv").write_text("size,seat,y\n" + "".join(rows))
    told = run.fails(65, "train", "--label", "y", "t.csv").stderr
    assert f"'size' has numbers with the unit {unit.strip()!r}" in told
    assert "seat" not in told
    run.ok("train", *QUICK, "--label", "y", "--categorical", "size", "-o", "m.fm", "t.csv")


def test_few_local_numbers_among_plain_ones_and_labels_are_told(run, tmp_path):
    rows = [[f"{n}.5"] for n in range(90)] + [['"1,067.64"'], ['"2,000.5"']]
    write(tmp_path / "t.csv", ["price"], rows)
    assert "use --decimal . if" in run.fails(65, "train", "--label", "y", "t.csv").stderr
    for label, mark in (("48,9", ","), ('"$2,048.89"', ".")):
        text = "a;b\n" + "".join(f"x{n % 3};{label if n % 2 else n}\n" for n in range(100))
        (tmp_path / "t.csv").write_text(text)
        done = run.fails(65, "train", "--label", "b", "t.csv")
        assert "the label has numbers such as" in done.stderr
        assert f"--decimal {mark} if" in done.stderr
        converted = run.ok("convert", "-q", "--label", "b", "--decimal", mark, "t.csv").stdout.decode().splitlines()
        assert converted[1].split()[0] == ("48.9" if mark == "," else "2048.89")


@pytest.mark.parametrize(("weight", "mark", "plain"), [("1,5", ",", 1.5), ("$2", ".", 2), ("50%", ".", 50)])
def test_weights_in_local_notation_are_told(run, tmp_path, weight, mark, plain):
    for share in (1, 2):
        rows = "".join(f'{n % 2},x{n % 3},"{weight if n % share == 0 else 3}"\n' for n in range(40))
        (tmp_path / "t.csv").write_text("y,a,w\n" + rows)
        options = (*QUICK[1:], "--label", "y", "--weight-column", "w")
        done = run.fails(65, "train", *options, "t.csv")
        assert f"the weight has numbers such as '{weight}'" in done.stderr
        assert f"--decimal {mark} if" in done.stderr
        done = run.ok("train", *options, "--decimal", mark, "-o", "m.fm", "t.csv")
        assert f"weights: {min(plain, 3 if share == 2 else plain):g} to " in done.stderr


@pytest.mark.parametrize(
    ("text", "comma", "point"),
    [
        *(("1.067,64", "1067.64", None), ("1,067.64", None, "1067.64"), ("1.067", "1067", "1.067")),
        *(("195,22", "195.22", None), ("1 067,5", "1067.5", None), ("1'067.5", None, "1067.5"), (",5", ".5", None)),
        *(("-5,0 €", "-5.0", None), ("$-5.50", None, "-5.50"), ("(5.50)", None, "-5.50"), ("12%", "12", "12")),
        *(
            ("1,06,764.5", None, "106764.5"),
            ("10.67", None, "10.67"),
            ("0,123", "0.123", None),
            ("1,5e3", "1.5e3", None),
            ("10.670", "10670", "10.670"),
            ("1.0.0", None, None),
            ("320.", None, "320."),
            ("$320.", None, "320."),
            (".", None, None),
        ),
        *(("007", None, None), ("1,2,3", None, None), ("1,0677,5", None, None), ("5,", None, None), ("$", None, None)),
    ],
)
def test_what_is_a_number_in_local_notation(run, tmp_path, text, comma, point):
    for mark, expected in ((",", comma), (".", point)):
        (tmp_path / "t.csv").write_text(f'n\n"{text}"\n')
        done = run("convert", "-q", "--numeric", "n", "--decimal", mark, "t.csv")
        plain = text if text == "007" else expected
        assert done.stdout.decode() == ("" if plain is None else f"n:{plain}\n")
        assert done.returncode == (65 if plain is None else 0)


def vectors(rows=60, length=3):
    random_numbers = random.Random(3)
    return [[round(random_numbers.uniform(-1, 1), 3) for _ in range(length)] for _ in range(rows)]


def test_vectors_are_numbers_by_their_places(run, tmp_path):
    found = vectors()
    expected = [" ".join(f"emb[{at}]:{x}" for at, x in enumerate(one) if x) for one in found]
    for spelled in ("|".join, lambda parts: f'"[{", ".join(parts)}]"', lambda parts: f"[{' '.join(parts)}]"):
        write(tmp_path / "t.csv", ["emb"], [[spelled(list(map(str, one)))] for one in found])
        done = run.fails(65, "train", "--label", "y", "t.csv")
        assert "the column 'emb' has lists of numbers such as '" in done.stderr
        assert "use --vector emb for vectors of numbers, or --several emb for names" in done.stderr
        lines = run.ok("convert", "-q", "--label", "y", "--vector", "emb", "t.csv").stdout.decode().splitlines()
        assert [line[2:] for line in lines] == expected
    run.ok("train", *QUICK, "--label", "y", "--vector", "emb", "-m", "ffm", "-o", "m.fm", "t.csv")
    (tmp_path / "new.csv").write_text("emb\n1|2|3\n1|2\n")
    done = run.fails(65, "predict", "m.fm", "new.csv")
    assert "new.csv:3:1: found '1|2', expected 3 numbers in the column 'emb'; it has 2" in done.stderr
    write(tmp_path / "t.csv", ["emb"], [["1|2|3"], ["1|x|3"]])
    done = run.fails(65, "train", "--label", "y", "--vector", "emb", "t.csv")
    assert "t.csv:3:1: found '1|x|3', expected numbers in the column 'emb'" in done.stderr
    done = run.fails(2, "train", "--online", "--label", "y", "--vector", "emb", "t.csv")
    assert "the length of the vectors 'emb' must be known before; use --schema FILE" in done.stderr


def test_lists_of_floats_and_of_one_length_are_vectors_by_themselves(run, tmp_path):
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    parquet = pytest.importorskip("pyarrow.parquet")
    found = vectors()
    labels = [n % 2 for n in range(len(found))]
    write(tmp_path / "t.csv", ["emb"], [["|".join(map(str, one))] for one in found])
    more = {"label": "y", "epochs": 2, "holdout": 0, "quick_search": False}
    expected = fmcli.train(tmp_path / "t.csv", vector="emb", **more).predict(tmp_path / "t.csv")
    fixed = pa.table({"emb": pa.array(found, pa.list_(pa.float64(), 3)), "y": labels})
    array = pl.DataFrame({"emb": found, "y": labels}, schema_overrides={"emb": pl.Array(pl.Float64, 3)})
    rows = pd.DataFrame({"emb": list(map(np.array, found)), "y": labels})
    for frame in (pa.table({"emb": found, "y": labels}), fixed, array, rows, fixed.slice(0)):
        model = fmcli.train(frame, **more)
        np.testing.assert_array_equal(model.predict(frame), expected)
    part = fixed.slice(7, 5)
    np.testing.assert_array_equal(model.predict(part), expected[7:12])
    parquet.write_table(pa.table({"emb": [[1.5, None], [2.5, 3.5]], "y": [0, 1]}), tmp_path / "t.parquet")
    done = run.fails(65, "train", "--label", "y", "t.parquet")
    assert "found '1.5|', expected numbers in the column 'emb'; it is missing" in done.stderr
    parquet.write_table(pa.table({"emb": [[1.5, 2], [2.5]], "y": [0, 1]}), tmp_path / "t.parquet")
    done = run.fails(65, "train", "--label", "y", "t.parquet")
    assert "t.parquet:3:1: found '2.5', expected 2 numbers in the column 'emb'; it has 1" in done.stderr


def test_texts_that_hardly_repeat_stop_the_run_and_ids_that_repeat_do_not(run, tmp_path):
    rows = [[f"u{n // 3}", f"B{n:06}", f"https://example.org/{n}", "red" if n % 3 else "blue"] for n in range(300)]
    write(tmp_path / "t.csv", ["user", "booking", "url", "color"], rows)
    done = run.fails(65, "train", "--label", "y", "t.csv")
    assert "the column 'booking' has 300 different texts in 300 cells, such as 'B000000' and 'url' has" in done.stderr
    assert "use --ignore booking,url to leave them out, or --categorical booking,url for names" in done.stderr
    assert "user" not in done.stderr
    run.ok("train", *QUICK, "--label", "y", "--ignore", "booking,url", "-o", "m.fm", "t.csv")
    run.ok("train", *QUICK, "--label", "y", "--categorical", "booking,url", "-o", "m.fm", "t.csv")
    write(tmp_path / "few.csv", ["user", "booking", "url", "color"], rows[:40])
    run.ok("train", *QUICK, "--label", "y", "-o", "m.fm", "few.csv")
