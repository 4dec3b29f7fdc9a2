# mypy: disable-error-code="valid-type"
"""The spec of a plan: its sections, their keys, the values of each and its default."""

import math
import re
from collections.abc import Callable, Collection, Iterator
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from railcore import catalog
from railcore.catalog import readings, units
from railcore.catalog.arguments import MOST_USD_PER_J
from railcore.catalog.own_file import own_file_rows
from railcore.catalog.readings import quantity
from railcore.datacenter.ownership import ADDED
from railcore.network.price_books import book_names
from railcore.network.switches import TECHNOLOGIES
from railcore.planner.price_basis import BASES
from railcore.training.machine import PRECISIONS
from railcore.training.runtime import OFFLOADS
from railcore.training.transformer import LORA_TARGETS

_LEAST_DRAWS, _MOST_DRAWS = 20, 100_000
_MOST_STOPS = 1000.0  # of a job, a GPU and year
SI_NUMBERS = "SI numbers"  # of a validation's context: whether quantities may be plain numbers
SIDE_NETWORKS = ("frontend", "storage", "management")
LAYOUTS = ("rail-optimized", "Clos", "rail-only", "photonic rails")


def _quantity(example: str, above_0: bool = False, most: float = math.inf) -> Any:
    """A text with a unit of the example's dimension, as an SI number; SI numbers too where a spec takes them."""

    def read(value: Any, info: ValidationInfo) -> float:
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        number = value if plain and (info.context or {}).get(SI_NUMBERS) else quantity(value, example)
        if number < 0 or (above_0 and not number):
            raise ValueError(f"give more than 0, such as {example!r}")
        if number > most:
            raise ValueError(f"give {units.show(most, example.partition(' ')[2])} at most, such as {example!r}")
        return number

    return Annotated[float, BeforeValidator(read), WithJsonSchema({"type": "string", "examples": [example]})]


def _quantity_or(remedy: str, text: str, example: str) -> float:
    """A quantity in SI units. Raises ValueError with the remedy for what is none, and with all meanings of several."""
    try:
        return quantity(text, example)
    except readings.SeveralMeanings:
        raise
    except ValueError:
        raise ValueError(remedy) from None


def _number(value: Any) -> Any:
    """A plain number, or a text with one, also in percent."""
    if isinstance(value, bool):
        raise ValueError("give a number")
    if not isinstance(value, str):
        return value
    if not value.strip().endswith("%"):
        return readings.typed_number(value)
    try:
        return float(value.strip().removesuffix("%")) / 100
    except ValueError:
        raise ValueError("give a number") from None


def _times(unit: str) -> Any:
    """A number of days or years, or a text with a unit of time."""
    example = f"3 {unit}s"

    def read(value: Any) -> Any:
        if not isinstance(value, str) or value.strip()[-1:].isdigit():
            return _number(value)
        remedy = f"give a number of {unit}s, or a text with its unit, such as {example!r}"
        return units.convert(_quantity_or(remedy, value, example), unit)

    return Annotated[float, BeforeValidator(read), Field(gt=0, allow_inf_nan=False)]


def _seconds(value: Any) -> Any:
    """A number of seconds, or a text with a unit of time."""
    if not isinstance(value, str) or value.strip()[-1:].isdigit():
        return _number(value)
    return _quantity_or('give seconds, or a text with its unit, such as "6.74 s"', value, "6.74 s")


def _whole(value: Any) -> Any:
    """A whole number, or a text with one."""
    if isinstance(value, bool):
        raise ValueError("give a whole number")
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return readings.count(value) if isinstance(value, str) else value


def _name_of(family: str, read: Callable[[str], str]) -> Any:
    return Annotated[str, AfterValidator(read), WithJsonSchema({"type": "string", "description": f"of {family}"})]


def _named(family: str) -> Any:
    """A name of a family of the catalog."""

    def read(name: str) -> str:
        return catalog.item(family, catalog.listed_name(name, catalog.names(family)) or name).name

    return _name_of(family, read)


def _book(family: str) -> Any:
    """A name of a book of prices or powers."""
    return _name_of(family, lambda name: _listed(name, book_names(family)))


def _listed(name: str, names: Collection[str]) -> str:
    listed = catalog.listed_name(name, names)
    if listed is None:
        raise ValueError(nearest(name, names))
    return listed


def nearest(name: str, names: Collection[str]) -> str:
    """What to write in place of a wrong name."""
    options = catalog.near_names(name, names) or list(names)
    return f"give {units.either([repr(option) for option in options])}" if options else "remove it"


def _tokens(value: Any) -> Any:
    """A number of tokens; a text may leave out their name."""
    if not isinstance(value, str):
        return _number(value)
    text = value if "tokens" in value.lower() else f"{value} tokens"
    return _quantity_or('give a number such as 15e12, or a text such as "15T"', text, "15T tokens")


def batch_size(text: str) -> tuple[float, str]:
    """Size of a batch, and what it counts: sequences or tokens. Raises ValueError that says what to write."""
    words = text.lower().strip()
    number = words.removesuffix("sequences")
    try:
        if "tokens" in words:
            return quantity(text, "16M tokens"), "tokens"
        if (size := readings.count(number)) > 0:
            return size, "sequences"
    except readings.SeveralMeanings as error:
        if "tokens" in words:
            raise
        tokens = [f"{text} tokens"] if number == words and words[-1:].isalpha() else []
        raise readings.SeveralMeanings([*tokens, *(f"{meaning} sequences" for meaning in error.meanings)]) from None
    except ValueError:
        pass
    raise ValueError('give sequences, such as 2048, or a text such as "16M tokens"')


def _measured(value: dict[str, Any]) -> dict[str, Any]:
    """Name and text of a CSV of `railcore measure read`, as `spec_reading` reads it."""
    if value.keys() != {"file", "text"}:
        raise ValueError('give the name of a CSV that `railcore measure read` wrote, such as "my_gpu.csv"')
    own_file_rows(value["text"], value["file"])
    return value


def _own_table(value: dict[str, str]) -> dict[str, str]:
    """Path and hash of a file of one's own, as `spec_reading` gives them: what it holds counts, where it is read."""
    if value.keys() != {"file", "sha256"}:
        raise ValueError('give the name of a file beside the spec, such as "plants.csv"')
    return value


def _rule(name: str) -> str:
    from railcore.siting.rules import RULES  # only where it is given: it takes a third of a second

    return _listed(name, RULES)


def _place(value: Any) -> Any:
    """Latitude and longitude of a text with both; the name of a place as it is."""
    found = re.fullmatch(r"\s*\(?\s*([-+]?\d+(?:\.\d+)?)\s*,\s*([-+]?\d+(?:\.\d+)?)\s*\)?\s*", str(value))
    return (float(found[1]), float(found[2])) if found and isinstance(value, str) else value


def _one_or_more(*words: str) -> Any:
    """A text as a list of one, but for words that stand alone."""
    return BeforeValidator(lambda value: [value] if isinstance(value, str) and value not in words else value)


def _as_list(value: Any) -> Any:
    """A file as a list of one."""
    return [value] if isinstance(value, dict | str) else value


def _state(name: str) -> str:
    from railcore.siting.areas import state_names

    return state_names(name)[0]


def _authority(code: str) -> str:
    from railcore.siting.areas import listed_authorities

    return listed_authorities(code)[0]


Power, Price, Rate, Distance, Tonnes = (
    _quantity(example, above_0=True) for example in ("40 MW", "600 USD", "400 Gbps", "300 km", "1000 t")
)
Money, Duration, Carbon, Watts = map(_quantity, ("600 USD", "25 ms", "0.4 kg/kWh", "25 W"))
PerEnergy = _quantity("0.08 USD/kWh", most=MOST_USD_PER_J)
Time = _quantity("5 s", above_0=True)
Platform, Switch, CircuitSwitch, RuntimeName, ModelName = map(
    _named, ("platforms", "switches", "circuit_switches", "runtimes", "models")
)
Measured = Annotated[dict[str, str], AfterValidator(_measured), WithJsonSchema({"type": "string"})]
OwnTable = Annotated[dict[str, str], AfterValidator(_own_table), WithJsonSchema({"type": "string"})]
Tokens = Annotated[float, BeforeValidator(_tokens), Field(gt=0, allow_inf_nan=False)]
OneOrMore, AllOrMore = _one_or_more(), _one_or_more("all")
Rule, State, Authority = (Annotated[str, AfterValidator(read)] for read in (_rule, _state, _authority))
PriceName, PowerName = map(_book, ("prices", "powers"))
Whole = Annotated[int, BeforeValidator(_whole), Field(strict=True)]
Count = Annotated[Whole, Field(gt=0)]
Number = Annotated[float, BeforeValidator(_number)]
Share = Annotated[Number, Field(gt=0, le=1)]
Positive = Annotated[Number, Field(gt=0, allow_inf_nan=False)]
Days, Years = map(_times, ("day", "year"))
Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0, allow_inf_nan=False)]


class SpecSection(BaseModel):
    """A table of the spec."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False, str_strip_whitespace=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _as_typed(cls, value: Any, info: ValidationInfo) -> Any:
        """Numbers of NumPy as Python's, and words as they are listed."""
        words = _words_of(cls, str(info.field_name))

        def as_listed(part: Any) -> Any:
            part = part.item() if isinstance(part, np.generic) else part
            return catalog.listed_name(part, words) or part if isinstance(part, str) else part

        return [*map(as_listed, value)] if isinstance(value, list | tuple) else as_listed(value)


class ClusterSpec(SpecSection):
    """What is bought."""

    platform: Platform = Field(description='server or rack of the catalog, such as "GB200 NVL72"')
    gpus: Count | None = Field(None, description="GPUs, rounded up to whole racks; or racks, budget or power")
    racks: Count | None = Field(None, description="servers or racks of the platform")
    budget: Price | None = Field(None, description='for servers and networks, such as "1 B USD"')
    power: Power | None = Field(None, description='of the facility, cooling and all, such as "40 MW"')
    use: Literal["at most", "all"] = Field("at most", description='whether the job may leave GPUs idle, or takes "all"')
    hb_domain_size: Count | None = Field(None, description="GPUs of an HB domain, in place of the platform's")
    nic: Rate | None = Field(None, description="of a GPU, one direction, in place of the platform's")
    measured: Measured | None = Field(
        None, description="a CSV of `railcore measure read`, beside the spec: rows of your own GPU"
    )
    include: Annotated[tuple[Literal[SIDE_NETWORKS], ...], OneOrMore] = Field(
        (), description=f"networks counted too: {', '.join(SIDE_NETWORKS)}"
    )


class JobSpec(SpecSection):
    """What is trained."""

    model: ModelName | dict[str, Any] | None = Field(
        None, description='of the catalog, such as "Llama-3 405B"; or [job.model] with sizes, or config, or launch'
    )
    config: Annotated[dict[str, Any], WithJsonSchema({"type": ["string", "object"]})] | None = Field(
        None, description="a config.json of Hugging Face, beside the spec, in place of model"
    )
    sequence_length: Count | None = Field(None, description="tokens of a sequence; by default the model's own")
    lora_rank: Annotated[Whole, Field(ge=0)] = Field(
        0, description="of adapters beside frozen weights (LoRA); 0 trains all weights"
    )
    lora_targets: Annotated[tuple[Literal[LORA_TARGETS], ...], OneOrMore] = Field(
        LORA_TARGETS[:2], description="products that have an adapter, as Megatron names them"
    )
    frozen_bytes: Positive = Field(2.0, description="of a frozen weight: 1 in fp8, 0.5 in NF4")
    tokens: Tokens | None = Field(None, description='of the training, 15e12 or "15T"; by default the model\'s own')
    batch: Count | str | None = Field(
        None, description='sequences, or "16M tokens": the nearest that divides; by default the model\'s own'
    )
    precision: Literal[PRECISIONS] = Field("bf16", description="of the linear layers")
    runtime: RuntimeName | None = Field(None, description="software of the catalog; by default the newest for the GPU")
    offload: Literal[OFFLOADS] | list[Literal[OFFLOADS]] = Field("none", description="what the host's memory holds")
    search: dict[str, Any] = Field({}, description="values allowed of columns of strategies, such as context = 1")
    mapping: dict[str, Any] | None = Field(
        None, description="a strategy of your own beside the best: tensor = 8, ...; without data it takes all GPUs"
    )
    launch: str | None = Field(
        None, description="a Megatron-LM launch line beside the best; alone it says the model too"
    )


class CandidateSpec(SpecSection):
    """A network of your own."""

    name: str = Field(description="that tables show")
    layout: Literal[LAYOUTS] = Field(description=", ".join(LAYOUTS))
    oversubscription: Annotated[Number, Field(ge=1)] = Field(
        1.0, description="of the layer over rails, or of a Clos' leaves"
    )
    planes: Count = Field(1, description="over which every NIC's ports are split")
    rails: Count | None = Field(
        None, description="by default as many as a host has NICs; of rail-only one for each GPU of an HB domain"
    )
    switch: Switch | None = Field(None, description="of the catalog, in place of network.switch")
    radix: Count | None = Field(None, description="ports of a switch, in place of network.radix")


class NetworkSpec(SpecSection):
    """Which networks are compared."""

    candidates: Annotated[Literal["all"] | list[str], AllOrMore] = Field(
        "all", description='or names of them, such as ["rail-only", "Clos"]'
    )
    candidate: list[CandidateSpec] = Field([], description="networks of your own beside them: [[network.candidate]]")
    technology: Literal[*TECHNOLOGIES] | None = Field(
        None, description=f"of the links: {' or '.join(TECHNOLOGIES)}; by default the switch's, else Ethernet"
    )
    switch: Switch | None = Field(None, description="of the catalog; by default the usual one of the technology")
    radix: Annotated[Whole, Field(ge=2)] | None = Field(
        None, description="ports of a switch at the NIC's rate, in place of the switch's"
    )
    oversubscriptions: list[Annotated[Number, Field(gt=1)]] = Field(
        [2.0], description="of Clos leaves that are tried; the largest also of the layer over rails"
    )
    planes: Count = Field(2, description="of rail-optimized and rail-only in planes; 1 for neither")
    circuit_switch: CircuitSwitch = Field("Piezo (Polatis)", description="of photonic rails")
    nic_ports: Annotated[Whole, Field(ge=2)] = Field(2, description="of a NIC on photonic rails")
    reconfiguration: Duration | None = Field(None, description="of circuits; by default the switch's own")


class PriceSpec(SpecSection):
    """Prices of your own."""

    port: Money = Field(description="of a switch port")
    transceiver: Money = Field(description="of one end of an optical link")
    dac: Money | None = Field(None, description="of a copper cable")
    circuit_port: Money | None = Field(None, description="of a port of an optical circuit switch")
    rate: Rate = Field(description="of these links, one direction")
    name: str = Field("ours", description="that tables show")


class PowerSpec(SpecSection):
    """Powers of your own."""

    port: Watts = Field(description="of a switch port")
    transceiver: Watts = Field(description="of one end of an optical link")
    dac: Watts | None = Field(None, description="of a copper cable")
    circuit_port: Watts | None = Field(None, description="of a port of an optical circuit switch")
    rate: Rate = Field(description="of these links, one direction")
    name: str = Field("ours", description="that tables show")


class BooksSpec(SpecSection):
    """What parts cost and draw."""

    prices: PriceName | PriceSpec | None = Field(
        None, description="a book of the catalog, or [books.prices] with your own; by default of network.technology"
    )
    powers: PowerName | PowerSpec | None = Field(None, description="a book of the catalog, or [books.powers]")
    file: str | None = Field(None, description="a CSV or .xlsx beside the spec with prices and powers of your own")
    server: Price | None = Field(None, description="price of a server or rack, in place of the platform's")
    basis: Literal[BASES] = Field(
        "volume", description="whose prices platforms have: the catalog's are brought to it; server is taken as it is"
    )
    server_power: Power | None = Field(None, description="of a server or rack at full load, in place of the platform's")


class OperationSpec(SpecSection):
    """What it takes to run."""

    years: Years | None = Field(None, description="over which the purchase wears out; by default the catalog's")
    electricity: PerEnergy | None = Field(None, description="by default the site's state's, else the catalog's")
    pue: Annotated[Number, Field(ge=1)] | None = Field(None, description="power of the facility over that of its IT")
    load: Share | None = Field(None, description="mean power over rated power")
    carbon: Carbon | None = Field(None, description="of the power; by default what is idle near the site")
    failures: Literal["value", "low", "high"] = Field("value", description="which of the catalog's failure rates")
    checkpoint: Time | None = Field(None, description="time of a checkpoint; by default the catalog's")
    restart: Duration | None = Field(None, description="time of a restart; by default the catalog's")
    checkpoint_interval: Time | None = Field(
        None, description='work between checkpoints, such as "30 min"; by default the best'
    )
    spares: Annotated[Whole, Field(ge=0)] | None = Field(
        None, description="GPUs that the job leaves for spares; by default one more for each that is out of service"
    )
    stops: Annotated[Positive, Field(le=_MOST_STOPS)] | None = Field(
        None, description="of a job, a GPU and year, as measured on your cluster; by default from the catalog's rates"
    )
    contingency: Annotated[Number, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="share of time added; modelled times are benchmarks'"
    )
    leave_out: Annotated[tuple[Literal[ADDED], ...], OneOrMore] = Field(
        (), description=f"costs that are not counted beside wear and electricity: {', '.join(ADDED)}"
    )


class SiteSpec(SpecSection):
    """Where the power is."""

    near: Annotated[str | tuple[Number, Number], BeforeValidator(_place)] | None = Field(
        None, description='a city or (latitude, longitude), such as "Houston"'
    )
    within: Distance = Field("300 km", validate_default=True, description="of that place")
    states: Annotated[list[State], OneOrMore] = Field([], description="by name or postal code; all where none is given")
    authorities: Annotated[list[Authority], OneOrMore] = Field(
        [], description="balancing authorities with most of the power around, by code"
    )
    most_people: Positive = Field(1e5, description="in cities around the place")
    people_within: Distance = Field("50 km", validate_default=True, description="in which they are counted")
    radius: Distance = Field("75 km", validate_default=True, description="within which plants feed a place")
    places: Count = Field(1, description="that share the demand; of 1 the best three are shown")
    demand: Power | None = Field(None, description='power of the place, such as "1 GW"; at least what the plan draws')
    rule: Rule | None = Field(None, description="which power counts; by default what is left after others' use")
    flexible: Annotated[Number, Field(ge=0, lt=1)] = Field(
        0.0, description='share of a year\'s energy that the datacenter may give way, such as "1%"'
    )
    plants: OwnTable | None = Field(
        None, description="your own, beside the spec: EIA-860M's .xlsx, or a CSV with MW by fuel"
    )
    lines: OwnTable | None = Field(None, description="your own, a CSV beside the spec: lat, lon, lat_to, lon_to, mw")
    hours: Annotated[list[OwnTable], BeforeValidator(_as_list)] = Field(
        [], description="which bound each authority, beside the spec: EIA-930's BALANCE files, or tables of your own"
    )


class GoalsSpec(SpecSection):
    """At most so much of each; of goodput at least."""

    days: Days | None = Field(None, description="of the training")
    power: Power | None = Field(None, description="of the facility")
    purchase: Price | None = Field(None, description="of servers and networks")
    cost: Price | None = Field(None, description="of the training: all that operation.leave_out does not leave out")
    carbon: Tonnes | None = Field(None, description="of the training's energy")
    goodput: Share | None = Field(None, description="share of the time that advances the job, at least")
    gpus: Count | None = Field(None, description="that are bought")


class WishesSpec(GoalsSpec):
    """As limits, but soft: who meets more of them comes first."""

    rank: Literal["cost", "days", "purchase", "power"] = Field("cost", description="what the least of comes first then")


class FindSpec(SpecSection):
    """The inverse: the least that meets the limits, where the cluster has no size."""

    gpus: Literal["fewest"] | None = Field(None, description="the fewest GPUs that meet the limits")
    cost: Literal["least"] | None = Field(None, description="the GPUs on which the training costs least")
    days: Literal["fewest"] | None = Field(None, description="the GPUs that train in the fewest days within the limits")


class MeasuredSpec(SpecSection):
    """A run of your own; as many as you like. What it leaves out is of the job and the cluster."""

    seconds: Seconds | None = Field(None, description='of an iteration, such as "6.74 s"; or tokens_per_s')
    tokens_per_s: Positive | None = Field(None, description="of a GPU, as torchtitan prints it")
    strategy: dict[str, Any] | None = Field(None, description="as job.mapping: tensor = 8, ...; or launch")
    launch: str | None = Field(None, description="its Megatron-LM launch line")
    gpus: Count | None = Field(None, description="of the run; by default those of the strategy or the line")
    batch: Count | str | None = Field(None, description='sequences, or "16M tokens"; by default of the line or the job')
    model: ModelName | None = Field(None, description="of the catalog")
    sequence_length: Count | None = Field(None, description="tokens of a sequence")
    platform: Platform | None = Field(None, description="server or rack of the catalog")
    precision: Literal[PRECISIONS] | None = Field(None, description="of the linear layers")
    runtime: RuntimeName | None = Field(None, description="software of the catalog")


def check_draws(name: str, draws: int) -> None:
    """Raises ValueError naming the argument for too few draws or too many; 0 is none."""
    if draws and not _LEAST_DRAWS <= draws <= _MOST_DRAWS:
        raise ValueError(f"{name} is {draws}: give a number from {_LEAST_DRAWS} to {_MOST_DRAWS}, or 0 for none")


class UncertaintySpec(SpecSection):
    """Draws of what is assumed."""

    draws: Annotated[Whole, Field(ge=_LEAST_DRAWS, le=_MOST_DRAWS)] = Field(1000, description="of all rows at once")
    seed: Count = Field(1, description="of the draws")


class Spec(SpecSection):
    """A cluster and its job. Only cluster.platform, its size and the model have no default."""

    title: str = Field("", description="of the page")
    author: str = Field("", description="who made the plan, for the page")
    date: str = Field("", description="of the page; the command line writes today's where there is none")
    cluster: ClusterSpec
    job: JobSpec
    network: NetworkSpec = NetworkSpec()
    books: BooksSpec = BooksSpec()
    operation: OperationSpec = OperationSpec()
    site: SiteSpec | None = None
    limits: GoalsSpec = GoalsSpec()
    wishes: WishesSpec = WishesSpec()
    find: FindSpec | None = None
    uncertainty: UncertaintySpec = UncertaintySpec()
    measured: list[MeasuredSpec] | str = Field([], description="runs of your own, or a CSV of them beside the spec")

    @property
    def own_rows(self) -> tuple[catalog.Value, ...]:
        """Rows of cluster.measured, which lie over the catalog in this plan."""
        measured = self.cluster.measured
        return own_file_rows(measured["text"], measured["file"]) if measured else ()

    def entries(self) -> Iterator[tuple[str, Any, bool]]:
        """Dotted key and value of all that has a value, and whether it was given."""
        for name in type(self).model_fields:
            part = getattr(self, name)
            if isinstance(part, SpecSection):
                for key in type(part).model_fields:
                    if (value := getattr(part, key)) not in (None, (), [], {}):
                        yield f"{name}.{key}", value, name in self.model_fields_set and key in part.model_fields_set


def section_at(place: tuple) -> type[SpecSection] | None:
    """The section to which keys lead; None where they lead to a value, or to nothing."""
    section: Any = Spec
    for part in place:
        fields = getattr(section, "model_fields", {})
        if part in fields:
            section = section_in(fields[part].annotation)
    return section if isinstance(section, type) and issubclass(section, SpecSection) else None


@cache
def _words_of(section: type[BaseModel], name: str) -> list[str]:
    """The words of which a key of a section takes one."""
    return _words(section.model_fields[name].annotation)


def _words(annotation: Any) -> list[str]:
    """The words of which an annotation allows one."""
    parts = get_args(annotation)
    return list(parts) if get_origin(annotation) is Literal else [word for part in parts for word in _words(part)]


def section_in(annotation: Any) -> type[SpecSection] | None:
    """The section that an annotation allows; None for none."""
    if isinstance(annotation, type) and issubclass(annotation, SpecSection):
        return annotation
    return next((section for part in get_args(annotation) if (section := section_in(part))), None)
