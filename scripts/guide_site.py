"""What mkdocs builds beside the files of the guide: a start page, the page of options, and formulas. mkdocs.yml names
it as a hook."""

import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from fmcli.cli.pages.guide import OPTIONS_PAGE, page

README = Path(__file__).resolve().parent.parent / "README.md"
GUIDE = "fmcli/guide/"
# A link to a file of the sources, which the site lacks, and its text.
ELSEWHERE = re.compile(rf"(?<!!)\[([^\]]*)\]\((?!https:|{GUIDE})[^)]*\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Draw blocks of math."""
    fence = {"name": "math", "class": "math", "format": formula}
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [fence]}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that no file of the guide has."""
    start = ELSEWHERE.sub(r"\1", README.read_text("utf-8")).replace(f"]({GUIDE}", "](")
    for name, text in (("index", start), (OPTIONS_PAGE, page(OPTIONS_PAGE))):
        files.append(File.generated(config, f"{name}.md", content=text))
    return files


def formula(source: str, *_: Any, **__: Any) -> str:
    """Return a formula in LaTeX as MathML, which browsers draw; a long one scrolls."""
    return f'<div style="overflow-x: auto">{convert(source, display="block")}</div>'
