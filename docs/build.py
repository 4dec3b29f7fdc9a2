"""Build the static site into build/site, offline: `make site`, or `python docs/build.py [FOLDER]`.

Its packages are the extra `site`. The last site stays where a build fails.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import gallery
from pages import DOCS, Pages

from railcore.catalog import files


def main() -> int:
    """Build; gives the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=files.BUILD / "site", help="build/site by default")
    site = parser.parse_args().folder
    try:
        import myst_nb  # noqa: F401
        import pydata_sphinx_theme  # noqa: F401
        from sphinx.cmd.build import build_main
    except ImportError as error:
        print(f"the site needs {error.name}: run make site, or pip install --group site", file=sys.stderr)
        return 2
    if site.exists() and not (site / "index.html").is_file():
        print(f"site: {site} is no site: give a new folder", file=sys.stderr)
        return 2
    site.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".site", dir=site.parent) as work:
        source, new = Path(work) / "source", Path(work) / "site"
        try:
            pages = Pages()
        except ValueError as error:
            print(f"site: {error}", file=sys.stderr)
            return 2
        for place, text in pages.texts.items():
            files.write_whole(source / place, text)
        for name in ("conf.py", "favicon.ico"):
            shutil.copy(DOCS / name, source)
        for name in ("LICENSE", "CITATION.cff"):
            shutil.copy(files.ROOT / name, (source / name).with_suffix(".txt"))  # browsers show a .txt
        for name in ("_static", "_templates"):
            shutil.copytree(DOCS / name, source / name)
        if status := build_main(["-q", "-W", "--keep-going", "-d", f"{work}/doctrees", str(source), str(new)]):
            return status
        for place in sorted(pages.linked):
            (new / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(files.ROOT / place, new / place)
        for place in (new / "figures/plans").glob("*.html"):
            files.write_whole(place, gallery.with_way_back(place.read_text(encoding="utf-8")))
        gallery.write_thumbnails(new)
        for left in (".buildinfo", "objects.inv", "_static/webpack-macros.html"):
            (new / left).unlink(missing_ok=True)
        (new / ".nojekyll").touch()  # GitHub leaves out folders that begin with _ otherwise
        shutil.rmtree(site, ignore_errors=True)
        new.rename(site)
    built = [path for path in site.rglob("*") if path.is_file()]
    size, count = sum(path.stat().st_size for path in built), sum(path.suffix == ".html" for path in built)
    print(f"{site}/index.html: {count} pages, {size / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
