"""A notebook's answer: short enough to be read at once, at the head of what is published, of the run's own numbers."""

import json

import project
import pytest

from suite import answers, legible, workspace
from suite.answers import MARKERS, NotebookAnswer
from suite.driver.run import load_notebook

HEAD = f"# What is it?\n\nAsked.\n\n{MARKERS[0]}\n{MARKERS[1]}\n\nlinks"
ANSWER = NotebookAnswer("01_network_cost", "What is it?", "It is **3**.", "extra.01_saving_map")
DRAW = """
import matplotlib.pyplot as plt, pandas as pd
from suite import outputs, plotting
plotting.house_style()
figure, ax = plt.subplots(figsize=(8, 6))
ax.set_title("a line")
outputs.save("extra.02_x", pd.DataFrame({"x": [1]}), figure)
outputs.answer(f"It is {speed}.", "extra.02_x")
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


def test_an_answer_whose_picture_is_gone_is_named(tmp_path):
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra/01_answer.md").write_text("So.\n\n[![extra.gone](x.png)](x.png)\n")
    with pytest.raises(ValueError, match=r"extra/01_answer.md names the picture 'extra.gone', which data/ has not"):
        answers.stored("01_network_cost", tmp_path)


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
    folder = project.make(tmp_path / "project")
    with (folder / "data/extras.csv").open("a") as extras:
        extras.write(f"extra.02_x,extra,02_x,figure,a line,{project.SECOND},png csv\n")
    project.write_notebook(folder, project.SECOND, project.SPEED, project.OTHER, DRAW)
    path = folder / "notebooks" / f"{project.SECOND}.ipynb"
    notebook = json.loads(path.read_text())
    notebook["cells"].insert(0, {"cell_type": "markdown", "id": "head", "metadata": {}, "source": HEAD})
    path.write_text(json.dumps(notebook))

    def head(path):
        return "".join(json.loads(path.read_text())["cells"][0]["source"])

    assert project.run(folder, "02")[0] == 0
    assert "It is 400 Gbps." in head(path)
    assert 'src="../figures/extra/02_x.png" width="560"' in head(path)  # 4 by 3, 420 px high
    assert load_notebook(project.SECOND, path.parent)["cells"][0]["source"] == HEAD  # the driver's text is no source
    status, _ = project.run(folder, "02", "-p", "speed", "800 Gbps", "--name", "mine")
    own = head(folder / "build/custom" / project.SECOND / "mine" / path.name)
    assert status == 0 and "It is 800 Gbps." in own and 'src="./extra/02_x.png"' in own
