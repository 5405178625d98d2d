// Files: every format of reading and writing, metadata, lists, watching, signed URLs.
import { test } from 'node:test'
import assert from 'node:assert/strict'
import { FileNotFoundError, FileType, InvalidArgumentError, NotEnoughSpaceError, Sandbox } from 'e2b'
import { boxTest, bytesOf, rejection, until } from './helpers.mjs'

const streamOf = (...chunks) => new Blob(chunks).stream()

boxTest(Sandbox, 'every format, both ways', async (box) => {
  const text = 'Zeile 1\nµ ☃\n'
  const bytes = new TextEncoder().encode(text)
  const forms = [text, bytes.buffer, new Blob([bytes]), streamOf(text)]
  for (const [i, data] of forms.entries()) {
    const info = await box.files.write(`form/${i}.txt`, data)
    assert.deepEqual([info.name, info.path, info.type], [`${i}.txt`, `/home/user/form/${i}.txt`, 'file'])
    assert.equal(await box.files.read(info.path), text)
    assert.deepEqual(await box.files.read(info.path, { format: 'bytes' }), bytes)
    assert.equal(await (await box.files.read(info.path, { format: 'blob' })).text(), text)
    assert.equal((await bytesOf(await box.files.read(info.path, { format: 'stream' }))).toString(), text)
  }
  await box.files.write('packed.txt', text, { gzip: true })
  assert.equal(await box.files.read('packed.txt', { gzip: true }), text)
  await box.files.write('octets.txt', text, { useOctetStream: true })
  assert.equal(await box.files.read('octets.txt'), text)
  await box.files.write('form/0.txt', 'shorter')
  assert.equal(await box.files.read('form/0.txt'), 'shorter', 'overwritten, not written into')
})

boxTest(Sandbox, 'empty and large ones', async (box) => {
  await box.files.write('empty', '')
  assert.equal(await box.files.read('empty'), '')
  assert.equal((await box.files.read('empty', { format: 'bytes' })).length, 0)
  const large = Buffer.alloc(5_000_000, 'abcdefg')
  await box.files.write('large', streamOf(large))
  assert.ok(large.equals(Buffer.from(await box.files.read('large', { format: 'bytes' }))))
  assert.match(await box.files.read('/proc/version'), /^Linux version/)
})

boxTest(Sandbox, 'several at once', async (box) => {
  const entries = [0, 1, 2].map((i) => ({ path: `many/d${i}/f.txt`, data: `content ${i}` }))
  const infos = await box.files.write(entries)
  assert.deepEqual(infos.map((i) => i.path), entries.map((e) => `/home/user/${e.path}`))
  for (const { path, data } of entries) assert.equal(await box.files.read(path), data)
  assert.equal((await box.files.writeFiles([{ path: '/tmp/one', data: 'x' }]))[0].path, '/tmp/one')
  assert.deepEqual(await box.files.write([]), [])
})

boxTest(Sandbox, 'owner, mode, size, time, links', async (box) => {
  await box.files.write('mine', '12345')
  await box.files.write('/opt/theirs', 'x', { user: 'root' })
  const mine = await box.files.getInfo('mine')
  assert.deepEqual(
    [mine.name, mine.path, mine.type, mine.size, mine.mode, mine.permissions, mine.owner, mine.group],
    ['mine', '/home/user/mine', FileType.FILE, 5, 0o644, '-rw-r--r--', 'user', 'user'])
  assert.ok(Math.abs(Date.now() - mine.modifiedTime) < 60_000)
  assert.equal((await box.files.getInfo('/opt/theirs')).owner, 'root')
  await box.commands.run('chmod 4751 mine; ln -s mine link; ln -s nowhere broken')
  assert.equal((await box.files.getInfo('mine')).mode & 0o777, 0o751)
  const link = await box.files.getInfo('link')
  assert.equal(link.symlinkTarget, '/home/user/mine')
  assert.equal(await box.files.makeDir('dir/sub'), true)
  assert.equal(await box.files.makeDir('dir/sub'), false)
  const dir = await box.files.getInfo('dir')
  assert.deepEqual([dir.type, dir.permissions], [FileType.DIR, 'drwxr-xr-x'])
})

boxTest(Sandbox, 'lists and depths', async (box) => {
  await box.files.write('tree/b/two.txt', '2')
  await box.files.write('tree/b/c/three.txt', '3')
  await box.files.write('tree/a.txt', '1')
  const paths = async (opts) => (await box.files.list('tree', opts)).map((e) => e.path.slice(16))
  assert.deepEqual(await paths(), ['a.txt', 'b'])
  assert.deepEqual(await paths({ depth: 2 }), ['a.txt', 'b', 'b/c', 'b/two.txt'])
  assert.deepEqual(await paths({ depth: 9 }), ['a.txt', 'b', 'b/c', 'b/c/three.txt', 'b/two.txt'])
  await rejection(box.files.list('tree', { depth: 0 }), InvalidArgumentError)
  await rejection(box.files.list('tree/a.txt'), InvalidArgumentError)
  await rejection(box.files.list('no-tree'), FileNotFoundError)
})

boxTest(Sandbox, 'rename, remove, exists', async (box) => {
  await box.files.write('old', 'content')
  const moved = await box.files.rename('old', 'made/new')
  assert.equal(moved.path, '/home/user/made/new')
  assert.deepEqual([await box.files.exists('old'), await box.files.exists('made/new')], [false, true])
  assert.equal(await box.files.read('made/new'), 'content')
  await rejection(box.files.rename('old', 'newer'), FileNotFoundError)
  await box.files.remove('made')
  assert.equal(await box.files.exists('made/new'), false)
  await box.files.write('file', '')
  assert.equal(await box.files.exists('file/below'), false)
  await box.files.remove('made')
})

boxTest(Sandbox, 'metadata', async (box) => {
  const metadata = { author: 'me', 'content-kind': 'report 1' }
  assert.deepEqual((await box.files.write('m', 'x', { metadata })).metadata, metadata)
  assert.deepEqual((await box.files.getInfo('m')).metadata, metadata)
  assert.deepEqual((await box.files.list('/home/user')).find((e) => e.name === 'm').metadata, metadata)
  assert.deepEqual((await box.files.rename('m', 'n')).metadata, metadata)
  await box.files.write('n', 'x', { metadata: { other: '1' } })
  assert.deepEqual((await box.files.getInfo('n')).metadata, { other: '1' }, 'the set is replaced')
  await rejection(box.files.write('n', 'x', { metadata: { bad: 'ä' } }), InvalidArgumentError)
})

boxTest(Sandbox, 'what goes wrong', async (box) => {
  const missing = await rejection(box.files.read('nothing'), FileNotFoundError)
  assert.match(missing.message, /path '\/home\/user\/nothing' does not exist/)
  await rejection(box.files.getInfo('nothing'), FileNotFoundError)
  await rejection(box.files.read('/home'), InvalidArgumentError)
  await rejection(box.files.write('/home', 'x'), InvalidArgumentError)
  // A disk in a pool shows the room of the pool; its limit is that of the template.
  const fill =
    "free=$(($(stat -f -c '%a * %S' .))); [ $free -lt $((10 << 30)) ] || free=$((10 << 30)); " +
    'fallocate -l $((free - 100000000)) ballast'
  await box.commands.run(fill, { user: 'root' })
  const chunk = new Uint8Array(1 << 20)
  let left = 2000
  const large = new ReadableStream({
    pull: (stream) => (left-- > 0 ? stream.enqueue(chunk) : stream.close()),
  })
  const full = await rejection(box.files.write('full', large), NotEnoughSpaceError)
  assert.match(full.message, /not enough disk space/)
})

// Watching.

boxTest(Sandbox, 'watch a directory', async (box) => {
  await box.files.makeDir('w')
  const events = []
  const handle = await box.files.watchDir('w', (e) => events.push(e), { includeEntry: true })
  const seen = (type, name) => until(() => events.find((e) => e.type === type && e.name === name),
    () => `no ${type} of ${name} in ${JSON.stringify(events)}`)
  await box.files.write('w/a', 'x')
  assert.equal((await seen('create', 'a')).entry.path, '/home/user/w/a')
  await seen('write', 'a')
  await box.commands.run('chmod 600 w/a')
  await seen('chmod', 'a')
  await box.files.rename('w/a', 'w/b')
  await seen('rename', 'a')
  await seen('create', 'b')
  await box.files.remove('w/b')
  await seen('remove', 'b')
  await handle.stop()
  const before = events.length
  await box.files.write('w/c', 'x')
  assert.equal(events.length, before)
})

boxTest(Sandbox, 'watch below, and the end of the sandbox', async (box) => {
  await box.files.makeDir('w/old')
  const events = []
  let ended
  const over = new Promise((resolve) => { ended = resolve })
  await box.files.watchDir('w', (e) => events.push(e), { recursive: true, timeoutMs: 0, onExit: ended })
  await box.files.write('w/old/f', 'x')
  await box.files.write('w/new/deep/f', 'x')
  await until(() => events.some((e) => e.name === 'old/f'), 'nothing of old/f')
  await until(() => events.some((e) => e.name === 'new'), 'nothing of new')
  await rejection(box.files.watchDir('none', () => {}), FileNotFoundError)
  await box.files.write('file', '')
  await rejection(box.files.watchDir('file', () => {}), InvalidArgumentError)
  await box.kill()
  assert.ok((await over) instanceof Error)
})

// Signed URLs.

boxTest(Sandbox, 'signed URLs', async (box) => {
  const upload = new FormData()
  upload.append('file', new Blob(['signed']), 'ignored')
  const to = await box.uploadUrl('signed.txt', { useSignatureExpiration: 60, user: 'user' })
  const answer = await fetch(to, { method: 'POST', body: upload })
  assert.equal(answer.status, 200)
  assert.equal((await answer.json())[0].path, '/home/user/signed.txt')
  const from = await box.downloadUrl('signed.txt', { user: 'user' })
  assert.equal(await (await fetch(from)).text(), 'signed')

  const status = async (url) => (await fetch(url)).status
  assert.equal(await status(from.replace('signed.txt', 'other.txt')), 401, 'of another path')
  assert.equal(await status(to), 401, 'for writing only')
  const late = await box.downloadUrl('signed.txt', { useSignatureExpiration: -10, user: 'user' })
  const expired = await fetch(late)
  assert.deepEqual([expired.status, await expired.json()],
    [401, { code: 401, message: 'signature is already expired' }])
})

test('a sandbox that is not secure needs no signature', async () => {
  const box = await Sandbox.create({ secure: false })
  try {
    await box.files.write('f', 'x')
    assert.equal(await box.files.read('f'), 'x')
  } finally {
    await box.kill()
  }
})
