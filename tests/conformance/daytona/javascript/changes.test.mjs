// What clients change while a sandbox exists.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SDKS, client } from './helpers.mjs'

for (const [name, sdk] of Object.entries(SDKS))
  describe(name, () => {
    const { daytona, create } = client(sdk)

    test('resize', async () => {
      const sandbox = await create()
      const more = { cpu: sandbox.cpu + 1, memory: sandbox.memory + 1 }
      await sandbox.resize(more)
      assert.deepEqual([sandbox.cpu, sandbox.memory, sandbox.state], [more.cpu, more.memory, 'started'])
      await assert.rejects(sandbox.resize({ memory: 1 }), /stopped state/)
      await sandbox.stop()
      await sandbox.resize({ memory: 1 })
      assert.equal(sandbox.memory, 1)
    })

    test('pause keeps processes; start continues them', async () => {
      const sandbox = await create()
      await sandbox.process.executeCommand('sleep 1000 >/dev/null 2>&1 & echo $! > pid')
      await sandbox.pause()
      assert.equal(sandbox.state, 'paused')
      await sandbox.start()
      assert.equal(sandbox.state, 'started')
      assert.equal((await sandbox.process.executeCommand('kill -0 $(cat pid) && echo there')).result, 'there\n')
    })

    test('recover is for sandboxes that ended by an error', async () => {
      const sandbox = await create()
      await assert.rejects(sandbox.recover(), (error) => error.statusCode === 400)
    })

    test('auto-pause takes the place of auto-stop; a time to live', async () => {
      const sandbox = await create({ autoStopInterval: 5 })
      await sandbox.setAutoPauseInterval(7)
      await sandbox.setTtl(90)
      await sandbox.refreshData()
      assert.deepEqual([sandbox.autoStopInterval, sandbox.autoPauseInterval], [0, 7])
      assert.ok(new Date(sandbox.autoDestroyAt) > new Date())
      await sandbox.setTtl(0)
      await sandbox.refreshData()
      assert.ok(!sandbox.autoDestroyAt)
      await assert.rejects(create({ autoStopInterval: 5, autoPauseInterval: 5 }))
    })

    test('auto-archive 0 stands for 30 days', async () => {
      const sandbox = await create({ autoArchiveInterval: 0 })
      assert.equal(sandbox.autoArchiveInterval, 30 * 24 * 60)
    })

    test('network settings', async () => {
      const sandbox = await create()
      await sandbox.updateNetworkSettings({ domainAllowList: 'a.test,b.test' })
      assert.equal(sandbox.domainAllowList, 'a.test,b.test')
      await sandbox.updateNetworkSettings({ networkBlockAll: true })
      await sandbox.refreshData()
      assert.deepEqual([sandbox.networkBlockAll, sandbox.domainAllowList], [true, 'a.test,b.test'])
      await assert.rejects(sandbox.updateNetworkSettings({ networkBlockAll: false, networkAllowList: 'no address' }))
    })

    test('environment variables', async () => {
      const sandbox = await create({ envVars: { KEPT: 'k', GONE: 'g' } })
      await sandbox.updateEnv({ NEW: 'n' }, { unset: ['GONE'] })
      assert.equal((await sandbox.process.executeCommand('echo $KEPT$GONE$NEW')).result, 'kn\n')
      await sandbox.stop()
      await sandbox.start()
      assert.equal((await sandbox.process.executeCommand('echo $KEPT$GONE$NEW')).result, 'kn\n')
    })

    test('files by signed URLs, until the key is changed', async () => {
      const sandbox = await create()
      const form = new FormData()
      form.append('file', new Blob(['signed\n']))
      const sent = await fetch(await sandbox.uploadUrl('signed.txt'), { method: 'POST', body: form })
      assert.ok(sent.ok, await sent.text())
      const url = await sandbox.downloadUrl('signed.txt')
      assert.equal(await (await fetch(url)).text(), 'signed\n')
      assert.equal((await fetch(url.replace('signed.txt', 'other.txt'))).status, 401)
      await sandbox.rotateSigningKey()
      assert.equal((await fetch(url)).status, 401)
    })

    test('a snapshot is activated', async () => {
      const called = `t${Math.random().toString(36).slice(2)}`
      const snapshot = await daytona.snapshot.create({ name: called, image: sdk.Image.base('scratch') })
      const response = await fetch(`${process.env.DAYTONA_API_URL}/snapshots/${snapshot.id}/deactivate`,
        { method: 'POST', headers: { Authorization: `Bearer ${process.env.DAYTONA_API_KEY}` } })
      assert.ok(response.ok)
      assert.equal((await daytona.snapshot.get(called)).state, 'inactive')
      await assert.rejects(create({ snapshot: called }), /inactive/)
      assert.equal((await daytona.snapshot.activate(snapshot)).state, 'active')
      await daytona.snapshot.delete(snapshot)
    })
  })
