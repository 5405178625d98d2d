"""The control plane, method by method, with the synchronous client and the asynchronous one."""

import asyncio
import os
import shlex
import subprocess
import sys

import pytest
from daytona import (AsyncDaytona, CreateSandboxFromImageParams, CreateSnapshotParams, DaytonaError,
                     DaytonaNotFoundError, Image)
from daytona_api_client import ApiClient, ApiKeysApi, ConfigApi, Configuration, OrganizationsApi, RegionsApi, SandboxApi


def test_create_returns_a_running_sandbox(create, unique):
    sandbox = create(name=unique, labels={"a": "b"}, env_vars={"GREETING": "hi"}, auto_stop_interval=30,
                     auto_archive_interval=60, auto_delete_interval=90)
    assert sandbox.state == "started" and sandbox.name == unique
    assert sandbox.labels == {"a": "b", "code-toolbox-language": "python"}
    assert sandbox.env == {"GREETING": "hi"}
    assert (sandbox.auto_stop_interval, sandbox.auto_archive_interval,
            sandbox.auto_delete_interval) == (30, 60, 90)
    assert sandbox.process.exec("echo $GREETING").result.strip() == "hi"


def test_get_and_what_does_not_exist(daytona, create, unique):
    sandbox = create(name=unique)
    assert daytona.get(sandbox.id).id == sandbox.id == daytona.get(unique).id
    with pytest.raises(DaytonaNotFoundError):
        daytona.get("no-such")


def test_stop_keeps_files(create):
    sandbox = create()
    sandbox.process.exec("echo kept > file")
    sandbox.stop()
    assert sandbox.state == "stopped"
    sandbox.start()
    assert sandbox.process.exec("cat file").result.strip() == "kept"


def test_archive(create):
    sandbox = create()
    sandbox.stop()
    sandbox.archive()
    sandbox.refresh_data()
    assert sandbox.state == "archived"
    sandbox.start()
    assert sandbox.state == "started"


def test_labels_and_intervals(create):
    sandbox = create()
    assert sandbox.set_labels({"k": "v"}) == {"k": "v"}
    sandbox.set_autostop_interval(10)
    sandbox.set_auto_archive_interval(20)
    sandbox.set_auto_delete_interval(-1)
    sandbox.refresh_activity()
    sandbox.refresh_data()
    assert sandbox.labels == {"k": "v"}
    assert (sandbox.auto_stop_interval, sandbox.auto_archive_interval,
            sandbox.auto_delete_interval) == (10, 20, -1)


def test_delete_frees_the_name(daytona, create, unique):
    sandbox = create(name=unique)
    sandbox.delete()
    with pytest.raises(DaytonaNotFoundError):
        daytona.get(unique)
    assert create(name=unique).id != sandbox.id


def test_previews(create):
    sandbox = create()
    link = sandbox.get_preview_link(3000)
    assert sandbox.id in link.url and link.token
    signed = sandbox.create_signed_preview_url(3000, 60)
    assert signed.token in signed.url and signed.port == 3000
    sandbox.expire_signed_preview_url(3000, signed.token)


def test_snapshots(daytona, unique):
    lines = []
    snapshot = daytona.snapshot.create(
        CreateSnapshotParams(name=unique, image=Image.base("scratch").env({"MADE": "here"})),
        on_logs=lines.append)
    assert snapshot.state == "active" and lines
    assert daytona.snapshot.get(unique).name == unique
    assert unique in {item.name for item in daytona.snapshot.list().items}
    daytona.snapshot.delete(snapshot)
    with pytest.raises(DaytonaNotFoundError):
        daytona.snapshot.get(unique)


def test_a_build_that_fails_says_why(daytona):
    with pytest.raises(DaytonaError, match="BUILD_FAILED, error reason: .*/bin/sh"):
        daytona.create(CreateSandboxFromImageParams(image=Image.base("scratch").run_commands("true")))


def test_volumes(daytona, unique):
    volume = daytona.volume.create(unique)
    assert volume.name == unique
    assert unique in {v.name for v in daytona.volume.list()}
    daytona.volume.delete(daytona.volume.get(unique))
    with pytest.raises(DaytonaNotFoundError):
        daytona.volume.get(unique)


def test_the_service_and_the_account():
    """The generated client checks every member that Daytona's description requires."""
    configuration = Configuration(host=os.environ["DAYTONA_API_URL"], access_token=os.environ["DAYTONA_API_KEY"])
    with ApiClient(configuration) as client:
        config = ConfigApi(client).config_controller_get_config()
        assert config.proxy_toolbox_url.endswith("/toolbox") and not config.announcements
        assert "//{{PORT}}-{{sandboxId}}." in config.proxy_template_url
        organizations = OrganizationsApi(client)
        (own,) = organizations.list_organizations()
        assert organizations.get_organization(own.id) == own and not own.suspended
        assert [region.id for region in [*organizations.list_available_regions(), *RegionsApi(client).list_shared_regions()]] == ["us"] * 2
        assert ApiKeysApi(client).get_current_api_key().permissions


def test_measurements(create):
    sandbox = create()
    assert sandbox.get_metrics_latest().mem_used > 0
    with pytest.raises(DaytonaError, match="not kept") as caught:
        sandbox.get_metrics()
    assert caught.value.status_code == 501


def test_the_public_flag(create):
    """Only the generated client can set it."""
    sandbox = create(public=False)
    configuration = Configuration(host=os.environ["DAYTONA_API_URL"], access_token=os.environ["DAYTONA_API_KEY"])
    with ApiClient(configuration) as client:
        for public in (True, False):
            SandboxApi(client).update_public_status(sandbox.id, public)
            sandbox.refresh_data()
            assert sandbox.public is public


def test_asynchronous_client():
    async def session():
        async with AsyncDaytona() as daytona:
            sandbox = await daytona.create()
            try:
                ran = await sandbox.process.exec("echo hello")
                await sandbox.stop()
                await sandbox.start()
                return ran.result.strip(), sandbox.state
            finally:
                await sandbox.delete()

    assert asyncio.run(session()) == ("hello", "started")


def test_ssh_access(create):
    sandbox = create()
    try:
        access = sandbox.create_ssh_access(expires_in_minutes=5)
    except DaytonaError as error:
        if error.status_code != 501:
            raise
        pytest.skip("atoll-ssh is not built: libssh is missing")
    first, *command = shlex.split(access.ssh_command)
    assert first == "ssh" and access.sandbox_id == sandbox.id
    ssh = [first, "-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o",
           "UserKnownHostsFile=/dev/null", *command]
    done = subprocess.run([*ssh, "echo $((6 * 7)); exit 3"], capture_output=True, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (3, b"42\n"), done
    seen = sandbox.validate_ssh_access(access.token)
    assert seen.valid and seen.sandbox_id == sandbox.id
    sandbox.revoke_ssh_access(access.token)
    assert not sandbox.validate_ssh_access(access.token).valid
    assert subprocess.run([*ssh, "true"], capture_output=True, stdin=subprocess.DEVNULL).returncode == 255


SCRIPT = """
import threading
from daytona import Daytona
print(Daytona().create().id)
print([each.name for each in threading.enumerate() if each is not threading.main_thread() and not each.daemon])
"""


def test_a_script_that_ends_with_a_living_sandbox_does_not_wait(daytona):
    """Python ends when no thread but those of daemons runs."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    made, threads = done.stdout.splitlines()
    daytona.get(made).delete()
    assert threads == "[]"
