"""What is filled in on the front page and in the gallery: README's plan, and the pictures by question."""

import re
from html import escape
from pathlib import Path

from PIL import Image

import railcore
from railcore.catalog import files
from suite import answers, outputs, workspace

THUMBNAILS = "thumbnails"  # folder of the site
_WIDTH_PX, _HEIGHT_PX = 560, 420  # at most, twice as large as it is shown


def filled(text: str) -> str:
    """A page of docs/ with what stands in place of its comments."""
    made = {"cards": cards, "gallery": gallery, "plan": plan, "version": lambda: railcore.__version__}
    return re.sub(f"<!-- ({'|'.join(made)}) -->", lambda found: made[found[1]](), text)


def plan() -> str:
    """The spec in README and the answer that it prints, which a test compares with `railcore plan`'s."""
    readme = (files.ROOT / "README.md").read_text(encoding="utf-8")
    spec = re.search(r"```toml\n# cluster.toml\n.*?```", readme, re.DOTALL)
    printed = re.search(r"\$ .*?railcore plan cluster.toml.*\n((?:.+\n)+)", readme)
    if not spec or not printed:
        raise ValueError("README.md has no plan of cluster.toml to show on the front page")
    answer = " ".join(printed[1].split())  # its lines are as broad as the page
    console = f"```console\n$ pip install .\n$ railcore plan cluster.toml\n{answer}\n...\n```"
    return f'<div class="beside">\n\n{spec[0]}\n\n{console}\n\n</div>'


def cards() -> str:
    """A card for each notebook that has an answer: its picture, its question, and the first sentence of the answer."""
    found = []
    for answer in answers.answered():
        told = f"<strong>{escape(answer.question)}</strong><span>{escape(answer.sentence)}</span>"
        image = _thumbnail(outputs.items()[answer.picture])
        found.append(f'<a href="../notebooks/{answer.notebook}.ipynb">{image}{told}</a>')
    return "\n".join(['<div class="cards">', *found, "</div>"])


def gallery() -> str:
    """Each question with its answer's first sentence and all pictures of its notebook, its most telling one first."""
    lines = []
    for answer in answers.answered():
        link = f"../notebooks/{answer.notebook}.ipynb"
        pictures = [item for item in _pictures() if item["notebook"] == answer.notebook]
        pictures.sort(key=lambda item: item["id"] != answer.picture)
        lines += [f"## {answer.question}\n", f"{escape(answer.sentence)} [More]({link})\n", '<div class="cards tiles">']
        lines += [f'<a href="{link}">{_thumbnail(item)}{_told(item)}</a>' for item in pictures]
        lines += ["</div>\n"]
    return "\n".join(lines)


def write_thumbnails(site: Path) -> None:
    """Small pictures into the site: all of the full ones have 18 MB, more than one waits for."""
    for item in _pictures():
        place = f"{item['document']}/{item['item']}.png"
        (site / THUMBNAILS / place).parent.mkdir(parents=True, exist_ok=True)
        with Image.open(workspace.FIGURES / place) as image:
            small = image.convert("RGB")
        small.thumbnail((_WIDTH_PX, _HEIGHT_PX))
        small.quantize(64).save(site / THUMBNAILS / place, optimize=True)


def _pictures() -> list[dict[str, str]]:
    return [item for item in outputs.items().values() if "png" in item["files"].split()]


def _thumbnail(item: dict[str, str]) -> str:
    place = f"{THUMBNAILS}/{item['document']}/{item['item']}.png"
    return f'<img src="{place}" alt="{escape(item["must_show"])}" loading="lazy">'


def _told(item: dict[str, str]) -> str:
    """What a picture shows, and its name in its document, if it is of one."""
    name = "" if item["document"] == "extra" else f"<small>{item['document']}, {outputs.item_name(item)}</small>"
    return f"<span>{escape(item['must_show'])}</span>{name}"
