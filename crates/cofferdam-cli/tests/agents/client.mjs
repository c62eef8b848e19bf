// A whole task by the Model Context Protocol's own kit: node client.mjs KIT COFFERDAM, in a repository.
import assert from 'node:assert/strict'
import { pathToFileURL } from 'node:url'

const [kit, cofferdam] = process.argv.slice(2)
const load = name => import(pathToFileURL(`${kit}/dist/esm/client/${name}.js`))
const { Client } = await load('index')
const { StdioClientTransport } = await load('stdio')

const client = new Client({ name: 'kit', version: '1' })
await client.connect(new StdioClientTransport({ command: cofferdam, args: ['mcp'], env: process.env }))
assert.match(client.getInstructions(), /sandbox-create/)

// The kit knows by this which answers are to be as their schemas say.
const { tools } = await client.listTools()
assert.equal(tools.length, 13)
for (const tool of tools) {
    assert.ok(tool.outputSchema && tool.annotations && tool.title, tool.name)
    assert.equal(tool.annotations.destructiveHint, ['sandbox-exec', 'sandbox-write', 'sandbox-edit', 'sandbox-kill'].includes(tool.name))
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
const listed = (await call('list', {})).sandboxes
assert.deepEqual(listed.map(one => [one.name, one.state]), [['by-the-kit', 'active']])
await client.close()
console.log('everything held')
