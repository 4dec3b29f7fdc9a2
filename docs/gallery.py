"""What is filled in on the front page and in the lists of notebooks and plans: README's plan, pictures by question."""

import re
from html import escape
from pathlib import Path

from PIL import Image

import railcore
from railcore.catalog import files
from suite import answers, outputs, workspace

THUMBNAILS = "thumbnails"  # folder of the site
FIRST = "20_plan_your_cluster"  # on the front page: what a visitor asks, the others in the documents' order
_PLANS = workspace.FIGURES / "plans"
_WIDTH_PX, _HEIGHT_PX = 560, 420  # at most, twice as large as it is shown


def filled(text: str) -> str:
    """A page of docs/ with what stands in place of its comments."""
    made = {"cards": cards, "gallery": gallery, "notebooks": notebooks, "plan": plan, "plans": plans}
    made["version"] = lambda: railcore.__version__
    return re.sub(f"<!-- ({'|'.join(made)}) -->", lambda found: made[found[1]](), text)


def plan() -> str:
    """The spec in README and what it prints up to the table, which a test compares with `railcore plan`'s."""
    readme = (files.ROOT / "README.md").read_text(encoding="utf-8")
    spec = re.search(r"```toml\n# cluster.toml\n.*?```", readme, re.DOTALL)
    printed = re.search(r"\$ .*?railcore plan cluster.toml.*\n([^`]+?)\n+(?=network  |\.\.\.|```)", readme)
    if not spec or not printed:
        raise ValueError("README.md has no plan of cluster.toml to show on the front page")
    answer = "\n\n".join(" ".join(each.split()) for each in printed[1].split("\n\n"))  # as broad as the page
    console = f"```console\n$ pip install .\n$ railcore plan cluster.toml\n{answer}\n...\n```"
    return f'<div class="beside">\n\n{spec[0]}\n\n{console}\n\n</div>'


def cards() -> str:
    """A card for each notebook that has an answer: its picture, its question, and the first sentence of the answer."""
    found = []
    for answer in sorted(answers.answered(), key=lambda answer: answer.notebook != FIRST):
        told = f"<strong>{numbered(answer)}</strong><span>{escape(answer.sentence)}</span>"
        image = _thumbnail(outputs.items()[answer.picture])
        found.append(f'<a href="../notebooks/{answer.notebook}.ipynb">{image}{told}</a>')
    return "\n".join(['<div class="cards">', *found, "</div>"])


def gallery() -> str:
    """Each question with its answer's first sentence and all pictures of its notebook, its most telling one first."""
    lines = []
    for answer in answers.answered():
        link = f"../notebooks/{answer.notebook}.ipynb"
        more = f"{escape(answer.sentence)} [More]({link})\n"
        pictures = [item for item in _pictures() if item["notebook"] == answer.notebook]
        pictures.sort(key=lambda item: item["id"] != answer.picture)
        lines += [f"## {numbered(answer)}\n", more, '<div class="cards tiles">']
        lines += [f'<a href="{link}#{anchor(item)}">{_thumbnail(item)}{_told(item)}</a>' for item in pictures]
        lines += ["</div>\n"]
    return "\n".join(lines)


def notebooks() -> str:
    """The notebooks by number, as a list beside their pages has them: texts name them by number."""
    paths = sorted(workspace.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    return "\n".join(f"{path.stem[:2]} {answers.question(path.stem)} <notebooks/{path.stem}>" for path in paths)


def numbered(answer: answers.NotebookAnswer) -> str:
    """A question after the number of its notebook."""
    return f"{answer.notebook[:2]} {escape(answer.question)}"


def plans() -> str:
    """A card for each page of a plan: what is built, for what, and what it says first."""
    found = []
    for path in sorted(_PLANS.glob("*.html")):
        text = path.read_text(encoding="utf-8")
        title, headline = re.search(r"<h1>(.*?)</h1>", text)[1], re.search(r'<p class="headline">(.*?)</p>', text)[1]
        drawn = re.search(r'<title id="drawing-title">(.*?)</title>', text)[1]
        image = f'<img src="{THUMBNAILS}/plans/{path.stem}.svg" alt="{drawn}" loading="lazy">'
        told = f"<strong>{title}</strong><span>{headline}</span>"
        found.append(f'<a href="../figures/plans/{path.name}">{image}{told}</a>')
    return "\n".join(['<div class="cards">', *found, "</div>"])


def with_way_back(page: str) -> str:
    """The page of a plan with links to the site, which are not printed."""
    style = "<style>@media print { .way-back { display: none; } }</style>"
    links = '<a href="../../index.html">railcore</a> / <a href="../../plans.html">Plans</a>'
    return page.replace("<main>", f'<main>\n{style}\n<p class="way-back">{links}</p>', 1)


def image(item: dict[str, str], figures: str) -> str:
    """A picture in HTML, with its size, so that what is below does not move when it is loaded.

    figures: where the folder of figures is, as seen from the page.
    """
    place = f"{item['document']}/{item['item']}.svg"
    width, height = size(workspace.FIGURES / place)
    shows = escape(item["must_show"])
    return f'<img src="{figures}/{place}" alt="{shows}" width="{width}" height="{height}" loading="lazy">'


def size(picture: Path) -> tuple[int, int]:
    """Width and height of an SVG in points as browsers show it [px]."""
    head = picture.read_text(encoding="utf-8")[:1000]
    width, height = (float(re.search(rf' {side}="([\d.]+)pt"', head)[1]) for side in ("width", "height"))
    return round(width * 4 / 3), round(height * 4 / 3)


def anchor(item: dict[str, str]) -> str:
    """Where a picture stands on the page of its notebook."""
    return f"{item['document']}-{item['item']}"


def write_thumbnails(site: Path) -> None:
    """Small pictures into the site: all of the full ones have 18 MB, more than one waits for."""
    for item in _pictures():
        place = f"{item['document']}/{item['item']}.png"
        (site / THUMBNAILS / place).parent.mkdir(parents=True, exist_ok=True)
        with Image.open(workspace.FIGURES / place) as image:
            small = image.convert("RGB")
        small.thumbnail((_WIDTH_PX, _HEIGHT_PX))
        small.quantize(64).save(site / THUMBNAILS / place, optimize=True)
    for path in _PLANS.glob("*.html"):
        drawing = re.search(r'<svg (?=[^>]*"drawing-title).*?</svg>', path.read_text(encoding="utf-8"), re.DOTALL)[0]
        drawing = drawing.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" ', 1)
        files.write_whole(site / THUMBNAILS / "plans" / f"{path.stem}.svg", drawing)


def _pictures() -> list[dict[str, str]]:
    return [item for item in outputs.items().values() if "png" in item["files"].split()]


def _thumbnail(item: dict[str, str]) -> str:
    place = f"{THUMBNAILS}/{item['document']}/{item['item']}.png"
    return f'<img src="{place}" alt="{escape(item["must_show"])}" loading="lazy">'


def _told(item: dict[str, str]) -> str:
    """What a picture shows, and its name in its document, if it is of one."""
    name = "" if item["document"] == "extra" else f"<small>{item['document']}, {outputs.item_name(item)}</small>"
    return f"<span>{escape(item['must_show'])}</span>{name}"
