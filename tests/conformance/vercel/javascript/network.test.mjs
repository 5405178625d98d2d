// Network policies by the SDK. Requests are answered where the policy says so: no server is needed.
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { creator, v3 } from './helpers.mjs'

const answer = (statusCode, body) => ({ response: body ? { statusCode, body, contentType: 'text/plain' } : { statusCode } })
const POLICY = {
  allow: {
    'api.test': [
      { match: { path: { startsWith: '/v1/' }, method: ['GET'] }, ...answer(200, 'reads') },
      { match: { headers: [{ key: { exact: 'x-team' }, value: { startsWith: 'a' } }] }, ...answer(200, 'team') },
      { match: { queryString: [{ key: { exact: 'q' }, value: { exact: 'a b' } }] }, ...answer(200, 'query') },
      answer(403),
    ],
    'typed.test': [{ response: { statusCode: 200, body: '{}', contentType: 'application/json', headers: { 'X-Reason': 'policy' } } }],
    'injected.test': [{ match: { path: { exact: '/' } }, transform: [{ headers: { authorization: 'Bearer secret-of-the-policy' } }] }],
  },
}

describe('network policies', () => {
  const create = creator(v3)
  let sandbox
  const ask = async (...args) => {
    const done = await sandbox.runCommand('curl', ['-s', '-m', '20', '-w', '%{http_code}', ...args])
    return done.stdout()
  }
  before(async () => {
    sandbox = await create({ networkPolicy: POLICY })
  })

  test('rules count in their order, for the requests that they match', async () => {
    assert.equal(await ask('http://api.test/v1/things'), 'reads200')
    assert.equal(await ask('-X', 'POST', 'http://api.test/v1/things'), '403')
    assert.equal(await ask('http://api.test/v2/things'), '403')
    assert.equal(await ask('-H', 'X-Team: abc', 'http://api.test/v2'), 'team200')
    assert.equal(await ask('-H', 'X-Team: bcd', 'http://api.test/v2'), '403')
    assert.equal(await ask('http://api.test/v2?q=a%20b'), 'query200')
    assert.equal(await ask('https://api.test/v1/things'), 'reads200')
    assert.equal(await ask('http://other.test/v1/things'), '000')
  })

  test('a fixed response has its headers and its type', async () => {
    const got = await ask('-i', 'https://typed.test/')
    assert.match(got, /^content-type: application\/json\r$/im)
    assert.match(got, /^x-reason: policy\r$/im)
  })

  test('answers have names of headers, and no values', () => {
    const shown = sandbox.networkPolicy
    assert.ok(!JSON.stringify(shown).includes('secret-of-the-policy'))
    assert.match(JSON.stringify(shown), /authorization/i)
  })

  test('a changed policy holds for the next request', async () => {
    await sandbox.updateNetworkPolicy({ allow: { 'api.test': [answer(418)] } })
    assert.equal(await ask('http://api.test/v1/things'), '418')
    await sandbox.updateNetworkPolicy('deny-all')
    assert.equal(await ask('http://api.test/v1/things'), '000')
  })

  test('regular expressions are refused', async () => {
    const policy = { allow: { 'api.test': [{ match: { path: { regex: '^/v1' } }, ...answer(403) }] } }
    await assert.rejects(create({ networkPolicy: policy }),
      (error) => error.response.status === 400 && /regular expressions/.test(error.message + JSON.stringify(error.json ?? error.text)))
  })
})
