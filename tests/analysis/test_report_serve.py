"""The website on loopback."""

import threading
from urllib.request import urlopen

from analysis.report.serve import server


def test_the_site_is_served_on_loopback_only(tmp_path):
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "index.html").write_text("hello")
    with server(tmp_path) as listening:
        assert listening.server_address[0] == "127.0.0.1"
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        with urlopen(f"http://127.0.0.1:{listening.server_port}/report/index.html", timeout=5) as answer:
            assert answer.read() == b"hello"
        listening.shutdown()
