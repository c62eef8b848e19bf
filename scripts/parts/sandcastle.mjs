// Times Sandcastle for scripts/bench: a sandbox on a new branch in a container, until its first command has answered; with `iterate`
// from one start of an agent that is `true` to the next, in one sandbox.
// Prints microseconds, one on each line: sandcastle.mjs session|iterate REPOSITORY IMAGE N
// Sandcastle is the package of that name in the working directory; its engine is the one that `docker` takes.
import { pathToFileURL } from "node:url";

const [what, repository, image, count] = process.argv.slice(2);
const root = pathToFileURL(`${process.cwd()}/node_modules/@ai-hero/sandcastle/dist`);
const { createSandbox } = await import(`${root}/index.js`);
const { docker } = await import(`${root}/sandboxes/docker.js`);
const now = () => process.hrtime.bigint();
const print = process.stdout.write.bind(process.stdout);
// What Sandcastle prints is no number.
process.stdout.write = process.stderr.write.bind(process.stderr);
const say = (taken) => print(`${Number(taken / 1000n)}\n`);
const made = (branch) => createSandbox({ branch, cwd: repository, sandbox: docker({ imageName: image }) });

async function session(number) {
  const began = now();
  const sandbox = await made(`bench/rival-${process.pid}-${number}`);
  const done = await sandbox.exec("echo x");
  const taken = now() - began;
  await sandbox.close();
  if (done.exitCode !== 0 || !done.stdout.includes("x")) throw new Error(`echo: ${JSON.stringify(done)}`);
  say(taken);
}

async function iterate(times) {
  const sandbox = await made(`bench/rival-${process.pid}`);
  const starts = [];
  const agent = {
    name: "true",
    env: {},
    captureSessions: false,
    buildPrintCommand() {
      starts.push(now());
      return { command: "true" };
    },
    parseStreamLine: () => [],
  };
  // Into a file, as ours has a log.
  const logging = { type: "file", path: `${repository}.log` };
  const done = await sandbox.run({ agent, prompt: "x", maxIterations: times + 1, logging });
  await sandbox.close();
  if (done.iterations.length !== times + 1) throw new Error(`${done.iterations.length} iterations`);
  for (let number = 1; number < starts.length; number++) say(starts[number] - starts[number - 1]);
}

if (what === "iterate") await iterate(Number(count));
else for (let number = 0; number < Number(count); number++) await session(number);
// Whatever it still waits for.
process.exit(0);
