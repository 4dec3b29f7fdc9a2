"""Where a plan's numbers come from: the catalog rows behind each, its grade; and the evidence for a job's numbers."""

from collections.abc import Iterable, Sequence

import pandas as pd

from railcore import catalog
from railcore.datacenter.ownership import term_keys
from railcore.network.price_books import PriceBook, rows_of_book
from railcore.network.reliability import failure_rows
from railcore.planner.answer import Answer
from railcore.planner.candidates import switch_rows
from railcore.planner.case import Case
from railcore.planner.price_basis import basis_keys
from railcore.training.machine import FORMATS, Machine, catalog_machine
from railcore.training.prediction_error import expected_error, published_errors

_BOOK_FIELDS = {"switch": "port", "circuit switch": "circuit_port", "transceiver": "transceiver", "copper cable": "dac"}
GRADES = ("measured", "datasheet", "paper", "derived", "assumed", "given")  # the surest first; given by the user
_TIMES = ("iteration_s", "mfu", "days", "circuits_s")
_OF_TIME = ("days", "energy_J", "cost_usd", "token_usd", "carbon_kg")
_OWNED = ("ownership_usd", "cost_usd", "token_usd", "gpu_hour_usd")
_COUNTS = ("gpus", "gpus_used", "batch", "switches", "link_ends", "modules", "failed_switch_gpus")


def rows_behind(case: Case, answer: Answer, number: str, site_price: bool = False) -> list[catalog.Value]:
    """Rows of the catalog that a number of an answer rests on, without those that the spec replaces.

    Of efficiencies these are the GPU's own. Counts of parts rest on no row: they follow from closed forms.

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
    spec, box, rows = case.spec, case.rack, list[catalog.Value]()
    bill = answer.fabric.parts.bill() if answer.fabric is not None else ()
    priced = {_BOOK_FIELDS[line.part] for line in bill}
    scaled = answer.fabric is not None and answer.fabric.nic_ports > 1
    if number in ("network_usd", "purchase_usd", *_OWNED):
        rows += [*_rows_used(case.prices, priced, scaled), *switch_rows(answer.switch)[:1]]
    if number in ("network_w", "power_w", "energy_J", "carbon_kg", *_OWNED):
        rows += [*_rows_used(case.powers, priced, scaled), *switch_rows(answer.switch)[1:]]
    if number in ("purchase_usd", *_OWNED) and spec.books.server is None:
        rows += [box.row("price"), *rows_of(basis_keys(box, spec.books.basis))]
    if number in ("power_w", "energy_J", "carbon_kg", *_OWNED):
        rows += [box.row("power")] if spec.books.server_power is None else []
        rows += [catalog.item("prices", "energy").row("pue")] if spec.operation.pue is None else []
    if number in _OWNED:
        rows += rows_of(term_keys(case.left_out).values())
        rows += [catalog.item("operation", "machine").row("useful_life")] if spec.operation.years is None else []
        if not site_price and spec.operation.electricity is None:
            rows.append(catalog.item("prices", "energy").row("electricity_price"))
    if number in ("energy_J", "carbon_kg", *_OWNED) and spec.operation.load is None:
        rows.append(catalog.item("operation", "machine").row("mean_load"))
    if number in _TIMES + _OF_TIME:
        rows += _machine_rows(case.machine, box, spec.cluster.nic is not None)
    if number in ("goodput", "stopped", "slowed", *_OF_TIME) and answer.goodput is not None:
        rows += failure_rows(set(answer.goodput["kind"]) - {""}, spec.operation.checkpoint, spec.operation.restart)
    return list({(row.family, row.name, row.parameter): row for row in rows}.values())


def rows_of(keys: Iterable[tuple[str, str, str]]) -> list[catalog.Value]:
    """Rows of the catalog by family, item and parameter."""
    return [catalog.item(*key[:2]).row(key[2]) for key in keys]


def _rows_used(book: PriceBook, priced: set[str], scaled: bool) -> list[catalog.Value]:
    """Rows of a book for the parts of a bill, and of its scaling where links have another rate."""
    fields = priced | ({"rate_exponent"} if scaled or book.source_Bps not in (None, book.rate_Bps) else set())
    return [row for field, row in rows_of_book(book).items() if field in fields]


def _machine_rows(machine: Machine, box: catalog.Item, other_nic: bool) -> list[catalog.Value]:
    gpu, shares = catalog.item("gpus", machine.gpu), catalog.item("efficiencies", machine.gpu)
    names = [FORMATS[machine.precision].rate, "bf16_dense_rate", "memory", "memory_bandwidth"]
    rows = [gpu.row(name) for name in dict.fromkeys(names)] + [box.row("hb_bandwidth")]
    rows += [] if other_nic else [box.row("nic_bandwidth")]
    return rows + list(shares.rows)


def grade_of(number: str, rows: Sequence[catalog.Value]) -> str:
    """The weakest kind of the rows behind a number. Without rows, counts are derived and other numbers given."""
    kinds = [row.kind for row in rows]
    return max(kinds, key=GRADES.index) if kinds else "derived" if number in _COUNTS else "given"


def source_text(rows: Sequence[catalog.Value], most: int = 4) -> str:
    """Sources of rows in a line, those of the weakest kinds first."""
    ranked = sorted(rows, key=lambda row: -GRADES.index(row.kind))
    texts = [f"{row.name} {row.parameter.replace('_', ' ')}: {row.kind}, {row.source}" for row in ranked[:most]]
    more = [f"and {len(ranked) - most} more rows"] if len(ranked) > most else []
    return "; ".join([*texts, *more])


def support(platform: str, model: str, precision: str = "bf16") -> pd.DataFrame:
    """What evidence there is for a platform and a model of the catalog.

    platform, model: of the catalog. precision: of linear layers.
    Columns what, evidence, grade. Raises UnknownName for a name that the catalog lacks.
    """
    platform = catalog.listed_name(platform, catalog.names("platforms")) or platform
    model = catalog.listed_name(model, catalog.names("models")) or model
    machine, sizes = catalog_machine(platform, precision), catalog.item("models", model)
    box, mixture = catalog.item("platforms", platform), "experts" in sizes
    rows: list[tuple[str, str, str]] = []
    for answer, words in (("best", "the best strategy"), ("strategy", "a given strategy")):
        error = expected_error(model, machine, machine.hb_domain_size, answer=answer)
        of = f"{words} on {machine.hb_domain_size} GPUs"
        rows.append((f"measured over modelled time of {of}", str(error), "measured" if error.runs else "none"))
    published, family = published_errors(), "experts" if mixture else "dense"
    of_kind = published[published["mixture"] == family]
    kind = "mixtures" if mixture else "dense models"
    of_model = published[published["model"] == model]
    for words, runs, by in (
        (f"{kind} on {platform}", of_kind[of_kind["platform"] == platform], "precision"),
        (f"{kind} on {machine.gpu} by software", of_kind[of_kind["gpu"] == machine.gpu], "runtime"),
        (f"{model} by platform", of_model, "platform"),
    ):
        told = ", ".join(
            f"{count} {'in' if by == 'precision' else 'on' if by == 'platform' else 'with'} {name}"
            for name, count in runs.groupby(by).size().items()
        )
        rows.append((f"published runs of {words}", told or "none", "measured" if told else "none"))
    for name, item in (("platform", box), ("GPU", catalog.item("gpus", machine.gpu))):
        rows.append((f"{name} {item.name}", _kinds_text(item.rows), _weakest(item.rows)))
    shares = catalog.item("efficiencies", machine.gpu)
    rows.append((f"what a {machine.gpu} reaches", _kinds_text(shares.rows), _weakest(shares.rows)))
    rows.append((f"sizes of {model}", _kinds_text(sizes.rows), _weakest(sizes.rows)))
    for name in ("price", "power"):
        if name in box:
            rows.append((f"{name} of {platform}", box.row(name).source, box.row(name).kind))
        else:
            rows.append((f"{name} of {platform}", "none: give it in the spec", "none"))
    tokens = sizes.get("training_tokens")
    evidence = (f"{tokens:.4g}", sizes.row("training_tokens").kind) if tokens else ("none: give job.tokens", "none")
    rows.append((f"tokens of {model}", *evidence))
    return pd.DataFrame(rows, columns=["what", "evidence", "grade"])


def _kinds_text(rows: Sequence[catalog.Value]) -> str:
    counts = {kind: sum(row.kind == kind for row in rows) for kind in GRADES}
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    assumed = ", ".join(row.parameter for row in rows if row.kind == "assumed")
    return f"{told}{f' ({assumed})' if assumed else ''}"


def _weakest(rows: Sequence[catalog.Value]) -> str:
    return max((row.kind for row in rows), key=GRADES.index)
