# mypy: disable-error-code="valid-type"
"""The spec of a plan: what a TOML file or a dictionary may say, its defaults, and one message with all its faults."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from railcore import catalog
from railcore.catalog import units
from railcore.catalog.arguments import quantity
from railcore.network.price_books import DEFAULT_BOOK, book_names
from railcore.training.machine import PRECISIONS
from railcore.training.runtime import OFFLOADS

_LEAST_DRAWS, _MOST_DRAWS = 20, 100_000
SIDE_NETWORKS = ("frontend", "storage", "management")
LAYOUTS = ("rail-optimized", "Clos", "rail-only", "photonic rails")


def _quantity(example: str, above_0: bool = False) -> Any:
    """A text with a unit of the example's dimension, as an SI number."""

    def read(value: Any) -> float:
        found = quantity(value, example)
        if found < 0 or (above_0 and not found):
            raise ValueError(f"give more than 0, such as {example!r}")
        return found

    return Annotated[float, BeforeValidator(read), WithJsonSchema({"type": "string", "examples": [example]})]


def _named(family: str) -> Any:
    """A name of a family of the catalog."""

    def known(name: str) -> str:
        return catalog.item(family, name).name

    return Annotated[str, AfterValidator(known), WithJsonSchema({"type": "string", "description": f"of {family}"})]


def _book(family: str) -> Any:
    """A name of a book of prices or powers."""

    def known(name: str) -> str:
        books = book_names(family)
        if name not in books:
            raise ValueError(_nearest(name, books))
        return name

    return Annotated[str, AfterValidator(known), WithJsonSchema({"type": "string", "description": f"of {family}"})]


def _tokens(value: Any) -> Any:
    """A number of tokens; a text may leave out their name."""
    if not isinstance(value, str):
        return value
    try:
        return units.parse(value if "tokens" in value else f"{value} tokens", "tokens")
    except ValueError:
        raise ValueError('give a number such as 15e12, or a text such as "15T"') from None


def _rule(name: str) -> str:
    from railcore.siting.supply import RULES  # only where it is given: it takes a third of a second

    if name not in RULES:
        raise ValueError(_nearest(name, RULES))
    return name


Power, Price, Rate, Distance, Tonnes = (
    _quantity(example, above_0=True) for example in ("40 MW", "600 USD", "400 Gbps", "300 km", "1000 t")
)
Money, Duration, PerEnergy, Carbon, Watts = map(_quantity, ("600 USD", "25 ms", "0.08 USD/kWh", "0.4 kg/kWh", "25 W"))
Time = _quantity("5 s", above_0=True)
Platform, Switch, CircuitSwitch, RuntimeName, ModelName = map(
    _named, ("platforms", "switches", "circuit_switches", "runtimes", "models")
)
Tokens = Annotated[float, BeforeValidator(_tokens), Field(gt=0, allow_inf_nan=False)]
Rule = Annotated[str, AfterValidator(_rule)]
PriceName, PowerName = map(_book, ("prices", "powers"))
Count = Annotated[int, Field(gt=0, strict=True)]
Share = Annotated[float, Field(gt=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False)


class ClusterSpec(_Section):
    """What is bought."""

    platform: Platform = Field(description='server or rack of the catalog, such as "GB200 NVL72"')
    gpus: Count | None = Field(None, description="GPUs, rounded up to whole racks; or racks, budget or power")
    racks: Count | None = Field(None, description="servers or racks of the platform")
    budget: Price | None = Field(None, description='for servers and networks, such as "1 GUSD"')
    power: Power | None = Field(None, description='of the facility, cooling and all, such as "40 MW"')
    use: Literal["at most", "all"] = Field("at most", description='whether the job may leave GPUs idle, or takes "all"')
    hb_domain_size: Count | None = Field(None, description="GPUs of an HB domain, in place of the platform's")
    nic: Rate | None = Field(None, description="of a GPU, one direction, in place of the platform's")
    include: tuple[Literal[SIDE_NETWORKS], ...] = Field(
        (), description=f"networks counted too: {', '.join(SIDE_NETWORKS)}"
    )


class JobSpec(_Section):
    """What is trained."""

    model: ModelName | dict[str, Any] = Field(
        description='of the catalog, such as "Llama-3 405B"; or [job.model] with sizes'
    )
    tokens: Tokens | None = Field(None, description='of the training, 15e12 or "15T"; by default the model\'s own')
    batch: Count | str | None = Field(
        None, description='sequences, or "16M tokens": the nearest that divides; by default the model\'s own'
    )
    precision: Literal[PRECISIONS] = Field("bf16", description="of the linear layers")
    runtime: RuntimeName | None = Field(None, description="software of the catalog; by default the newest for the GPU")
    offload: Literal[OFFLOADS] | list[Literal[OFFLOADS]] = Field("none", description="what the host's memory holds")
    search: dict[str, Any] = Field({}, description="values allowed of columns of strategies, such as context = 1")
    mapping: dict[str, Any] | None = Field(None, description="a strategy of your own beside the best: tensor = 8, ...")
    launch: str | None = Field(None, description="a Megatron-LM launch line beside the best")


class CandidateSpec(_Section):
    """A network of your own."""

    name: str = Field(description="that tables show")
    layout: Literal[LAYOUTS] = Field(description=", ".join(LAYOUTS))
    oversubscription: Annotated[float, Field(ge=1)] = Field(
        1.0, description="of the layer over rails, or of a Clos' leaves"
    )
    planes: Count = Field(1, description="over which every NIC's ports are split")
    radix: Count | None = Field(None, description="ports of a switch, in place of network.radix")


class NetworkSpec(_Section):
    """Which networks are compared."""

    candidates: Literal["all"] | list[str] = Field("all", description='or names of them, such as ["rail-only", "Clos"]')
    candidate: list[CandidateSpec] = Field([], description="networks of your own beside them: [[network.candidate]]")
    switch: Switch | None = Field(None, description="of the catalog; by default the usual one")
    radix: Count | None = Field(None, description="ports of a switch at the NIC's rate, in place of the switch's")
    oversubscriptions: list[Annotated[float, Field(gt=1)]] = Field(
        [2.0, 4.0], description="of Clos leaves that are tried"
    )
    planes: Count = Field(2, description="of rail-only in planes")
    circuit_switch: CircuitSwitch = Field("Piezo (Polatis)", description="of photonic rails")
    nic_ports: Annotated[int, Field(ge=2)] = Field(2, description="of a NIC on photonic rails")
    reconfiguration: Duration | None = Field(None, description="of circuits; by default the switch's own")


class PriceSpec(_Section):
    """Prices of your own."""

    port: Money = Field(description="of a switch port")
    transceiver: Money = Field(description="of one end of an optical link")
    dac: Money | None = Field(None, description="of a copper cable")
    circuit_port: Money | None = Field(None, description="of a port of an optical circuit switch")
    rate: Rate = Field(description="of these links, one direction")
    name: str = Field("ours", description="that tables show")


class PowerSpec(_Section):
    """Powers of your own."""

    port: Watts = Field(description="of a switch port")
    transceiver: Watts = Field(description="of one end of an optical link")
    dac: Watts | None = Field(None, description="of a copper cable")
    circuit_port: Watts | None = Field(None, description="of a port of an optical circuit switch")
    rate: Rate = Field(description="of these links, one direction")
    name: str = Field("ours", description="that tables show")


class BooksSpec(_Section):
    """What parts cost and draw."""

    prices: PriceName | PriceSpec = Field(
        DEFAULT_BOOK, description="a book of the catalog, or [books.prices] with your own"
    )
    powers: PowerName | PowerSpec | None = Field(None, description="a book of the catalog, or [books.powers]")
    server: Price | None = Field(None, description="price of a server or rack, in place of the platform's")
    server_power: Power | None = Field(None, description="of a server or rack at full load, in place of the platform's")


class OperationSpec(_Section):
    """What it takes to run."""

    years: Positive | None = Field(None, description="over which the purchase wears out; by default the catalog's")
    electricity: PerEnergy | None = Field(None, description="by default the site's state's, else the catalog's")
    pue: Annotated[float, Field(ge=1)] | None = Field(None, description="power of the facility over that of its IT")
    load: Share | None = Field(None, description="mean power over rated power")
    carbon: Carbon | None = Field(None, description="of the power; by default what is idle near the site")
    failures: Literal["value", "low", "high"] = Field("value", description="which of the catalog's failure rates")
    checkpoint: Time | None = Field(None, description="time of a checkpoint; by default the catalog's")
    restart: Duration | None = Field(None, description="time of a restart; by default the catalog's")
    contingency: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="share of time added; modelled times are benchmarks'"
    )


class SiteSpec(_Section):
    """Where the power is."""

    near: str | tuple[float, float] | None = Field(
        None, description='a city or (latitude, longitude), such as "Houston"'
    )
    within: Distance = Field("300 km", validate_default=True, description="of that place")
    states: list[str] = Field([], description="by name or postal code; all where none is given")
    authorities: list[str] = Field([], description="balancing authorities with most of the power around, by code")
    most_people: Positive = Field(1e5, description="in cities around the place")
    people_within: Distance = Field("50 km", validate_default=True, description="in which they are counted")
    radius: Distance = Field("75 km", validate_default=True, description="within which plants feed a place")
    places: Count = Field(1, description="that share the demand")
    rule: Rule | None = Field(None, description="which power counts; by default what the load nearby leaves")


class GoalsSpec(_Section):
    """At most so much of each; of goodput at least."""

    days: Positive | None = Field(None, description="of the training")
    power: Power | None = Field(None, description="of the facility")
    purchase: Price | None = Field(None, description="of servers and networks")
    cost: Price | None = Field(None, description="of the training: wear and energy")
    carbon: Tonnes | None = Field(None, description="of the training's energy")
    goodput: Share | None = Field(None, description="share of the time that advances the job, at least")
    gpus: Count | None = Field(None, description="that are bought")


class WishesSpec(GoalsSpec):
    """As limits, but soft: who meets more of them comes first."""

    rank: Literal["cost", "days", "purchase", "power"] = Field("cost", description="what the least of comes first then")


class FindSpec(_Section):
    """The inverse: the least that meets the limits, where the cluster has no size."""

    gpus: Literal["fewest"] | None = Field(None, description="the fewest GPUs that meet the limits")
    cost: Literal["least"] | None = Field(None, description="the GPUs on which the training costs least")
    days: Literal["fewest"] | None = Field(None, description="the GPUs that train in the fewest days within the limits")


def check_draws(name: str, draws: int) -> None:
    """Refuse a number of draws that says nothing or takes hours; 0 is none. Raises ValueError naming the argument."""
    if draws and not _LEAST_DRAWS <= draws <= _MOST_DRAWS:
        raise ValueError(f"{name} is {draws}: give a number from {_LEAST_DRAWS} to {_MOST_DRAWS}, or 0 for none")


class UncertaintySpec(_Section):
    """Draws of what is assumed."""

    draws: Annotated[int, Field(ge=_LEAST_DRAWS, le=_MOST_DRAWS)] = Field(1000, description="of all rows at once")
    seed: Count = Field(1, description="of the draws")


class Spec(_Section):
    """A cluster and its job. Only cluster.platform, its size and job.model have no default."""

    title: str = Field("", description="of the page")
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

    def given(self) -> Iterator[tuple[str, Any, bool]]:
        """Dotted key, value and whether it was given, of all that has a value."""
        for name in type(self).model_fields:
            part = getattr(self, name)
            if isinstance(part, _Section):
                for key in type(part).model_fields:
                    if (value := getattr(part, key)) not in (None, (), [], {}):
                        yield f"{name}.{key}", value, name in self.model_fields_set and key in part.model_fields_set


def read_spec(given: "Spec | Mapping[str, Any] | str | Path") -> Spec:
    """A spec of a TOML file, a text in TOML, or a dictionary.

    Raises ValueError with all faults, each by its dotted key, with its value and what to write.
    """
    if isinstance(given, Spec):
        return given
    name, values = _named_values(given)
    faults, found = list(_contradictions(values)), None
    try:
        found = Spec.model_validate(values)
    except ValidationError as error:
        faults = [*_faults(error), *faults]
    if found is None or faults:
        raise ValueError(_message(name, faults))
    return found


def _named_values(given: Mapping[str, Any] | str | Path) -> tuple[str, dict[str, Any]]:
    """What faults call a spec, and its values."""
    if isinstance(given, Mapping):
        return "spec", dict(given)
    name, text = "spec", str(given)
    if "\n" not in text:
        name = Path(text).name
        try:
            text = Path(text).read_text(encoding="utf-8-sig")
        except OSError as error:
            raise ValueError(f"spec {text!r} cannot be read ({error.strerror}): give a TOML file") from None
    try:
        return name, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name} is no TOML: {error}") from None


def spec_values(given: Mapping[str, Any] | str | Path) -> tuple[dict[str, Any], Path]:
    """Values of a spec as they are given, unread, and the folder in which its file stands.

    Raises ValueError for what is no TOML.
    """
    of_file = not isinstance(given, Mapping) and "\n" not in str(given)
    return _named_values(given)[1], Path(str(given)).parent if of_file else Path()


def check_key(key: str) -> None:
    """Refuse a dotted key that a spec does not have. Raises ValueError with the nearest ones."""
    *sections, last = key.split(".")
    for depth, name in enumerate(key.split(".")):
        section = _section_at(tuple(sections[:depth]))
        if section is None:  # in a table of one's own, such as job.model
            return
        if name not in section.model_fields:
            raise ValueError(f"{key} is unknown: {_nearest(name, section.model_fields)}")
    if last in Spec.model_fields and not sections and last != "title":
        raise ValueError(f"{key} is a section: give its keys, such as {key}.{_first_key(last)}")


def _first_key(section: str) -> str:
    found = _section_at((section,))
    return next(iter(found.model_fields)) if found else "..."


def read_value(key: str, value: Any) -> Any:
    """A value of a dotted key as a spec reads it, quantities in SI units; as given where the spec would refuse it."""
    *sections, last = key.split(".")
    section = _section_at(tuple(sections))
    field = section.model_fields.get(last) if section else None
    if field is None:
        return value
    own: Any = Annotated[field.annotation, field]
    try:
        return TypeAdapter(own).validate_python(value)
    except ValidationError:
        return value


def _message(name: str, faults: list[str]) -> str:
    head = f"{name} has {units.counted(len(faults), 'faults')}:"
    return f"{head} {faults[0]}" if len(faults) == 1 else "\n  ".join([head, *faults])


def _faults(found: ValidationError) -> list[str]:
    """All faults, a line each. Of a value that may be of several kinds, what is wrong with the kind that it is."""
    by_key: dict[str, dict[str, None]] = {}
    for error in found.errors():
        key = ".".join(str(part) for part in error["loc"] if not _is_of_union(part))
        by_key.setdefault(key, {})[("kind: " if error["type"].endswith("_type") else "") + _fault(key, error)] = None
    lines = []
    for key, faults in by_key.items():
        better = [text for text in faults if not text.startswith("kind: ")]
        below = any(other.startswith(f"{key}.") for other in by_key)
        lines += better or ([] if below else [text.removeprefix("kind: ") for text in list(faults)[:1]])
    return lines


def _fault(key: str, error: Any) -> str:
    """One fault of pydantic's in a line: dotted key, value, remedy and the nearest names."""
    kind, value = error["type"], error["input"]
    if kind == "extra_forbidden":
        section = _section_at(error["loc"][:-1])
        return f"{key} is unknown: {_nearest(str(error['loc'][-1]), section.model_fields if section else [])}"
    if kind == "missing":
        return f"{key} is missing: give it"
    if kind == "literal_error":
        allowed = [word.strip("' ") for word in error["ctx"]["expected"].replace(" or ", ", ").split(",")]
        return f"{key} is {value!r}: {_nearest(str(value), allowed)}"
    text = error["msg"].removeprefix("Value error, ").replace("Input should be", "give", 1)
    text = text.partition(". Rows to add")[0].rpartition("does not exist: ")[2]
    text = text.replace(", unable to parse string as a number", ", without a unit").replace("a valid ", "a ")
    text = re.sub(r"a integer.*", "a whole number", text)
    text = re.sub(r"a dictionary or instance of \w+", "a table of keys", text)
    return f"{key} is {value!r}: {text}"


def _is_of_union(part: Any) -> bool:
    """Whether a part of a place is pydantic's name of a member of a union, and no key."""
    words = ("str", "int", "literal", "list", "dict", "function-", "tuple", "constrained-", "PriceSpec", "PowerSpec")
    return isinstance(part, str) and part.startswith(words)


def _section_at(place: tuple) -> type[_Section] | None:
    """The section of a place in the spec."""
    section: Any = Spec
    for part in place:
        fields = getattr(section, "model_fields", {})
        if part in fields:
            section = _section_in(fields[part].annotation)
    return section if isinstance(section, type) and issubclass(section, _Section) else None


def _section_in(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, _Section):
        return annotation
    return next((found for each in get_args(annotation) if (found := _section_in(each))), None)


def _nearest(name: str, known: Any) -> str:
    names = catalog.near_names(name, known) or list(known)
    return f"give {units.either([repr(each) for each in names])}" if names else "remove it"


def _contradictions(values: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with keys together, whatever their values are."""
    part = {
        name: {key: each for key, each in value.items() if each is not None} if isinstance(value, Mapping) else {}
        for name, value in values.items()
    }
    cluster, find, limits = (part.get(name, {}) for name in ("cluster", "find", "limits"))
    operation, job, network = (part.get(name, {}) for name in ("operation", "job", "network"))
    sizes = [key for key in ("gpus", "racks", "budget", "power") if key in cluster]
    if isinstance(values.get("find"), Mapping) and len(find) != 1:
        has = " and ".join(find) or "nothing"
        yield f'find has {has}: give one of gpus = "fewest", cost = "least" and days = "fewest"'
    if not sizes and values.get("find") is None and isinstance(values.get("cluster"), Mapping):
        yield "cluster has no size: give gpus, racks, budget or power, or [find] with limits"
    if sizes and find:
        yield f"cluster.{sizes[0]} is given beside find: give one of them"
    if {"gpus", "racks"} <= set(sizes):
        yield "cluster.gpus is given beside cluster.racks: give one of them"
    if "gpus" in find and not {"days", "cost"} & set(limits):
        yield "find.gpus needs limits.days or limits.cost: without them one rack would do"
    if "days" in find and not {"power", "purchase", "gpus"} & set(limits):
        yield "find.days needs limits.power, limits.purchase or limits.gpus: without them it never ends"
    if find and "carbon" in limits and "carbon" not in operation:
        yield "limits.carbon beside find needs operation.carbon: the site is not known before the cluster is"
    if find and "cost" in limits and "site" in values and "electricity" not in operation:
        yield "limits.cost beside find and site needs operation.electricity: the site is not known before it"
    if "mapping" in job and "launch" in job:
        yield "job.mapping is given beside job.launch: give one of them"
    listed = network.get("candidate", [])
    own = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    names = [str(each.get("name")) for each in own]
    if network.get("candidates") == [] and not own:
        yield "network.candidates is []: give names, or networks of your own in [[network.candidate]]"
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield f"network.candidate {name!r} is given more than once: give each a name of its own"
    for each in own:
        idle = {"photonic rails": ("oversubscription", "planes", "radix"), "rail-only": ("oversubscription",)}
        for key in idle.get(str(each.get("layout")), ()):
            if key in each:
                yield f"network.candidate {each.get('name')!r}: {each['layout']} takes no {key}: leave it out"


_PARTS = {  # of sections, tables of one's own
    "job": (
        "# [job.model]  # Sizes of a model of your own, as of railcore.Transformer.",
        "# layers = 64                              # likewise hidden, heads, kv_heads, ffn_hidden, vocabulary, ...",
        "# ffn_matrices = 3                         # of the feed-forward: 3 where it is gated (SwiGLU), else 2",
        "",
    ),
    "network": (
        "# [[network.candidate]]  # A network of your own; as many as you like.",
        '# name = "Clos, leaves 3:1"',
        f'# layout = "Clos"                          # {", ".join(LAYOUTS)}',
        "# oversubscription = 3",
        "",
    ),
    "books": (
        "# [books.prices]  # Your own; [books.powers] likewise, in W.",
        '# port = "600 USD"',
        '# transceiver = "400 USD"                  # one end of an optical link',
        '# rate = "400 Gbps"                        # of these links, one direction',
        "",
    ),
}


def spec_schema() -> dict[str, Any]:
    """JSON schema of a spec."""
    return Spec.model_json_schema()


def spec_template() -> str:
    """A commented spec: every key with its meaning and default."""
    lines = ["# A cluster and its job. Lines with # are the defaults; `railcore plan FILE` reads it.", ""]
    given = {"cluster.platform": '"GB200 NVL72"', "cluster.gpus": "12312", "job.model": '"Llama-3 405B"'}
    for name, field in Spec.model_fields.items():
        section = _section_in(field.annotation)
        if section is None:
            continue
        heading = f"[{name}]"
        lines.append(heading if any(key.startswith(f"{name}.") for key in given) else f"# {heading}")
        lines[-1] += f"  # {(section.__doc__ or '').splitlines()[0]}"
        for key, item in section.model_fields.items():
            value = given.get(f"{name}.{key}")
            shown = f"{key} = {value}" if value else f"# {key} = {_toml(item.default, item.annotation)}"
            lines.append(f"{shown:<44}# {item.description}".rstrip())
        lines += ["", *_PARTS.get(name, ())]
    return "\n".join(lines)


def _toml(value: Any, annotation: Any) -> str:
    if value is None or repr(value) == "PydanticUndefined":
        return "..."
    if isinstance(value, bool | str):
        return f'"{value}"' if isinstance(value, str) else str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(_toml(each, None) for each in value)}]"
    if isinstance(value, dict):
        return "{}"
    return f"{value:g}"
