"""Build the static site into build/site, offline: `make site`, or `python docs/build.py`.

Its packages are the extra `site`. The last site stays where a build fails.
"""

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from pages import DOCS, Pages

from railcore.facts import files

SITE, WORK = files.BUILD / "site", files.BUILD / "site_work"


def main() -> int:
    """Build; gives the exit status."""
    try:
        import myst_nb  # noqa: F401
        import pydata_sphinx_theme  # noqa: F401
        from sphinx.cmd.build import build_main
    except ImportError as error:
        print(f"the site needs {error.name}, which is not installed: make site, or pip install -e '.[site]'")
        return 2
    shutil.rmtree(WORK, ignore_errors=True)
    source, new = WORK / "source", WORK / "site"
    try:
        pages = Pages()
    except ValueError as error:
        print(f"site: {error}", file=sys.stderr)
        return 2
    for place, text in pages.texts.items():
        files.write_whole(source / place, text)
    shutil.copy(DOCS / "conf.py", source)
    shutil.copytree(DOCS / "_static", source / "_static")
    if status := build_main(["-q", "-W", "--keep-going", "-d", str(WORK / "doctrees"), str(source), str(new)]):
        return status
    for place in sorted(pages.linked):
        (new / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(files.ROOT / place, new / place)
    for left in (".buildinfo", "objects.inv"):
        (new / left).unlink(missing_ok=True)
    (new / ".nojekyll").touch()  # GitHub leaves out folders that begin with _ otherwise
    shutil.rmtree(SITE, ignore_errors=True)
    new.rename(SITE)
    shutil.rmtree(WORK)
    built = [path for path in SITE.rglob("*") if path.is_file()]
    size, count = sum(path.stat().st_size for path in built), sum(path.suffix == ".html" for path in built)
    print(f"{SITE / 'index.html'}: {count} pages, {size / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
