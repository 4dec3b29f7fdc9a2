"""A plan: every model's answer for one cluster and job, as tables."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, wraps
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import pandas as pd

from railcore import catalog
from railcore.catalog.arguments import checked
from railcore.datacenter.sizing import datacenter_size
from railcore.network.topology.rails import RailFabric
from railcore.planner import neighbours as near
from railcore.planner.answer import (
    Answer,
    Designs,
    EnergyPrices,
    answer_of,
    parts_table,
    sized_answer,
    software_band,
    with_energy,
)
from railcore.planner.candidates import AnyFabric, Candidate
from railcore.planner.case import Case
from railcore.planner.choice import missed_limits, rank_number
from railcore.planner.costs import ownership_table, site_costs
from railcore.planner.evidence import grade_of, rows_behind, source_text
from railcore.planner.find import racks_found
from railcore.planner.network_slowdowns import network_shares
from railcore.planner.progress import Progress
from railcore.planner.shown_numbers import NUMBERS
from railcore.planner.spec import FindSpec, GoalsSpec, Spec
from railcore.planner.uncertainty import TIE, Situation, Uncertainty, best_interval, flips, uncertainty, win_shares
from railcore.strategies.parts import search
from railcore.strategies.result import SearchResult
from railcore.training.iteration import iteration_times, stage_memory
from railcore.training.prediction_error import ExpectedError, model_kind, published_errors
from railcore.training.software import dated_runtimes

if TYPE_CHECKING:
    from railcore.planner.power_places import PowerPlaces

_AFTER = list(NUMBERS).index("iteration_s") + 1
CANDIDATE_NUMBERS = ("parameters", *[*NUMBERS][:_AFTER], "iteration_low_s", "iteration_high_s", *[*NUMBERS][_AFTER:])
P = ParamSpec("P")
T = TypeVar("T")


def _by_own_rows(method: "Callable[Concatenate[Plan, P], T]") -> "Callable[Concatenate[Plan, P], T]":
    """A method of `Plan` for which the rows of cluster.measured lie over the catalog: it is called after `plan`."""

    @wraps(method)
    def inside(plan: "Plan", *terms: P.args, **options: P.kwargs) -> T:
        with catalog.laid_over(plan.spec.own_rows):
            return method(plan, *terms, **options)

    return inside


class Writers(NamedTuple):
    """What writes a plan as a document, as text for a terminal, as a page."""

    document: Callable[["Plan", bool], dict[str, Any]]
    terminal: Callable[["Plan"], str]
    page: Callable[[list[dict[str, Any]]], str]


@dataclass(frozen=True)
class Plan:
    """What every model says of a cluster and its job; tables are in SI units.

    spec: as read.
    case: the spec with what the catalog says.
    answers: of all candidates, the best first; those without a strategy last.
    site: where the power is; None where the spec has no site.
    """

    spec: Spec
    case: Case
    answers: tuple[Answer, ...]
    site: "PowerPlaces | None"
    _candidates: Mapping[str, Candidate] = field(repr=False)
    _writers: Writers = field(repr=False)
    _progress: Progress | None = field(default=None, repr=False)

    @property
    def possible(self) -> list[Answer]:
        """Answers with a strategy."""
        return [answer for answer in self.answers if answer.design is not None]

    @property
    def best(self) -> Answer | None:
        """The best candidate; None where no network runs the job."""
        return self.possible[0] if self.possible else None

    @property
    def met(self) -> bool:
        """Whether the best candidate meets all limits, and a site that is asked for is there."""
        sited = self.site is None or self.site.places is not None
        return self.best is not None and sited and not missed_limits(self.best, self.spec.limits)

    @property
    def rank(self) -> str:
        """Number of which the least is best."""
        return rank_number(self.spec)

    @checked
    def about(self, name: str) -> str:
        """What a candidate is, in a sentence or two."""
        self.answer(name)  # which says what names there are
        return self._candidates[name].about

    @checked
    def answer(self, name: str) -> Answer:
        """The answer of a candidate, by any of its names. Raises UnknownName."""
        by_name = {label: answer for answer in self.answers for label in (answer.name, *answer.also)}
        if name not in by_name:
            raise catalog.UnknownName("candidate", name, by_name)
        return by_name[name]

    @checked
    def fabric(self, name: str) -> AnyFabric:
        """The fabric of a candidate. Raises ValueError where there is none."""
        answer = self.answer(name)
        if answer.fabric is None:
            raise ValueError(f"{name} is not there: {answer.note}")
        return answer.fabric

    @_by_own_rows
    @checked
    def search(self, name: str, **options: Any) -> SearchResult:
        """The whole search of a candidate's strategies on its fabric; options as of `search`.

        Raises ValueError where nothing fits, and for photonic rails, which `best_on_circuits` searches.
        """
        answer, fabric = self.answer(name), self.fabric(name)
        if answer.design is None or not isinstance(fabric, RailFabric):
            raise ValueError(f"{name}: {answer.note or 'give best_on_circuits the job'}")
        design, case = answer.design, self.case
        job = (case.model, case.machine, design.gpus, int(answer.numbers["batch"]))
        defaults = {
            "runtime": case.runtime,
            "fabric": fabric,
            "hb_domain_size": design.machine.hb_domain_size,
            "offload": design.offload,
            **self.spec.job.search,
        }
        return search(*job, **(defaults | options))

    @cached_property
    def candidates(self) -> pd.DataFrame:
        """A row for each candidate, the best first: names, strategy, parameters, every number, missed goals, note.

        iteration_low_s, iteration_high_s: 5 and 95% of what an iteration is expected to take (`expected_error`).
        """
        rows = []
        for answer in self.answers:
            missed = {
                kind: ", ".join(missed_limits(answer, goals)) if answer.design else ""
                for kind, goals in (("limits_missed", self.spec.limits), ("wishes_missed", self.spec.wishes))
            }
            names = {"candidate": answer.name, "also": ", ".join(answer.also), "strategy": answer.label}
            row = {**names, "parameters": self.case.model.total_parameters}
            row |= self._iteration_interval(answer)
            rows.append(row | dict(answer.numbers) | missed | {"note": answer.note or answer.why_same})
        order = ["candidate", "also", "strategy", *CANDIDATE_NUMBERS, "limits_missed", "wishes_missed", "note"]
        table = pd.DataFrame(rows)
        return table[[name for name in order if name in table]]

    def _iteration_interval(self, answer: Answer) -> dict[str, float]:
        """5 and 95% of the iteration time of an answer."""
        if answer.design is None:
            return {}
        error = self.case.expected_error(answer.design.gpus)
        names = {"iteration_low_s": error.low, "iteration_high_s": error.high}
        return {name: answer.design.iteration_s * end for name, end in names.items()}

    @cached_property
    @_by_own_rows
    def designs(self) -> pd.DataFrame:
        """Strategies that draws time again, a row each: candidate, rank, the strategy, its time and memory."""
        tables = []
        for answer in self.possible:
            table = answer.design.result.table(answer.design.rows)  # type: ignore[union-attr]
            tables.append(table.assign(candidate=answer.name, rank=range(1, len(table) + 1)))
        return _stacked(tables, ["candidate", "rank"])

    @cached_property
    @_by_own_rows
    def times(self) -> pd.DataFrame:
        """Modelled time of an iteration by part, and shares of the NICs by kind of traffic, a row for each candidate.

        Own runs do not scale it. Only packet networks have shares. software_low and software_high: time under other
        software, over this time.
        """
        rows, bands = [], {}
        for answer in self.possible:
            design = answer.design
            assert design is not None
            best = design.result.estimates({name: values[:1] for name, values in design.rows.items()})
            row: dict[str, Any] = {name: value.item() for name, value in best.breakdown.items() if value.item() > 0}
            row |= {"circuits_s": design.added_s} if design.added_s else {}
            if isinstance(answer.fabric, RailFabric):
                box = design.machine.changed(fabric=None)
                fabrics = {answer.name: answer.fabric}
                job = (self.case.model, box, design.strategy, int(answer.numbers["batch"]), self.case.runtime)
                shares = network_shares(fabrics, *job).iloc[0]
                row |= {name: float(shares[name]) for name in shares.index if name.endswith("_share")}
            if id(design) not in bands:
                bands[id(design)] = software_band(self.case, design)
            row["software_low"], row["software_high"] = bands[id(design)]
            busy = {"hb_utilization": best.hb_utilization.item(), "nic_utilization": best.nic_utilization.item()}
            rows.append({"candidate": answer.name, "iteration_s": design.iteration_s, **row, **busy})
        return pd.DataFrame(rows)

    @cached_property
    @_by_own_rows
    def software(self) -> pd.DataFrame:
        """Time of the best candidate's strategy under each software, and what it was held against, the fastest first.

        Columns runtime, iteration_s, low_s and high_s (5 and 95% of what is expected), limit, runs (published ones of
        this kind of model on this GPU with it), largest (GPUs of the largest; 0 without runs).
        """
        if self.best is None or self.best.design is None:
            return pd.DataFrame()
        design, case, rows = self.best.design, self.case, []
        published = published_errors()
        on_gpu = published[(published["gpu"] == design.machine.gpu) & (published["mixture"] == model_kind(case.model))]
        names = list(
            dict.fromkeys([case.runtime.name, *dated_runtimes(design.machine), *sorted(set(on_gpu["runtime"]))])
        )
        for name in names:
            estimate = iteration_times(case.model, design.machine, design.strategy, name, design.offload)
            error, modelled_s = case.expected_error(design.gpus, name), estimate.total_s.item() + design.added_s
            ends = (modelled_s * end for end in (error.middle if error.own else 1.0, error.low, error.high))
            rows.append((name, *ends, estimate.limits.item(), *error.with_software))
        columns = ["runtime", "iteration_s", "low_s", "high_s", "limit", "runs", "largest"]
        return pd.DataFrame(rows, columns=columns).sort_values("iteration_s", kind="stable", ignore_index=True)

    @cached_property
    @_by_own_rows
    def memory(self) -> pd.DataFrame:
        """Memory of each pipeline stage of the best candidate's strategy."""
        if self.best is None or self.best.design is None:
            return pd.DataFrame()
        design, batch = self.best.design, int(self.best.numbers["batch"])
        options: dict[str, Any] = {"global_batch": batch, "runtime": self.case.runtime, "offload": design.offload}
        return stage_memory(self.case.model, design.machine, design.strategy, **options)

    @cached_property
    def bill(self) -> pd.DataFrame:
        """Bill of each candidate's network, line by line."""
        built = [answer for answer in self.answers if answer.fabric is not None]
        return _stacked([parts_table(self.case, answer).assign(candidate=answer.name) for answer in built])

    @cached_property
    def failures(self) -> pd.DataFrame:
        """Failures of each candidate by part: rows of `training_goodput`."""
        tables = [answer.goodput.assign(candidate=answer.name) for answer in self.possible]  # type: ignore[union-attr]
        return _stacked(tables)

    @cached_property
    @_by_own_rows
    def own_strategy(self) -> pd.DataFrame:
        """The spec's own mapping on each candidate's fabric: time, time over the best's, memory, what rules it out."""
        if self.case.own_strategy is None:
            return pd.DataFrame()
        strategy, batch = self.case.own_strategy
        rows = []
        for answer in self.possible:
            if isinstance(answer.fabric, RailFabric):
                if strategy.gpus > answer.fabric.gpus:
                    rows.append((answer.name, math.nan, math.nan, math.nan, "GPUs"))
                    continue
                box = self.case.machine.changed(hb_domain_size=answer.fabric.hb_domain_size)
                options = (self.case.runtime, answer.design.offload, batch)  # type: ignore[union-attr]
                times = iteration_times(self.case.model, box, strategy, *options, fabric=answer.fabric)
                seconds = times.total_s.item() * self.case.time_scale(strategy.gpus)
                over_best = seconds / batch * answer.numbers["batch"] / answer.numbers["iteration_s"]
                memory = times.memory_bytes.item()
                rows.append((answer.name, seconds, over_best, memory, times.limits.item()))
        return pd.DataFrame(rows, columns=["candidate", "iteration_s", "over_best", "memory_bytes", "limit"])

    @cached_property
    @_by_own_rows
    def gpus_that_would_do(self) -> str:
        """How many GPUs of the nearest candidate would meet limits of days and cost, in a sentence; else ""."""
        best, cluster = self.best, self.spec.cluster
        if best is None or self.met or self.spec.find is not None or not (cluster.gpus or cluster.racks):
            return ""
        if not set(missed_limits(best, self.spec.limits)) & {"days", "cost"}:
            return ""
        fewest, candidate = FindSpec(gpus="fewest"), self._candidates[best.name]
        answer = found_answer(self.spec, fewest, self.case, candidate, Designs(self.case))
        if answer.note:
            return f"{answer.note[:1].upper()}{answer.note[1:]}."
        return f"{answer.numbers['gpus']:,.0f} GPUs would do."

    @cached_property
    @_by_own_rows
    def ownership(self) -> pd.DataFrame:
        """Cost of the best candidate by item: item, usd_per_year, usd_per_gpu_hour, training_usd, share, source."""
        return ownership_table(self.case, self.best, self.situation.site.usd_per_J) if self.best else pd.DataFrame()

    @cached_property
    @_by_own_rows
    def site_costs(self) -> pd.DataFrame:
        """By how much each place moves the cost of the best candidate, as `costs.site_costs`; empty without places."""
        if self.best is None or self.site is None or self.site.places is None:
            return pd.DataFrame()
        return site_costs(self.case, self.best, self.site.prices)

    @cached_property
    @_by_own_rows
    def neighbours(self) -> pd.DataFrame:
        """One rack less and more than the best network has, a batch that divides better, sizes with other tiers.

        Columns what (in words), racks, gpus, gpus_used, batch, days, network_usd, purchase_usd, cost_usd. The plan is
        the first row.
        """
        if self.best is None:
            return pd.DataFrame(columns=["what", *near.NUMBERS])
        return near.neighbours(self.case, self._candidates[self.best.name], self.best)

    @cached_property
    def cliffs(self) -> list[str]:
        """Sizes near this one at which a network's price jumps by another tier, in two sentences at most."""
        return near.cliffs(self.case, self._candidates, self.possible)

    @cached_property
    @_by_own_rows
    def size_texts(self) -> list[str]:
        """What is odd about size and batch, in sentences: jumps of the price, a batch that divides badly, idle GPUs."""
        if self.best is None:
            return []
        texts = [near.too_many_text(self.case, self.best), near.better_batch_text(self.case, self.neighbours)]
        return [*self.cliffs, *filter(None, texts)]

    @cached_property
    @_by_own_rows
    def fewest_that_fit(self) -> str:
        """That the job does not fit, with the fewest GPUs and a mapping that do; "" where it fits or has no size."""
        built = [answer for answer in self.answers if answer.fabric is not None]
        if self.best is not None or not built or self.spec.operation.spares:
            return ""
        racks = built[0].racks
        fits = len(self.case.counts(racks * self.case.rack_gpus)) > 0  # but runs on none of the networks
        return "" if fits else near.fewest_that_fit(self.case, racks)

    @cached_property
    def rule_of_thumb(self) -> pd.DataFrame:
        """What the catalog's shares of a budget or a power would buy, beside the sum of parts; empty without either."""
        cluster = self.spec.cluster
        if cluster.budget is None and cluster.power is None:
            return pd.DataFrame()
        limits = {"budget_usd": cluster.budget, "power_w": cluster.power}
        shares = datacenter_size(platform=self.case.rack.name, network="shares", **limits, **self.case.rack_costs({}))
        accounts = {"rule of thumb: shares of the catalog": shares}
        if self.best is not None and self.best.sizing is not None:
            accounts[f"sum of parts, {self.best.name}"] = self.best.sizing
        rows = [(name, *map(float, (size.gpus, size.racks_usd, size.total_w))) for name, size in accounts.items()]
        return pd.DataFrame(rows, columns=["account", "gpus", "servers_usd", "power_w"])

    @cached_property
    def situation(self) -> Situation:
        """What draws are of."""
        return Situation(self.case, self._candidates, self.answers, energy_prices(self.spec, self.site))

    @cached_property
    @_by_own_rows
    def uncertainty(self) -> Uncertainty | None:
        """Draws of uncertain rows; None where no network runs the job."""
        if self.best is None:
            return None
        draws, seed = self.spec.uncertainty.draws, self.spec.uncertainty.seed
        error = self.expected_error
        return uncertainty(self.situation, self.best.name, self.rank, error, draws, seed, self._progress)

    @property
    @_by_own_rows
    def wins(self) -> dict[str, float]:
        """Share of the draws in which each candidate is the best within the limits; none where draws were stored."""
        if self.uncertainty is None or not self.uncertainty.samples:
            return {}
        standing = self.situation.standing(self.uncertainty.samples, self.rank)
        return win_shares(standing, [answer.name for answer in self.possible if self._as_wished(answer)])

    @checked
    def with_draws(self, table: pd.DataFrame) -> "Plan":
        """The plan with a stored table of draws (`Uncertainty.table`) in place of new ones."""
        plan = replace(self)
        vars(plan)["uncertainty"] = Uncertainty(table)  # where the cached property keeps it
        return plan

    @cached_property
    @_by_own_rows
    def flips(self) -> pd.DataFrame:
        """Rows of prices, powers, failures and costs of time that alone make another candidate the best."""
        first = [answer.name for answer in self.possible if self._as_wished(answer)] if self.met else []
        return flips(self.situation, self.rank, first)

    def _as_wished(self, answer: Answer) -> bool:
        """Whether a candidate misses no more wishes than the best."""
        best, wishes = self.best, self.spec.wishes
        return best is not None and len(missed_limits(answer, wishes)) <= len(missed_limits(best, wishes))

    @cached_property
    def ties(self) -> list[str]:
        """Candidates that are better than the best one within the limits in 5% of the draws or more."""
        draws = self.uncertainty
        if draws is None or not self.met:
            return []
        allowed = [answer.name for answer in self.possible[1:] if self._as_wished(answer)]
        return [name for name in allowed if draws.better(name, self.rank) >= TIE]

    @cached_property
    def defaults(self) -> pd.DataFrame:
        """Every key of the spec that has a value, and whether it was given: key, value, given."""
        return pd.DataFrame([*self.spec.entries()], columns=["key", "value", "given"])

    @cached_property
    @_by_own_rows
    def sources(self) -> pd.DataFrame:
        """Rows of the catalog behind the best candidate's numbers, a row each: number, and the catalog's columns."""
        if self.best is None:
            return pd.DataFrame()
        rows = []
        for number in self.best.numbers:
            for row in rows_behind(self.case, self.best, number, self.situation.site.usd_per_J is not None):
                names = ("family", "name", "parameter", "value", "unit", "kind", "low", "high", "source")
                rows.append({"number": number} | {name: getattr(row, name) for name in names})
        return pd.DataFrame(rows)

    @cached_property
    def _graded(self) -> dict[tuple, tuple[str, str]]:
        return {}

    @_by_own_rows
    @checked
    def grade_and_source(self, answer: Answer, number: str) -> tuple[str, str]:
        """Grade of a number of an answer, and its sources in a line."""
        if (answer.name, number) not in self._graded:
            rows = rows_behind(self.case, answer, number, self.situation.site.usd_per_J is not None)
            self._graded[answer.name, number] = grade_of(number, rows), source_text(rows) if rows else ""
        return self._graded[answer.name, number]

    @cached_property
    def grades(self) -> dict[str, str]:
        """Grade of each number of the best candidate: the weakest kind of the rows behind it."""
        if self.best is None:
            return {}
        return {name: self.grade_and_source(self.best, name)[0] for name in self.best.numbers}

    @cached_property
    @_by_own_rows
    def expected_error(self) -> ExpectedError:
        """Expected error of the best candidate's iteration time, measured over modelled."""
        gpus = self.best.design.gpus if self.best and self.best.design else self.case.machine.hb_domain_size
        return self.case.expected_error(gpus)

    @cached_property
    @_by_own_rows
    def days_interval(self) -> tuple[float, float]:
        """5 and 95% of the best candidate's days: by the model's error and failures."""
        assert self.best is not None
        draws, seed = self.spec.uncertainty.draws, self.spec.uncertainty.seed
        if self.situation.reference(self.best.name) != self.best.name and self.uncertainty is not None:
            return self.uncertainty.interval(self.best.name, "days")
        return best_interval(self.situation, self.best.name, "days", self.expected_error, draws, seed)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is odd but allowed."""
        texts = [text for answer in self.answers for text in answer.warnings]
        if self.best is not None and self.best.numbers["gpus_used"] == self.best.numbers["gpus"]:
            spares = "The job uses all GPUs that are bought, and goodput takes a spare for each that is out of service"
            down, enough = (self.best.numbers[name] for name in ("gpus_down", "gpus_spare"))
            texts.append(
                f"{spares}: {down:.3g} on average, at most {enough:.0f} in 99% of the time if they fail apart."
            )
        texts += [*self.case.warnings, *self.case.run_warnings, *self.case.prices.warnings, *self.case.powers.warnings]
        texts += [self.site.note] if self.site and self.site.note else []
        texts += list(self.site.warnings) if self.site else []
        return tuple(dict.fromkeys(texts))

    @_by_own_rows
    @checked
    def document(self, draws: bool = True) -> dict[str, Any]:
        """The plan as the page and JSON have it. draws: with intervals, which take seconds."""
        return self._writers.document(self, draws)

    def html(self) -> str:
        """One self-contained page."""
        return self._writers.page([self.document()])

    def __str__(self) -> str:
        return self._writers.terminal(self)

    def __repr__(self) -> str:
        return str(self)


def _stacked(tables: Sequence[pd.DataFrame], first: Sequence[str] = ("candidate",)) -> pd.DataFrame:
    """Tables one below the other, the columns `first` in front."""
    stack = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(first))
    return stack[[*first, *stack.columns.difference(first, sort=False)]]


def found_answer(spec: Spec, find: FindSpec, case: Case, candidate: Candidate, designs: Designs) -> Answer:
    """The answer of one candidate on the racks that `racks_found` gives.

    Parameters
    ----------
    spec
        With limits.
    find
        What is looked for.
    case, candidate, designs
        As for `answer_of`.

    Returns
    -------
    An `Answer`; a note where no number of racks will do.
    """

    @cache
    def ask(racks: int) -> Answer:
        return with_energy(case, answer_of(case, candidate, designs, racks), energy_prices(spec, None))

    @cache
    def size(racks: int) -> Answer:
        return sized_answer(case, candidate, racks)

    cluster, limits = spec.cluster, spec.limits
    if cluster.budget is not None or cluster.power is not None:
        gpus = cluster.racks * case.rack_gpus if cluster.racks else cluster.gpus
        pairs = {"purchase": cluster.budget, "power": cluster.power, "gpus": gpus}
        both = {name: [it for it in (value, getattr(limits, name)) if it is not None] for name, value in pairs.items()}
        limits = GoalsSpec.model_construct(**{name: min(values, default=None) for name, values in both.items()})
    try:
        return ask(racks_found(designs.case, ask, size, find, limits))
    except ValueError as error:
        return Answer(candidate.name, note=str(error))


def energy_prices(spec: Spec, site: "PowerPlaces | None") -> EnergyPrices:
    """Price and carbon of energy: of the spec, else of the site, else unknown."""
    usd, carbon = (None, None) if site is None else (site.usd_per_J, site.carbon_kg_per_J)
    return EnergyPrices(usd, carbon if spec.operation.carbon is None else spec.operation.carbon)
