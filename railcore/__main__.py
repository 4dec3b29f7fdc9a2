"""The command line: `python -m railcore`, or `railcore` where the package is installed."""

import argparse
import os
import sys
from io import TextIOWrapper

from railcore import __version__
from railcore.facts import files


def command_parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    parser = argparse.ArgumentParser(
        prog="python -m railcore", description="Networks for LLM training: figures and claims."
    )
    parser.add_argument("--version", action="version", version=f"railcore {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    figures = commands.add_parser("figures", help="run the notebooks that changed and publish what they made")
    figures.add_argument("notebook", nargs="?", help="the one notebook to run, such as 01_network_cost or 01")
    figures.add_argument("-p", nargs=2, action="append", metavar=("NAME", "VALUE"), dest="given", help="a parameter")
    figures.add_argument("--params", metavar="TEXT", help="parameters as one text, which is split as a shell would")
    publish = "make parameters edited in notebooks the published ones"
    figures.add_argument("--publish", action="store_true", help=publish)
    figures.add_argument("--name", help="of a run with your own numbers; by default made of what was changed")
    claim = commands.add_parser("claim", help="what a document claims, what comes out, and where it is computed")
    claim.add_argument("id", help="of data/claims.csv, or words and values to look for, such as 70.5%%")
    listing = commands.add_parser("list", help="what the catalog has: models, platforms, gpus, switches, books, ...")
    listing.add_argument("family", nargs="?", help="by default the families themselves")
    own = commands.add_parser("catalog", help="rows of an item of your own to fill in")
    adding = own.add_subparsers(dest="action", required=True).add_parser("template", help="print or write these rows")
    adding.add_argument("family", help="such as gpus, platforms, models, switches, transceivers, prices")
    adding.add_argument("name", help='of the new item, such as "B300"')
    adding.add_argument("--gpu", default="", help="the GPU of a new platform")
    adding.add_argument("--like", default="", help="GPU whose efficiencies are filled in as assumed")
    adding.add_argument("--write", metavar="FOLDER", help="add the rows to the files of a folder instead")
    runs = commands.add_parser("runs", help="training runs of your own, to hold the model against")
    filling = runs.add_subparsers(dest="action", required=True).add_parser(
        "template", help="print or write a CSV for them"
    )
    filling.add_argument("--write", metavar="FILE", help="write it into a new file instead")
    commands.add_parser("assumptions", help="rows of the catalog that are assumed, with their bounds")
    planning = commands.add_parser("plan", help="one cluster spec in, every model's answer out")
    planning.add_argument("specs", nargs="*", metavar="SPEC", help="TOML files; several stand side by side")
    planning.add_argument("--init", action="store_true", help="print a commented spec to fill in, and stop")
    planning.add_argument("--schema", action="store_true", help="print the JSON schema of a spec, and stop")
    planning.add_argument("--html", metavar="FILE", help="write one self-contained page")
    planning.add_argument("--json", metavar="FILE", help="write all of it, - for the terminal")
    planning.add_argument("--markdown", metavar="FILE", help="write it as Markdown, - for the terminal")
    planning.add_argument("--csv", metavar="FOLDER", help="write each table as a CSV file")
    planning.add_argument("--draws", type=int, help="of what is assumed, for 5 to 95%%; 0 for none")
    sweeping = commands.add_parser("sweep", help="plans over a grid or a table of spec values, into Parquet files")
    sweeping.add_argument("spec", nargs="?", metavar="SPEC", help="a TOML file with a table over")
    sweeping.add_argument("--out", metavar="FOLDER", help="for the rows; the same command goes on where it was stopped")
    sweeping.add_argument(
        "--workers", type=int, nargs="?", const=0, default=1, help="processes; without a number all cores"
    )
    sweeping.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster, such as tcp://10.0.0.1:8786")
    sweeping.add_argument("--draws", type=int, default=0, help="of what is assumed, for how sure each point is")
    sweeping.add_argument("--init", action="store_true", help="print a spec with a table over to fill in, and stop")
    known = commands.add_parser("support", help="what evidence there is for a platform and a model")
    known.add_argument("platform", help='of the catalog, such as "GB200 NVL72"')
    known.add_argument("model", help='of the catalog, such as "Llama-3 405B"')
    known.add_argument("--precision", default="bf16", help="of the linear layers")
    lab = commands.add_parser("lab", help="open JupyterLab on copies of the notebooks in build/lab")
    what = lab.add_mutually_exclusive_group()
    what.add_argument("--keep", metavar="NOTEBOOK", help="write an edited copy into notebooks/, and start nothing")
    what.add_argument("--discard", metavar="NOTEBOOK", help="drop what was edited in a copy, and start nothing")
    what.add_argument("--list", action="store_true", help="list edited copies and files made there, and start nothing")
    lab.add_argument("--force", action="store_true", help="keep: also where the notebook has changed since")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run one command; gives the exit status, 2 for bad input."""
    options = command_parser().parse_args(arguments)
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal without UTF-8 shows ? for ≤
        sys.stdout.reconfigure(errors="replace")
    try:
        if options.command in _OF_THE_PROJECT:
            files.check_project(options.command)
        return _COMMANDS[options.command](options)
    except (ValueError, ImportError) as error:
        print(f"railcore: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"railcore: {files.refusal(error)}", file=sys.stderr)
        return 1


def _figures(options) -> int:
    from railcore.workbench import driver

    given = [*(options.given or []), *_parameters_of(options.params or "")]
    return driver.make_figures(options.notebook, given, options.publish, options.name)


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
    from railcore.facts import claims
    from railcore.facts.tables import read_csv
    from railcore.facts.units import number

    if options.id not in claims.claims() and (found := claims.matching_claims(options.id)):
        print("\n".join(f"{entry.id}: {entry.claim}: {claims.paper_text(entry)}" for entry in found))
        return 0
    entry = claims.claim(options.id)
    row = {row["id"]: row for row in read_csv(files.FIGURES / "reproduction.csv")}.get(entry.id, {})
    within = f"{number(100 * entry.tolerance)}%" if entry.paper_value else number(entry.tolerance)
    paper = claims.paper_text(entry) + (f" (within {within})" if entry.tolerance else "")
    ours = claims.claim_amount(float(row["value"]), entry.unit) if row.get("value") else "no value"
    judged = row.get("verdict") or "missing"
    if judged == "reproduced" and claims.within_printed_digit(float(row["value"]), entry):
        judged += ", within the printed digit"
    if judged == "missing" and (files.NOTEBOOKS / f"{entry.notebook}.ipynb").exists():
        judged += f", run `make figures NB={entry.notebook}`"
    elsewhere = "not in the installed package: a clone of the project shows it, with settings and inputs"
    lines = {
        "claim": entry.claim,
        "document": f"{entry.document}, {entry.place}: {paper}",
        "ours": elsewhere if files.INSTALLED else f"{ours}: {judged}",
        "rests on": _basis_text(entry.id, row) if row.get("basis") else "",
        "evidence": _evidence_text(entry.id),
        "reason": row.get("reason", ""),
        "note": entry.note,
        "notebook": f"notebooks/{entry.notebook}.ipynb",
    }
    print("\n".join(f"{key:<9} {value}" for key, value in lines.items() if value))
    if files.INSTALLED:
        return 0
    from railcore.workbench.driver import publish

    moving = _moving_texts(entry, row)
    if moving:
        print("\n          ".join(["moved by  what is assumed, at its low and high end:", *moving]))
    settings = [f"{name} = {value}" for name, value in publish.published_parameters(entry.notebook).items()]
    inputs = [row for row in read_csv(files.FIGURES / "inputs.csv") if row["notebook"] == entry.notebook]
    inputs.sort(key=lambda row: row["family"] != publish.MEASURED)  # measured files first: they are few
    for heading, texts in {"settings": settings, "inputs": [_input_text(row) for row in inputs]}.items():
        if texts:
            print("\n          ".join([f"{heading:<9} of the whole notebook:", *texts]))
    return 0


def _basis_text(claim_id: str, row: dict[str, str]) -> str:
    """What a claim rests on, and the parameters that were solved, with what each was solved from."""
    from railcore.facts import grounds

    solved = [
        f"\n          {how}: {each.parameter} from {each.used_text}: {each.note}"
        for each, how in grounds.calibrations_of(claim_id).items()
    ]
    return f"{row['basis']}: {grounds.BASES[row['basis']]}{''.join(solved)}"


def _evidence_text(claim_id: str) -> str:
    from railcore.facts import grounds

    worth, why = grounds.evidence(claim_id), grounds.evidence_reason(claim_id)
    return f"{worth}: {why or grounds.EVIDENCE[worth]}"


def _moving_texts(entry, row: dict[str, str]) -> list[str]:
    """A line for each assumed input that moves a claim, those that decide its verdict first, and for stored numbers."""
    from railcore.facts import catalog, claims, grounds

    found: dict[tuple[str, str, str], dict[str, float]] = {}
    stored = []
    for each in grounds.moving_inputs(entry.id):
        if each.family != "derived":
            found.setdefault((each.family, each.name, each.parameter), {})[each.end] = each.value
        else:
            stored.append(f"{each.name}: stored results, whose inputs cannot be varied in a notebook")
    decide = {(each.family, each.name, each.parameter) for each in claims.decided_by_assumed(entry.id, row["verdict"])}
    assumed = {(each.family, each.name, each.parameter): each for each in catalog.values("assumed")}
    lines = []
    for key in sorted(found, key=lambda key: key not in decide):
        ends = [claims.claim_amount(value, entry.unit) for value in found[key].values()]
        bounds = f", {_bounds(assumed[key])}" if key in assumed else ""
        words = " (decides the verdict)" if key in decide else ""
        name = ", ".join(filter(None, (f"{key[0]}: {key[1]}".removeprefix(": "), key[2])))
        lines.append(f"{name}{bounds}: ours {' to '.join(dict.fromkeys(ends))}{words}")
    return lines + stored


def _bounds(row) -> str:
    """The low and high end of a row of the catalog, in its unit."""
    from railcore.facts.units import convert

    unit = "" if row.unit == "1" else f" {row.unit}"
    return f"{convert(row.low, row.unit):g} to {convert(row.high, row.unit):g}{unit}"


def _input_text(row: dict[str, str]) -> str:
    """A row of figures/inputs.csv: a measured file, or a value of the catalog."""
    unit = "" if row["unit"] == "1" else f" {row['unit']}"
    what = f", {row['parameter']}: {row['value']}{unit}" if row["parameter"] else ""
    return f"{row['family']}: {row['name']}{what} ({row['kind']}; {row['source']})"


def _assumptions(_options) -> int:
    from railcore.facts import catalog
    from railcore.facts.units import convert

    for row in catalog.values("assumed"):
        low, value, high = (f"{convert(number, row.unit):g}" for number in (row.low, row.value, row.high))
        unit = "" if row.unit == "1" else f" {row.unit}"
        print(f"{row.family}: {row.name}, {row.parameter}: {value}{unit} ({low} to {high}); {row.source}")
    return 0


def _list(options) -> int:
    from railcore.facts import catalog_lists, tables

    if options.family:
        rows = catalog_lists.family_list(options.family)
    else:
        counts = {family: len(catalog_lists.family_list(family)) for family in catalog_lists.listed_families()}
        rows = [{"family": family, "rows": str(count)} for family, count in counts.items()]
    print(tables.aligned_table(rows), end="")
    if any("*" in row.get("name", row.get("book", "")) for row in rows):
        print(f"* with rows of {os.environ['RAILCORE_CATALOG']}")
    return 0


def _catalog(options) -> int:
    from pathlib import Path

    from railcore.facts import catalog, catalog_template

    rows = catalog_template.template(options.family, options.name, options.gpu, options.like)
    if not rows:
        print(f"{options.name!r} has all rows that railcore asks of {options.family}")
    elif options.write:
        for path, added in catalog_template.write_template(rows, Path(options.write)).items():
            print(f"{path}: {added} rows added" if added else f"{path}: the rows are there already")
    else:
        print(catalog_template.template_text(rows), end="")
    if rows:
        folder = options.write or "a folder of such files"
        print(
            f"Fill in value, kind ({', '.join(catalog.KINDS)}; assumed needs low and high) and source.\n"
            "A row without value and source counts as not there. Optional rows may go.\n"
            f"To use them, set RAILCORE_CATALOG to {folder}.",
            file=sys.stderr,
        )
    return 0


def _runs(options) -> int:
    from pathlib import Path

    from railcore.engines import own_runs

    if options.write:
        own_runs.write_run_template(Path(options.write))
        print(f"{options.write}: written")
    else:
        print(own_runs.run_template(), end="")
    print(
        "Replace the example by your runs, a row each; what is not needed may stay blank.\n"
        f'To use them: make figures NB=06 PARAMS="-p runs {options.write or "FILE"}"',
        file=sys.stderr,
    )
    return 0


def _plan(options) -> int:
    import json

    from railcore.engines.plan import command
    from railcore.engines.plan.spec import spec_schema, spec_template

    if options.init or options.schema:
        print(spec_template() if options.init else json.dumps(spec_schema(), indent=1))
        return 0
    written = {name: getattr(options, name) for name in ("html", "json", "markdown", "csv")}
    return command.run(options.specs, written, options.draws)


def _sweep(options) -> int:
    from railcore.engines.sweep import command

    if options.init:
        print(command.TEMPLATE, end="")
        return 0
    return command.run_sweep(options.spec, options.out, options.workers, options.scheduler, options.draws)


def _support(options) -> int:
    from railcore.engines.plan import support
    from railcore.facts import tables

    rows = support(options.platform, options.model, options.precision).to_dict("records")
    print(tables.aligned_table(rows), end="")
    return 0


def _lab(options) -> int:
    from railcore.workbench.driver import lab

    if options.keep is not None:
        print(lab.keep(options.keep, options.force))
    elif options.discard is not None:
        print(lab.discard(options.discard))
    elif options.list:
        print("".join(f"{path}\n" for path in lab.own_files()), end="")
    else:
        lab.start()
    return 0


_COMMANDS = {
    "figures": _figures,
    "claim": _claim,
    "list": _list,
    "catalog": _catalog,
    "plan": _plan,
    "runs": _runs,
    "support": _support,
    "sweep": _sweep,
    "assumptions": _assumptions,
    "lab": _lab,
}
_OF_THE_PROJECT = ("figures", "lab")  # which an installed package cannot run


def script() -> None:
    """The console script: the command line in UTF-8."""
    # Names of folders go to kernels in JSON, which is UTF-8.
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {"PYTHONUTF8": "1"})
    sys.exit(main())


if __name__ == "__main__":
    script()
