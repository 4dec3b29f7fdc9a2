"""Sphinx's configuration of the site; `docs/build.py` runs it on a copy of docs/ beside the notebooks and figures."""

import re

import railcore

project = "railcore"
author = "the railcore authors"
version = release = railcore.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
exclude_patterns = ["figures/**", "data/**", "jupyter_execute/**"]
html_theme = "pydata_sphinx_theme"
html_title = "railcore"
html_context = {"default_mode": "auto"}
html_copy_source = html_show_sourcelink = False
html_show_sphinx = html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["railcore.css"]
_ALONE = ("index", "glossary", "extending", "reproduction", "plans", "api", "notebooks")  # pages without others beside
html_sidebars: dict = {page: [] for page in _ALONE}
html_theme_options = {
    "navbar_align": "left",
    "show_nav_level": 1,
    "footer_start": [],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
}
pygments_style = "default"

nb_execution_mode = "off"
nb_ipywidgets_js: dict = {}  # no page asks another host for anything
nb_render_markdown_format = "gfm"
nb_number_source_lines = False
nb_code_prompt_show = "code"
nb_code_prompt_hide = "hide the code"
myst_heading_anchors = 3
myst_all_links_external = True  # they are relative, and docs/build.py writes .html in them
myst_enable_extensions: list = []  # no formula in TeX: a $ is a price

autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "code"
napoleon_google_docstring = False
napoleon_custom_sections = ["Result"]

_FIELD = re.compile(r"^(\w+(?:, \w+)*): (?=\S)")


def _readable(_app, _what, _name, _object, _options, lines: list[str]) -> None:
    """A docstring's fields, a line each, as a list, and its equations as they are written."""
    found: list[str] = []
    in_fields = False
    for i, line in enumerate(lines):
        following = next((each for each in lines[i + 1 :] if each.strip()), "")
        if line.rstrip().endswith(":") and following.startswith("    ") and not line.startswith(" "):
            line = f"{line.rstrip()}:"  # what follows, more to the right, is an equation
        if line == "Returns" and set(following) == {"-"}:
            line = "Result"  # a text, where numpydoc expects a type
        if field := _FIELD.match(line):
            found += [] if in_fields else [""]
            line, in_fields = f"- ``{field[1]}``: {line[field.end() :]}", True
        elif in_fields and line.startswith("    "):
            line = f"  {line.strip()}"
        elif in_fields and line.strip():
            found, in_fields = [*found, ""], False
        elif not line.strip():
            in_fields = False
        found.append(line)
    lines[:] = found


def setup(app) -> None:
    """Before napoleon reads the sections."""
    app.connect("autodoc-process-docstring", _readable, priority=100)
