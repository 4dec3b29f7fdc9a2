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
html_favicon = "favicon.ico"
html_extra_path = ["favicon.ico"]  # where browsers look for it from pages of plans
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
    blocks = [block.splitlines() for block in "\n".join(lines).split("\n\n")]
    for block, following in zip(blocks, [*blocks[1:], []], strict=True):
        fields = [_FIELD.match(line) for line in block]
        if any(fields) and all(field or line.startswith("    ") for field, line in zip(fields, block, strict=True)):
            block = [
                f"- ``{field[1]}``: {line[field.end() :]}" if field else f"  {line.strip()}"
                for field, line in zip(fields, block, strict=True)
            ]
        elif block[-1:] and block[-1].endswith(":") and following and following[0].startswith("    "):
            block = [*block[:-1], f"{block[-1]}:"]  # what follows, more to the right, is an equation
        if block[:1] == ["Returns"]:
            block = ["Result", "------", *block[2:]]  # a text, where numpydoc expects a type
        found += [*block, ""]
    lines[:] = found


def setup(app) -> None:
    """Before napoleon reads the sections."""
    app.connect("autodoc-process-docstring", _readable, priority=100)
