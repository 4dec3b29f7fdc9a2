"""Sphinx's configuration of the site; `docs/build.py` runs it on a copy of docs/ beside the notebooks and figures."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.search.en import SearchEnglish

import railcore

project = "railcore"
author = "the railcore authors"
version = release = railcore.__version__
extensions = ["myst_nb", "sphinx.ext.viewcode"]
root_doc = "index"
exclude_patterns = ["figures/**", "data/**", "jupyter_execute/**"]
html_theme = "pydata_sphinx_theme"
html_title = "railcore"
html_context = {"default_mode": "auto"}
html_copy_source = html_show_sourcelink = False
html_show_sphinx = html_show_copyright = False
html_static_path = ["_static"]
templates_path = ["_templates"]
html_favicon = "favicon.ico"
html_extra_path = ["favicon.ico", "LICENSE.txt", "CITATION.txt"]  # the icon: where browsers look for it
html_css_files = ["railcore.css"]
html_js_files = ["railcore.js"]
html_search_scorer = str(Path(__file__).parent / "_static/scorer.js")
_ALONE = ("index", "glossary", "reproduction", "plans", "api", "notebooks", "changelog")  # pages without others beside
_BESIDE = ("guide/**", "notebooks/**", "api/**")  # pages with a list of their neighbours, which has their sections too
_SECTIONS = ("api", "reproduction")  # pages with a list of their sections
html_sidebars: dict = {page: [] for page in (*_ALONE, "_modules/**")} | {pages: ["pages"] for pages in _BESIDE}
html_theme_options = {
    "navbar_align": "left",
    "show_nav_level": 1,
    "header_links_before_dropdown": 7,
    "article_header_start": [],
    "footer_start": ["about"],
    "footer_end": [],
    "secondary_sidebar_items": {page: ["page-toc"] for page in _SECTIONS},
    "show_prev_next": False,
}
pygments_style = "default"

suppress_warnings = ["myst.header"]  # a heading below "In short", which a page leaves out
nb_execution_mode = "off"
nb_ipywidgets_js: dict = {}  # no page asks another host for anything
nb_render_markdown_format = "gfm"
nb_number_source_lines = False
myst_heading_anchors = 3
myst_all_links_external = True  # they are relative, and docs/build.py writes .html in them
myst_enable_extensions: list = []  # no formula in TeX: a $ is a price

smartquotes = False
default_role = "py:obj"  # in docstrings: a link where it is a name of the API
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 1  # every parameter has a line


def _sized(_app, page, _name: str) -> None:
    """Marks cells of tables for the style sheet: short ones stay on one line, and sentences have room."""
    for cell in page.findall(nodes.entry):
        length = len(cell.astext())
        cell["classes"] += ["short"] * (length <= 14) + ["long"] * (length > 60)

    for block in page.findall(nodes.literal_block):
        columns = re.search(r"\S {2,}\S", block.astext())
        block["classes"] += ["prose"] * (block.get("language") == "text" and not columns)


def _titled(_app, name: str, _template, context: dict, _doctree) -> None:
    """The tab of the front page says what this is, not its name twice."""
    if name == root_doc:
        context["title"] = "Networks for LLM training"


class _Search(SearchEnglish):
    """Finds "rail-only" as one word and by its parts, and `rail_only` by it; "all to all" has no other words."""

    js_splitter_code = r"""var splitQuery = query => query.replace(/\ball to all\b/gi, "all-to-all")
      .match(/[\p{L}\p{N}]+(?:[-_][\p{L}\p{N}]+)*/gu) ?? []"""

    def split(self, input: str) -> list[str]:
        """All words of a text, each with its parts."""
        words = re.findall(r"[^\W_]+(?:[-_][^\W_]+)*", input)
        return [each for word in words for each in {word, word.replace("_", "-"), *re.split("[-_]", word)}]


def setup(app) -> None:
    """Connect what is above."""
    app.connect("doctree-resolved", _sized)
    app.connect("html-page-context", _titled)
    app.add_search_language(_Search)
