"""E2B's Template builder for Python: the same templates as in JavaScript, in less detail."""

import os
import uuid

import pytest
from e2b import (AsyncTemplate, BuildException, Sandbox, Template, TemplateException, wait_for_file,
                 wait_for_port)


def unique(prefix="made"):
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "one.txt").write_text("one\n")
    (tmp_path / "folder" / "deep" / "two.txt").write_text("two\n")
    os.symlink("one.txt", tmp_path / "folder" / "link.txt")
    return tmp_path


@pytest.fixture
def build():
    """Builds a template under a new name; what was made is deleted at the end."""
    made = []

    def run(template, name=None, **options):
        info = Template.build(template, name or unique(), cpu_count=1, memory_mb=512, **options)
        made.append(info.template_id)
        return info
    yield run
    for name in set(made):
        Sandbox.delete_snapshot(name)


def out(name, command):
    box = Sandbox.create(name)
    try:
        return box.commands.run(command).stdout.strip()
    finally:
        box.kill()


def test_steps(build):
    template = (Template().from_base_image()
                .run_cmd("id -un > who; pwd >> who")
                .set_envs({"GREETING": "hello  there"})
                .set_workdir("/srv/app").set_user("root")
                .run_cmd('echo "$GREETING" > greeting')
                .set_user("user"))
    info = build(template)
    assert out(info.name, "cat /home/user/who /srv/app/greeting; pwd; id -un") == (
        "user\n/home/user\nhello  there\n/srv/app\nuser")


def test_files(build, files):
    template = (Template(file_context_path=str(files)).from_template("base")
                .copy("folder/*", "all", force_upload=True)
                .copy("folder", "/srv/whole", user="root")
                .copy("folder/one.txt", "bin/run", mode=0o750))
    info = build(template)
    assert out(info.name, "cat all/deep/two.txt; readlink all/link.txt; stat -c %U /srv/whole/one.txt;"
                          " stat -c '%a %U' bin/run") == "two\none.txt\nroot\n750 user"


def test_start_command(build):
    template = (Template().from_template("base")
                .set_start_cmd("python3 -m http.server 8124", wait_for_port(8124)))
    info = build(template)
    assert "listing" in out(info.name, "curl -s http://localhost:8124/")


def test_start_command_never_ready():
    template = Template().from_template("base").set_start_cmd("exit 3", wait_for_file("/tmp/never"))
    with pytest.raises(BuildException, match="start command"):
        Template.build(template, unique())


def test_failing_step():
    template = Template().from_template("base").run_cmd("echo doomed; exit 7")
    with pytest.raises(BuildException, match="failed to run command 'echo doomed; exit 7'.*7"):
        Template.build(template, unique())


def test_unknown_user():
    template = Template().from_template("base").skip_cache().run_cmd("whoami", user="root123")
    with pytest.raises(BuildException, match="unauthenticated: invalid username: 'root123'"):
        Template.build(template, unique())


def test_background(until):
    template = Template().from_template("base").run_cmd("echo begun; sleep 2")
    info = Template.build_in_background(template, unique(), skip_cache=True)
    assert Template.get_build_status(info).status in ("building", "waiting")
    last = until(lambda: (s := Template.get_build_status(info)).status == "ready" and s)
    assert any("begun" in entry.message for entry in last.log_entries)
    Sandbox.delete_snapshot(info.template_id)


def test_tags(build):
    name = unique("tagged")
    assert Template.exists(name) is False
    one = build(Template().from_template("base").run_cmd("echo one > which"), f"{name}:v1")
    two = build(Template().from_template("base").run_cmd("echo two > which"), f"{name}:v2")
    tagged = Template.assign_tags(f"{name}:v1", ["production"])
    assert tagged.build_id == one.build_id and tagged.tags == ["production"]
    tags = {t.tag: t.build_id for t in Template.get_tags(name)}
    assert tags["production"] == one.build_id and tags["v2"] == two.build_id
    assert out(f"{name}:production", "cat which") == "one"
    Template.remove_tags(name, "production")
    assert Template.exists(f"{name}:production") is False
    with pytest.raises(TemplateException):
        Template.remove_tags("no-such-template", "x")


async def built_async(name):
    template = AsyncTemplate().from_template("base").run_cmd("echo async > which")
    return await AsyncTemplate.build(template, name)


def test_async():
    import asyncio
    info = asyncio.run(built_async(unique()))
    assert out(info.name, "cat which") == "async"
    assert Sandbox.delete_snapshot(info.template_id) is True
