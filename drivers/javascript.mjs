/*
 * JavaScript and TypeScript that stay: keep their variables from one request to the next
 * (docs/interpreter.md). Three threads:
 *
 * - The main thread runs the code, so that it finds an ordinary process.
 * - The wire reads requests and the code's output and writes the lines to the daemon, also while
 *   the code does not let the event loop turn.
 * - The third waits for SIGINT and ends what the main thread executes, wherever that is.
 *
 * Node.js cannot move descriptors: the shell that starts it (manifest.json) has put the requests on
 * descriptor 3, the lines on 4, and named pipes on 1 and 2, to be read through 5 and 6.
 */
import fs from 'node:fs';
import inspector from 'node:inspector';
import { createRequire, isBuiltin } from 'node:module';
import * as modules from 'node:module';
import net from 'node:net';
import path from 'node:path';
import { Writable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { pathToFileURL } from 'node:url';
import util from 'node:util';
import vm from 'node:vm';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';

const REQUESTS_FD = 3, LINES_FD = 4, OUTPUT_FDS = { stdout: 5, stderr: 6 };
const PIECE = 16 * 1024; // characters: at most 64 KiB as bytes
const LATE_MAX = 1024 * 1024; // kept of what is printed between two executions
const TEXT_MAX = 1024 * 1024;
const CUT = '…';
const CELLS_KEPT = 1000; // whose places are known
const LINE_MAX = 24 * 1024 * 1024; // the protocol allows 32 MiB
const INTERRUPT = { name: 'KeyboardInterrupt', value: '', traceback: 'KeyboardInterrupt' };
const GLOBAL_DIRS = [path.resolve(process.execPath, '../../lib/node_modules'),
    '/usr/local/lib/node_modules', '/usr/lib/node_modules', '/usr/share/nodejs'];

function writeAll(fd, data) {
    let bytes = Buffer.from(data);
    while (bytes.length > 0) {
        try {
            bytes = bytes.subarray(fs.writeSync(fd, bytes));
        } catch (error) {
            if (error.code !== 'EAGAIN') throw error;
            Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
        }
    }
}

/* Writes a line in ASCII to the daemon. Returns its length. */
function writeLine(line) {
    const text = JSON.stringify(line).replace(/[\u007f-\uffff]/g,
        (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
    writeAll(LINES_FD, text + '\n');
    return text.length;
}

/* The wire */

class Wire {
    id = null; // of the execution that runs
    begun = null; // the last one that began
    count = 0;
    late = [];
    lateSize = 0;
    outputs = [];
    asking = null;
    interrupted = false; // any execution so far

    start(language) {
        for (const [kind, fd] of Object.entries(OUTPUT_FDS)) {
            const flags = fs.constants.O_RDONLY | fs.constants.O_NONBLOCK;
            const output = { kind, fd: fs.openSync(`/proc/self/fd/${fd}`, flags), waiting: '',
                decoder: new StringDecoder('utf8') };
            this.outputs.push(output);
            // Only to be told that there is something: drain() does the reading.
            const socket = new net.Socket({ fd: output.fd, readable: true, writable: false });
            socket.on('data', (data) => this.take(output, data));
            socket.on('error', () => {});
        }
        let rest = '';
        const requests = new net.Socket({ fd: REQUESTS_FD, readable: true, writable: false });
        requests.setEncoding('utf8');
        requests.on('data', (text) => {
            const lines = (rest + text).split('\n');
            rest = lines.pop();
            lines.forEach((line) => this.ask(JSON.parse(line)));
        });
        requests.on('end', () => this.leave());
        requests.on('error', () => this.leave());
        parentPort.on('message', (message) => this.hear(message));
        this.language = language;
    }

    send(type, fields) {
        writeLine({ id: this.id, type, ...fields });
    }

    sendText(kind, text) {
        if (this.id === null) {
            if (this.lateSize + text.length <= LATE_MAX) {
                this.late.push([kind, text]);
                this.lateSize += text.length;
            }
            return;
        }
        for (let at = 0; at < text.length; at += PIECE)
            this.send(kind, { text: text.slice(at, at + PIECE),
                timestamp: new Date().toISOString() });
    }

    /* Whole lines are sent; the rest waits a moment for the end of its line. */
    take(output, data) {
        const text = output.waiting + output.decoder.write(data);
        const end = text.length > PIECE ? text.length : text.lastIndexOf('\n') + 1;
        if (end > 0) this.sendText(output.kind, text.slice(0, end));
        output.waiting = text.slice(end);
        clearTimeout(output.timer);
        if (output.waiting) output.timer = setTimeout(() => this.flush(output), 100);
    }

    flush(output) {
        clearTimeout(output.timer);
        if (output.waiting) this.sendText(output.kind, output.waiting);
        output.waiting = '';
    }

    /* Everything that has been printed until now. */
    drain() {
        const buffer = Buffer.alloc(64 * 1024);
        for (const output of this.outputs) {
            for (;;) {
                let n = 0;
                try {
                    n = fs.readSync(output.fd, buffer);
                } catch (error) {
                    if (error.code !== 'EAGAIN') throw error;
                }
                if (n <= 0) break;
                this.take(output, buffer.subarray(0, n));
            }
            this.flush(output);
        }
    }

    /* The main thread may be ended in the middle of taking a request: asked until it answers. What
     * an interrupted execution left behind may go on later and never end: that is ended then. */
    ask(request) {
        parentPort.postMessage({ request });
        this.asking = setInterval(() => {
            if (this.interrupted) terminateMain();
            parentPort.postMessage({ request });
        }, 500);
    }

    hear(message) {
        if (message.armed) {
            writeLine({ type: 'ready', language: this.language, version: process.versions.node });
        } else if (message.begun !== undefined) {
            clearInterval(this.asking);
            this.begin(message.begun);
        } else if (message.id === this.id && message.type) {
            this.drain();
            this.send(message.type, message.fields);
            this.interrupted ||= message.fields.name === INTERRUPT.name;
            if (message.type === 'end_of_execution') this.id = null;
        }
    }

    begin(id) {
        if (this.begun === id) return; // asked twice, answered twice
        this.id = this.begun = id;
        this.send('number_of_executions', { execution_count: ++this.count });
        const late = this.late;
        this.late = [];
        this.lateSize = 0;
        late.forEach(([kind, text]) => this.sendText(kind, text));
    }

    /* The code may not let the main thread hear of it. */
    leave() {
        parentPort.postMessage({ leave: true });
        setTimeout(() => process.kill(process.pid, 'SIGKILL'), 500);
    }
}

/* Interrupts */

/*
 * Blocks in a script that SIGINT breaks; the signal's own thread does that, whatever others do.
 * The script runs within another such script: as long as one runs, SIGINT does not end the process.
 */
function waitForInterrupts(answered, toMain) {
    const options = { breakOnSigint: true };
    const never = new Int32Array(new SharedArrayBuffer(4));
    const inner = new vm.Script('atollWait()'), outer = new vm.Script('atollServe()');
    let number = 0;
    globalThis.atollWait = () => Atomics.wait(never, 0, 0);
    globalThis.atollServe = () => {
        for (;;) {
            try {
                inner.runInThisContext(options);
            } catch {
                interruptMain(++number, answered, toMain);
            }
        }
    };
    toMain.postMessage({ armed: true });
    for (;;) {
        try {
            outer.runInThisContext(options);
        } catch {
            interruptMain(++number, answered, toMain);
        }
    }
}

/* One that waits hears the message; one that computes has to be ended first, and one that waits for
 * a child process (execSync) when the child has ended. */
function interruptMain(number, answered, toMain) {
    for (let round = 1; ; round++) {
        const before = Atomics.load(answered, 0);
        if (before >= number) return;
        toMain.postMessage({ interrupt: number });
        if (Atomics.wait(answered, 0, before, 100) !== 'timed-out') continue;
        terminateMain();
        if (round >= 3) killChildren(round < 10 ? 'SIGINT' : 'SIGKILL');
    }
}

function terminateMain() {
    const session = new inspector.Session();
    session.connectToMainThread();
    session.post('Runtime.terminateExecution');
    session.disconnect();
}

function killChildren(signal) {
    const pids = fs.readdirSync('/proc/self/task').flatMap((task) => childrenOf('self', task));
    for (let i = 0; i < pids.length && pids.length < 10000; i++)
        pids.push(...childrenOf(pids[i], pids[i]));
    for (const pid of pids) {
        try {
            process.kill(Number(pid), signal);
        } catch { /* gone */ }
    }
}

function childrenOf(pid, task) {
    try {
        const text = fs.readFileSync(`/proc/${pid}/task/${task}/children`, 'latin1');
        return text.split(' ').filter(Boolean);
    } catch {
        return [];
    }
}

/* Cells: from what is written to a script that can run */

let acorn = null;

function findAcorn() {
    const names = ['internal/deps/acorn/acorn/dist/acorn', 'acorn', '/usr/share/nodejs/acorn'];
    for (const name of names) {
        try {
            return createRequire(import.meta.url)(name);
        } catch { /* the next one */ }
    }
    throw new Error('this Node.js has no parser (acorn) for the driver: npm install -g acorn');
}

function parse(source) {
    acorn ??= findAcorn();
    const options = { ecmaVersion: 'latest', allowAwaitOutsideFunction: true, allowHashBang: true };
    try {
        return acorn.parse(source, { ...options, sourceType: 'module' });
    } catch (error) {
        try {
            return acorn.parse(source, { ...options, sourceType: 'script' });
        } catch {
            throw error;
        }
    }
}

function isFunction(node) {
    return /Function/.test(node.type);
}

/* Calls visit(node, parent, isInner) for every node; isInner: within a function or a class body. */
function walk(node, visit, parent = null, isInner = false) {
    visit(node, parent, isInner);
    const inner = isInner || isFunction(node) || node.type === 'PropertyDefinition' ||
        node.type === 'StaticBlock';
    for (const value of Object.values(node)) {
        for (const child of Array.isArray(value) ? value : [value])
            if (child && typeof child.type === 'string') walk(child, visit, node, inner);
    }
}

function namesOf(pattern) {
    switch (pattern?.type) {
    case 'Identifier': return [pattern.name];
    case 'ObjectPattern': return pattern.properties.flatMap((p) => namesOf(p.value ?? p.argument));
    case 'ArrayPattern': return pattern.elements.flatMap(namesOf);
    case 'AssignmentPattern': return namesOf(pattern.left);
    case 'RestElement': return namesOf(pattern.argument);
    default: return [];
    }
}

/* Where what runs was written: places by the name of the cell, for its tracebacks. */
const written = new Map();

/* A text made of a source with changes, and where each piece of it was in the source. */
class Pieces {
    text = '';
    places = []; // of what begins at line and column of the text; those who stand still were put in
    #at = 0;
    #end = { line: 1, column: 1 };
    #from = { line: 1, column: 1 };

    constructor(source, lead) {
        this.source = source;
        this.#from.column -= lead;
    }

    static #move(place, text) {
        const lines = text.split('\n');
        return { line: place.line + lines.length - 1,
            column: lines.at(-1).length + (lines.length > 1 ? 1 : place.column) };
    }

    #append(text, isOwn) {
        this.places.push({ ...this.#end, from: this.#from, isOwn });
        this.text += text;
        this.#end = Pieces.#move(this.#end, text);
    }

    add(start, end, text) {
        const kept = this.source.slice(this.#at, start);
        this.#append(kept, true);
        this.#from = Pieces.#move(this.#from, kept);
        this.#append(text, false);
        this.#from = Pieces.#move(this.#from, this.source.slice(start, end));
        this.#at = end;
    }

    /* null: nowhere in the source. */
    static find(places, line, column) {
        const at = places.findLast((p) => p.line < line || (p.line === line && p.column <= column));
        if (!at || at === places.at(-1) && line > at.line) return null;
        if (!at.isOwn) return at.from;
        return { line: at.from.line + line - at.line,
            column: line === at.line ? at.from.column + column - at.column : column };
    }
}

/*
 * Declarations of the cell become variables of the global object, so that the next cell sees them
 * and may declare them again. A cell that awaits is the body of an async function: there,
 * declarations become assignments, and what they declare is declared outside.
 */
class Cell {
    /* lead: how much of the first line was not there when it was written */
    constructor(source, lead = 0) {
        this.source = source;
        this.lead = lead;
        this.edits = [];
        this.names = new Set();
        this.hoisted = '';
        this.awaits = false;
        const tree = parse(source);
        walk(tree, (node, parent, isInner) => {
            if (!isInner && (node.type === 'AwaitExpression' || node.await)) this.awaits = true;
            if (node.type === 'ImportDeclaration') this.awaits = true;
        });
        walk(tree, (node, parent, isInner) => this.adapt(node, parent, isInner));
        tree.body.forEach((statement) => this.adaptTop(statement));
        this.adaptLast(tree.body.at(-1));
    }

    replace(start, end, text) {
        this.edits.push({ start, end, text });
    }

    insert(at, text) {
        this.replace(at, at, text);
    }

    /* What needs changing wherever it stands. */
    adapt(node, parent, isInner) {
        if (node.type === 'ImportExpression')
            this.replace(node.start, node.start + 'import'.length, '__atoll.load');
        else if (node.type === 'MetaProperty' && node.meta.name === 'import')
            this.replace(node.start, node.end, '__atoll.meta()');
        else if (node.type === 'VariableDeclaration' && node.kind === 'var' && !isInner &&
                 this.awaits && !/^(Program|Export)/.test(parent.type))
            this.assign(node, /^For/.test(parent.type));
    }

    adaptTop(node) {
        switch (node.type) {
        case 'VariableDeclaration':
            if (this.awaits) this.assign(node, false);
            else this.declare(node);
            break;
        case 'ClassDeclaration':
            this.names.add(node.id.name);
            this.insert(node.start, (this.awaits ? ';' : 'var ') + `${node.id.name} = `);
            this.insert(node.end, ';');
            break;
        case 'FunctionDeclaration':
            if (this.awaits) this.hoisted += `globalThis.${node.id.name} = ${node.id.name};`;
            break;
        case 'ImportDeclaration': this.load(node); break;
        case 'ExportNamedDeclaration':
            this.replace(node.start, node.declaration ? node.declaration.start : node.end, '');
            if (node.declaration) this.adaptTop(node.declaration);
            break;
        case 'ExportDefaultDeclaration':
            if (node.declaration.id) {
                this.replace(node.start, node.declaration.start, '');
                this.adaptTop(node.declaration);
            } else {
                this.replace(node.start, node.declaration.start, 'void (');
                this.replace(node.declaration.end, node.end, ');');
            }
            break;
        }
    }

    declare(node) {
        this.replace(node.start, node.start + node.kind.length, 'var');
        for (const declared of node.declarations)
            if (!declared.init && node.kind === 'let') this.insert(declared.end, ' = undefined');
    }

    assign(node, isLoop) {
        this.replace(node.start, node.start + node.kind.length, isLoop ? '' : 'void ');
        for (const declared of node.declarations) {
            namesOf(declared.id).forEach((name) => this.names.add(name));
            if (isLoop) continue;
            this.insert(declared.start, '(');
            const isCleared = !declared.init && node.kind === 'let';
            this.insert(declared.end, isCleared ? ' = undefined)' : ')');
        }
    }

    load(node) {
        const from = JSON.stringify(node.source.value);
        let text = `__atoll.loaded = await __atoll.load(${from}` +
            (node.attributes?.length ? ', { with: { type: "json" } }' : '') + ');';
        for (const one of node.specifiers) {
            const imported = one.type === 'ImportDefaultSpecifier' ? 'default'
                : one.imported?.name ?? one.imported?.value;
            this.names.add(one.local.name);
            text += `${one.local.name} = ` + (one.type === 'ImportNamespaceSpecifier'
                ? '__atoll.loaded;'
                : `__atoll.named(__atoll.loaded, ${JSON.stringify(imported)}, ${from});`);
        }
        // The lines it spanned stay.
        const lines = this.source.slice(node.start, node.end).split('\n').length - 1;
        this.replace(node.start, node.end, text + '\n'.repeat(lines));
    }

    adaptLast(node) {
        if (node?.type !== 'ExpressionStatement') return;
        this.insert(node.expression.start, '__atoll.value = (');
        this.insert(node.expression.end, ')');
    }

    script(filename) {
        const pieces = new Pieces(this.source, this.lead);
        // Of two at one place the earlier one comes first in the text.
        const edits = this.edits.map((edit, order) => ({ ...edit, order }))
            .sort((a, b) => a.start - b.start || a.end - b.end || a.order - b.order);
        for (const { start, end, text } of edits) pieces.add(start, end, text);
        pieces.add(this.source.length, this.source.length, '');
        written.set(filename, pieces.places);
        if (written.size > CELLS_KEPT) written.delete(written.keys().next().value);
        let body = pieces.text, prefix = '';
        if (this.awaits) {
            const names = [...this.names];
            prefix = (names.length ? `var ${names.join(', ')};` : '') +
                `(async () => {${this.hoisted}`;
            body += '\n})()';
        }
        return new vm.Script(prefix + body, { filename, columnOffset: -prefix.length });
    }
}

/* An object literal alone in a cell is meant as a value, not as a block. */
function cellOf(source) {
    const trimmed = source.trim();
    if (trimmed.startsWith('{') && trimmed.endsWith('}')) {
        try {
            return new Cell(`(${source})`, 1);
        } catch { /* a block after all */ }
    }
    return new Cell(source);
}

/* TypeScript */

let typescript = null;

function findTypeScript() {
    const require = createRequire(path.join(process.cwd(), 'x.js'));
    for (const name of ['typescript', ...GLOBAL_DIRS.map((dir) => path.join(dir, 'typescript'))]) {
        try {
            return require(name);
        } catch { /* the next one */ }
    }
    return null;
}

function withoutTypes(source, filename) {
    typescript ??= findTypeScript();
    if (typescript === null && modules.stripTypeScriptTypes)
        return modules.stripTypeScriptTypes(source, { mode: 'transform' });
    if (typescript === null)
        throw Object.assign(new Error('TypeScript is not installed in this sandbox: ' +
            'apt-get install node-typescript, or npm install typescript'),
        { name: 'TypeScriptMissing', stack: '' });
    const ts = typescript;
    const keepsImports = parseFloat(ts.versionMajorMinor) >= 5 ? { verbatimModuleSyntax: true }
        : { importsNotUsedAsValues: ts.ImportsNotUsedAsValues?.Preserve,
            preserveValueImports: true };
    const { outputText, diagnostics } = ts.transpileModule(source, { reportDiagnostics: true,
        fileName: 'cell.mts',
        compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022,
            experimentalDecorators: true, isolatedModules: true, ...keepsImports } });
    const wrong = diagnostics.find((d) => d.category === ts.DiagnosticCategory.Error &&
        d.code < 2000);
    if (wrong) {
        const { line } = wrong.file.getLineAndCharacterOfPosition(wrong.start);
        const text = ts.flattenDiagnosticMessageText(wrong.messageText, '\n');
        throw Object.assign(new SyntaxError(text), { stack: place(source, filename, line, text) });
    }
    return outputText.replace(/^export \{\};?\s*$/m, '');
}

function place(source, filename, line, text) {
    return `${filename}:${line + 1}\n${source.split('\n')[line] ?? ''}\nSyntaxError: ${text}`;
}

/* Modules */

const imported = new Map(); // local files: when they were changed, as of their first import

function changedSince(url) {
    let changed = 0;
    try {
        changed = fs.statSync(url).mtimeMs;
    } catch { /* import will say so */ }
    if (!imported.has(url.href)) imported.set(url.href, changed);
    return imported.get(url.href) === changed ? url.href : `${url.href}?changed=${changed}`;
}

async function resolve(specifier) {
    if (isBuiltin(specifier) || /^(data|node|https?):/.test(specifier)) return specifier;
    if (/^(\.{0,2}\/|file:)/.test(specifier) || specifier === '.' || specifier === '..')
        return changedSince(specifier.startsWith('file:') ? new URL(specifier)
            : pathToFileURL(path.resolve(specifier)));
    const dirs = [process.cwd(), ...GLOBAL_DIRS.map((dir) => path.dirname(dir))];
    let first = null;
    for (const dir of dirs) {
        try {
            const parent = pathToFileURL(path.join(dir, 'x.mjs')).href;
            return await import.meta.resolve(specifier, parent);
        } catch (error) {
            first ??= error;
        }
    }
    try {
        return pathToFileURL(createRequire('/usr/share/nodejs/x.js').resolve(specifier)).href;
    } catch {
        const text = `Cannot find package '${specifier}' from ${process.cwd()}: npm install it`;
        throw Object.assign(new Error(text), { code: first.code, stack: `Error: ${text}` });
    }
}

async function load(specifier, options) {
    const url = await resolve(String(specifier));
    return options ? import(url, options) : import(url);
}

function named(namespace, name, specifier) {
    if (name in namespace || language === 'typescript') return namespace[name];
    if (namespace.default && name in Object(namespace.default)) return namespace.default[name];
    throw new SyntaxError(`The requested module '${specifier}' does not provide an export named ` +
        `'${name}'`);
}

/* Values */

const MIME_KEYS = { 'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown',
    'image/svg+xml': 'svg', 'image/png': 'png', 'image/jpeg': 'jpeg', 'application/pdf': 'pdf',
    'text/latex': 'latex', 'application/json': 'json', 'application/javascript': 'javascript' };

function textOf(value) {
    const text = typeof value === 'string' ? value : util.inspect(value, { depth: 4 });
    return text.length > TEXT_MAX ? text.slice(0, TEXT_MAX) + CUT : text;
}

/* A text that was cut says so: `extra` for programs, stderr for people. */
function markCut(found) {
    if (!found.text?.endsWith(CUT) || found.text.length <= TEXT_MAX) return;
    found.extra = { ...found.extra, truncated: ['text'] };
    process.stderr.write(`[the text of a result was cut to ${TEXT_MAX} characters]\n`);
}

function base64(data) {
    return typeof data === 'string' ? data : Buffer.from(data).toString('base64');
}

function bundleOf(value) {
    const found = { text: textOf(value), extra: {} };
    const own = value?.[Symbol.for('Jupyter.display')];
    if (typeof own === 'function') {
        for (const [mime, data] of Object.entries(own.call(value))) {
            if (MIME_KEYS[mime]) found[MIME_KEYS[mime]] = data;
            else found.extra[mime] = data;
        }
    } else if (Array.isArray(value) ||
               (value && Object.getPrototypeOf(value) === Object.prototype)) {
        try {
            const json = JSON.stringify(value);
            if (json && json.length <= TEXT_MAX) found.json = JSON.parse(json);
        } catch { /* circles, big integers: the text has to do */ }
    }
    return found;
}

function sendResult(found, isMain) {
    markCut(found);
    if (JSON.stringify(found).length > LINE_MAX) {
        process.stderr.write('[a result is too large and was left out]\n');
        return;
    }
    tell('result', { ...found, is_main_result: isMain, extra: found.extra ?? {} });
}

function display(value) {
    sendResult(bundleOf(value), false);
}

for (const key of ['html', 'markdown', 'svg', 'latex', 'javascript'])
    display[key] = (text) => sendResult({ [key]: String(text) }, false);
for (const key of ['png', 'jpeg', 'pdf'])
    display[key] = (data) => sendResult({ [key]: base64(data) }, false);
display.json = (value) => sendResult({ json: value, text: textOf(value) }, false);

/* The main thread */

class ProcessExit extends Error {
    name = 'ProcessExit';
}

let language = process.argv[2] ?? 'javascript';
let wire = null;
let current = null; // the execution that runs
let lastId = null;
let count = 0;

function tell(type, fields = {}) {
    if (current) wire.postMessage({ id: current.id, type, fields });
}

function describe(error) {
    if (!(error instanceof Error) && !util.types.isNativeError(error)) {
        const text = textOf(error);
        return { name: 'Error', value: text, traceback: `Uncaught ${text}` };
    }
    return { name: String(error.name), value: String(error.message), traceback: traceOf(error) };
}

/* A line of a stack as one with the place in the cell as it was written; none where there is none. */
function asWritten(line) {
    const [all, name, row, column] = /^\s+at .*?(<cell \d+>):(\d+):(\d+)\)?$/.exec(line) ?? [];
    const places = written.get(name);
    if (!places) return [line];
    const at = Pieces.find(places, Number(row), Number(column));
    return at ? [all.replace(/:\d+:\d+(\)?)$/, `:${at.line}:${at.column}$1`)] : [];
}

/* Below the cell's last frame there is nothing but the driver. */
function traceOf(error, depth = 0) {
    const lines = String(error.stack || `${error.name}: ${error.message}`).split('\n')
        .flatMap(asWritten);
    const last = lines.findLastIndex((line) => /^\s+at .*<cell /.test(line));
    const kept = lines.filter((line, i) => !/^\s+at /.test(line) || i <= last ||
        !(line.includes('node:') || line.includes(import.meta.url)));
    if (error.cause instanceof Error && depth < 8)
        kept.push(`Caused by: ${traceOf(error.cause, depth + 1)}`);
    return kept.join('\n');
}

function compile(source, filename) {
    if (language === 'typescript') source = withoutTypes(source, filename);
    try {
        return cellOf(source).script(filename);
    } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
        try {
            return new vm.Script(source, { filename }); // newer than what the parser knows
        } catch {
            if (!error.loc) throw error;
            const text = error.message.replace(/ \(\d+:\d+\)$/, '');
            throw Object.assign(new SyntaxError(text),
                { stack: place(source, filename, error.loc.line - 1, text) });
        }
    }
}

async function execute(request) {
    const execution = { id: request.id, before: {} };
    current = execution;
    lastId = request.id;
    wire.postMessage({ begun: request.id });
    for (const [name, value] of Object.entries(request.env ?? {})) {
        execution.before[name] = process.env[name];
        process.env[name] = value;
    }
    let error = null;
    try {
        globalThis.__atoll.value = undefined;
        const script = compile(request.code, `<cell ${++count}>`);
        const done = script.runInThisContext({ displayErrors: false });
        if (util.types.isPromise(done)) await done;
        // A promise as the last value is waited for: main() at the end of a program.
        const value = await globalThis.__atoll.value;
        if (value !== undefined && current === execution) sendResult(bundleOf(value), true);
    } catch (thrown) {
        error = describe(thrown);
    }
    finish(execution, error);
}

function finish(execution, error) {
    if (current !== execution) return; // it was interrupted before
    for (const [name, value] of Object.entries(execution.before)) {
        delete process.env[name];
        if (value !== undefined) process.env[name] = value;
    }
    if (error) tell('error', error);
    tell('end_of_execution');
    current = null;
}

function hear(message, answered) {
    if (message.interrupt !== undefined) {
        Atomics.store(answered, 0, Math.max(Atomics.load(answered, 0), message.interrupt));
        Atomics.notify(answered, 0);
        if (current)
            finish(current, INTERRUPT);
    } else if (message.armed) {
        wire.postMessage(message);
    } else if (message.leave) {
        process.reallyExit(0);
    } else if (message.request.id === lastId) {
        wire.postMessage({ begun: lastId });
    } else {
        execute(message.request);
    }
}

/* Written at once: what the code prints is in the pipe before anything that comes after. The
 * stream's own bookkeeping is left out: a write that an interrupt ends would hold up all others. */
function outputTo(fd) {
    const write = (chunk, encoding, done) => {
        const then = typeof encoding === 'function' ? encoding : done;
        writeAll(fd, typeof chunk === 'string'
            ? Buffer.from(chunk, typeof encoding === 'string' ? encoding : 'utf8') : chunk);
        if (then) process.nextTick(then);
        return true;
    };
    const stream = new Writable({ write: (chunk, encoding, done) => write(chunk, encoding, done) });
    return Object.assign(stream, { fd, _type: 'pipe', isTTY: false, write });
}

function prepareProcess() {
    for (const [name, fd] of [['stdout', 1], ['stderr', 2]])
        Object.defineProperty(process, name,
            { value: outputTo(fd), configurable: true, enumerable: true, writable: true });
    const here = () => createRequire(path.join(process.cwd(), 'x.js'));
    const require = Object.assign((name) => here()(name),
        { resolve: (name) => here().resolve(name) });
    Object.defineProperty(require, 'cache', { get: () => here().cache });
    const exported = { exports: {} };
    Object.assign(globalThis, { require, module: exported, exports: exported.exports, display });
    Object.defineProperty(globalThis, '__dirname',
        { get: () => process.cwd(), configurable: true });
    Object.defineProperty(globalThis, '__atoll', { value: { load, named, value: undefined,
        loaded: undefined, meta: () => ({ dirname: process.cwd(),
            url: pathToFileURL(path.join(process.cwd(), 'cell.mjs')).href }) } });
    process.argv.splice(1);
    process.exit = (code) => {
        throw new ProcessExit(`process.exit(${code ?? ''}): ` +
            'an interpreter that stays does not exit');
    };
    process.on('uncaughtException', (error) => {
        process.stderr.write(`Uncaught ${describe(error).traceback}\n`);
    });
}

/* Loads the modules that the environment wants to be loaded already. */
async function warm(names) {
    for (const name of names) {
        try {
            await load(name);
        } catch (error) {
            const text = `cannot import '${name}': ${error?.name}: ${error?.message}`.slice(0, 2000);
            writeLine({ type: 'failed', text });
            process.reallyExit(1);
        }
    }
}

function startMain() {
    const answered = new Int32Array(new SharedArrayBuffer(4));
    const file = new URL(import.meta.url);
    const names = (process.env.ATOLL_WARM ?? '').split(' ').filter(Boolean);
    delete process.env.ATOLL_WARM;
    prepareProcess();
    if (names.length === 0) startThreads(file, answered);
    else warm(names).then(() => startThreads(file, answered));
}

function startThreads(file, answered) {
    wire = new Worker(file, { workerData: { role: 'wire', language } });
    wire.on('message', (message) => hear(message, answered));
    const interrupts = new Worker(file, { workerData: { role: 'interrupts', answered } });
    interrupts.on('message', (message) => hear(message, answered));
    interrupts.unref();
    if (language === 'typescript') setImmediate(() => { typescript = findTypeScript(); });
}

if (isMainThread) startMain();
else if (workerData.role === 'wire') new Wire().start(workerData.language);
else waitForInterrupts(workerData.answered, parentPort);
