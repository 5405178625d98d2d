"""The board of faults: memory that a test shares with the programs under test, in builds with
-Dtest_switches=true. A wish on it ("store.insert.execs@2=EIO") is obeyed once; while it records,
every point that is passed is written down. See src/base/switches.h."""

import contextlib
import json
import mmap
import re
import struct
from collections import Counter

from daemons import BUILD, ROOT

SIZE = 1 << 20
WISH = 128
PASSED, STRUCK, RECORDING, USED, LOG = 128, 132, 136, 140, 144


def compiled_in(build=BUILD):
    """Whether the build has test switches."""
    options = build / "meson-info/intro-buildoptions.json"
    return options.exists() and any(option["name"] == "test_switches" and option["value"]
                                    for option in json.loads(options.read_text()))


class Board:
    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(SIZE))
        path.chmod(0o666)
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), SIZE)

    def number(self, at):
        return struct.unpack_from("I", self.memory, at)[0]

    def set_number(self, at, value):
        struct.pack_into("I", self.memory, at, value)

    @property
    def passed(self):
        return self.number(PASSED)

    @property
    def struck(self):
        return self.number(STRUCK)

    def wish(self, text):
        self.clear()
        self.memory[1:WISH] = text.encode()[1:].ljust(WISH - 1, b"\0")
        self.memory[0] = ord(text[0])  # last: until then it is no wish

    def clear(self):
        self.memory[0:WISH] = bytes(WISH)
        self.set_number(PASSED, 0)
        self.set_number(STRUCK, 0)

    @contextlib.contextmanager
    def recording(self):
        """Gives a Counter, filled at the end: how often each point was passed. Those behind which
        " die" stands can do nothing else."""
        points = Counter()
        self.set_number(USED, 0)
        self.set_number(RECORDING, 1)
        try:
            yield points
        finally:
            self.set_number(RECORDING, 0)
        used = self.number(USED)
        assert used <= SIZE - LOG, "the log of points is full"
        points.update(self.memory[LOG:LOG + used].decode().split("\n")[:-1])


# All there are, by the source.

CALL = re.compile(r"""atoll_fault(?:f|_die)?\(\s*"([^"]+)"((?:,[^;]*?)?)\)""")


def source(name):
    return (ROOT / "src" / name).read_text()


def writes():
    """Statements of the store that write."""
    for path in (ROOT / "src/store/sqlite").glob("*.c"):
        text = re.sub(r'"\s+"', "", path.read_text())
        for verb, table in re.findall(r'"(INSERT|DELETE)\b[^"]*? (?:INTO|FROM) (\w+)', text):
            yield verb.lower(), table
        for table in re.findall(r'"UPDATE (\w+) SET', text):
            yield "update", table
        for table in re.findall(r'\.table = "(\w+)"', text):  # struct atoll_rows
            yield "insert", table
        if path.name == "check.c":
            yield "pragma", ""


def transactions():
    for path in (ROOT / "src/store/sqlite").glob("*.c"):
        yield from re.findall(r'atoll_db_begin\(db, "(\w+)"', path.read_text())


def expansions(folder_providers):
    """What stands for %s, by the text of the point."""
    ops = re.findall(r'^OPERATION\(\w+, \w+, "(\w+)"', source("provider/operations.def"), re.M)
    steps = [name for name in re.findall(r'\[ATOLL_PLAN_\w+\] = \{"(\w+)"', source("spawn/plan_run.c"))
             if name != "start"]  # which has a point of its own
    requests = re.findall(r'\{ATOLL_SPAWN_\w+, "(\w+)"', source("spawn/server.c"))
    messages = re.findall(r"\{TYPE\((\w+)\)", source("agent/dispatch.c"))
    done = [(provider, op) for provider in folder_providers for op in ops if op != "create"]
    return {
        "store.%s.%s": [*writes(), *(("begin", t) for t in transactions()),
                        *(("commit", t) for t in transactions())],
        "store.%s.%s.after": list(writes()),
        "store.commit.%s.after": [(t,) for t in transactions()],
        "provider.%s.%s": [(provider, op) for provider in folder_providers for op in ops],
        "provider.%s.%s.after": done,
        "provider.%s.create.after": [(provider,) for provider in folder_providers],
        "spawn.%s": [(name,) for name in steps],
        "spawn.request_%s": [(name,) for name in requests],
        "agent.%s": [(name,) for name in messages],
        "agent.%s.after": [(name,) for name in messages],
    }


def all_points(providers):
    """Every point of the source; those of providers for each of these."""
    found, known = set(), expansions(providers)
    for path in (ROOT / "src").rglob("*.c"):
        if path.name == "switches.c":
            continue
        for text, arguments in CALL.findall(path.read_text()):
            if "%s" not in text:
                found.add(text)
                continue
            assert text in known, f"{path.name}: say in faults.py what {text} stands for"
            found.update(text % values for values in known[text])
    return found
