// Writes what is in this image, as SPDX 2.3, to standard output.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, existsSync } from "node:fs";

const packages = [];
const add = (kind, name, version, license) =>
  packages.push({
    SPDXID: `SPDXRef-${packages.length + 1}`,
    name,
    versionInfo: version,
    downloadLocation: "NOASSERTION",
    licenseDeclared: license ?? "NOASSERTION",
    externalRefs: [
      {
        referenceCategory: "PACKAGE-MANAGER",
        referenceType: "purl",
        referenceLocator: `pkg:${kind}/${encodeURIComponent(name).replace("%2F", "/")}@${encodeURIComponent(version)}`,
      },
    ],
  });

const listed = execFileSync("dpkg-query", ["-W", "-f", "${Package}\t${Version}\n"], { encoding: "utf8" });
for (const line of listed.trim().split("\n")) {
  const [name, version] = line.split("\t");
  add("deb/debian", name, version);
}
const top = "/usr/local/lib/node_modules";
for (const entry of readdirSync(top)) {
  const names = entry.startsWith("@") ? readdirSync(`${top}/${entry}`).map((name) => `${entry}/${name}`) : [entry];
  for (const name of names) {
    const file = `${top}/${name}/package.json`;
    if (existsSync(file)) {
      const { version, license } = JSON.parse(readFileSync(file, "utf8"));
      add("npm", name, version, typeof license === "string" && /^[A-Za-z0-9.+-]+$/.test(license) ? license : undefined);
    }
  }
}
add("npm", "node", process.versions.node, "MIT");
for (const [kind, name, version] of process.argv.slice(2).map((one) => one.split(" "))) add(kind, name, version);

console.log(
  JSON.stringify({
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: "SPDXRef-DOCUMENT",
    name: "cofferdam-base",
    documentNamespace: "https://spdx.org/spdxdocs/cofferdam-base",
    creationInfo: { created: "1970-01-01T00:00:00Z", creators: ["Tool: cofferdam"] },
    packages,
  }),
);
