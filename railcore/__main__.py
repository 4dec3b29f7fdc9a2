"""The command line: `python -m railcore`, or `railcore` where the package is installed."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from io import TextIOWrapper
from typing import Any

from railcore import __version__
from railcore.catalog import files, letters


def command_parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    parser = argparse.ArgumentParser(
        prog="python -m railcore", description="Networks for LLM training: plans, sweeps, and what they rest on."
    )
    parser.add_argument("--version", action="version", version=f"railcore {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="what the catalog has: models, platforms, gpus, switches, books, ...")
    listing.add_argument("family", nargs="?", help="by default the families themselves")
    catalog = commands.add_parser("catalog", help="rows of an item of your own to fill in")
    adding = catalog.add_subparsers(dest="action", required=True).add_parser(
        "template", help="print or write these rows"
    )
    adding.add_argument("family", help="such as gpus, platforms, models, switches, transceivers, prices")
    adding.add_argument("name", help='of the new item, such as "B300"')
    adding.add_argument("--gpu", default="", help="the GPU of a new platform")
    adding.add_argument("--like", default="", help="GPU whose efficiencies are filled in as assumed")
    adding.add_argument("--write", metavar="FOLDER", help="add the rows to the files of a folder instead")
    runs = commands.add_parser("runs", help="training runs of your own, to hold the model against")
    of_runs = runs.add_subparsers(dest="action", required=True)
    filling = of_runs.add_parser("template", help="print or write a CSV for them")
    filling.add_argument("--write", metavar="FILE", help="write it into a new file instead")
    reading = of_runs.add_parser("read", help="print or write a CSV of what logs of training say")
    reading.add_argument(
        "logs",
        nargs="+",
        metavar="LOG",
        help="of Megatron-LM, NeMo, Megatron-Bridge or torchtitan, or llmb-run's jobs.sqlite3",
    )
    reading.add_argument("-o", "--out", metavar="FILE", help="write it into a new file instead")
    measuring = commands.add_parser("measure", help="your own GPU and links as rows of the catalog")
    actions = measuring.add_subparsers(dest="action", required=True)
    script = actions.add_parser("script", help="print the script that times a GPU; it needs PyTorch, and not railcore")
    running = actions.add_parser("run", help="time the GPU of this machine, with this Python's PyTorch")
    for action in (script, running):
        action.add_argument("--model", default="Llama-3 8B", help="of the catalog, whose products are timed")
        action.add_argument("--tensor", type=int, default=1, help="ranks that split it")
        action.add_argument("--tokens", type=int, default=8192, help="of a micro-batch on a rank")
    script.add_argument("--write", metavar="FILE", help="write it into a file instead")
    running.add_argument("--out", metavar="FILE", default="parts.csv", help="the CSV of times to write")
    running.add_argument("--seconds", type=float, default=180.0, help="of all measurements")
    running.add_argument("--device", default="cuda", help="cuda, cuda:1, ...; cpu to try it")
    reading = actions.add_parser("read", help="turn measured times into rows of the catalog")
    reading.add_argument("files", nargs="+", help="CSV of the script, logs of nccl-tests, a system file of SimuMax")
    reading.add_argument("--platform", required=True, help='of the catalog, such as "DGX H100": has the GPU\'s peaks')
    reading.add_argument("--write", metavar="FILE", help="write the rows into a CSV instead of printing them")
    commands.add_parser("assumptions", help="rows of the catalog that are assumed, with their bounds")
    planning = commands.add_parser("plan", help="one cluster spec in, every model's answer out")
    planning.add_argument(
        "specs", nargs="*", metavar="SPEC", help="TOML files; two are compared key by key, several stand side by side"
    )
    planning.add_argument("--init", action="store_true", help="print a commented spec to fill in, and stop")
    planning.add_argument("--schema", action="store_true", help="print the JSON schema of a spec, and stop")
    planning.add_argument("--html", metavar="FILE", help="write one self-contained page")
    planning.add_argument("--json", metavar="FILE", help="write all of it, - for the terminal")
    planning.add_argument("--markdown", metavar="FILE", help="write it as Markdown, - for the terminal")
    planning.add_argument("--csv", metavar="FOLDER", help="write each table, the bill too, as a CSV file")
    planning.add_argument(
        "--xlsx", metavar="FILE", help="write a workbook: networks, bill, prices to edit and give back"
    )
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
    support = commands.add_parser("support", help="what evidence there is for a platform and a model")
    support.add_argument("platform", help='of the catalog, such as "GB200 NVL72"')
    support.add_argument("model", help='of the catalog, such as "Llama-3 405B"')
    support.add_argument("--precision", default="bf16", help="of the linear layers")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run one command; gives the exit status, 2 for bad input."""
    return run_command("railcore", command_parser(), _COMMANDS, arguments)


def run_command(
    program: str, parser: argparse.ArgumentParser, commands: Mapping[str, Callable], arguments: Any = None
) -> int:
    """Run the command that arguments name; gives the exit status.

    Parameters
    ----------
    program
        First word of what is said about bad input.
    parser
        Reads the arguments; its `command` is one of the commands.
    commands
        What runs each; it takes the options and gives an exit status.
    arguments
        By default those of the process.

    Returns
    -------
    The command's status; 2 for bad input, 1 for what the system refuses and 130 for Ctrl-C, said in one line.
    """
    for argument in sys.argv[1:] if arguments is None else arguments:
        if fault := letters.hidden_character_fault(argument):
            print(f"{program}: argument {argument!r} {fault}", file=sys.stderr)
            return 2
    options = parser.parse_args(arguments)
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # closed by who started us
            setattr(sys, stream, open(os.devnull, "w"))  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal without UTF-8 shows ? for ≤
        sys.stdout.reconfigure(errors="replace")
    try:
        return commands[options.command](options)
    except (ValueError, ImportError) as error:
        print(f"{program}: {letters.escaped(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{program}: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"{program}: {letters.escaped(files.refusal(error))}", file=sys.stderr)
        return 1


def _assumptions(_options) -> int:
    from railcore import catalog
    from railcore.catalog.units import convert

    for row in catalog.values("assumed"):
        low, value, high = (f"{convert(number, row.unit):g}" for number in (row.low, row.value, row.high))
        unit = "" if row.unit == "1" else f" {row.unit}"
        print(f"{row.family}: {row.name}, {row.parameter}: {value}{unit} ({low} to {high}); {row.source}")
    return 0


def _list(options) -> int:
    from railcore.catalog import lists, tables

    if options.family:
        rows = lists.family_list(options.family)
    else:
        counts = {family: len(lists.family_list(family)) for family in lists.listed_families()}
        rows = [{"family": family, "rows": str(count)} for family, count in counts.items()]
    print(tables.aligned_table(rows), end="")
    if any("*" in row.get("name", row.get("book", "")) for row in rows):
        print(f"* with rows of {letters.escaped(os.environ['RAILCORE_CATALOG'])}")
    return 0


def _catalog(options) -> int:
    from pathlib import Path

    from railcore import catalog
    from railcore.catalog import template

    rows = template.template(options.family, options.name, options.gpu, options.like)
    if not rows:
        print(f"{options.name!r} has all rows that railcore asks of {options.family}")
    elif options.write:
        for path, added in template.write_template(rows, Path(options.write)).items():
            print(f"{path}: {added} rows added" if added else f"{path}: the rows are there already")
    else:
        print(template.template_text(rows), end="")
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

    from railcore.training import run_file

    if options.action == "read":
        return _read_logs(options)
    if options.write:
        run_file.write_run_template(Path(options.write))
        print(f"{options.write}: written")
    else:
        print(run_file.run_template(), end="")
    print(
        "Replace the example by your runs, a row each; what is not needed may stay blank.\n"
        f'To use them: make figures NB=06 PARAMS="-p runs {options.write or "FILE"}"',
        file=sys.stderr,
    )
    return 0


def _read_logs(options) -> int:
    from pathlib import Path

    from railcore.training import run_file
    from railcore.training.step_logs import step_times

    jobs = [job for log in options.logs for job in step_times(log)]
    rows = [job.cells() for job in jobs]
    text = run_file.runs_text(rows)
    if options.out:
        run_file.write_runs(Path(options.out), text)
    else:
        print(text, end="")
    for line, (job, cells) in enumerate(zip(jobs, rows, strict=True), start=2):
        blank = run_file.cells_to_fill(cells)
        todo = f"still to fill in: {', '.join(blank)}" if blank else "complete"
        print(f"line {line}: {job.summary()}; {todo}", file=sys.stderr)
    print(f'To use them in a plan: measured = "{options.out or "FILE"}" at the top of its spec.', file=sys.stderr)
    return 0


def _measure(options) -> int:
    from railcore.training import measuring

    if options.action == "read":
        return measuring.read_measured(options.files, options.platform, options.write)
    job = (options.model, options.tensor, options.tokens)
    if options.action == "script":
        return measuring.write_script(*job, options.write)
    return measuring.run_here(*job, options.out, options.seconds, options.device)


def _plan(options) -> int:
    import json

    from railcore.planner import command as plan_command
    from railcore.planner.spec_template import spec_schema, spec_template

    if options.init or options.schema:
        print(spec_template() if options.init else json.dumps(spec_schema(), indent=1))
        return 0
    written = {name: getattr(options, name) for name in ("html", "json", "markdown", "csv", "xlsx")}
    return plan_command.run(options.specs, written, options.draws)


def _sweep(options) -> int:
    from railcore.planner import sweep_command

    if options.init:
        print(sweep_command.TEMPLATE, end="")
        return 0
    return sweep_command.run_sweep(options.spec, options.out, options.workers, options.scheduler, options.draws)


def _support(options) -> int:
    from railcore.catalog import tables
    from railcore.planner.evidence import support

    rows = support(options.platform, options.model, options.precision).to_dict("records")
    print(tables.aligned_table(rows), end="")
    return 0


_COMMANDS = {
    "list": _list,
    "measure": _measure,
    "catalog": _catalog,
    "plan": _plan,
    "runs": _runs,
    "support": _support,
    "sweep": _sweep,
    "assumptions": _assumptions,
}


def script() -> None:
    """The console script."""
    in_utf8()
    sys.exit(main())


def in_utf8() -> None:
    """Start the command anew in UTF-8 where the system has another encoding."""
    # Names of folders go to kernels in JSON, which is UTF-8.
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {"PYTHONUTF8": "1"})


if __name__ == "__main__":
    script()
