"""Good files in every format that is read -> damaged and hostile ones, opened in processes of their own, and counted.

    python tests/mutations.py 10000        # prints the outcome, format by format

A case is a format and a number: the same two always make the same file. The first numbers of a format are the files in
hostile.py, made by hand; all others are a good file with a few bits, blocks, headers, sizes or values changed. Each is
opened by Python as a person would, and by the command line, in a worker that counts seconds and memory; a worker that
dies is a crash. To add a format, add a Format to formats.py.
"""

import contextlib
import faulthandler
import functools
import gzip
import io
import json
import os
import random
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path

from formats import FORMATS, SEED, make_seeds, warm_up

MAX_SECONDS = 10  # of work in one case; the clock would count what the machine does besides
MAX_ASLEEP = 30  # looks, a second apart, at which a worker waits for something that does not come
MAX_RISE = 10**9
LIMIT = 12 * 10**9  # address space of a worker: what would take more is stopped before the machine is
BAD = ("crash", "hang", "memory", "raw", "exit 1", "code")


# ---- what is done to a file ---------------------------------------------------------------------------------------
NUMBERS = (0, 1, 127, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1)
VALUES = (
    None, True, -1, 0, 1, 10**7, 2**31, 2**63, 10**30, 1.5, 1e308, "1e999", "NaN", "-Infinity", "9" * 5000, [], {}, "",
    "\ud800", "../../../../etc/passwd", "/etc/passwd", "a" * 10000, [[[]]], {"a": {"b": 1}}, "[" * 3000,
    '{"a":' * 3000, "--5", "²", "1_0", "0x1", " ", "é",
)  # fmt: skip
BARE = {"1e999", "NaN", "-Infinity", "9" * 5000, "[" * 3000, '{"a":' * 3000}  # written as they are, without quotes


def damage_bytes(data, rng):
    """A few bits, bytes or blocks changed."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        if not data:
            return bytes(data)
        kind, place = rng.randrange(8), rng.randrange(len(data))
        end = min(len(data), place + rng.choice((1, 4, 16, 64, 1000)))
        block = bytes(data[place:end])
        if kind <= 1:
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 2:
            data[place] = rng.randrange(256)
        elif kind == 3:
            del data[place : len(data) if rng.random() < 0.5 else end]
        elif kind == 4:
            data[place:place] = block * rng.choice((1, 2, 50))
        elif kind == 5:
            size = rng.choice((1, 2, 4, 8))
            data[place : place + size] = (rng.choice(NUMBERS) % 256**size).to_bytes(size, rng.choice(("little", "big")))
        elif kind == 6:
            data[place:end] = rng.choice((b"\0", b"\xff")) * len(block)
        else:
            other = rng.randrange(len(data))
            data[other : other + len(block)] = block
    return bytes(data)


def damage_archive(data, rng):
    """A zip whose checksums are right: a member is damaged, packed otherwise, doubled, renamed or left out."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
        stored = all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
    place = rng.randrange(len(members))
    name, content = members[place]
    kind = rng.randrange(10)
    if kind == 0:
        del members[place]
    elif kind == 1:
        members.append((name, damage_bytes(content, rng)))
    elif kind == 2:
        members[place] = (rng.choice(members)[0], content)
    else:
        change = damage_array if content[:6] == b"\x93NUMPY" else damage_bytes
        members[place] = (name, change(content, rng))
    packed = io.BytesIO()
    usual = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
    with contextlib.redirect_stderr(None), zipfile.ZipFile(packed, "w") as archive:
        for name, content in members:
            way = rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)) if kind == 3 else usual
            archive.writestr(name, content, way)
    return packed.getvalue() if rng.random() < 0.9 else damage_bytes(packed.getvalue(), rng)


HEADERS = (
    ("'<f4'", "'<f8'"), ("'<f4'", "'<c8'"), ("'<i8'", "'<f8'"), ("'<i8'", "'|O'"), ("'<i8'", "'>i8'"),
    ("'<f4'", "'<U0'"), ("'<i8'", "[('a', '<i4'), ('b', '|O')]"), ("'<f4'", "'<M8[s]'"), ("False", "True"),
    ("(", "(-1, "), ("(", "(10**9, "), ("(", "(1000000000, "), ("(", "(((((((((((("), (",)", ", 99999999999)"),
    ("shape", "shapf"), ("}", ""), ("{", "{{"), ("(30", "(2999999999"), ("(2", "(2000000000000"), ("(80", "(1e999"),
    ("descr", "descr': '<f8', 'x"),
)  # fmt: skip


def damage_array(data, rng):
    """An .npy file with another header, or other numbers."""
    if rng.random() < 0.5:
        return damage_bytes(data, rng)
    length = int.from_bytes(data[8:10], "little")
    text = data[10 : 10 + length].decode("latin1")
    known = [(old, new) for old, new in HEADERS if old in text]
    old, new = rng.choice(known)
    header = text.replace(old, new, 1).rstrip().encode("latin1")
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return data[:8] + len(header).to_bytes(2, "little") + header + data[10 + length :]


def damage_json(data, rng):
    """Another value somewhere, a key less, or one more."""
    values = json.loads(data)
    place, key = values, rng.choice(list(values))
    while isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.8:
        place = place[key]
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
    kind = rng.randrange(5)
    if kind == 0:
        del place[key]
    elif kind == 1 and isinstance(place, list):
        place += place
    elif kind == 1:
        place[f"{key}x"] = place[key]
    else:
        place[key] = rng.choice(VALUES)
    text = json.dumps(values)
    for bare in BARE:
        text = text.replace(json.dumps(bare), bare)
    return text.encode() if rng.random() < 0.9 else damage_bytes(text.encode(), rng)


def damage_table(data, rng):
    """Other cells, rows or separators in CSV."""
    lines = data.decode().split("\n")
    separator = next((one for one in "\t;" if one in lines[0]), ",")
    row = rng.randrange(len(lines))
    kind = rng.randrange(5)
    if kind == 0:
        lines[row] += rng.choice((",", "\t", '"', ',"', ",1,2,3", "\0", "\r"))
    elif kind == 1:
        lines[row] = lines[row] * rng.choice((0, 2, 500))
    elif kind == 2:
        lines.insert(row, rng.choice(lines))
    else:
        cells = lines[row].split(separator)
        cells[rng.randrange(len(cells))] = str(rng.choice(VALUES))
        lines[row] = separator.join(cells)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def damage_packed(data, rng):
    """Text that is packed: what is packed is another, or it is packed twice, or goes on after its end."""
    content = damage_table(gzip.decompress(data), rng)
    packed = gzip.compress(content, mtime=0)
    return rng.choice((packed, packed, packed + packed, gzip.compress(packed, mtime=0), packed + b"more", content))


def damage(name, data, rng):
    """As its kind allows, or blindly."""
    suffix = Path(name).suffix
    known = {".npz": damage_archive, ".pt": damage_archive, ".npy": damage_array, ".json": damage_json,
             ".csv": damage_table, ".tsv": damage_table, ".gz": damage_packed}  # fmt: skip
    return known[suffix](data, rng) if suffix in known and rng.random() < 0.6 else damage_bytes(data, rng)


def bless(scan):
    """Write the digests of what is there into a scan's manifest, as an attacker would."""
    import hashlib

    with contextlib.suppress(ValueError, KeyError, TypeError, OSError, AttributeError, RecursionError):
        manifest = json.loads((scan / "manifest.json").read_text())
        for part in [*manifest["parts"], *manifest.get("blame", {}).get("parts", [])]:
            part["sha256"] = hashlib.sha256((scan / part["file"]).read_bytes()).hexdigest()
        for name in manifest.get("tables", {}):
            manifest["tables"][name] = hashlib.sha256((scan / name).read_bytes()).hexdigest()
        (scan / "manifest.json").write_text(json.dumps(manifest))


def make_case(seeds, folder, name, number):
    """The folder of one case; returns what was done to it."""
    from hostile import HOSTILE

    words = {word for part in (FORMATS[name].files, *FORMATS[name].commands) for word in part}
    folder.mkdir()
    for top in {Path(word).parts[0] for word in words}:
        if (seeds / top).exists():
            (shutil.copytree if (seeds / top).is_dir() else shutil.copy)(seeds / top, folder / top)
    made = sorted(HOSTILE.get(name, {}))
    if number < len(made):
        HOSTILE[name][made[number]](folder)
        return made[number]
    rng = random.Random(f"{SEED} {name} {number}")
    target = folder / rng.choice(FORMATS[name].files)
    target.write_bytes(damage(target.name, target.read_bytes(), rng))
    if "manifest.json" in " ".join(FORMATS[name].files) and rng.random() < 0.8:
        for place in (place for place in target.parents if (place / "manifest.json").exists()):
            bless(place)
    return f"{target.name}, {number}"


# ---- a worker -----------------------------------------------------------------------------------------------------
def run_case(seeds, folder, name, number):
    """What came of one case: how it ended, what it said, seconds, and by how many bytes memory rose."""
    from axiompath.errors import InputError
    from hostile import HOSTILE

    what = make_case(seeds, folder, name, number)
    item = FORMATS[name]
    before, start = _reset_peak(), time.process_time()
    ended, said = "fine", ""
    try:
        item.read(folder)
    except InputError as error:
        ended, said = "refused", str(error)
    except (Exception, SystemExit) as error:  # this is what is looked for
        ended, said = "raw", f"{type(error).__name__}: {error}"
    commands = [item.commands[number % len(item.commands)]] if item.commands else []
    if item.gone_on_with and number < len(HOSTILE[name]):
        commands = list(dict.fromkeys(item.commands))
    for command in commands if ended != "raw" else []:
        code, words = run_command(command, folder)
        if code not in (0, 2):
            ended, said = f"exit {code}", words
            break
        if code == 2:
            ended = "refused"
    seconds, rise = time.process_time() - start, _peak() - before
    if (folder / "canary").exists() or CALLS:
        ended, said = "code", ", ".join(CALLS)
        CALLS.clear()
    elif rise > MAX_RISE:
        ended = "memory"
    elif seconds > MAX_SECONDS:
        ended = "hang"
    return {"case": f"{name}: {what}", "ended": ended, "said": said[:400], "seconds": seconds, "rise": rise}


def run_command(arguments, folder):
    """The command line's own entry, in this process."""
    from axiompath.cli import app as cli

    out, old, place = io.StringIO(), sys.argv, Path.cwd()
    try:
        sys.argv = ["axiompath", *arguments]
        os.chdir(folder)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            cli.main()
    except SystemExit as end:
        return end.code or 0, out.getvalue()
    finally:
        sys.argv = old
        os.chdir(place)
    return 0, out.getvalue()


CALLS: list[str] = []


def _watch(event, arguments):
    if event == "subprocess.Popen" and arguments[0] == sys.executable and "axiompath.scan" in str(arguments[1]):
        return  # a scan's own workers
    if event in ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "socket.connect"):
        CALLS.append(event)


def _status(key):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024


def _reset_peak():
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak():
    return _status("VmHWM")


def work(seeds):
    """Answer cases from stdin, one line each, until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import warnings

    import typer.main

    warnings.simplefilter("ignore")
    typer.main.get_command = functools.cache(typer.main.get_command)  # half the time of a command, and always the same
    run_command(("explain", "model", "before.npz", "after.npz", "--json"), seeds)  # what is loaded once, is
    run_command(("explain", "model", "stored", "stored", "--json"), seeds)
    warm_up(seeds)
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(sys.stderr)
    sys.addaudithook(_watch)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        name, number = json.loads(line)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            print(json.dumps(run_case(seeds, Path(folder) / "case", name, number)), file=answers, flush=True)


class Worker:
    """A process that answers cases; started again when it dies or hangs."""

    def __init__(self, seeds):
        self.seeds, self.process, self.case = seeds, None, None
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 (what it says, held as long as it is)

    def start(self):
        paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", str(self.seeds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.log, env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert self.process.stdout.readline() == b"ready\n", "the worker did not come up on the good files"

    def give(self, case):
        if self.process is None:
            self.start()
        self.case, self.asleep, self.worked = case, 0, self.look()[1]
        self.process.stdin.write(json.dumps(case).encode() + b"\n")
        self.process.stdin.flush()

    def look(self):
        """What it is doing (R: working, S: waiting), and for how many seconds it has worked."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_lost(self):
        """Whether it waits for ever, or works for ever."""
        state, worked = self.look()
        self.asleep = self.asleep + 1 if state == "S" else 0
        return self.asleep > MAX_ASLEEP or worked - self.worked > 3 * MAX_SECONDS

    def take(self):
        """The answer; a worker that is gone, or says nothing for too long, is one too."""
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        signal = -self.process.wait()
        self.log.seek(max(0, self.log.seek(0, io.SEEK_END) - 4000))
        return self.end("crash", f"signal {signal}; {self.log.read().decode(errors='replace')}")

    def end(self, ended, said=""):
        self.process.kill()
        self.process.wait()
        self.process = None
        return {"case": f"{self.case[0]}: {self.case[1]}", "ended": ended, "said": said, "seconds": 0.0, "rise": 0}


def list_slice():
    """Every third file made by hand, and two at random of every format."""
    from hostile import HOSTILE

    made = sum(len(HOSTILE.get(name, {})) for name in FORMATS)
    cases = list_cases(made + 2 * len(FORMATS))
    return [*cases[:made:3], *cases[made:]]


def list_cases(num_cases):
    """The files made by hand, then the formats in turn."""
    from hostile import HOSTILE

    sizes = {name: len(HOSTILE.get(name, {})) for name in FORMATS}
    made = [(name, number) for name, size in sizes.items() for number in range(size)]
    turns = range(max(0, num_cases - len(made)) // len(FORMATS) + 1)
    return [*made, *((name, sizes[name] + turn) for turn in turns for name in FORMATS)][:num_cases]


def run_cases(cases, folder, num_workers=1):
    """Outcomes of these cases as they come."""
    seeds = folder / "seeds"
    make_seeds(seeds)
    waiting = iter(cases)
    workers = [Worker(seeds) for _ in range(num_workers)]
    busy = {}

    def feed(worker):
        case = next(waiting, None)
        if case is not None:
            worker.give(case)
            busy[worker.process.stdout.fileno()] = worker

    for worker in workers:
        feed(worker)
    while busy:
        ready, _, _ = select.select(list(busy), [], [], 1.0)
        lost = [] if ready else [key for key, worker in busy.items() if worker.is_lost()]
        for key in {*ready, *lost}:
            worker = busy.pop(key)
            yield worker.take() if key in ready else worker.end("hang")
            feed(worker)
    for worker in workers:
        if worker.process is not None:
            worker.process.stdin.close()
            worker.process.wait()


def tell(found):
    """The outcome, counted; and every case that ended as none may."""
    ends = ("fine", "refused", *BAD)
    lines = [f"{'format':12}" + "".join(f"{end:>9}" for end in (*ends, "seconds", "MB"))]
    for name in (*FORMATS, "all"):
        mine = [case for case in found if name == "all" or case["case"].startswith(f"{name}: ")]
        counts = Counter(case["ended"] for case in mine)
        longest = max((case["seconds"] for case in mine), default=0.0)
        largest = max((case["rise"] for case in mine), default=0) / 1e6
        lines.append(f"{name:12}" + "".join(f"{counts[end]:9}" for end in ends) + f"{longest:9.1f}{largest:9.0f}")
    lines += [f"{case['ended']}  {case['case']}  {case['said']}" for case in found if case["ended"] not in ends[:2]]
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        work(Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as place:
            found = []
            for outcome in run_cases(list_cases(int(sys.argv[1])), Path(place)):
                found.append(outcome)
                if len(found) % 1000 == 0 or len(found) == int(sys.argv[1]):
                    print(tell(found), flush=True)
