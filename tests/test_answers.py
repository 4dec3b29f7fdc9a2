"""A notebook's answer: short enough to be read at once, at the head of what is published, of the run's own numbers."""

import json
import re

import project
import pytest

from railcore.catalog import files
from suite import answers, legible, workspace
from suite.answers import MARKERS, NotebookAnswer
from suite.driver import publish, readme
from suite.driver.run import load_notebook
from suite.ledger import claims

HEAD = f"# What is it?\n\nAsked.\n\n{MARKERS[0]}\n{MARKERS[1]}\n\nlinks"
ANSWER = NotebookAnswer("01_network_cost", "What is it?", "It is **3**.", "extra.01_saving_map")
DRAW = """
import matplotlib.pyplot as plt, pandas as pd
from suite import outputs, plotting
plotting.house_style()
figure, ax = plt.subplots(figsize=(8, 6))
ax.set_title("a line")
outputs.save("extra.16_x", pd.DataFrame({"x": [1]}), figure)
outputs.answer(f"It is {speed}.", "extra.16_x")
"""


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("On 16,384 H100 GPT-3 takes 4.5 s by 1F1B, 12% more than in Fig. 13-8. Take 405B, or DGX H100.", []),
        ("It costs 1, 2, 3 and -4.5.", ["4 numbers (at most 3)"]),
        ("One. Two. Three. Four.", ["4 sentences (at most 3)"]),
        ("word " * 61, ["61 words (at most 60)"]),
    ],
)
def test_an_answer_is_read_at_once(text, faults):
    assert legible.answer_faults(text) == faults


def test_the_head_of_a_notebook_takes_one_answer_and_gives_it_back():
    published = answers.headed(HEAD, ANSWER, "../figures")
    places = [published.index(text) for text in ("Asked.", "It is **3**.", "<img", "links")]
    assert places == sorted(places)
    assert '<img src="../figures/extra/01_saving_map.png" width="' in published and "**In short**" in published
    own = answers.headed(published, ANSWER, ".")
    assert own.count("It is **3**.") == 1 and "With your parameters" in own and "../figures" not in own
    assert answers.headed(own, None) == HEAD
    assert answers.headed("no markers", ANSWER, ".") == "no markers"


def test_an_answer_whose_picture_is_gone_is_none(tmp_path):
    """Or renaming a picture would keep the driver, which writes README's answers, from the run that mends it."""
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra/01_answer.md").write_text("So.\n\n[![extra.gone](x.png)](x.png)\n")
    assert answers.stored("01_network_cost", tmp_path) is None


def test_a_first_sentence_is_plain():
    text = "A **DGX H100** saves 3.5% ([why](x.md)). Take it."
    assert NotebookAnswer("01_network_cost", "", text, "extra.01_saving_map").sentence == "A DGX H100 saves 3.5% (why)."


@pytest.mark.parametrize("path", sorted(workspace.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))[1:], ids=lambda path: path.stem)
def test_every_notebook_asks_and_has_its_answer_on_top(path):
    source = "".join(json.loads(path.read_text())["cells"][0]["source"])
    assert answers.question(path.stem).endswith("?")
    told = answers.stored(path.stem, workspace.FIGURES)
    assert told and source == answers.headed(source, told, "../figures") and told.text[:20] in source
    assert not legible.answer_faults(told.text)


def test_the_driver_writes_the_answer_that_a_run_gave(tmp_path):
    name, folder = "16_transports", project.make(tmp_path / "project")
    with (folder / "data/extras.csv").open("a") as extras:
        extras.write(f"extra.16_x,extra,16_x,figure,a line,{name},png csv\n")
    project.write_notebook(folder, name, project.SPEED, DRAW)
    path, readme_path = folder / "notebooks" / f"{name}.ipynb", folder / "README.md"
    readme_path.write_text("".join(f"<!-- {part} -->\n<!-- /{part} -->\n" for part in readme.PARTS))
    notebook = json.loads(path.read_text())
    notebook["cells"].insert(0, {"cell_type": "markdown", "id": "head", "metadata": {}, "source": HEAD})
    path.write_text(json.dumps(notebook))

    def head(path):
        return "".join(json.loads(path.read_text())["cells"][0]["source"])

    assert project.run(folder, "16")[0] == 0
    assert "It is 400 Gbps." in head(path)
    assert 'src="../figures/extra/16_x.png" width="560"' in head(path)  # 4 by 3, 420 px high
    assert load_notebook(name, path.parent)["cells"][0]["source"] == HEAD  # the driver's text is no source
    shown = readme_path.read_text().replace("\u00a0", " ")
    assert (
        'src="figures/extra/16_x.png"' in shown
        and "What is it?](notebooks/16_transports.ipynb)**<br>It is 400" in shown
    )
    status, _ = project.run(folder, "16", "-p", "speed", "800 Gbps", "--name", "mine")
    own = head(folder / "build/custom" / name / "mine" / path.name)
    assert status == 0 and "It is 800 Gbps." in own and 'src="./extra/16_x.png"' in own
    assert readme_path.read_text().replace("\u00a0", " ") == shown


def test_readme_has_the_answers_and_the_counts_of_today():
    text = (files.ROOT / "README.md").read_text(encoding="utf-8")
    ledger = claims.ledger(publish.published_rows())
    assert not readme.lacking(text) and readme.written(text, ledger, answers.answered()) == text
    asked = re.findall(r'^\| <a href="(notebooks/\w+\.ipynb)"><img .*\*\*\[.*\?\]\((.*?)\)', text, re.MULTILINE)
    assert len(asked) == 10 and all(picture == question for picture, question in asked)
