"""The helper for git, between two repositories in one sandbox."""

import pytest
from e2b import GitUpstreamException


def test_git(box):
    git, files = box.git, box.files
    git.init("repo", initial_branch="main")
    git.configure_user("Me", "me@example.com")
    assert git.get_config("user.email") == "me@example.com"
    files.write("repo/a.txt", "one\n")
    git.add("repo")
    git.commit("repo", "first")
    assert git.status("repo").is_clean
    git.create_branch("repo", "feature")
    assert sorted(git.branches("repo").branches) == ["feature", "main"]
    git.checkout_branch("repo", "main")
    git.delete_branch("repo", "feature", force=True)
    assert git.branches("repo").branches == ["main"]

    git.init("bare.git", bare=True, initial_branch="main")
    git.remote_add("repo", "origin", "/home/user/bare.git")
    assert git.remote_get("repo", "origin") == "/home/user/bare.git"
    with pytest.raises(GitUpstreamException):
        git.push("repo", set_upstream=False)
    git.push("repo", remote="origin", branch="main", set_upstream=True)
    git.clone("/home/user/bare.git", path="copy", depth=1)
    files.write("repo/a.txt", "two\n")
    git.add("repo")
    git.commit("repo", "second")
    git.push("repo")
    git.pull("copy")
    assert files.read("copy/a.txt") == "two\n"
    files.write("copy/a.txt", "changed\n")
    git.restore("copy", paths=["a.txt"])
    assert files.read("copy/a.txt") == "two\n"
    git.reset("copy", mode="hard", target="HEAD")
