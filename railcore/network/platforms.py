"""A platform brings its links: HB domain and bandwidths of its GPUs, by the catalog or given in their place."""

from dataclasses import dataclass
from itertools import groupby

from railcore import catalog
from railcore.catalog import units, variant_row
from railcore.catalog.arguments import si


@dataclass(frozen=True)
class PlatformLinks:
    """Links of a platform's GPUs, and as text what they are and where each is from.

    platform: of the catalog.
    hb_domain_size: GPUs of an HB domain (scale-up or NVLink domain).
    hb_Bps, nic_Bps: bandwidth of a GPU's HB interconnect and NIC, one direction [bytes/s].
    origins: of HB domain, HB bandwidth and NIC: "of the platform", "given", or the document whose row it is.
    """

    platform: str
    hb_domain_size: int
    hb_Bps: float
    nic_Bps: float
    origins: tuple[str, ...]

    @property
    def mesh(self) -> bool:
        """True where the platform's HB links join its GPUs pair by pair, without switches."""
        return catalog.item("platforms", self.platform)["hb_switches"] == 0

    def __str__(self) -> str:
        hb, nic = (f"{units.show(speed, 'bps')} per GPU" for speed in (self.hb_Bps, self.nic_Bps))
        texts = (f"HB domain of {self.hb_domain_size:,} GPUs", f"HB {hb}", f"NIC {nic}")
        parts = groupby(zip(self.origins, texts, strict=True), key=lambda pair: pair[0])
        shown = (f"{', '.join(text for _, text in some)} ({origin})" for origin, some in parts)
        return f"{self.platform}: {', '.join(shown)}"


def platform_links(
    platform: str,
    hb_domain_size: int | None = None,
    nic: str | float | None = None,
    *,
    hb: str | float | None = None,
    document: str = "",
) -> PlatformLinks:
    """Links of a catalog platform, or others in their place.

    Parameters
    ----------
    platform
        Of the catalog's platforms.
    hb_domain_size
        GPUs of an HB domain; None for the platform's.
    nic, hb
        Bandwidth of a GPU's NIC and HB interconnect, one direction, as "400 Gbps" or in bytes/s; None for the
        platform's.
    document
        Whose own rows of the platform are taken where it has some: `catalog.variant_row`.

    Returns
    -------
    Links; `print` says what they are, and which of them were given.

    Raises
    ------
    ValueError
        For a text that is no bandwidth, and UnknownName for a name that the catalog lacks.
    """
    box = catalog.item("platforms", platform)
    hb, nic = si("hb", hb, "400 Gbps"), si("nic", nic, "400 Gbps")
    others = {"gpus": hb_domain_size, "hb_bandwidth": hb, "nic_bandwidth": nic}
    values, origins = [], []
    for name, value in others.items():
        row = variant_row(box, name, document)
        values.append(box[row] if value is None else value)
        origins.append("given" if value is not None else "of the platform" if row == name else f"of {document}")
    size, hb_Bps, nic_Bps = values
    return PlatformLinks(platform, int(size), float(hb_Bps), float(nic_Bps), tuple(origins))
