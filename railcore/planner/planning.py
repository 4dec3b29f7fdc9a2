"""From a spec to a plan."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from railcore import catalog
from railcore.catalog.arguments import checked
from railcore.planner.answer import CIRCUIT_KEYS, Answer, Designs, answer_of, check_cluster_size, racks_of, with_energy
from railcore.planner.candidates import Candidate, network_candidates
from railcore.planner.case import Case, case_of
from railcore.planner.choice import merged, ranked
from railcore.planner.page import page_html
from railcore.planner.progress import Progress
from railcore.planner.report import document, terminal_text
from railcore.planner.result import Plan, Writers, energy_prices, found_answer
from railcore.planner.spec import FindSpec, SiteSpec, Spec
from railcore.planner.spec_reading import read_spec

if TYPE_CHECKING:
    from railcore.planner.power_places import PowerPlaces

_WRITERS = Writers(document, terminal_text, page_html)


class Shared:
    """What plans share whose specs differ only in size, networks, books, operation, site, limits and wishes.

    Strategies and what failures cost them, by cluster and job; places, by site and demand. Plans that are given the
    same object compute each once.
    """

    def __init__(self) -> None:
        self._candidates: dict[tuple[str, ...], dict[str, Candidate]] = {}
        self._designs: dict[tuple[str, ...], Designs] = {}
        self._sites: dict[tuple[str, float], PowerPlaces] = {}

    def candidates(self, case: Case) -> dict[str, Candidate]:
        """Candidates of a case by name."""
        key = _cluster_key(case.spec), case.spec.network.model_dump_json()
        if key not in self._candidates:
            self._candidates[key] = {candidate.name: candidate for candidate in network_candidates(case)}
        return self._candidates[key]

    def designs(self, case: Case) -> Designs:
        """Their strategies."""
        circuits = case.spec.network.model_dump_json(include=set(CIRCUIT_KEYS))
        key = _cluster_key(case.spec), case.spec.job.model_dump_json(), circuits
        if key not in self._designs:
            self._designs[key] = Designs(case)
        return self._designs[key]

    def site(self, spec: SiteSpec, drawn_w: float) -> "PowerPlaces":
        """Places for what a plan draws [W]."""
        from railcore.planner.power_places import (
            power_places_of,  # only where there is one: it takes a third of a second
        )

        key = spec.model_dump_json(), drawn_w
        if key not in self._sites:
            self._sites[key] = power_places_of(spec, drawn_w)
        return self._sites[key]


def _cluster_key(spec: Spec) -> str:
    return spec.cluster.model_dump_json(exclude={"gpus", "racks", "budget", "power", "include"})


@checked
def plan(
    spec: Spec | Mapping[str, object] | str | Path, progress: Progress | None = None, shared: Shared | None = None
) -> Plan:
    """What every model says of one cluster and its job, on one basis.

    Parameters
    ----------
    spec
        A TOML file, its text, or a dictionary of the same form, whose quantities may be plain numbers in SI units;
        `railcore plan --init` writes one with comments.
    progress
        Called with a text before what may take more than a second.
    shared
        Of the plans that are made one after the other, what they share.

    Returns
    -------
    A `Plan`: print it, or take its tables.

    Raises
    ------
    ValueError
        For a spec with faults: all of them, by dotted key.

    Examples
    --------
    >>> import railcore as rc
    >>> spec = {"cluster": {"platform": "DGX H100", "gpus": 64}}
    >>> spec["job"] = {"model": "Llama-3 8B", "tokens": "1T tokens", "batch": 512}
    >>> spec["network"] = {"candidates": ["rail-only", "rail-optimized"]}
    >>> rc.plan(spec).candidates["candidate"].tolist()
    ['rail-optimized']
    """
    read = read_spec(spec)
    with catalog.laid_over(read.own_rows):
        return _plan(read, progress, shared or Shared())


def _plan(read: Spec, progress: Progress | None, shared: Shared) -> Plan:
    """The plan of a spec, by the catalog as it is."""
    case = case_of(read)
    check_cluster_size(case)
    candidates, designs = shared.candidates(case), shared.designs(case)
    say, unpriced = progress or (lambda text: None), []
    for candidate in candidates.values():
        say(candidate.name)
        unpriced.append(_answer(read, case, candidate, designs))
    answers, site = [with_energy(case, answer, energy_prices(read, None)) for answer in unpriced], None
    first = ranked(answers, read)[0]
    if read.site is not None and first.numbers:
        say("places for the power")
        site = shared.site(read.site, first.numbers["power_w"])
        answers = [with_energy(case, answer, energy_prices(read, site)) for answer in unpriced]
    return Plan(read, case, tuple(ranked(merged(answers), read)), site, candidates, _WRITERS, progress)


def _answer(spec: Spec, case: Case, candidate: Candidate, designs: Designs) -> Answer:
    """The answer of one candidate, on the racks that are asked for or found; without what energy costs."""
    cluster = spec.cluster
    if spec.find is not None:
        return found_answer(spec, spec.find, case, candidate, designs)
    try:
        most = racks_of(case, candidate)
        if (cluster.budget is None and cluster.power is None) or cluster.use == "all":
            return answer_of(case, candidate, designs, most)
    except ValueError as error:
        return Answer(candidate.name, note=str(error))
    return found_answer(spec, FindSpec(days="fewest"), case, candidate, designs)  # buys no idle racks
