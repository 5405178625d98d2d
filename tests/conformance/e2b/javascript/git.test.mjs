// The helper for git: all its methods, between two repositories in one sandbox.
import assert from 'node:assert/strict'
import { GitUpstreamError, Sandbox } from 'e2b'
import { boxTest, rejection } from './helpers.mjs'

const author = { authorName: 'A', authorEmail: 'a@example.com' }

async function repository(box, path = 'repo') {
  await box.git.init(path, { initialBranch: 'main' })
  await box.files.write(`${path}/a.txt`, 'one\n')
  await box.git.add(path)
  await box.git.commit(path, 'first', author)
}

boxTest(Sandbox, 'init, status, add, commit', async (box) => {
  await repository(box)
  let status = await box.git.status('repo')
  assert.deepEqual([status.currentBranch, status.isClean], ['main', true])
  await box.files.write('repo/a.txt', 'two\n')
  await box.files.write('repo/b.txt', 'new\n')
  status = await box.git.status('repo')
  assert.deepEqual([status.hasChanges, status.unstagedCount, status.untrackedCount], [true, 2, 1])
  await box.git.add('repo', { files: ['b.txt'] })
  status = await box.git.status('repo')
  assert.deepEqual([status.stagedCount, status.unstagedCount], [1, 1])
  await box.git.commit('repo', 'empty is fine', { ...author, allowEmpty: true })
  const log = await box.commands.run('git -C repo log --format="%s %an"')
  assert.equal(log.stdout, 'empty is fine A\nfirst A\n')
})

boxTest(Sandbox, 'branches', async (box) => {
  await repository(box)
  await box.git.createBranch('repo', 'feature')
  let { branches, currentBranch } = await box.git.branches('repo')
  assert.deepEqual([branches.sort(), currentBranch], [['feature', 'main'], 'feature'])
  await box.git.checkoutBranch('repo', 'main')
  await box.git.deleteBranch('repo', 'feature', { force: true })
  ;({ branches, currentBranch } = await box.git.branches('repo'))
  assert.deepEqual([branches, currentBranch], [['main'], 'main'])
})

boxTest(Sandbox, 'reset and restore', async (box) => {
  await repository(box)
  await box.files.write('repo/a.txt', 'changed\n')
  await box.git.restore('repo', { paths: ['a.txt'] })
  assert.equal(await box.files.read('repo/a.txt'), 'one\n')
  await box.files.write('repo/a.txt', 'changed\n')
  await box.git.add('repo')
  await box.git.restore('repo', { paths: ['a.txt'], staged: true, worktree: false })
  assert.equal((await box.git.status('repo')).stagedCount, 0)
  await box.git.reset('repo', { mode: 'hard', target: 'HEAD' })
  assert.equal(await box.files.read('repo/a.txt'), 'one\n')
})

boxTest(Sandbox, 'clone, remotes, push, pull', async (box) => {
  await repository(box)
  await box.git.init('bare.git', { bare: true, initialBranch: 'main' })
  await box.git.remoteAdd('repo', 'origin', '/home/user/bare.git')
  assert.equal(await box.git.remoteGet('repo', 'origin'), '/home/user/bare.git')
  assert.equal(await box.git.remoteGet('repo', 'nowhere'), undefined)
  await rejection(box.git.push('repo', { setUpstream: false }), GitUpstreamError)
  await box.git.push('repo', { remote: 'origin', branch: 'main', setUpstream: true })
  await box.git.clone('/home/user/bare.git', { path: 'copy', branch: 'main', depth: 1 })
  assert.equal(await box.files.read('copy/a.txt'), 'one\n')
  await box.files.write('repo/a.txt', 'two\n')
  await box.git.add('repo', { all: true })
  await box.git.commit('repo', 'second', author)
  await box.git.push('repo')
  await box.git.pull('copy')
  assert.equal(await box.files.read('copy/a.txt'), 'two\n')
})

boxTest(Sandbox, 'configuration', async (box) => {
  await repository(box)
  await box.git.setConfig('core.pager', 'cat')
  assert.equal(await box.git.getConfig('core.pager'), 'cat')
  assert.equal(await box.git.getConfig('no.such'), undefined)
  await box.git.configureUser('Me', 'me@example.com', { scope: 'local', path: 'repo' })
  assert.equal(await box.git.getConfig('user.name', { scope: 'local', path: 'repo' }), 'Me')
  await box.git.dangerouslyAuthenticate({ username: 'u', password: 'p', host: 'git.example.com' })
  assert.match(await box.files.read('/home/user/.git-credentials'), /u:p@git\.example\.com/)
})
