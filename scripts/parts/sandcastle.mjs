// Times Sandcastle for scripts/bench: a sandbox on a new branch in a container, until its first command has answered.
// Prints microseconds, one on each line: sandcastle.mjs REPOSITORY IMAGE N
// Sandcastle is the package of that name in the working directory; its engine is the one that `docker` takes.
import { pathToFileURL } from "node:url";

const [repository, image, count] = process.argv.slice(2);
const root = pathToFileURL(`${process.cwd()}/node_modules/@ai-hero/sandcastle/dist`);
const { createSandbox } = await import(`${root}/index.js`);
const { docker } = await import(`${root}/sandboxes/docker.js`);

for (let number = 0; number < Number(count); number++) {
  const branch = `bench/rival-${process.pid}-${number}`;
  const began = process.hrtime.bigint();
  const sandbox = await createSandbox({ branch, cwd: repository, sandbox: docker({ imageName: image }) });
  const done = await sandbox.exec("echo x");
  const taken = process.hrtime.bigint() - began;
  await sandbox.close();
  if (done.exitCode !== 0 || !done.stdout.includes("x")) throw new Error(`echo: ${JSON.stringify(done)}`);
  console.log(Number(taken / 1000n));
}
// Whatever it still waits for.
process.exit(0);
