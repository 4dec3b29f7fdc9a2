"""Chromium for the browser tests: where it is, how it is started, and where its pictures are left."""

import shutil

from railcore.catalog import files

WAIT = 180  # seconds for any one step; a busy machine needs them
SHOTS = files.BUILD / "browser"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()
