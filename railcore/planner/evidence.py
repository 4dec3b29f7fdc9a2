"""Where a plan's numbers come from: the rows of the catalog behind each, its grade, and what is known of a pair."""

from collections.abc import Sequence

import pandas as pd

from railcore import catalog
from railcore.catalog import files
from railcore.catalog.tables import read_csv
from railcore.network.price_books import PriceBook, rows_of_book
from railcore.network.reliability import failure_rows
from railcore.planner.answer import Answer
from railcore.planner.case import Case
from railcore.training.machine import FORMATS, Machine, catalog_machine
from railcore.training.prediction_error import ExpectedError, expected_error, iteration_errors

_BOOK_PARTS = {  # of a bill: fields of a book
    **{"switch": "port", "circuit switch": "circuit_port", "transceiver": "transceiver", "copper cable": "dac"},
}
GRADES = ("measured", "datasheet", "paper", "derived", "assumed", "given")  # the surest first; what the user gives
_TIMES = ("iteration_s", "mfu", "days", "circuits_s")
_OF_TIME = ("days", "energy_J", "cost_usd", "token_usd", "carbon_kg")
_COUNTS = ("gpus", "gpus_used", "batch", "switches", "link_ends", "modules", "failed_switch_gpus")


def rows_behind(case: Case, answer: Answer, number: str, site_price: bool = False) -> list[catalog.Value]:
    """Rows of the catalog that a number of an answer rests on; without those that are given in their place.

    Of efficiencies those of the GPU itself. Counts of parts rest on none: they follow from closed forms.

    Parameters
    ----------
    case, answer, number
        A number of NUMBERS of one of the case's answers.
    site_price
        Whether energy has the price of a site.

    Returns
    -------
    Rows, each once.
    """
    own, box, rows = case.spec, case.rack, list[catalog.Value]()
    bill = answer.fabric.parts.bill() if answer.fabric is not None else ()
    priced = {_BOOK_PARTS[line.part] for line in bill}
    scaled = answer.fabric is not None and answer.fabric.nic_ports > 1
    if number in ("network_usd", "purchase_usd", "ownership_usd", "cost_usd", "token_usd"):
        rows += _rows_used(case.prices, priced, scaled)
    if number in ("network_w", "power_w", "ownership_usd", "energy_J", "cost_usd", "token_usd", "carbon_kg"):
        rows += _rows_used(case.powers, priced, scaled)
    if number in ("purchase_usd", "ownership_usd", "cost_usd", "token_usd") and own.books.server is None:
        rows.append(box.row("price"))
    if number in ("power_w", "ownership_usd", "energy_J", "cost_usd", "token_usd", "carbon_kg"):
        rows += [box.row("power")] if own.books.server_power is None else []
        rows += [catalog.item("prices", "energy").row("pue")] if own.operation.pue is None else []
    if number in ("ownership_usd", "cost_usd", "token_usd"):
        rows += [catalog.item("operation", "machine").row("useful_life")] if own.operation.years is None else []
        known = site_price or own.operation.electricity is not None
        rows += [] if known else [catalog.item("prices", "energy").row("electricity_price")]
    if number in ("ownership_usd", "energy_J", "cost_usd", "token_usd", "carbon_kg") and own.operation.load is None:
        rows.append(catalog.item("operation", "machine").row("mean_load"))
    if number in _TIMES + _OF_TIME:
        rows += _machine_rows(case.machine, box, own.cluster.nic is not None)
    if number in ("goodput", "stopped", "slowed", *_OF_TIME) and answer.goodput is not None:
        rows += failure_rows(set(answer.goodput["kind"]) - {""}, own.operation.checkpoint, own.operation.restart)
    return list({(row.family, row.name, row.parameter): row for row in rows}.values())


def _rows_used(book: PriceBook, priced: set[str], scaled: bool) -> list[catalog.Value]:
    """Rows of a book that a bill's parts take, and of its scaling where links are of another rate."""
    wanted = priced | ({"rate_exponent"} if scaled or book.source_Bps not in (None, book.rate_Bps) else set())
    return [row for part, row in rows_of_book(book).items() if part in wanted]


def _machine_rows(machine: Machine, box: catalog.Item, own_nic: bool) -> list[catalog.Value]:
    gpu, shares = catalog.item("gpus", machine.gpu), catalog.item("efficiencies", machine.gpu)
    names = [FORMATS[machine.precision].rate, "bf16_dense_rate", "memory", "memory_bandwidth"]
    rows = [gpu.row(name) for name in dict.fromkeys(names)] + [box.row("hb_bandwidth")]
    rows += [] if own_nic else [box.row("nic_bandwidth")]
    return rows + list(shares.rows)


def grade_of(number: str, rows: Sequence[catalog.Value]) -> str:
    """The weakest kind of the rows behind a number; counts are derived, and what rests on no row was given."""
    kinds = [row.kind for row in rows]
    return max(kinds, key=GRADES.index) if kinds else "derived" if number in _COUNTS else "given"


def source_text(rows: Sequence[catalog.Value], most: int = 4) -> str:
    """Sources of rows in a line, those of the weakest kinds first."""
    ranked = sorted(rows, key=lambda row: -GRADES.index(row.kind))
    texts = [f"{row.name} {row.parameter.replace('_', ' ')}: {row.kind}, {row.source}" for row in ranked[:most]]
    more = [f"and {len(ranked) - most} more rows"] if len(ranked) > most else []
    return "; ".join([*texts, *more])


def error_of(case: Case) -> ExpectedError:
    """Error that the case's iteration times have to expect: notebook 06's runs nearest to it."""
    return expected_error(case.machine, mixture=bool(case.model.experts))


def support(platform: str, model: str, precision: str = "bf16") -> pd.DataFrame:
    """What evidence there is for a platform and a model of the catalog.

    platform, model: of the catalog. precision: of linear layers.
    Columns what, evidence, grade. Raises UnknownName for a name that the catalog lacks.
    """
    machine, known = catalog_machine(platform, precision), catalog.item("models", model)
    box, mixture = catalog.item("platforms", platform), "experts" in known
    rows: list[tuple[str, str, str]] = []
    error = expected_error(machine, mixture=mixture)
    rows.append(("iteration time", f"expect {error}", "measured"))
    family = "experts" if mixture else "dense"
    table = iteration_errors()
    here = table[(table["platform"] == platform) & (table["mixture"] == family)]
    runs = ", ".join(f"{int(count)} in {name}" for name, count in here.groupby("precision")["runs"].sum().items())
    kind = "mixtures" if mixture else "dense models"
    rows.append((f"published runs of {kind} on {platform}", runs or "none", "measured" if runs else "none"))
    published = [row for row in read_csv(files.data("measured/iterations.csv")) if row["model"] == model]
    on = sorted({row["platform"] for row in published})
    told = f"{len(published)}, on {', '.join(on)}" if published else "none"
    rows.append((f"published runs of {model}", told, "measured" if published else "none"))
    for name, item in (("platform", box), ("GPU", catalog.item("gpus", machine.gpu))):
        rows.append((f"{name} {item.name}", _kinds_text(item.rows), _weakest(item.rows)))
    shares = catalog.item("efficiencies", machine.gpu)
    rows.append((f"what a {machine.gpu} reaches", _kinds_text(shares.rows), _weakest(shares.rows)))
    rows.append((f"sizes of {model}", _kinds_text(known.rows), _weakest(known.rows)))
    for name, item in (("price", box), ("power", box)):
        row = next((row for row in item.rows if row.parameter == name), None)
        rows.append(
            (f"{name} of {platform}", row.source if row else "none: give it in the spec", row.kind if row else "none")
        )
    tokens = known.get("training_tokens")
    rows.append(
        (f"tokens of {model}", f"{tokens:.4g}" if tokens else "none: give job.tokens", "paper" if tokens else "none")
    )
    return pd.DataFrame(rows, columns=["what", "evidence", "grade"])


def _kinds_text(rows: Sequence[catalog.Value]) -> str:
    counts = {kind: sum(row.kind == kind for row in rows) for kind in GRADES}
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    assumed = ", ".join(row.parameter for row in rows if row.kind == "assumed")
    return f"{told}{f' ({assumed})' if assumed else ''}"


def _weakest(rows: Sequence[catalog.Value]) -> str:
    return max((row.kind for row in rows), key=GRADES.index)
