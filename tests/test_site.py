"""The guide as a site: mkdocs builds all pages, and browsers load nothing from elsewhere."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fmcli
from fmcli.cli.pages.guide import page, topics

ROOT = Path(__file__).resolve().parent.parent
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>|@import|fonts\.g")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    pytest.importorskip("latex2mathml", reason="latex2mathml is not installed")
    folder = tmp_path_factory.mktemp("site")
    # Not the package in the current folder, which may not be compiled.
    variables = {**os.environ, "PYTHONPATH": str(Path(fmcli.__file__).parents[1]), "NO_MKDOCS_2_WARNING": "1"}
    build = [sys.executable, "-P", "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_every_page_is_on_the_site_and_is_found_by_its_search(site):
    assert {path.stem for path in site.glob("*.html")} == {*topics(), "index", "404"}
    found = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    places = {one["location"] for one in found}
    assert {f"{topic}.html" for topic in topics()} <= places
    assert "operators.html#a-nightly-job" in places


def test_browsers_load_nothing_from_elsewhere(site):
    for path in site.glob("*.html"):
        assert not LOADED.search(path.read_text()), path.name


def test_formulas_are_drawn_by_the_browser(site):
    for topic in topics():
        html = (site / f"{topic}.html").read_text()
        assert html.count("<math ") == page(topic).count("```math")
        assert "\\hat" not in html


def test_the_start_page_links_to_pages_of_the_site_alone(site):
    links = re.findall(r'<a href="([^"#:]+)"', (site / "index.html").read_text().partition("<article")[2])
    assert {f"{topic}.html" for topic in topics() if topic != "options"} <= set(links)
    assert all((site / link).is_file() for link in links)
