// Sends requests of @vercel/sandbox and of the command `sandbox` to an Atoll instead of Vercel:
//
//   ATOLL_URL=http://127.0.0.1:8000 ATOLL_API_KEY=… node --import …/vercel.mjs app.js
//
// The SDK has the address of its service as a constant. This file replaces fetch(), the global WebSocket and
// requests of the modules http and https for these hosts only:
//
//   vercel.com/api/…, api.vercel.com/…   the API: goes to ATOLL_URL/vercel/api/…, with ATOLL_API_KEY as
//                                        the bearer where that is set
//   NAME.vercel.run/…                    a port of a sandbox: goes to ATOLL_URL, with the name in a header,
//                                        since fetch() does not let its caller set Host
//
// routes[].url of a sandbox is below localhost where the operator has given previews no domain. Browsers resolve such
// names to this host, Node leaves them to the system, which often does not: this file answers for it.
//
// The SDK reads no VERCEL_TOKEN. With one, and without VERCEL_OIDC_TOKEN, this file makes an OIDC token whose last
// part it is: the daemon takes it as the key.
//
// Without ATOLL_URL it does nothing. `atoll vercel env` prints the variables.
import dns from 'node:dns'
import http from 'node:http'
import https from 'node:https'
import { syncBuiltinESMExports } from 'node:module'

const PORT_DOMAIN = '.vercel.run'

// Where a request goes: the URL, and headers to set. Undefined: it is not for us.
export function redirect(url, atoll, key) {
  const target = new URL(atoll)
  const base = target.pathname.replace(/\/+$/, '')
  const at = (path, headers = {}) => {
    const to = new URL(target)
    to.pathname = base + path
    to.search = url.search
    return { url: to, headers }
  }
  const bearer = key ? { authorization: `Bearer ${key}` } : {}
  if (url.protocol !== 'https:' && url.protocol !== 'wss:') return undefined
  if (url.hostname === 'vercel.com' && /^\/api(\/|$)/.test(url.pathname)) return at(`/vercel${url.pathname}`, bearer)
  if (url.hostname === 'api.vercel.com') return at(`/vercel/api${url.pathname}`, bearer)
  if (url.hostname.endsWith(PORT_DOMAIN)) return at(url.pathname, { 'x-atoll-host': url.hostname })
  // `sandbox sh` asks the host of a terminal whether it answers, at the default port of https.
  if (url.hostname === target.hostname && url.port === '' && target.port !== '' && url.pathname === '/health') return at('/healthz')
  return undefined
}

function replaceFetch(atoll, key) {
  const original = globalThis.fetch
  globalThis.fetch = async function fetch(input, init) {
    const isRequest = typeof Request !== 'undefined' && input instanceof Request
    let to
    try {
      to = redirect(new URL(isRequest ? input.url : input), atoll, key)
    } catch {
      to = undefined // not a URL: fetch() says so
    }
    if (!to) return original.call(this, input, init)
    const headers = new Headers(init?.headers ?? (isRequest ? input.headers : undefined))
    for (const [name, value] of Object.entries(to.headers)) headers.set(name, value)
    if (!isRequest) return original.call(this, to.url, { ...init, headers })
    return original.call(this, new Request(to.url, input), { ...init, headers })
  }
}

// The URL of a request of the module https, from its arguments.
function urlOf(first, options) {
  if (typeof first === 'string' || first instanceof URL) return new URL(first)
  const host = options.hostname ?? String(options.host ?? 'localhost').replace(/:\d+$/, '')
  return new URL(`https://${host}${options.path ?? '/'}`)
}

function replaceRequest(atoll, key) {
  const original = https.request
  const request = function request(...args) {
    const first = args[0]
    const isUrl = typeof first === 'string' || first instanceof URL
    const options = { ...(isUrl ? (typeof args[1] === 'object' ? args[1] : {}) : first) }
    const callback = args.find((arg) => typeof arg === 'function')
    let to
    try {
      to = redirect(urlOf(first, options), atoll, key)
    } catch {
      to = undefined
    }
    if (!to) return original.apply(this, args)
    const { url } = to
    const plain = url.protocol === 'http:'
    const headers = {}
    for (const [name, value] of Object.entries(options.headers ?? {})) {
      if (!(name.toLowerCase() in to.headers)) headers[name] = value
    }
    // These options describe the connection to the original host.
    for (const name of ['agent', 'createConnection', 'host', 'hostname', 'port', 'defaultPort', 'servername', 'protocol', 'href']) {
      delete options[name]
    }
    const moved = {
      ...options,
      protocol: url.protocol,
      hostname: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port || (plain ? 80 : 443),
      path: url.pathname + url.search,
      headers: { ...headers, ...to.headers },
    }
    return plain ? http.request(moved, callback) : original.call(this, moved, callback)
  }
  https.request = request
  https.get = function get(...args) {
    const made = request.apply(this, args)
    made.end()
    return made
  }
  syncBuiltinESMExports()
}

// The class of the global WebSocket, which Node loads when it is used first. It takes headers, other than that of
// browsers; as the module undici calls it.
function replaceWebSocket(atoll, key) {
  const found = Object.getOwnPropertyDescriptor(globalThis, 'WebSocket')
  if (!found?.configurable) return // Node has had one since version 22, and 20 has with --experimental-websocket
  const make = (Original) => class WebSocket extends Original {
    constructor(url, options) {
      let to
      try {
        to = redirect(new URL(url), atoll, key)
      } catch {
        to = undefined // not a URL: the class says so
      }
      if (!to) {
        super(url, options)
        return
      }
      const given = typeof options === 'string' || Array.isArray(options) ? { protocols: options } : options
      const headers = new Headers(given?.headers)
      for (const [name, value] of Object.entries(to.headers)) headers.set(name, value)
      to.url.protocol = to.url.protocol === 'http:' ? 'ws:' : 'wss:'
      super(to.url, { ...given, headers })
    }
  }
  const define = (value) => Object.defineProperty(globalThis, 'WebSocket',
    { configurable: true, enumerable: found.enumerable, writable: true, value })
  Object.defineProperty(globalThis, 'WebSocket', {
    configurable: true,
    enumerable: found.enumerable,
    get() {
      const original = found.get ? found.get.call(globalThis) : found.value // Node's getter defines the property anew
      const made = original && make(original)
      define(made)
      return made
    },
    set: define,
  })
}

// RFC 6761, section 6.3: names below localhost are this host.
function replaceLookup() {
  const original = dns.lookup
  dns.lookup = function lookup(hostname, ...rest) {
    return original.call(this, /\.localhost\.?$/i.test(hostname) ? '127.0.0.1' : hostname, ...rest)
  }
  Object.defineProperties(dns.lookup, Object.getOwnPropertyDescriptors(original)) // util.promisify() has its own
  syncBuiltinESMExports()
}

// Not signed, and valid until the year 2100.
function offerToken({ ATOLL_API_KEY, VERCEL_TOKEN, VERCEL_TEAM_ID = 'team_atoll', VERCEL_PROJECT_ID = 'prj_atoll' }) {
  const key = ATOLL_API_KEY || VERCEL_TOKEN
  const encode = (part) => Buffer.from(JSON.stringify(part)).toString('base64url')
  const claims = { owner_id: VERCEL_TEAM_ID, project_id: VERCEL_PROJECT_ID, exp: 4102444800 }
  if (key) process.env.VERCEL_OIDC_TOKEN ||= `${encode({ alg: 'none' })}.${encode(claims)}.${key}`
}

const { ATOLL_URL, ATOLL_API_KEY } = process.env
if (/^https?:\/\//.test(ATOLL_URL ?? '')) {
  offerToken(process.env)
  replaceFetch(ATOLL_URL, ATOLL_API_KEY)
  replaceRequest(ATOLL_URL, ATOLL_API_KEY)
  replaceWebSocket(ATOLL_URL, ATOLL_API_KEY)
  replaceLookup()
}
