"""atoll-copy leaves out what a pair with the name "/" names, and what --exclude names."""
import os
import pathlib
import subprocess

BUILD = pathlib.Path(os.environ.get("ATOLL_BUILD", "build"))


def copy(root, tree, dest, pairs, *options):
    text = "".join(f"{path}\0{name}\0" for path, name in pairs)
    subprocess.run([BUILD / "atoll-copy", "--stdin", "--root", root, *options, tree, dest],
                   input=text.encode(), check=True)
    return sorted(str(p.relative_to(root)) for p in root.rglob("*"))


def make_tree(path):
    for name in ("a/x.c", "a/x.md", "a/b/y.md", "c/z.md"):
        file = path / "tree" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    root = path / "root"
    root.mkdir()
    return path / "tree", root


def test_excluded_paths(tmp_path):
    tree, root = make_tree(tmp_path)
    got = copy(root, tree, "/d", [("", ""), ("a/x.md", "/"), ("a/b", "/"), ("c/z.md", "/")])
    assert got == ["d", "d/a", "d/a/x.c", "d/c"]


def test_one_source_with_an_exclusion_is_one_source(tmp_path):
    tree, root = make_tree(tmp_path)
    got = copy(root, tree, "/f", [("a/x.c", "x.c"), ("a/b", "/")])
    assert got == ["f"] and (root / "f").read_text() == "a/x.c"


def test_both_forms(tmp_path):
    tree, root = make_tree(tmp_path)
    got = copy(root, tree, "/d", [("a", ""), ("a/b", "/")], "--exclude", "a/x.md")
    assert got == ["d", "d/x.c"]
