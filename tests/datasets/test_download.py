"""The download of Adult against a real server on this machine: whole, cut short, tampered with."""

import gzip
import hashlib
import http.server
import io
import shutil
import ssl
import subprocess
import threading
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from ppadmm.datasets import download
from ppadmm.datasets.download import fetch_adult
from ppadmm.errors import DataError, InputError

DATA, TEST = b"39, State-gov, <=50K\n" * 4000, b"|1x3 Cross validator\n25, Private, <=50K.\n"


def zipped(**files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("_", "."), content)
    return buffer.getvalue()


GOOD = zipped(adult_data=DATA, adult_names=b"...", adult_test=TEST)


@pytest.fixture(autouse=True)
def checksums(monkeypatch):
    """The files that this server serves stand in for those of the UCI repository."""
    known = {"adult.data": DATA, "adult.test": TEST}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in known.items()}
    monkeypatch.setattr(download, "CHECKSUMS", sums)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


class Server:
    """Serves one answer; `asked` counts the requests."""

    def __init__(self, respond, wrap=lambda socket: socket):
        owner, self.asked, self.released = self, 0, threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                owner.asked += 1
                self.close_connection = True
                respond(self, owner.released)

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None
        self.http.socket = wrap(self.http.socket)
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))

    def url(self, scheme="http"):
        return f"{scheme}://localhost:{self.http.server_address[1]}/adult.zip"


@contextmanager
def serving(respond, **options):
    server = Server(respond, **options)
    server.thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.http.shutdown()
        server.http.server_close()
        server.thread.join()


def answer(body, length=None, status=200):
    """Send `body`, announced as `length` bytes."""

    def respond(request, _):
        request.send_response(status)
        request.send_header("Content-Length", str(len(body) if length is None else length))
        request.end_headers()
        request.wfile.write(body)

    return respond


def unannounced(body):
    def respond(request, _):
        request.send_response(200)
        request.end_headers()
        request.wfile.write(body)

    return respond


def chunked_and_cut(request, _):
    request.send_response(200)
    request.send_header("Transfer-Encoding", "chunked")
    request.end_headers()
    request.wfile.write(b"ffff\r\n" + GOOD[:100])


def silent(request, released):
    request.send_response(200)
    request.send_header("Content-Length", str(len(GOOD)))
    request.end_headers()
    request.wfile.write(GOOD[:100])
    released.wait(20)


def dripping(request, released):
    request.send_response(200)
    request.end_headers()
    while not released.wait(0.02):
        request.wfile.write(b"x")


def endless(request, released):
    request.send_response(200)
    request.end_headers()
    while not released.is_set():
        request.wfile.write(b"x" * (1 << 20))


def test_both_files_arrive_whole(tmp_path):
    with serving(answer(GOOD)) as server:
        files = fetch_adult(tmp_path / "new" / "folder", server.url())
    assert [file.name for file in files] == ["adult.data", "adult.test"]
    assert [file.read_bytes() for file in files] == [DATA, TEST]
    assert sorted(p.name for p in files[0].parent.iterdir()) == ["adult.data", "adult.test"]


def test_what_is_there_is_not_fetched_again(tmp_path):
    with serving(answer(GOOD)) as server:
        fetch_adult(tmp_path, server.url())
        assert fetch_adult(tmp_path, server.url()) == []
        assert server.asked == 1
        (tmp_path / "adult.test").unlink()
        assert [file.name for file in fetch_adult(tmp_path, server.url())] == ["adult.test"]
        assert server.asked == 2


def test_zipped_files_count(tmp_path):
    (tmp_path / "adult.data.gz").write_bytes(gzip.compress(DATA))
    (tmp_path / "adult.test").write_bytes(TEST)
    assert fetch_adult(tmp_path, "http://localhost:1/never-asked") == []


def test_another_file_of_that_name_is_left_alone(tmp_path):
    (tmp_path / "adult.data").write_bytes(b"mine")
    with serving(answer(GOOD)) as server:
        with pytest.raises(DataError, match=r"adult\.data' is there already.*move it away"):
            fetch_adult(tmp_path, server.url())
        assert server.asked == 0
    assert [p.name for p in tmp_path.iterdir()] == ["adult.data"]
    assert (tmp_path / "adult.data").read_bytes() == b"mine"


TAMPERED = zipped(adult_data=DATA.replace(b"<=50K", b">50K", 1), adult_test=TEST)
BROKEN = GOOD[:60] + bytes([GOOD[60] ^ 1]) + GOOD[61:]


@pytest.mark.parametrize(
    ("respond", "reason"),
    [
        (answer(TAMPERED), r"the checksum of adult\.data differs: expected \w{64}, got \w{64}"),
        (answer(zipped(adult_data=DATA, adult_test=b"")), r"checksum of adult\.test differs"),
        (answer(BROKEN), "not a whole zip archive|checksum"),
        (answer(GOOD[:-50]), "not a whole zip archive"),
        (answer(GOOD[:-50], length=len(GOOD)), r"[\d,]+ of [\d,]+ bytes arrived"),
        (unannounced(GOOD[: len(GOOD) // 2]), "not a whole zip archive"),
        (chunked_and_cut, "the connection broke off"),
        (answer(b""), "not a whole zip archive"),
        (answer(b"<html>Sign in to the network</html>"), "not a whole zip archive"),
        (answer(zipped(adult_data=DATA)), r"the archive holds no adult\.test"),
        (answer(b"gone", status=404), "it answered 404"),
        (answer(b"busy", status=503), "it answered 503"),
        (answer(GOOD, length="many"), "the connection broke off"),
    ],
)
def test_a_bad_download_leaves_nothing_and_can_be_started_again(tmp_path, respond, reason):
    with serving(respond) as server:
        with pytest.raises(DataError, match=reason) as caught:
            fetch_adult(tmp_path, server.url())
        assert server.url() in str(caught.value)
        assert "try again" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    with serving(answer(GOOD)) as server:
        assert len(fetch_adult(tmp_path, server.url())) == 2


@pytest.mark.parametrize(
    ("respond", "limits", "reason"),
    [
        (silent, {"silence": 0.2}, "timed out"),
        (dripping, {"deadline": 0.3}, "it took too long"),
    ],
)
def test_a_server_that_does_not_come_to_an_end_is_given_up(tmp_path, respond, limits, reason):
    with serving(respond) as server, pytest.raises(DataError, match=reason):
        fetch_adult(tmp_path, server.url(), **limits)
    assert list(tmp_path.iterdir()) == []


def test_more_bytes_than_adult_has_are_not_swallowed(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "MOST_BYTES", 3_000_000)
    with serving(endless) as server, pytest.raises(DataError, match="more than 3,000,000 bytes"):
        fetch_adult(tmp_path, server.url())


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "MOST_BYTES", 100_000)
    bomb = zipped(adult_data=b"0" * 50_000_000, adult_test=TEST)
    assert len(bomb) < 100_000
    read = []
    digest = download._digest
    monkeypatch.setattr(
        download, "_digest", lambda content: read.append(len(content)) or digest(content)
    )
    with serving(answer(bomb)) as server, pytest.raises(DataError, match="checksum"):
        fetch_adult(tmp_path, server.url())
    assert max(read) == 100_001


def test_no_server(tmp_path):
    with serving(answer(GOOD)) as server:
        url = server.url()
    with pytest.raises(DataError, match=r"it cannot be reached, is there a network\?"):
        fetch_adult(tmp_path, url)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/adult.zip", "adult.zip", ""])
def test_other_addresses_are_refused(tmp_path, url):
    with pytest.raises(InputError, match="Expected an https:// or http:// address"):
        fetch_adult(tmp_path, url)


def test_a_folder_that_cannot_be_written_to_is_found_out_first(tmp_path):
    (tmp_path / "file").write_text("")
    with serving(answer(GOOD)) as server:
        with pytest.raises(DataError, match=r"Cannot write to the folder '.*file/data': Not a dir"):
            fetch_adult(tmp_path / "file" / "data", server.url())
        assert server.asked == 0


def test_a_disk_that_fills_up_leaves_nothing(tmp_path, monkeypatch):
    def full(file, content):
        file.write(content[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download, "_flush", full)
    said = pytest.raises(DataError, match="No space left on device; choose another --data-dir")
    with serving(answer(GOOD)) as server, said:
        fetch_adult(tmp_path, server.url())
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def certificate(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("certificate")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost"
    names = ["-keyout", "key", "-out", "cert", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command.split(), *names], cwd=folder, check=True, capture_output=True)
    return folder


def test_https_needs_a_certificate_that_is_trusted(tmp_path, certificate, monkeypatch):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert", certificate / "key")
    wrap = lambda socket: context.wrap_socket(socket, server_side=True)  # noqa: E731
    with serving(answer(GOOD), wrap=wrap) as server:
        with pytest.raises(DataError, match="certificate verify failed"):
            fetch_adult(tmp_path, server.url("https"))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert"))
        assert len(fetch_adult(tmp_path, server.url("https"))) == 2


def test_the_checksums_are_those_of_the_real_files(data_dir, monkeypatch):
    monkeypatch.undo()
    folder = Path(data_dir)
    if not all(download.plain_or_gz(folder, name) for name in download.CHECKSUMS):
        pytest.skip("PPADMM_DATA does not hold adult.data and adult.test")
    assert fetch_adult(folder, "http://localhost:1/never-asked") == []
