"""What clients change while a sandbox exists, with both clients."""

import contextlib
import os
import urllib.error
import urllib.request

import pytest
from daytona import (CreateSandboxFromSnapshotParams, CreateSnapshotParams, DaytonaError, DaytonaNotFoundError, Image,
                     Resources)


@pytest.fixture
def make(client):
    made = []

    def create(**fields):
        made.append(client.create(CreateSandboxFromSnapshotParams(**fields)))
        return made[-1]

    yield create
    for sandbox in made:
        with contextlib.suppress(Exception):
            sandbox.delete()


def output(sandbox, command):
    return sandbox.process.exec(command).result.strip()


def visit(url, body=None, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_resize(make):
    sandbox = make()
    cpu, memory = sandbox.cpu + 1, sandbox.memory + 1
    sandbox.resize(Resources(cpu=cpu, memory=memory))
    assert (sandbox.cpu, sandbox.memory, sandbox.state) == (cpu, memory, "started")
    with pytest.raises(DaytonaError, match="stopped state"):
        sandbox.resize(Resources(memory=1))
    sandbox.stop()
    sandbox.resize(Resources(memory=1))
    assert sandbox.memory == 1


def test_pause_keeps_processes_and_recover_is_for_errors(make):
    sandbox = make()
    sandbox.process.exec("sleep 1000 >/dev/null 2>&1 & echo $! > pid")
    with pytest.raises(DaytonaError) as refused:
        sandbox.recover()
    assert refused.value.status_code == 400
    sandbox.pause()
    assert sandbox.state == "paused"
    sandbox.start()
    assert sandbox.state == "started" and output(sandbox, "kill -0 $(cat pid) && echo there") == "there"


def test_intervals(make):
    sandbox = make(auto_stop_interval=5, auto_archive_interval=0)
    assert sandbox.auto_archive_interval == 30 * 24 * 60
    sandbox.set_auto_pause_interval(7)
    sandbox.set_ttl(90)
    sandbox.refresh_data()
    assert (sandbox.auto_stop_interval, sandbox.auto_pause_interval) == (0, 7)
    assert sandbox.auto_destroy_at
    sandbox.set_ttl(0)
    sandbox.refresh_data()
    assert not sandbox.auto_destroy_at


def test_network_settings(make):
    sandbox = make()
    sandbox.update_network_settings(domain_allow_list="a.test,b.test")
    sandbox.update_network_settings(network_block_all=True)
    sandbox.refresh_data()
    assert (sandbox.network_block_all, sandbox.domain_allow_list) == (True, "a.test,b.test")
    with pytest.raises(DaytonaError):
        sandbox.update_network_settings(network_block_all=False, network_allow_list="no address")


def test_environment(make):
    sandbox = make(env_vars={"KEPT": "k", "GONE": "g"})
    sandbox.update_env({"NEW": "n"}, unset=["GONE"])
    assert output(sandbox, "echo $KEPT$GONE$NEW") == "kn"
    sandbox.stop()
    sandbox.start()
    assert output(sandbox, "echo $KEPT$GONE$NEW") == "kn"


def test_files_by_signed_urls_until_the_key_is_changed(make):
    sandbox = make()
    form = b'--xx\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nsigned\n\r\n--xx--\r\n'
    status, text = visit(sandbox.upload_url("signed.txt"), form, **{"Content-Type": "multipart/form-data; boundary=xx"})
    assert status == 200, text
    url = sandbox.download_url("signed.txt")
    assert visit(url) == (200, b"signed\n")
    assert visit(url.replace("signed.txt", "other.txt"))[0] == 401
    sandbox.rotate_signing_key()
    assert visit(url)[0] == 401


def test_ephemeral_sandboxes_and_lists(client, make, unique):
    made = [make(labels={"mark": unique}) for _ in range(3)]
    ephemeral = make(labels={"mark": unique}, ephemeral=True)
    assert client.get(ephemeral.id).id == ephemeral.id
    ephemeral.stop()
    with pytest.raises(DaytonaNotFoundError):
        client.get(ephemeral.id)
    for sandbox in made:
        assert client.get(sandbox.id).labels["mark"] == unique


def test_forks_and_snapshots(client, make, unique):
    sandbox = make()
    sandbox.process.exec("echo one > file")
    forked = sandbox.fork(name=unique)
    try:
        assert forked.name == unique and output(forked, "cat file") == "one"
    finally:
        forked.delete()
    sandbox.create_snapshot(f"of-{unique}")
    assert output(make(snapshot=f"of-{unique}"), "cat file") == "one"


def test_a_snapshot_is_activated(client, make, unique):
    snapshot = client.snapshot.create(CreateSnapshotParams(name=unique, image=Image.base("scratch")))
    url = f"{os.environ['DAYTONA_API_URL']}/snapshots/{snapshot.id}/deactivate"
    assert visit(url, b"", Authorization=f"Bearer {os.environ['DAYTONA_API_KEY']}")[0] == 204
    assert client.snapshot.get(unique).state == "inactive"
    with pytest.raises(DaytonaError, match="inactive"):
        make(snapshot=unique)
    assert client.snapshot.activate(client.snapshot.get(unique)).state == "active"
    client.snapshot.delete(client.snapshot.get(unique))
