// sandbox.git, method by method, with a repository in the sandbox in place of a server.
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { SDKS, client } from './helpers.mjs'

for (const [name, sdk] of Object.entries(SDKS))
  describe(name, () => {
    const { create } = client(sdk)
    const ann = ['Ann', 'ann@example.org']
    let git, run

    // Bare origin, with one commit that came from the work tree `first`.
    before(async () => {
      const sandbox = await create()
      ;({ git } = sandbox)
      run = async (command) => {
        const done = await sandbox.process.executeCommand(command)
        assert.equal(done.exitCode, 0, done.result)
        return done.result.trim()
      }
      await git.init('origin', true, 'main')
      await git.init('first', false, 'main')
      await run('echo one > first/README')
      await git.add('first', ['README'])
      await git.commit('first', 'one', ...ann)
      await git.remoteAdd('first', 'origin', '../origin')
      await git.push('first', undefined, undefined, 'main', 'origin', true)
    })

    test('clone, status, history of commits, push and pull', async () => {
      await git.clone(`file://${await run('pwd')}/origin`, 'work')
      await run('echo two >> work/README; echo new > work/new')
      const status = await git.status('work')
      assert.deepEqual([status.currentBranch, status.ahead, status.behind, status.branchPublished], ['main', 0, 0, true])
      assert.deepEqual(status.fileStatus.map((file) => [file.name, file.staging, file.worktree]).sort(),
        [['README', 'Unmodified', 'Modified'], ['new', 'Untracked', 'Untracked']])
      await git.add('work', ['.'])
      const { sha } = await git.commit('work', 'two', ...ann)
      assert.equal(await run('git -C work log -1 --format="%H %s %an %ae"'), `${sha} two Ann ann@example.org`)
      assert.equal((await git.status('work')).ahead, 1)
      await git.push('work')
      await git.pull('first')
      assert.equal(await run('cat first/new'), 'new')
      await assert.rejects(git.commit('work', 'none', ...ann))
      assert.notEqual((await git.commit('work', 'none', ...ann, true)).sha, sha)
    })

    test('clone of a branch, of a commit and of the last commits', async () => {
      const url = `file://${await run('pwd')}/origin`
      await run('cd first && git checkout -q -b side && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m side'
        + ' && git push -q origin side && git checkout -q main')
      await git.clone(url, 'side', 'side', undefined, undefined, undefined, undefined, 1)
      assert.equal((await git.status('side')).currentBranch, 'side')
      assert.equal(await run('git -C side rev-list --count HEAD'), '1')
      const root = await run('git -C first rev-list --max-parents=0 HEAD')
      await git.clone(url, 'old', undefined, root)
      assert.equal(await run('git -C old rev-parse HEAD'), root)
      await assert.rejects(git.clone(url, 'none', 'no-such'), sdk.DaytonaNotFoundError)
      await assert.rejects(git.clone('file:///no-such', 'none'), sdk.DaytonaNotFoundError)
    })

    test('branches', async () => {
      await git.createBranch('first', 'dev')
      await assert.rejects(git.createBranch('first', 'dev'), sdk.DaytonaConflictError)
      await git.checkoutBranch('first', 'dev')
      assert.equal((await git.status('first')).currentBranch, 'dev')
      assert.ok((await git.branches('first')).branches.includes('dev'))
      await git.checkoutBranch('first', 'main')
      await git.deleteBranch('first', 'dev')
      assert.ok(!(await git.branches('first')).branches.includes('dev'))
    })

    test('restore and reset', async () => {
      await git.init('undone', false, 'main')
      await run('echo kept > undone/file')
      await git.add('undone', ['.'])
      await git.commit('undone', 'kept', ...ann)
      await run('echo changed > undone/file')
      await git.restore('undone', ['file'])
      assert.equal(await run('cat undone/file'), 'kept')
      await run('echo changed > undone/file')
      await git.add('undone', ['file'])
      await git.reset('undone')
      assert.equal((await git.status('undone')).fileStatus[0].staging, 'Unmodified')
      await git.reset('undone', 'hard', 'HEAD')
      assert.deepEqual((await git.status('undone')).fileStatus ?? [], [])
    })

    test('remotes and configuration', async () => {
      await git.remoteAdd('first', 'second', 'https://example.org/r')
      assert.equal(await git.remoteGet('first', 'second'), 'https://example.org/r')
      assert.equal(await git.remoteGet('first', 'none'), undefined)
      assert.deepEqual((await git.remotes('first')).remotes.map((remote) => remote.name).sort(), ['origin', 'second'])
      await git.setConfig('core.editor', 'true', 'local', 'first')
      assert.equal(await git.getConfig('core.editor', 'local', 'first'), 'true')
      assert.ok(!(await git.getConfig('core.none', 'local', 'first')))
      await git.configureUser('Bob', 'bob@example.org')
      assert.equal(await run('git config --global user.email'), 'bob@example.org')
      await git.dangerouslyAuthenticate('bob', 'word', 'git.test')
      assert.match(await run('printf "protocol=https\\nhost=git.test\\n\\n" | git credential fill'), /password=word/)
    })
  })
