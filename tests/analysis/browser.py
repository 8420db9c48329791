"""A headless Chromium that tests can talk to: its debugging protocol over two pipes, standard library only."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip
DEADLINE = 60.0  # seconds for any one answer


class Browser:
    """One page. `problems` collects console errors, exceptions and every request that is not for a local file or data."""

    def __init__(self) -> None:
        found = next(filter(None, map(shutil.which, NAMES)), None)
        assert found, f"these tests need a browser: install Debian's package chromium (looked for {', '.join(NAMES)})"
        self.profile = tempfile.mkdtemp()
        (to_read, self.to_write), (self.from_read, from_write) = os.pipe(), os.pipe()
        shell = f'exec "$@" 3<&{to_read} 4>&{from_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "browser", found, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
            pass_fds=(to_read, from_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(from_write)
        self.buffer, self.number, self.problems, self.requests, self.session = b"", 0, [], [], None
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """Sends one command and waits for its answer; events in between are noted."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(method)
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def open(self, path: Path, width: int = 1280, height: int = 900, *, dark: bool = False) -> float:
        """Loads a page from disk; returns the seconds until it was loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        start = time.perf_counter()
        self.loaded = False
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not self.loaded:
            self._next("loading")
        return time.perf_counter() - start

    def run(self, expression: str):
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """One key, as from a keyboard."""
        code = {"ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "Tab": 9, "Enter": 13}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def screenshot(self, path: Path) -> bytes:
        """The visible part of the page as PNG."""
        content = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        path.write_bytes(content)
        return content

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)
        os.close(self.to_write)
        os.close(self.from_read)
        shutil.rmtree(self.profile, ignore_errors=True)

    def _next(self, waiting_for: str):
        end = time.monotonic() + DEADLINE
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.from_read], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"the browser did not answer within {DEADLINE:g} s: {waiting_for}"
            self.buffer += os.read(self.from_read, 1 << 20)
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method, parameters) -> None:
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Runtime.exceptionThrown":
            self.problems.append(parameters["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.problems.append(parameters["args"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
