"""Every case of cases.py, built by Atoll and compared with what buildah makes of it, file by file.

What buildah made is kept for the run only. Cases that buildah does not know have their result in the table.
"""

import json
import sqlite3

import contexts
import pytest
import built_trees as trees
from buildah import Buildah
from cases import CASES

FIRST_ID = 0x0fff0000  # of layers on disk


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    builder = Buildah(tmp_path_factory.mktemp("buildah"))
    yield builder
    builder.close()


@pytest.fixture(scope="module")
def base_of_other(other, tmp_path_factory):
    return other.build("base", contexts.write_base(tmp_path_factory.mktemp("other") / "base"))


class Ours:
    """Builds with a daemon of ours."""

    def __init__(self, daemon):
        self.daemon = daemon

    def build(self, name, context, case=None):
        options = []
        for key, value in (case.args if case else {}).items():
            options += ["--build-arg", f"{key}={value}"]
        for key, value in (case.secrets if case else {}).items():
            path = context.parent / f"{context.name}-{key}"
            path.write_text(value)
            options += ["--secret", f"id={key},src={path}"]
        if case and case.target:
            options += ["--target", case.target]
        made = self.daemon.atoll("build", "-t", name, *options, str(context))
        assert made.returncode == 0, made.stderr
        layers, config = self.stored(name)
        return trees.of_layers(self.daemon.state, layers, FIRST_ID), trees.plain_config(json.loads(config))

    def stored(self, name):
        """Layers and config of the newest version."""
        with sqlite3.connect(f"file:{self.daemon.state}/atoll.db?mode=ro", uri=True) as database:
            return database.execute("select layers, config from template_versions where name = ? "
                                    "order by created_unix_ms desc limit 1", [name]).fetchone()


@pytest.fixture(scope="module")
def ours(daemon):
    return Ours(daemon)


@pytest.fixture(scope="module")
def our_base(ours, tmp_path_factory):
    return ours.build("base", contexts.write_base(tmp_path_factory.mktemp("ours") / "base"))


def compare(ours, other, besides=()):
    """Differences as text, by path."""
    found = []
    for path in sorted(ours.keys() | other.keys()):
        if path not in besides and ours.get(path) != other.get(path):
            found.append(f"{path}: ours {ours.get(path)}, other {other.get(path)}")
    return found


def test_base(base_of_other, our_base):
    assert compare(our_base[0], base_of_other[0]) == []
    assert our_base[1] == base_of_other[1]


def expect_table(case, tree, config, base):
    """The files of the table, and nothing else, are new."""
    new = {path: entry for path, entry in tree.items() if base[0].get(path) != entry}
    assert sorted(new) == sorted(case.expected)
    for path, content in case.expected.items():
        if content is None:
            assert new[path][0] == "directory", path
        else:
            assert (new[path][0], new[path][4], new[path][5]) == trees.content_entry(content), path
    for name, value in case.config.items():
        assert config.get(name) == value


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(case, ours, our_base, other, base_of_other, tmp_path):
    name = "t-" + case.name.replace("_", "-")
    tree, config = ours.build(name, contexts.write(tmp_path / "context", case.dockerfile, case.files), case)
    if case.expected is not None:
        expect_table(case, tree, config, our_base)
        return
    other_tree, other_config = other.build(
        name, contexts.write(tmp_path / "same", case.dockerfile, case.files), case.args, case.secrets, case.target)
    assert compare(tree, other_tree, case.besides) == []
    for member in sorted(config.keys() | other_config.keys()):
        expected = case.config[member] if member in case.config else other_config.get(member)
        assert config.get(member) == expected, member
