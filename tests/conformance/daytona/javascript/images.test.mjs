// Images with local files: the SDK uploads them with an S3 client before it asks for the build.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, suite, test } from 'node:test'
import { SDKS, client } from './helpers.mjs'

const directory = mkdtempSync(join(tmpdir(), 'atoll-files-'))
const BIG = randomBytes(12 * 1024 * 1024) // more than two parts of an upload
const SMALL = randomBytes(8).toString('hex') // no earlier test has uploaded the same files

mkdirSync(join(directory, 'app/deep'), { recursive: true })
writeFileSync(join(directory, 'app/big.bin'), BIG)
writeFileSync(join(directory, 'app/deep/small.txt'), SMALL)
writeFileSync(join(directory, 'alone.txt'), `alone ${SMALL}`)
after(() => rmSync(directory, { recursive: true }))

for (const [name, sdk] of Object.entries(SDKS)) {
  suite(name, () => {
    const { daytona, create } = client(sdk)
    const image = () => sdk.Image.base('scratch')
      .addLocalDir(join(directory, 'app'), '/app').addLocalFile(join(directory, 'alone.txt'), '/etc/alone.txt')

    test('a sandbox of an image with local files', async () => {
      const sandbox = await create({ image: image() }, { timeout: 60 })
      assert.equal((await sandbox.fs.downloadFile('/app/deep/small.txt')).toString(), SMALL)
      assert.equal((await sandbox.fs.downloadFile('/etc/alone.txt')).toString(), `alone ${SMALL}`)
      assert.ok((await sandbox.fs.downloadFile('/app/big.bin')).equals(BIG))
    })

    test('a snapshot of the same files, which are not sent again', async () => {
      const called = `files-${SMALL}-${Object.keys(SDKS).indexOf(name)}`
      const snapshot = await daytona.snapshot.create({ name: called, image: image() })
      assert.equal(snapshot.state, 'active')
      await daytona.snapshot.delete(snapshot)
    })
  })
}
