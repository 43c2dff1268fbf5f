"""Measures the pages of the site in a browser that is installed: nothing else has to be.

The browser opens a page of this module, which loads each page of the site in a frame and sends what
site_measure.js finds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
"""The commands that start a browser; `.ci/browser` has the same."""

BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)

Findings = Mapping[str, Mapping[str, Sequence[str]]]
"""Page, then `default` and `slate` (the colours of a scheme), `wide` and `phone` (the layout), then findings."""

CONTRAST = (Path(__file__).parent.parent / "contrast.js").read_text(encoding="utf-8")
"""Defines `pale(element)`: the texts of an element whose contrast is too low."""

_SCRIPT = CONTRAST + Path(__file__).with_name("site_measure.js").read_text(encoding="utf-8")
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--window-size=1300,1000",
)


def measured(site: Path, pages: Sequence[str], timeout: float = 1200) -> Findings:
    """What a reader sees of the pages of a site. Raises queue.Empty after `timeout` seconds without an answer."""
    assert BROWSER is not None
    answers: Queue[Findings] = Queue()

    class Handler(SimpleHTTPRequestHandler):
        """Serves the site and the page that measures it."""

        def do_GET(self) -> None:
            if self.path != "/measure":
                super().do_GET()
                return
            self._answer(f"<!doctype html><body><script>{_SCRIPT}\nmain({json.dumps(list(pages))})</script>")

        def do_POST(self) -> None:
            answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._answer("")

        def _answer(self, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    def handler(*arguments: object) -> Handler:
        return Handler(*arguments, directory=str(site))  # type: ignore[arg-type]

    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, tempfile.TemporaryDirectory() as profile:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/measure"
        # The browser runs until it is ended: `--dump-dom` would end it before the pages have loaded.
        command = [BROWSER, *_OPTIONS, f"--user-data-dir={profile}", "--remote-debugging-port=0", address]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                return answers.get(timeout=timeout)
            finally:
                process.terminate()
                process.wait()
                server.shutdown()
