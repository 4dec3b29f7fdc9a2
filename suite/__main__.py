"""The command line of the suite: `python -m suite`, behind make figures and make lab."""

import argparse
import sys

from railcore import __main__ as railcore_command


def command_parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    parser = argparse.ArgumentParser(prog="python -m suite", description="Notebooks, figures and claims of railcore.")
    commands = parser.add_subparsers(dest="command", required=True)
    figures = commands.add_parser("figures", help="run the notebooks that changed and publish what they made")
    figures.add_argument("notebook", nargs="?", help="the one notebook to run, such as 01_network_cost or 01")
    figures.add_argument(
        "-p", nargs=2, action="append", metavar=("NAME", "VALUE"), dest="parameters", help="a parameter"
    )
    figures.add_argument("--params", metavar="TEXT", help="parameters as one text, which is split as a shell would")
    publish = "make parameters edited in notebooks the published ones"
    figures.add_argument("--publish", action="store_true", help=publish)
    figures.add_argument("--name", help="of a run with your own numbers; by default made of what was changed")
    claim = commands.add_parser("claim", help="what a document claims, what comes out, and where it is computed")
    claim.add_argument("id", help="of data/claims.csv, or words and values to look for, such as 70.5%%")
    how_far = "how many runs the intervals of modelled times hold, and how wide they are"
    commands.add_parser("coverage", help=how_far)
    lab = commands.add_parser("lab", help="open JupyterLab on copies of the notebooks in build/lab")
    what = lab.add_mutually_exclusive_group()
    what.add_argument("--keep", metavar="NOTEBOOK", help="write an edited copy into notebooks/, and start nothing")
    what.add_argument("--discard", metavar="NOTEBOOK", help="drop what was edited in a copy, and start nothing")
    what.add_argument("--list", action="store_true", help="list edited copies and files made there, and start nothing")
    lab.add_argument("--force", action="store_true", help="keep: also where the notebook has changed since")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run one command; gives the exit status, 2 for bad input."""
    return railcore_command.run_command("suite", command_parser(), _COMMANDS, arguments)


def _figures(options) -> int:
    from suite import driver

    parameters = [*(options.parameters or []), *_parameters_of(options.params or "")]
    return driver.make_figures(options.notebook, parameters, options.publish, options.name)


def _parameters_of(text: str) -> list[list[str]]:
    """Pairs of parameter and value of a text such as "-p gpus 100000 -p ownership '7 years'"."""
    import shlex

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"PARAMS is {text!r}: {error}: write -p NAME VALUE, or -p NAME 'VALUE OF WORDS'") from None
    if len(words) % 3 or set(words[::3]) - {"-p"}:
        raise ValueError(f"PARAMS is {text!r}: write -p NAME VALUE for each parameter, and 'VALUE OF WORDS' in quotes")
    return [words[at + 1 : at + 3] for at in range(0, len(words), 3)]


def _claim(options) -> int:
    from suite.driver import claim_text

    print(claim_text.claim_text(options.id))
    return 0


def _coverage(options) -> int:
    from suite.interval_coverage import coverage_text

    print(coverage_text(), end="")
    return 0


def _lab(options) -> int:
    from suite.driver import lab

    if options.keep is not None:
        print(lab.keep(options.keep, options.force))
    elif options.discard is not None:
        print(lab.discard(options.discard))
    elif options.list:
        print("".join(f"{path}\n" for path in lab.own_files()), end="")
    else:
        lab.start()
    return 0


_COMMANDS = {"figures": _figures, "claim": _claim, "coverage": _coverage, "lab": _lab}


if __name__ == "__main__":
    railcore_command.in_utf8()
    sys.exit(main())
