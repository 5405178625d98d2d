// Snapshots and forks: files are kept; processes are not, for memory is not part of them here.
import { test } from 'node:test'
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { Sandbox, SandboxError, SandboxNotFoundError } from 'e2b'
import { boxTest, rejection } from './helpers.mjs'

async function all(paginator) {
  const found = []
  while (paginator.hasNext) found.push(...(await paginator.nextItems()))
  return found.map((one) => one.snapshotId)
}

/** A sandbox of a snapshot or a fork, killed at the end. */
async function using(box, body) {
  try {
    await body(box)
  } finally {
    await box.kill()
  }
}

boxTest(Sandbox, 'create, list, create from it, delete', async (box) => {
  const name = `snap-${randomUUID().slice(0, 8)}`
  await box.files.write('note.txt', 'before')
  await box.commands.run('sleep 300', { background: true })
  const made = await box.createSnapshot({ name })
  assert.match(made.snapshotId, new RegExp(`^${name}:`))
  assert.ok(made.names.some((one) => one.endsWith(`/${made.snapshotId}`)), `${made.names}`)
  await box.files.write('note.txt', 'after')
  assert.equal((await box.commands.list()).length, 1, 'the sandbox goes on')

  assert.deepEqual(await all(box.listSnapshots()), [made.snapshotId])
  assert.deepEqual(await all(Sandbox.listSnapshots({ name })), [made.snapshotId])
  assert.ok((await all(Sandbox.listSnapshots({ limit: 1 }))).includes(made.snapshotId))

  await using(await Sandbox.create(made.snapshotId), async (copy) => {
    assert.equal(await copy.files.read('note.txt'), 'before')
    assert.deepEqual(await copy.commands.list(), [], 'no process goes on in it')
  })
  assert.equal(await Sandbox.deleteSnapshot(made.snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(made.snapshotId), false)
  assert.deepEqual(await all(box.listSnapshots()), [])
  await assert.rejects(Sandbox.create(made.snapshotId))
})

test('a snapshot outlives its sandbox, and has a name of its own without one', async () => {
  const box = await Sandbox.create()
  let made
  await using(box, async () => {
    await box.files.write('note.txt', 'kept')
    made = await Sandbox.createSnapshot(box.sandboxId)
  })
  assert.deepEqual(await all(Sandbox.listSnapshots({ sandboxId: box.sandboxId })), [made.snapshotId])
  await using(await Sandbox.create(made.snapshotId), async (copy) => {
    assert.equal(await copy.files.read('note.txt'), 'kept')
  })
  assert.equal(await Sandbox.deleteSnapshot(made.snapshotId), true)
})

boxTest(Sandbox, 'fork', { envs: { COLOR: 'blue' } }, async (box) => {
  await box.files.write('note.txt', 'base')
  const forks = await box.fork({ count: 2, timeoutMs: 60_000 })
  try {
    assert.equal(new Set([box, ...forks].map((one) => one.sandboxId)).size, 3)
    for (const [number, one] of forks.entries()) {
      assert.equal((await one.commands.run('cat note.txt; echo " $COLOR"')).stdout, 'base blue\n')
      await one.files.write('note.txt', `${number}`)
    }
    assert.deepEqual(await Promise.all(forks.map((one) => one.files.read('note.txt'))), ['0', '1'])
    assert.equal(await box.files.read('note.txt'), 'base')
    assert.deepEqual(await all(box.listSnapshots()), [], 'a fork is no snapshot in lists')
  } finally {
    for (const one of forks) await one.kill()
  }
  await rejection(box.fork({ count: 0 }), SandboxError)
})

test('snapshots and forks of a sandbox that is not there', async () => {
  const box = await Sandbox.create()
  assert.equal(await box.kill(), true)
  await rejection(box.createSnapshot(), SandboxNotFoundError)
  await rejection(box.fork(), SandboxNotFoundError)
})
