"""Pages of fmcli report, in a browser where there is one, and the messages for wrong commands."""

import json
import re
import shutil

import pytest

# Names that would break out of HTML, a script, an attribute or a terminal.
HOSTILE = (
    "</script><script>window.broken=1</script>",
    "<img src=x onerror=window.broken=1>",
    "\"'><b onmouseover=window.broken=1>",
    "]]>&lt;&amp;--><!--",
    "\x1b[31mred\x1b[0m",
    "\u2028\u202eright",
    "long" * 40,
)
MOST_BYTES = 1_500_000


@pytest.fixture(scope="session")
def chromium():
    """Chromium as the system has it."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no Chromium")
    with sync_api.sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium, tmp_path):
    """Open a file as a page, which must load nothing else and write nothing to the console."""
    said, loaded = [], []

    def open_page(name, width=1280):
        page = chromium.new_page(viewport={"width": width, "height": 900})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: loaded.append(request.url))
        page.goto(f"file://{tmp_path / name}")
        return page

    yield open_page
    assert not said
    assert all(url.startswith(f"file://{tmp_path}") for url in loaded)
    assert len(loaded) == len(chromium.contexts)
    for context in chromium.contexts:
        context.close()


@pytest.fixture
def adult(run, sample, tmp_path):
    """The page of a model of the adult sample, with its log."""
    words = ("-q", "-e", "5", "--label", "income", "--log-json", "run.json", "-o", "m.fm")
    run.ok("train", *words, sample / "adult.train.csv")
    run.ok("report", "-q", "-o", "r.html", "m.fm", sample / "adult.test.csv", "--log", "run.json")
    assert (tmp_path / "r.html").stat().st_size < MOST_BYTES
    return tmp_path / "r.html"


def matrix(page):
    return {name: page.inner_text(f"[data-figure={name}]") for name in ("tn", "fp", "fn", "tp", "precision", "recall")}


def test_the_page_has_the_figures_of_evaluate_and_responds(run, sample, adult, opened):
    figures = json.loads(run.ok("evaluate", "-q", "--json", "m.fm", sample / "adult.test.csv").stdout)
    page = opened("r.html")
    titles = page.locator("h2").all_inner_texts()
    expected = ["Metrics", "Thresholds", "Errors by column", "Importance", "Rows explained"]
    assert titles == [*expected, "What the model has learned", "Training", "The model"]
    verdict = f"Predicts 1,500 rows with AUC {figures['metrics']['auc']:#.4g} (guessing: 0.5) and logloss "
    assert page.inner_text(".verdict").startswith(verdict)
    # ROC, precision and recall, reliability, and the learning curves of the loss and two metrics.
    assert page.locator("svg.chart").count() == 6
    for path in page.locator("svg.chart .curve").all():
        assert path.bounding_box()["width"] > 50
    assert "train " in page.inner_text("pre")
    (tn, fp), (fn, tp) = figures["confusion"]
    usual = matrix(page)
    assert [usual[name] for name in ("tn", "fp", "fn", "tp")] == [f"{n:,}" for n in (tn, fp, fn, tp)]
    assert float(usual["recall"]) == pytest.approx(figures["classes"][1]["recall"], rel=1e-3)
    place = page.locator(".by-threshold .mark").first.bounding_box()
    page.locator("#threshold").evaluate("one => { one.value = 0; one.dispatchEvent(new Event('input')); }")
    lowest = matrix(page)
    assert (lowest["tn"], lowest["fn"], lowest["tp"]) == ("0", "0", f"{tp + fn:,}")
    assert lowest["recall"] == "1"
    assert page.locator(".by-threshold .mark").first.bounding_box() != place
    page.locator("svg.chart").first.hover()
    curve = page.locator("svg.chart").first.locator(".curve").first.bounding_box()
    page.mouse.move(curve["x"], curve["y"] + curve["height"])
    assert re.fullmatch(r"(model|chance): [\d.]+, [\d.]+", page.inner_text(".tip"))


def test_tables_are_sorted_and_show_one_column(adult, opened):
    page = opened("r.html")
    rows = page.locator("table.choosable tbody tr:visible")
    assert rows.count() == 20
    page.select_option("select", label="sex")
    assert sorted(row.split("\t")[1] for row in rows.all_inner_texts()) == ["Female", "Male"]
    page.select_option("select", label="education")
    counts = []
    for _ in range(2):
        page.locator("table.choosable th").nth(2).click()
        counts.append([int(row.split("\t")[2]) for row in rows.all_inner_texts()])
    assert counts[0] == sorted(counts[0], reverse=True)
    assert counts[1] == counts[0][::-1]


def test_slices_have_the_errors_of_their_rows(run, adult, opened, sample):
    """The rows of one slice, evaluated alone, have its share of errors."""
    lines = (sample / "adult.test.csv").read_text().splitlines()
    place = lines[0].split(",").index("sex")
    (adult.parent / "men.csv").write_text("\n".join([lines[0], *(r for r in lines if r.split(",")[place] == "Male")]))
    accuracy = json.loads(run.ok("evaluate", "-q", "--json", "-x", "accuracy", "m.fm", "men.csv").stdout)
    page = opened("r.html")
    page.select_option("select", label="sex")
    rows = [row.split("\t") for row in page.locator("table.choosable tbody tr:visible").all_inner_texts()]
    column, _, count, error, low, high, *_ = next(row for row in rows if row[1] == "Male")
    assert (column, int(count)) == ("sex", accuracy["rows"])
    assert float(error) == pytest.approx(1 - accuracy["metrics"]["accuracy"], rel=1e-3)
    assert float(low) < float(error) < float(high)


def test_a_narrow_page_scrolls_in_its_tables_only(adult, opened):
    page = opened("r.html", width=390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


# Pairs of texts of a chart, one over the other.
OVERLAPS = """
Array.from(document.querySelectorAll("svg.chart")).flatMap(chart => {
  const boxes = Array.from(chart.querySelectorAll("text")).map(one => [one.textContent, one.getBoundingClientRect()]);
  return boxes.flatMap(([text, a], i) => boxes.slice(i + 1)
    .filter(([other, b]) => text && other
      && a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom)
    .map(([other]) => [text, other]));
})
"""


def test_a_rare_label_has_readable_charts(run, tmp_path, opened):
    """One row in 200 is positive: precision is small at all thresholds."""
    rows = [f"{int(i % 200 == 7)},{'ab'[i % 3 == 1]},{i % 5}" for i in range(4000)]
    (tmp_path / "t.csv").write_text("\n".join(["y,a,b", *rows]) + "\n")
    run.ok("train", "-q", "-e", "3", "--no-quick-search", "--label", "y", "-o", "m.fm", "t.csv")
    run.ok("report", "-q", "-o", "r.html", "m.fm", "t.csv")
    page = opened("r.html")
    (chart,) = page.locator("figure:has-text('Precision and recall') svg.chart").all()
    assert max(float(text) for text in chart.locator("text[text-anchor=end]").all_text_contents()) < 0.1


def test_texts_of_charts_do_not_overlap(run, tmp_path, opened):
    """With prices in hundred thousands, and with wide letters in the names of runs."""
    rows = [
        f"{100_000 * (1 + i % 7) + 37.25 * (i % 11)},{i % 7},{'' if i % 13 == 0 else i % 11 + 0.5}" for i in range(400)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["price,rooms,size", *rows]) + "\n")
    words = ("train", "-q", "-e", "3", "--label", "price", "-o", "m.fm", "t.csv")
    logs = ["mmmmmmmm.json", "wwwwwwww.json", "MMMMMMMM.json"]
    for log in logs:
        run.ok(*words, "--log-json", log)
    run.ok("report", "-q", "-o", "r.html", "m.fm", "t.csv", *(word for log in logs for word in ("--log", log)))
    page = opened("r.html")
    assert page.evaluate(OVERLAPS) == []
    assert "600k" in page.locator("svg.chart text").all_text_contents()
    cells = [row.split("\t")[:2] for row in page.locator("table.choosable tbody tr").all_inner_texts()]
    assert ["size", "(missing)"] in cells
    title = page.locator(".example h3").first.inner_text()
    assert re.fullmatch(r"Row \d+: label \d{3},\d{3}, prediction \d{3},\d{3}", title)


def test_a_printed_page_has_its_bars(adult, opened):
    page = opened("r.html")
    page.emulate_media(media="print")
    shown = "one => getComputedStyle(one).getPropertyValue('print-color-adjust')"
    assert page.locator(".bar").first.evaluate(shown) == "exact"


@pytest.mark.parametrize("loss", ["logistic", "squared", "softmax"])
def test_hostile_names_are_text(run, tmp_path, opened, loss):
    """Names of columns, cells, labels and files."""
    name = f"{HOSTILE[1].replace('/', '')}.csv"
    labels = {"logistic": (HOSTILE[0], HOSTILE[-1]), "softmax": HOSTILE[1:4], "squared": ("1.5", "2", "4")}[loss]
    quoted = ['"' + one.replace('"', '""') + '"' for one in HOSTILE]
    cells = [quoted[(row * 7 + row // 5) % len(quoted)] for row in range(240)]
    label = ['"' + one.replace('"', '""') + '"' for one in labels]
    rows = [f"{label[(row + row // 7) % len(label)]},{cells[row]},{row % 17}" for row in range(240)]
    (tmp_path / name).write_text("\n".join([f"y,{quoted[0]},{quoted[2]}", *rows]) + "\n")
    run.ok(
        "train",
        "-q",
        "-e",
        "3",
        "--loss",
        loss,
        "--label",
        "y",
        "--log-json",
        "<!--<script>.json",
        "-o",
        "<i>.fm",
        name,
    )
    run.ok("report", "-q", "-o", "r.html", "<i>.fm", name, "--log", "<!--<script>.json")
    page = opened("r.html", width=390)
    page.mouse.move(300, 300)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("window.broken") is None
    assert page.locator("#print").is_visible()  # by the script
    assert page.locator("img, b:not([data-figure]), i").count() == 0
    assert "<i>.fm" in page.inner_text("h1")
    assert HOSTILE[0] in page.inner_text("body")
    assert "\\x1b[31mred" in page.inner_text("body")
    assert not set("\x1b\u2028\u202e") & set((tmp_path / "r.html").read_text())


def test_numbers_and_rankings_have_their_charts(run, sample, tmp_path, opened):
    run.ok("train", "-q", "-e", "3", "-m", "ffm", "--label", "income", "-o", "f.fm", sample / "adult.train.csv")
    pairs = json.loads(run.ok("inspect", "-q", "--json", "f.fm").stdout)["field_pairs"]
    assert {pairs[0]["field"], pairs[0]["other"]} < {"age", "education", "hours", "marital-status", "occupation", "sex"}
    assert f">{pairs[0]['field']}</td><td>{pairs[0]['other']}<" in run.ok("report", "-q", "f.fm").stdout.decode()
    run.ok("train", "-q", "-e", "3", "-o", "m.fm", sample / "diabetes.train.libsvm")
    run.ok("report", "-q", "-o", "n.html", "m.fm", sample / "diabetes.test.libsvm")
    page = opened("n.html")
    assert "R2 " in page.inner_text(".verdict")
    assert page.locator("figcaption").all_inner_texts() == [
        "True by predicted",
        "Residuals by tenth of the predictions",
    ]
    assert "--log-json" in page.inner_text("section:has-text('Training')")
    pairs = [f"u{user},i{item}" for user in range(20) for item in range(15) if (user + item) % 3 == 0]
    (tmp_path / "pairs.csv").write_text("\n".join(["user,item", *pairs[::2], *pairs[1::4]]) + "\n")
    (tmp_path / "new.csv").write_text("\n".join(["user,item", *pairs[3::4]]) + "\n")
    (tmp_path / "items.csv").write_text("\n".join(["item", *(f"i{item}" for item in range(15))]) + "\n")
    run.ok(
        "train", "-q", "--implicit", "-k", "2", "-e", "3", "--user", "user", "--item", "item", "-o", "p.fm", "pairs.csv"
    )
    run.ok("report", "-q", "-o", "p.html", "p.fm", "new.csv", "--over", "items.csv")
    page = opened("p.html")
    assert page.locator("svg.chart").count() == 2
    again = page.inner_text("pre").replace("ROWS", "pairs.csv").split()
    assert "--user user --item item --unseen-weight " in " ".join(again)
    run.ok(*again[1:], "-o", "again.fm")
    words = ("-q", "--json", "-x", "recall@10", "--over", "items.csv", "p.fm", "new.csv")
    recall = json.loads(run.ok("evaluate", *words).stdout)["metrics"]["recall@10"]
    cells = [row.split("\t") for row in page.locator("section:has-text('Rankings') tbody tr").all_inner_texts()]
    assert float(next(row[1] for row in cells if row[0] == "10")) == pytest.approx(recall, rel=1e-3)
    assert "give all items by --over" in run.fails(2, "report", "p.fm", "new.csv").stderr


def test_logs_of_several_runs_are_side_by_side(run, sample, tmp_path):
    rows = sample / "adult.train.libsvm"
    for rank in (1, 2):
        run.ok("train", "-q", "-e", "3", "-k", str(rank), "--log-json", f"k{rank}.json", "-o", "m.fm", rows)
    run.ok("tune", "-q", "--trials", "2", "--folds", "1", "-m", "linear", "-s", "sgd", "--study", "s.json", rows)
    page = run.ok("report", "--log", "k1.json", "k2.json", "s.json").stdout.decode()
    assert page.count("<svg ") == 4
    assert all(f">{name}<" in page for name in ("k1", "k2", "Trials of s"))
    again = run.ok("report", "k1.json", "k2.json", "--log", "s.json").stdout.decode()
    assert again.count("<svg ") == 4


def test_what_a_quick_search_tried_is_in_the_log_and_on_the_page(run, sample, tmp_path):
    train = sample / "adult.train.csv"
    words = ("--quick-search", "--verbose", "--label", "income", "--log-json", "run.json", "-o", "m.fm", train)
    log = run.ok("train", *words).stderr
    events = [json.loads(line) for line in (tmp_path / "run.json").read_text().splitlines()]
    tried = [one for one in events if one["event"] == "tried"]
    logged = re.findall(r"^  (--\S+).* against ", log, re.MULTILINE)
    assert len(tried) == len(logged) > 3
    page = run.ok("report", "--log", "run.json").stdout.decode()
    rows = re.findall(r"<tr><td>(-\S+) .*?</tr>", page.partition("Tried before run")[2])
    assert rows == logged
    assert page.count("<td>used</td>") == sum(one["chosen"] for one in tried) > 0


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), 2, "missing argument 'MODEL'"),
        (("m.fm", "empty.csv"), 65, "empty.csv: the table is empty"),
        (("m.fm", "head.csv"), 65, "head.csv: the file has no rows"),
        (("m.fm", "other.csv"), 65, "other.csv: there is no column"),
        (("m.fm", "unlabeled.csv"), 65, "unlabeled.csv: there is no column 'income'"),
        (("m.fm", "gap.csv"), 65, "gap.csv:2:"),
        (("m.fm", "nosuch.csv"), 66, "cannot read nosuch.csv"),
        (("other.csv",), 65, "other.csv"),
        (("m.fm", "-o", "nosuch/r.html"), 74, "nosuch/r.html"),
        (("m.fm", "-o", "m.fm"), 2, "would overwrite the input"),
        (("m.fm", "-o", "other.csv"), 2, "other.csv is data or text, which a figure would replace"),
        (("m.fm", "--svg", "--log", "run.json"), 2, "--svg draws logs"),
        (("m.fm", "--svg"), 2, "--svg needs --log"),
        (("m.fm", "unlabeled.csv", "--relevant", "1"), 2, "--relevant needs --over"),
        (("m.fm", "--over", "other.csv"), 2, "--over ranks items for the users of DATA"),
        (("--log", "run.json", "run.json"), 2, "a file is given twice"),
        (("--log", "other.csv"), 65, "other.csv:1: is not an event"),
    ],
)
def test_wrong_commands(run, sample, tmp_path, words, status, message):
    train = sample / "adult.train.csv"
    run.ok("train", "-q", "-e", "1", "-m", "linear", "--label", "income", "--log-json", "run.json", "-o", "m.fm", train)
    head, first, *_ = train.read_text().splitlines()
    columns, cells = head.split(","), first.split(",")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "head.csv").write_text(f"{head}\n")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "unlabeled.csv").write_text(f"{','.join(columns[:-1])}\n{','.join(cells[:-1])}\n")
    (tmp_path / "gap.csv").write_text(f"{head}\n{','.join(cells[:-1])},\n")
    done = run.fails(status, "report", *words)
    assert message in done.stderr
    assert not done.stdout
