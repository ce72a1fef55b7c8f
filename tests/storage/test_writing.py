"""Files are whole or not there; a folder's lock is its process's alone, and goes with it."""

import hashlib
import os
import signal
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from axiompath.errors import InputError
from axiompath.files.folder import ResumableFolder
from axiompath.storage.parquet import (
    is_whole,
    read_notes,
    record_of,
    recorded_digest,
    with_notes,
    write_parquet,
    write_part,
)
from axiompath.storage.writing import file_digest, whole_file, write_text


def hold(folder, ready):
    """A process that holds the lock and has a worker, which was forked and outlives it."""
    child = os.fork()
    if child == 0:
        with ResumableFolder(folder, "scan").locked():
            if os.fork() == 0:
                time.sleep(30)
                os._exit(0)
            ready.touch()
            time.sleep(30)
        os._exit(0)
    while not ready.exists():
        time.sleep(0.01)
    return child


def test_a_file_may_have_the_longest_name(tmp_path):
    path = tmp_path / ("é" * 127 + "x")  # 255 bytes
    with whole_file(path) as stream:
        stream.write(b"all of it")
    assert [found.read_bytes() for found in tmp_path.iterdir()] == [b"all of it"]
    assert path.is_file()


def test_a_lock_goes_with_its_process_even_if_workers_live_on(tmp_path):
    child = hold(tmp_path / "out", tmp_path / "ready")
    try:
        with (
            pytest.raises(InputError, match=r"another scan is running.*wait until it has ended"),
            ResumableFolder(tmp_path / "out", "scan").locked(),
        ):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with ResumableFolder(tmp_path / "out", "scan").locked():
        assert (tmp_path / "out" / ".lock").read_bytes() == b""


def test_a_file_system_without_locks_gets_a_sentence(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(InputError, match="file system that can lock files"), ResumableFolder(tmp_path, "scan").locked():
        pass


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "file"
    path.write_text("before")

    def write_half():
        with whole_file(path) as stream:
            stream.write(b"after")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("file", "before")]


NO_FILES = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/null"),
    "a folder": os.mkdir,
    "a link to nowhere": lambda path: path.symlink_to("/no/such/place"),
    "a link to a file": lambda path: path.symlink_to(__file__),  # as /dev/stdout is, where output goes to a file
}


@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_plain_file_is_not_replaced_by_one(tmp_path, kind):
    path = tmp_path / "out"
    NO_FILES[kind](path)
    held = path.lstat()
    with pytest.raises(
        InputError, match=r"Expected the name of a file to write \(got .*out, which is a folder, a device"
    ):
        write_text(path, "page")
    assert (path.lstat().st_ino, path.lstat().st_mode) == (held.st_ino, held.st_mode)
    assert list(tmp_path.iterdir()) == [path]


def test_only_our_drafts_are_cleared(tmp_path):
    ours, others = ["a.json.0123456789ab.part"], ["a.json.part", "a.json.0123456789ab", "b.json.0123456789ab.part"]
    for name in (*ours, *others):
        (tmp_path / name).touch()
    ResumableFolder(tmp_path, "scan").clear_drafts("a.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)


TABLE = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})


def test_digests_are_those_of_the_bytes(tmp_path):
    schema = with_notes(TABLE.schema, {"of": "me"})
    tables = [TABLE.replace_schema_metadata(schema.metadata)] * 2
    digest = write_parquet(tmp_path / "one.parquet", tables, schema)
    write_part(tmp_path / "two.parquet", tables, schema)
    held = (tmp_path / "two.parquet").read_bytes()
    assert (tmp_path / "one.parquet").read_bytes() == held
    assert digest == recorded_digest(tmp_path / "two.parquet") == hashlib.sha256(held).hexdigest()
    assert file_digest(tmp_path / "two.parquet") == digest
    assert record_of(tmp_path / "two.parquet").read_text() == f"{digest}  two.parquet\n"
    assert pq.read_table(tmp_path / "two.parquet").num_rows == 6
    assert read_notes(pq.read_schema(tmp_path / "two.parquet")) == {"of": "me"}


def test_every_flipped_bit_and_every_cut_is_seen(tmp_path):
    path = tmp_path / "part.parquet"
    schema = with_notes(TABLE.schema, {"of": 1})
    write_part(path, [TABLE.replace_schema_metadata(schema.metadata)], schema)
    held = path.read_bytes()
    assert is_whole(path, {"of": 1})
    assert is_whole(path)
    assert not is_whole(path, {"of": 2})
    for place in range(len(held)):
        damaged = bytearray(held)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        assert not is_whole(path, {"of": 1})
    for size in (0, 4, len(held) - 1):
        path.write_bytes(held[:size])
        assert not is_whole(path)
    path.write_bytes(held)
    for record in (b"", b"\xff\xfe", b"0" * 64, b"0" * 64 + b"  other.parquet\n"):
        record_of(path).write_bytes(record)
        assert not is_whole(path)
    path.unlink()
    assert not is_whole(path)


@pytest.mark.parametrize("notes", [None, b"", b"[1]", b"{", b"\xff", b"[" * 100_000])
def test_notes_that_cannot_be_read_are_none(notes):
    assert read_notes(TABLE.schema.with_metadata({} if notes is None else {b"axiompath": notes})) == {}
