// Builds ../static from src. The same sources give the same bytes.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "..", "static");

await mkdir(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx", style: "src/style.css" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  splitting: true,
  chunkNames: "[name]",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
});
for (const name of ["index.html", "login.html", "icon.svg"]) await copyFile(join(here, "src", name), join(out, name));

// The licences of what is built in.
const { packages } = JSON.parse(await readFile(join(here, "package-lock.json"), "utf8"));
const licences = Object.entries(packages).filter(([path, { dev }]) => path && !dev).map(async ([path, { version }]) =>
  `${path.slice("node_modules/".length)} ${version}\n\n${(await readFile(join(here, path, "LICENSE"), "utf8")).trim()}\n`);
await writeFile(join(out, "licences.txt"), (await Promise.all(licences)).join("\n\n"));
