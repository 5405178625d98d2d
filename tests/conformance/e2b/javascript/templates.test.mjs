// E2B's Template builder: definitions are built here and sandboxes are made from the results.
import assert from 'node:assert/strict'
import { mkdtempSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { BuildError, Sandbox, Template, TemplateError, waitForFile, waitForPort } from 'e2b'
import { rejection, until } from './helpers.mjs'

const files = mkdtempSync(join(tmpdir(), 'atoll-template-'))
mkdirSync(join(files, 'folder', 'deep'), { recursive: true })
writeFileSync(join(files, 'folder', 'one.txt'), 'one\n')
writeFileSync(join(files, 'folder', 'deep', 'two.txt'), 'two\n')
symlinkSync('one.txt', join(files, 'folder', 'link.txt'))
writeFileSync(join(files, 'app.sh'), '#!/bin/sh\necho "app in $PWD"\n')
after(() => rmSync(files, { recursive: true, force: true }))

const unique = (prefix = 'made') => `${prefix}-${randomUUID().slice(0, 8)}`

/** Builds a template, and gives it to the body; the template is deleted at the end. */
async function built(template, body, options = {}) {
  const name = options.name ?? unique()
  const logs = []
  const info = await Template.build(template, name, {
    cpuCount: 1, memoryMB: 512, onBuildLogs: (entry) => logs.push(entry), ...options,
  })
  try {
    await body({ name, info, logs: logs.map((entry) => entry.message) })
  } finally {
    await Sandbox.deleteSnapshot(info.templateId)
  }
}

async function inside(name, body, options = {}) {
  const box = await Sandbox.create(name, options)
  try {
    await body(box)
  } finally {
    await box.kill()
  }
}

const out = async (box, command, options) => (await box.commands.run(command, options)).stdout.trim()

test('steps run in order, as the user, in the directory, with the variables', async () => {
  const template = Template()
    .fromBaseImage()
    .runCmd('id -un > who && pwd >> who')
    .setEnvs({ GREETING: 'hello  there', QUOTED: `it's "so"` })
    .setEnvs({ BOTH: '$GREETING, you' })
    .setWorkdir('/srv/app')
    .setUser('root')
    .runCmd('echo "$GREETING" > greeting; id -un >> greeting')
    .setUser('user')
    .runCmd(['echo a > /home/user/a', 'echo b > /home/user/b'])
    .makeDir('made', { user: 'root' })
    .makeSymlink('/home/user/a', '/home/user/link')
    .rename('/home/user/b', '/home/user/c')
    .remove('/home/user/who.not', { force: true })
  await built(template, async ({ name, logs }) => {
    assert.ok(logs.some((line) => line.includes('GREETING')), logs.join('\n'))
    await inside(name, async (box) => {
      assert.equal(await out(box, 'cat /home/user/who'), 'user\n/home/user')
      assert.equal(await out(box, 'cat /srv/app/greeting'), 'hello  there\nroot')
      assert.equal(await out(box, 'cat /home/user/link /home/user/c'), 'a\nb')
      assert.equal(await out(box, 'pwd; echo "$QUOTED"; echo "$BOTH"'),
        '/srv/app\nit\'s "so"\nhello  there, you')
      assert.equal(await out(box, 'stat -c %U made; sudo id -un'), 'root\nroot')
    })
  })
})

test('files are uploaded and copied', async () => {
  const template = Template({ fileContextPath: files })
    .fromTemplate('base')
    .copy('folder/*', 'all', { forceUpload: true })
    .copy('folder', '/srv/whole', { user: 'root' })
    .copy('app.sh', 'bin/run', { mode: 0o750 })
    .copy('folder/link.txt', 'real.txt', { resolveSymlinks: true })
    .copyItems([{ src: 'app.sh', dest: '/opt/' }, { src: 'folder/one.txt', dest: '/opt/' }])
    .runCmd('./bin/run > said')
  await built(template, async ({ name }) => {
    await inside(name, async (box) => {
      assert.equal(await out(box, 'cat said'), 'app in /home/user')
      assert.equal(await out(box, 'cd all && find . -mindepth 1 | sort | tr "\\n" " "'),
        './deep ./deep/two.txt ./link.txt ./one.txt')
      assert.equal(await out(box, 'readlink all/link.txt; stat -c "%a %U" bin/run'),
        'one.txt\n750 user')
      assert.equal(await out(box, 'cat /srv/whole/deep/two.txt; stat -c %U /srv/whole/one.txt'),
        'two\nroot')
      assert.equal(await out(box, 'stat -c %F real.txt; ls /opt'), 'regular file\napp.sh\none.txt')
    })
  })
})

test('an upload is made once', async () => {
  const logs = []
  const template = () => Template({ fileContextPath: files }).fromTemplate('base')
    .copy('folder', `copy-${name}`)
  const name = unique()
  const build = () => Template.build(template(), name, { onBuildLogs: (e) => logs.push(e.message) })
  await build()
  const { templateId } = await build()
  assert.equal(logs.filter((line) => line.startsWith('Uploaded')).length, 1)
  assert.equal(logs.filter((line) => line.startsWith('Skipping upload')).length, 1)
  assert.ok(logs.some((line) => /cached/i.test(line)))
  await Sandbox.deleteSnapshot(templateId)
})

test('a template on top of a template', async () => {
  const first = Template().fromTemplate('base').setEnvs({ FIRST: '1' }).runCmd('echo 1 > first')
  await built(first, async ({ name }) => {
    const second = Template().fromTemplate(name).runCmd('echo "$FIRST" > second')
    await built(second, async ({ name: upper }) => {
      await inside(upper, async (box) => {
        assert.equal(await out(box, 'cat first second; echo $FIRST'), '1\n1\n1')
      })
    })
  })
})

test('a Dockerfile', async () => {
  const template = Template({ fileContextPath: files }).fromDockerfile(
    'FROM e2bdev/base\nENV A=1 B=2\nWORKDIR /app\nCOPY app.sh .\nRUN sh app.sh > said && id -un >> said\n')
  await built(template, async ({ name }) => {
    await inside(name, async (box) => {
      assert.equal(await out(box, 'cat said; echo $A$B; id -un'), 'app in /app\nroot\n12\nuser')
    })
  })
})

test('the start command runs in every sandbox, which is created when it is ready', async () => {
  const template = Template()
    .fromTemplate('base')
    .runCmd('mkdir site && echo served > site/index.html')
    .setStartCmd('cd site && python3 -m http.server 8123', waitForPort(8123))
  await built(template, async ({ name }) => {
    await inside(name, async (box) => {
      assert.equal(await out(box, 'curl -s http://localhost:8123/index.html'), 'served')
    })
  })
})

test('a start command that is never ready fails the build', async () => {
  const template = Template().fromTemplate('base')
    .setStartCmd('exit 3', waitForFile('/tmp/never'))
  const error = await rejection(Template.build(template, unique()), BuildError)
  assert.match(error.message, /start command/)
})

test('a failing step names the line that made it', async () => {
  const template = Template().fromTemplate('base').runCmd('true')
  template.runCmd('echo doomed; exit 7')
  const logs = []
  const error = await rejection(
    Template.build(template, unique(), { onBuildLogs: (e) => logs.push(e.message) }), BuildError)
  assert.match(error.message, /failed to run command 'echo doomed; exit 7'.*7/)
  assert.match(error.stack, /templates\.test\.mjs/)
  assert.ok(logs.some((line) => line.includes('doomed')))
})

test('a user that does not exist', async () => {
  const template = Template().fromTemplate('base').skipCache().runCmd('whoami', { user: 'root123' })
  const error = await rejection(Template.build(template, unique()), BuildError)
  assert.match(error.message,
    /failed to run command 'whoami': command failed: unauthenticated: invalid username: 'root123'/)
})

test('a base that does not exist', async () => {
  const error = await rejection(
    Template.build(Template().fromTemplate('no-such-template'), unique()), BuildError)
  assert.match(error.message, /no-such-template/)
  assert.match(error.stack, /templates\.test\.mjs/)
})

test('a build in the background, its status and its logs by offset', async () => {
  const template = Template().fromTemplate('base').skipCache().runCmd('echo begun; sleep 2')
  const info = await Template.buildInBackground(template, unique(), { skipCache: true })
  const first = await Template.getBuildStatus(info)
  assert.ok(['building', 'waiting'].includes(first.status), first.status)
  const last = await until(async () => {
    const status = await Template.getBuildStatus(info)
    return status.status === 'ready' && status
  })
  assert.ok(last.logEntries.some((entry) => entry.message.includes('begun')))
  assert.deepEqual(
    (await Template.getBuildStatus(info, { logsOffset: 1 })).logEntries.map((e) => e.message),
    last.logEntries.slice(1).map((e) => e.message))
  await Sandbox.deleteSnapshot(info.templateId)
})

test('names and tags', async () => {
  const name = unique('tagged')
  const template = (text) => Template().fromTemplate('base').runCmd(`echo ${text} > which`)
  assert.equal(await Template.exists(name), false)
  const one = await Template.build(template('one'), `${name}:v1`, { tags: ['stable'] })
  assert.deepEqual([...one.tags].sort(), ['stable', 'v1'])
  assert.equal(await Template.exists(name), true)
  assert.equal(await Template.aliasExists(`${name}:v1`), true)
  assert.equal(await Template.exists(`${name}:v9`), false)
  const two = await Template.build(template('two'), `${name}:v2`)
  const tagged = await Template.assignTags(`${name}:v1`, ['production', 'older'])
  assert.equal(tagged.buildId, one.buildId)
  assert.deepEqual([...tagged.tags].sort(), ['older', 'production'])
  const tags = Object.fromEntries((await Template.getTags(name)).map((t) => [t.tag, t]))
  assert.equal(tags.production.buildId, one.buildId)
  assert.equal(tags.v2.buildId, two.buildId)
  assert.ok(tags.v1.createdAt instanceof Date && tags.v1.createdAt.getTime() > 0)
  await inside(`${name}:production`, async (box) => assert.equal(await out(box, 'cat which'), 'one'))
  await inside(`${name}:v2`, async (box) => assert.equal(await out(box, 'cat which'), 'two'))
  await Template.removeTags(name, 'older')
  assert.equal(await Template.exists(`${name}:older`), false)
  await rejection(Template.assignTags(`${name}:v1`, ':wrong'), TemplateError)
  await rejection(Template.assignTags(`${name}:v1`, `${name}:`), TemplateError)
  await rejection(Template.assignTags(`${name}:missing`, 'x'), TemplateError)
  await rejection(Template.removeTags('no-such-template', 'x'), TemplateError)
  assert.equal(await Sandbox.deleteSnapshot(name), true)
  assert.equal(await Template.exists(name), false)
  assert.equal(await Sandbox.deleteSnapshot(name), false)
})

test('a build without changes uses the cache; skipCache does not', async () => {
  const name = unique('cached')
  const template = () => Template().fromTemplate('base').runCmd(`date +%s%N > stamp-${name}`)
  const stamp = async () => {
    let text
    await inside(name, async (box) => { text = await out(box, `cat stamp-${name}`) })
    return text
  }
  await Template.build(template(), name)
  const first = await stamp()
  await Template.build(template(), name)
  assert.equal(await stamp(), first)
  await Template.build(template(), name, { skipCache: true })
  assert.notEqual(await stamp(), first)
  await Sandbox.deleteSnapshot(name)
})

test('skipCache in front of a step is for that step and later ones', async () => {
  const name = unique('partly')
  const template = (skip) => {
    const first = Template().fromTemplate('base').runCmd(`date +%s%N > first-${name}`)
    return (skip ? first.skipCache() : first).runCmd(`date +%s%N > second-${name}`)
      .runCmd(`date +%s%N > third-${name}`)
  }
  const stamps = async () => {
    let text
    await inside(name, async (box) => { text = await out(box, `cat first-${name} second-${name} third-${name}`) })
    return text.split('\n')
  }
  await Template.build(template(false), name)
  const before = await stamps()
  await Template.build(template(true), name)
  const after = await stamps()
  assert.equal(after[0], before[0])
  assert.notEqual(after[1], before[1])
  assert.notEqual(after[2], before[2])
  await Sandbox.deleteSnapshot(name)
})

test('names that are refused', async () => {
  const template = Template().fromTemplate('base')
  for (const name of ['Not Good', 'a:b:c', 'x:', '../up']) {
    await rejection(Template.build(template, name), BuildError)
  }
})
