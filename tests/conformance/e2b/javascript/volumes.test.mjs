// E2B's volumes: made and removed, read and written without a sandbox, and mounted by several.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import {
  Sandbox, Volume, VolumeError, VolumeFileType, VolumeNotFoundError, VolumePathNotFoundError,
} from 'e2b'
import { bytesOf, rejection } from './helpers.mjs'

function volumeTest(name, body) {
  test(name, async () => {
    const volume = await Volume.create(`made-${randomUUID().slice(0, 8)}`)
    try {
      await body(volume)
    } finally {
      await Volume.destroy(volume.volumeId)
    }
  })
}

volumeTest('a volume is listed, found and removed', async (volume) => {
  assert.ok((await Volume.list()).some((one) => one.volumeId === volume.volumeId && one.name === volume.name))
  const found = await Volume.connect(volume.volumeId)
  assert.equal(found.name, volume.name)
  assert.equal(found.token, volume.token)
  await rejection(Volume.create(volume.name), VolumeError)
  assert.equal(await Volume.destroy(volume.volumeId), true)
  assert.equal(await Volume.destroy(volume.volumeId), false)
  await rejection(Volume.connect(volume.volumeId), VolumeNotFoundError)
  await rejection(Volume.create('a/b'), VolumeError)
})

volumeTest('files in all formats', async (volume) => {
  const stat = await volume.writeFile('/f.txt', 'Hello', { uid: 1000, gid: 1000, mode: 0o600 })
  assert.deepEqual([stat.name, stat.type, stat.path, stat.size, stat.uid, stat.gid, stat.mode],
    ['f.txt', VolumeFileType.FILE, '/f.txt', 5, 1000, 1000, 0o600])
  assert.ok(stat.mtime instanceof Date && stat.mtime.getTime() > Date.now() - 600_000)
  assert.equal(await volume.readFile('/f.txt'), 'Hello')
  assert.equal(Buffer.from(await volume.readFile('f.txt', { format: 'bytes' })).toString(), 'Hello')
  assert.equal(await (await volume.readFile('/f.txt', { format: 'blob' })).text(), 'Hello')
  assert.equal((await bytesOf(await volume.readFile('/f.txt', { format: 'stream' }))).toString(), 'Hello')
  await rejection(volume.writeFile('/f.txt', 'x'), VolumeError)
  await volume.writeFile('/f.txt', new Blob(['streamed']).stream(), { force: true })
  assert.equal(await volume.readFile('/f.txt'), 'streamed')
  await volume.writeFile('/empty', '')
  assert.equal(await volume.readFile('/empty'), '')
  await rejection(volume.writeFile('/none/f', 'x'), VolumePathNotFoundError)
  await rejection(volume.readFile('/none'), VolumePathNotFoundError)
})

volumeTest('directories, metadata and removal', async (volume) => {
  const made = await volume.makeDir('/a/b', { force: true, mode: 0o700 })
  assert.deepEqual([made.type, made.path, made.mode], [VolumeFileType.DIRECTORY, '/a/b', 0o700])
  await rejection(volume.makeDir('/a'), VolumeError)
  await rejection(volume.makeDir('/x/y'), VolumePathNotFoundError)
  await volume.makeDir('/a/b', { force: true })
  await volume.writeFile('/a/b/f', 'x')
  assert.deepEqual((await volume.list('/a')).map((e) => e.path), ['/a/b'])
  assert.deepEqual((await volume.list('/a', { depth: 2 })).map((e) => e.path), ['/a/b', '/a/b/f'])
  const updated = await volume.updateMetadata('/a/b/f', { uid: 1001, gid: 1001, mode: 0o755 })
  assert.deepEqual([updated.uid, updated.gid, updated.mode], [1001, 1001, 0o755])
  await rejection(volume.readFile('/a'), VolumePathNotFoundError)
  await rejection(volume.list('/a/b/f'), VolumePathNotFoundError)
  assert.equal(await volume.exists('/a/b/f'), true)
  await volume.remove('/a')
  assert.equal(await volume.exists('/a/b/f'), false)
  await rejection(volume.remove('/a'), VolumePathNotFoundError)
  await rejection(volume.remove('/'), VolumePathNotFoundError)
})

volumeTest('sandboxes share a volume with its files', async (volume) => {
  await volume.writeFile('/in', 'from outside')
  const boxes = await Promise.all([
    Sandbox.create({ volumeMounts: { '/mnt/one': volume } }),
    Sandbox.create({ volumeMounts: { '/mnt/two': volume.name } }),
  ])
  try {
    assert.deepEqual((await boxes[0].getInfo()).volumeMounts, [{ name: volume.name, path: '/mnt/one' }])
    assert.equal((await boxes[0].commands.run('cat /mnt/one/in && echo x >> /mnt/one/in')).stdout, 'from outside')
    assert.equal((await boxes[1].commands.run('cat /mnt/two/in')).stdout, 'from outsidex\n')
    await boxes[1].files.write('/mnt/two/out', 'from inside')
    assert.equal(await volume.readFile('/out'), 'from inside')
  } finally {
    await Promise.all(boxes.map((box) => box.kill()))
  }
})

volumeTest('a token is for one volume', async (volume) => {
  const other = await Volume.create(`other-${randomUUID().slice(0, 8)}`)
  try {
    await rejection(new Volume(volume.volumeId, volume.name, other.token).list('/'), Error)
    await rejection(new Volume(volume.volumeId, volume.name, `${volume.token}x`).list('/'), Error)
    await rejection(new Volume(volume.volumeId, volume.name, process.env.E2B_API_KEY).list('/'), Error)
    assert.deepEqual(await new Volume(volume.volumeId, volume.name, volume.token).list('/'), [])
  } finally {
    await Volume.destroy(other.volumeId)
  }
})
