// A whole task by the Model Context Protocol's own kit, in a repository: node client.mjs KIT COFFERDAM, or over HTTP
// node client.mjs KIT http://127.0.0.1:PORT/ FILE, where FILE has the word that the server wants.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { Readable } from 'node:stream'
import { pathToFileURL } from 'node:url'

const [kit, server, file] = process.argv.slice(2)
const load = name => import(pathToFileURL(`${kit}/dist/esm/client/${name}.js`))
const { Client } = await load('index')
const { StdioClientTransport } = await load('stdio')
const { StreamableHTTPClientTransport } = await load('streamableHttp')

// What this machine's own `fetch` would not send: the name that a page has made lead here.
const named = host => (url, { method, headers, body, signal }) => new Promise((resolve, reject) => {
    const asked = request(url, { method, signal, headers: { ...Object.fromEntries(headers), host } }, answer => {
        const has = answer.statusCode === 202 ? null : Readable.toWeb(answer)
        resolve(new Response(has, { status: answer.statusCode, headers: answer.headers }))
    })
    asked.on('error', reject).end(body)
})
const over = (headers, host) => new StreamableHTTPClientTransport(new URL(server), { requestInit: { headers }, fetch: host && named(host) })
const token = file && readFileSync(file, 'utf8').trim()
const known = { Authorization: `Bearer ${token}` }
if (file) {
    // Each is refused by what is wrong with it; nothing is wrong with the last one.
    const { host, port } = new URL(server)
    for (const [code, headers, name] of [
        [401, {}],
        [401, { Authorization: 'Bearer ' }],
        [401, { Authorization: `Bearer ${token.slice(0, -1)}x` }],
        [401, { Authorization: `Bearer ${token}x` }],
        [401, { Authorization: `Basic ${token}` }],
        [403, { ...known, Origin: 'http://evil.example' }],
        [403, { ...known, Origin: 'null' }],
        [403, { ...known, Origin: `http://${host}` }],
        [403, known, 'evil.example'],
        [403, known, `evil.example:${port}`],
        [undefined, known, `localhost:${port}`],
    ]) {
        const other = new Client({ name: 'kit', version: '1' })
        const why = await other.connect(over(headers, name)).then(() => ({}), error => error)
        assert.equal(why.code, code, `${JSON.stringify(headers)} ${name}: ${why}`)
        await other.close()
    }
}

const client = new Client({ name: 'kit', version: '1' })
await client.connect(file ? over(known) : new StdioClientTransport({ command: server, args: ['mcp'], env: process.env }))
assert.match(client.getInstructions(), /sandbox-create/)

// The kit knows by this which answers are to be as their schemas say.
const { tools } = await client.listTools()
assert.equal(tools.length, 13)
for (const tool of tools) {
    assert.ok(tool.outputSchema && tool.annotations && tool.title, tool.name)
    assert.equal(tool.annotations.destructiveHint, ['sandbox-exec', 'sandbox-write', 'sandbox-edit', 'sandbox-kill'].includes(tool.name))
    const reads = ['list', 'output', 'read', 'ls', 'glob', 'grep', 'ports'].map(one => `sandbox-${one}`)
    assert.equal(tool.annotations.readOnlyHint, reads.includes(tool.name), tool.name)
}

let progress = 0
const call = async (name, args) => {
    const told = await client.callTool({ name: `sandbox-${name}`, arguments: args }, undefined, { onprogress: () => { progress += 1 } })
    assert.ok(!told.isError, JSON.stringify(told))
    return told.structuredContent
}
const fails = async (name, args) => {
    const told = await client.callTool({ name: `sandbox-${name}`, arguments: args })
    assert.ok(told.isError, JSON.stringify(told))
    return told.content[0].text
}

const made = await call('create', { name: 'By the kit!' })
assert.equal(made.name, 'by-the-kit')
const sandbox = made.name
assert.match(await fails('create', { name: 'by the kit' }), /already exists/)
const wrote = await call('write', { sandbox, path: 'a/b', content: 'one\ntwo\n' })
assert.equal(wrote.commits[0].subject, 'sandbox-write: a/b')
const edited = await call('edit', { sandbox, path: 'a/b', old: 'two', new: '2' })
assert.equal(edited.commits.length, 1)
assert.match(await fails('edit', { sandbox, path: 'a/b', old: 'two', new: '2' }), /a\/b/)
const ran = await call('exec', { sandbox, command: 'cat a/b; sleep 6; echo x > "made by a program"; exit 3' })
assert.equal(ran.exit_code, 3)
assert.equal(ran.output, 'one\n2\n')
assert.ok(progress > 0)
assert.equal((await call('read', { sandbox, path: 'a/b' })).content, 'one\n2\n')
assert.ok((await call('ls', { sandbox })).entries.some(one => one.path.startsWith('src')))
await call('glob', { sandbox, pattern: '**/*.txt' })
await call('grep', { sandbox, pattern: 'two' })
await call('diff', { sandbox })
const left = await call('exec', { sandbox, command: 'echo begun; sleep 1000', background: true })
assert.ok(left.id)
while (!(await call('output', { sandbox, id: left.id })).output.includes('begun')) { /* it comes */ }
await call('kill', { sandbox, id: left.id })
await call('ports', { sandbox })
if (file) {
    // What is too long is refused by its size, and the next one is heard. In the sandbox alone: it is in no commit.
    const write = length => call('write', { sandbox, path: '/tmp/long', content: 'x'.repeat(length) })
    assert.equal((await write((4 << 20) - 1000)).bytes, (4 << 20) - 1000)
    await assert.rejects(write(4 << 20), { code: 413 })
    assert.equal((await call('exec', { sandbox, command: 'wc -c < /tmp/long' })).output, `${(4 << 20) - 1000}\n`)
}
const listed = (await call('list', {})).sandboxes
assert.deepEqual(listed.map(one => [one.name, one.state]), [['by-the-kit', 'active']])
await client.close()
console.log('everything held')
