"""The local server: the same page and every row's own, for this machine alone, whatever a request says."""

import http.client
import json
import signal
import socket
import struct
import subprocess
import threading
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.nn import GCN

import axiompath
from axiompath.report.server import LocalServer
from support.scans import CLASSES, EVIL, evolved

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    torch.manual_seed(0)
    before, after = evolved(2, 130)
    names = {i: f"person {i}" for i in range(130)} | {3: EVIL}
    explainer = axiompath.Explainer(GCN(3, 16, 2, 3).eval(), before, after, node_names=names, class_names=CLASSES)
    return explainer.scan(tmp_path_factory.mktemp("served") / "scan", 3, min_kl=0, workers=1, progress=False)


@pytest.fixture(scope="module")
def server(scan):
    with LocalServer(scan.folder) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def ask(server, path="/", method="GET", host=None, **headers):
    """Status, headers and body; the path goes out as it is."""
    link = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    link.putrequest(method, path, skip_host=True)
    for one in [f"127.0.0.1:{server.server_port}"] if host is None else [host] if isinstance(host, str) else host:
        link.putheader("Host", one)
    for name, value in headers.items():
        link.putheader(name.replace("_", "-"), value)
    link.endheaders()
    answer = link.getresponse()
    body = answer.read()
    link.close()
    return answer.status, dict(answer.getheaders()), body


def test_it_listens_on_this_machine_alone(server):
    assert server.server_address[0] == "127.0.0.1"
    status, headers, body = ask(server)
    assert status == 200
    assert b"What did it" in body
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Python" not in headers["Server"]
    assert ask(server, method="HEAD")[2] == b""


OTHER_HOST, OTHER_SITE, NO_PAGE = b"named another host", b"another site", b""
REFUSED = [
    *[({"host": host}, 403, OTHER_HOST) for host in (
        "example.org", "127.0.0.1", "127.0.0.1:1", "localhost.example.org:{port}", "", "0.0.0.0:{port}", (), ("a", "b"),
    )],
    *[({"path": "/page/0/0", **sent}, 403, OTHER_SITE) for sent in (
        {"Origin": "http://example.org"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"},
    )],
    *[({"method": method}, (405, 501), NO_PAGE) for method in (
        "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get",
    )],
    *[({"path": path}, 404, NO_PAGE) for path in (
        "/../manifest.json", "/manifest.json", "/parts/part-000000.parquet", "//etc/passwd", "/%2e%2e/manifest.json",
        "/page/0/0/../../..", "/page/-1/0", "/page/0/99999999999999999999", "/page/9/0", "/page/0/999999999",
        "/page/0/0?x=<script>", "http://example.org/", "/page/0/0\\..", "*",
    )],
]  # fmt: skip


@pytest.mark.parametrize(("request_", "statuses", "words"), REFUSED, ids=str)
def test_other_hosts_sites_methods_and_addresses_are_refused(server, request_, statuses, words):
    """And no address is ever a file."""
    sent = dict(request_)
    if isinstance(sent.get("host"), str):
        sent["host"] = sent["host"].format(port=server.server_port)
    status, _, body = ask(server, **sent)
    assert status in (statuses if isinstance(statuses, tuple) else (statuses,))
    assert words in body
    assert b"What did it" not in body
    assert b"root:" not in body
    assert len(body) < 100


def test_its_own_names_and_pages_are_answered(server):
    assert ask(server, host=f"LocalHost:{server.server_port}")[0] == 200
    assert ask(server, "/page/0/0", Origin=f"http://127.0.0.1:{server.server_port}")[0] == 200
    assert "Access-Control-Allow-Origin" not in ask(server)[1]


def test_the_port_of_http_may_be_left_out(server, monkeypatch):
    """Browsers call a server at port 80 by its name alone."""
    there = SimpleNamespace(server_port=server.server_port)
    monkeypatch.setattr(server, "server_port", 80)
    for host in ("127.0.0.1", "localhost", "localhost:80"):
        assert ask(there, host=host, Origin=f"http://{host}")[0] == 200
    assert ask(there, host="example.org")[0] == 403


def test_a_browser_that_has_gone_is_no_error_and_nothing_of_a_request_comes_back(server, capfd):
    host = f"Host: 127.0.0.1:{server.server_port}\r\n\r\n".encode()
    for data in (b"GET / HTTP/1.0\r\n" + host, b"\x1b[2J<script> / FOO/9\r\n", b"<b> / HTTP/1.0\r\n" + host):
        with socket.create_connection(("127.0.0.1", server.server_port)) as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # gone at once
            link.sendall(data)
            answer = b"" if data.startswith(b"GET") else link.recv(10_000)
        assert b"<" not in answer
    assert ask(server)[0] == 200
    assert capfd.readouterr().err == ""


def test_a_row_is_its_explanation(server, scan):
    for row, explanation in enumerate(scan):
        if row in (0, 100, len(scan) - 1):
            status, headers, body = ask(server, f"/page/0/{row}")
            assert (status, headers["Content-Type"]) == (200, "application/json")
            page = json.loads(body)
            assert page["target"] == explanation.target
            assert page["kl"] == pytest.approx(explanation.kl, rel=1e-7)


def test_a_part_that_was_changed_is_refused_in_a_sentence(scan, tmp_path):
    import shutil

    shutil.copytree(scan.folder, tmp_path / "scan")
    with LocalServer(tmp_path / "scan") as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        part = tmp_path / "scan" / "parts" / "part-000000.parquet"
        part.write_bytes(part.read_bytes()[:-1] + b"?")
        status, _, body = ask(running, "/page/0/0")
        assert status == 500
        assert b"as the scan wrote it" in body
        running.shutdown()
        thread.join()


def test_a_port_that_is_taken_is_refused(server, scan):
    with pytest.raises(axiompath.InputError, match="Expected a port that is free"):
        LocalServer(scan.folder, server.server_port)


def test_every_row_opens_in_a_browser_and_names_do_nothing(server, open_page, scan):
    page = open_page(server.address)
    page.wait_for_selector("#grid tbody tr:nth-child(5)")
    page.evaluate("document.getElementById('grid').scrollTop = 1e9")
    page.wait_for_timeout(200)
    page.locator("#grid tbody .link").last.click()
    page.wait_for_selector("#waterfall tr")
    assert list(scan)[-1].name.split("\n")[0][:8] in page.inner_text("#headline")
    page.click("#to-overview")
    page.fill("#grid-find", "onerror")
    page.locator("#grid tbody .link").first.click()
    page.wait_for_selector("#waterfall tr")
    assert "onerror" in page.inner_text("#headline")
    assert page.evaluate("document.querySelectorAll('main img, nav img').length") == 0
    assert page.complaints == []
    assert all(url.startswith((server.address, "data:", "blob:")) for url in page.requests)
    page.close()


def test_it_ends_by_signals_as_every_command(scan):
    from support.processes import start

    process = start("serve", scan.folder, "--port", "0", stdout=subprocess.PIPE)
    assert process.stdout.readline().startswith("Open http://127.0.0.1:")
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (128 + signal.SIGTERM, "Stopped.\n")
