// A template folder: its files with their problems, what waits for what, and what a change that doesn't load changed.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type FolderGraph, type FolderPage, reader, type TemplateFile } from "./api";
import { FileView } from "./file";
import type { Layout } from "./layers";
import { Copy, DiffLine, now, Page, State, Tabs, useKeys } from "./parts";
import { useStream } from "./read";
import { API, folderAddress, go, place, ROLLOUT, UI, withQuery } from "./router";
import { age, command, curl, labelParts, plural } from "./words";

type Tab = "files" | "graph" | "changes";

export function FolderView({ folder }: { folder: string }) {
  const stream = useStream<FolderPage>(`${API}folders/${encodeURIComponent(folder)}?stream=1`);
  const shown = stream.value.value;
  const files = Object.entries(shown?.files ?? {});
  const changed = files.filter(([, file]) => file.difference?.length);
  const tabs: [Tab, string, number][] = [["files", "Files", files.length], ["graph", "Graph", shown?.graph.nodes?.length ?? 0]];
  if (changed.length) tabs.push(["changes", "Changes", changed.length]);
  const query = place.value.query;
  const tab = tabs.find(([id]) => id === query.get("tab"))?.[0] ?? "files";
  const chosen = files.find(([name]) => name === query.get("file"))?.[0] ?? (files.find(([, file]) => file.problems?.length) ?? files.find(([name]) => !base(name).startsWith("_")) ?? files[0])?.[0] ?? "";
  const select = (file: string) => go(withQuery({ file, line: "" }), { replace: true });
  const [node, setNode] = useState(-1);
  const move = (by: number) => {
    if (tab === "graph") {
      const drawn = (shown?.graph.nodes ?? []).flatMap((each, at) => (each.manifest ? [at] : []));
      const next = drawn[Math.max(0, Math.min(drawn.length - 1, drawn.indexOf(node) + by))];
      if (next !== undefined) setNode(next);
      document.getElementById(`node-${next}`)?.scrollIntoView({ block: "nearest" });
      return;
    }
    const at = files.findIndex(([name]) => name === chosen) + by;
    const next = files[Math.max(0, Math.min(files.length - 1, at))];
    if (next) select(next[0]);
  };
  const turn = (by: number) => document.getElementById(`tab-${tabs[(tabs.findIndex(([id]) => id === tab) + by + tabs.length) % tabs.length]![0]}`)?.click();
  useKeys({
    j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1), ArrowRight: () => turn(1), ArrowLeft: () => turn(-1),
    Escape: () => setNode(-1),
  });
  useEffect(() => {
    document.title = `${folder} · ssa-operator`;
  }, [folder]);

  return (
    <Page stream={stream} shown={shown} crumbs={[[UI, "Overview"]]} here={folder} reading="Reading the templates …" back={[UI, "All folders"]}>{(shown) => (
      <main class="folder">
        <Head shown={shown} tab={tab} />
        <Tabs of="folder" tabs={tabs} chosen={tab} home="files" />
        <div id="part" class={`pane ${tab === "files" ? (query.get("parent") ? "texts beside" : "texts") : tab}`} role="tabpanel" aria-labelledby={`tab-${tab}`}>
          {tab === "files" && <Files files={files} chosen={chosen} shown={shown} onSelect={select} />}
          {tab === "graph" && <Graph graph={shown.graph} folder={folder} served={shown.kind !== undefined} chosen={node} onChoose={setNode} />}
          {tab === "changes" && changed.map(([name, file]) => <Changes key={name} name={name} file={file} />)}
        </div>
      </main>
    )}</Page>
  );
}

function Head({ shown, tab }: { shown: FolderPage; tab: Tab }) {
  const problems = (shown.problems?.length ?? 0) + Object.values(shown.files ?? {}).reduce((sum, file) => sum + (file.problems?.length ?? 0), 0);
  return (
    <section class="head">
      <div>
        <h1>{shown.folder}</h1>
        <p class="why">
          {shown.loads ? <State group="ready" word="Loads" /> : <State group="failed" word="Does not load" />}
          {!shown.loads && <span> {plural(problems, "problem")}{shown.digest ? "; the last good templates stay in use" : "; none of its parents is reconciled"}</span>}
        </p>
        {shown.waits && <p class="dim">{shown.waits}</p>}
        {shown.problems?.map((problem) => <p key={problem.message} class="problem">{problem.file && <code>{problem.file}:{problem.line} </code>}{problem.message}</p>)}
      </div>
      <div class="facts">
        {shown.digest && <span title="Identifies the templates in use">templates <code>{shown.digest}</code>{shown.loaded && ` loaded ${age(shown.loaded, now.value)} ago`}</span>}
        {shown.rollout && <a class="link" href={`${folderAddress(shown.folder)}${ROLLOUT}`}>rollout</a>}
        <a class="link" href={`${UI}?folder=${encodeURIComponent(shown.folder)}`}>{plural(shown.parents ?? 0, "parent")}</a>
        {(tab !== "graph" || shown.kind) && <Copy text={tab === "graph" ? command("graph", shown.kind!.toLowerCase()) : tab === "files" ? command("check") : curl(`${API}folders/${encodeURIComponent(shown.folder)}`, reader.value !== "")}>Copy as command</Copy>}
      </div>
    </section>
  );
}

interface FilesProps { files: [string, TemplateFile][]; chosen: string; shown: FolderPage; onSelect: (name: string) => void }

function Files({ files, chosen, shown, onSelect }: FilesProps) {
  const file = files.find(([name]) => name === chosen)?.[1];
  return (
    <>
      <nav class="files" aria-label="Files">
        {files.map(([name, each]) => (
          <a key={name} href={`${UI}${withQuery({ file: name, line: "" })}`} class={name === chosen ? "on" : ""} aria-current={name === chosen ? "true" : undefined}
            onClick={(event) => { event.preventDefault(); onSelect(name); }}>
            <span>{base(name)}</span>
            {each.problems?.length ? <State group="failed" word={String(each.problems.length)} /> : each.removed ? <span class="faint small">removed</span> : null}
          </a>
        ))}
        {files.length === 0 && <p class="empty">It has no files.</p>}
      </nav>
      {file !== undefined && <FileView key={chosen} name={chosen} file={file} shown={shown} />}
    </>
  );
}

const base = (name: string): string => (name.startsWith("_") ? name : name.slice(name.indexOf("/") + 1));

function Changes({ name, file }: { name: string; file: TemplateFile }) {
  return (
    <section aria-label={`Changes of ${name}`}>
      <h2>{base(name)} <span class="faint">beside the last good one</span></h2>
      <div class="code compared" tabIndex={0}>
        {file.difference!.map((line, at) => <DiffLine key={at} line={line} />)}
      </div>
    </section>
  );
}

/** Of its size, a graph is at least this much: the text in it stays readable, and what has no place is scrolled to. */
const LEAST = 0.85;

interface GraphProps { graph: FolderGraph; folder: string; served: boolean; chosen: number; onChoose: (at: number) => void }

function Graph({ graph, folder, served, chosen, onChoose }: GraphProps) {
  const nodes = graph.nodes ?? [], edges = graph.edges ?? [];
  const labels = useMemo(() => nodes.map(({ label }) => labelParts(label)), [graph]);
  const [drawn, setDrawn] = useState<Layout | null>(null);
  const [failed, setFailed] = useState("");
  useEffect(() => {
    let left = false;
    import("./layers").then(({ layout }) => !left && setDrawn(layout(graph, labels)), () => setFailed("The operator doesn't answer, so the graph is not drawn; the table has the same."));
    return () => {
      left = true;
    };
  }, [graph]);
  const view = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const box = drawn?.boxes[chosen], element = view.current;
    if (!drawn || !box || !element) return;
    const scale = element.scrollWidth / drawn.width;
    element.scrollLeft = (box.x + box.width / 2) * scale - element.clientWidth / 2;
  }, [chosen, drawn]);
  // A graph that has the focus scrolls by the arrows, which change the tab elsewhere.
  const onArrow = (event: KeyboardEvent & { currentTarget: HTMLElement }) => {
    const { scrollWidth, clientWidth } = event.currentTarget;
    if (scrollWidth > clientWidth && (event.key === "ArrowLeft" || event.key === "ArrowRight")) event.stopPropagation();
  };
  const alone = nodes.filter((_, at) => !edges.some((edge) => edge.source === at || edge.target === at)).length;
  const near = new Set(edges.flatMap((edge) => (edge.source === chosen || edge.target === chosen ? [edge.source, edge.target] : [])));
  if (nodes.length === 0) return <p class="empty">{graph.problems?.join("; ") || (served ? "It renders no object." : "It is drawn once the cluster serves the resource.")}</p>;
  const link = (file?: string, line?: number) => file && <a class="link" href={`${UI}folders/${encodeURIComponent(folder)}?file=${encodeURIComponent(file)}&line=${line}`}>{base(file)}:{line}</a>;
  return (
    <>
      <p class="message">
        For a sample of {folder}. An arrow leads to what an object needs before it is applied{edges.some((edge) => !edge.awaited) ? ", a dashed one to what it reads without waiting" : ""}.
        {alone > 0 && alone < nodes.length && ` ${plural(alone, "object")} without a dependency ${alone === 1 ? "is" : "are"} in the table alone.`}
      </p>
      {graph.problems?.map((problem) => <p key={problem} class="message problem">{problem}</p>)}
      {failed && <p class="message" role="alert">{failed}</p>}
      {drawn !== null && drawn.width > 0 && <div class="graph" ref={view} tabIndex={0} aria-label="The graph; the table below has the same" onKeyDown={onArrow}>
        <svg width={drawn.width} viewBox={`0 0 ${drawn.width} ${drawn.height}`} style={{ minWidth: `${LEAST * drawn.width}px` }} role="img" aria-label={`${plural(nodes.length, "object")}, ${plural(edges.length, "dependency")}`}>
          <defs><marker id="arrow" markerWidth="7" markerHeight="7" refX="5" refY="3" orient="auto"><path d="M0 0l6 3-6 3z" fill="context-stroke" /></marker></defs>
          {drawn.curves.map(({ path, edge: at }) => {
            const edge = edges[at]!;
            const on = edge.source === chosen || edge.target === chosen;
            return <path key={at} class={`edge ${edge.cycle ? "cycle" : ""} ${edge.awaited ? "" : "loose"} ${on ? "on" : chosen >= 0 ? "off" : ""}`} d={path} marker-end="url(#arrow)" />;
          })}
          {drawn.boxes.map((box, at) => box && (
            <g key={at} class={`node ${nodes[at]!.manifest ? "" : "external"} ${at === chosen ? "on" : chosen >= 0 && !near.has(at) ? "off" : ""}`} onClick={() => onChoose(at === chosen ? -1 : at)}>
              <title>{nodes[at]!.label}</title>
              <rect x={box.x + 0.5} y={box.y + 0.5} width={box.width - 1} height={box.height - 1} rx="6" />
              <text x={box.x + 12} y={labels[at]![0] ? box.y + 17 : box.y + 24}>{short(labels[at]![1], box.width)}</text>
              {labels[at]![0] && <text class="kind" x={box.x + 12} y={box.y + 31}>{labels[at]![0]}{nodes[at]!.hook ? ", on deletion" : nodes[at]!.manifest ? "" : ", looked up"}</text>}
            </g>
          ))}
        </svg>
      </div>}
      <table class="needs">
        <caption class="hidden">The objects of the folder, and what each needs</caption>
        <thead><tr><th scope="col">Object</th><th scope="col">Needs</th></tr></thead>
        <tbody>
          {nodes.map((node, at) => node.manifest && (
            <tr key={at} id={`node-${at}`} class={at === chosen ? "on" : ""}>
              <td><button type="button" class="name" aria-pressed={at === chosen} onClick={() => onChoose(at === chosen ? -1 : at)}><b>{labels[at]![1]}</b> <span class="dim">{labels[at]![0]}</span></button><span class="small">{link(node.file, node.line)}</span></td>
              <td>{needs(edges, at).map((edge, index) => (
                <p key={index}>{labels[edge.target]![1]} <span class="dim">{labels[edge.target]![0]} {edge.label}</span> <span class="small">{link(edge.file, edge.line)}</span>{edge.cycle && <span class="s failed"> part of a cycle</span>}</p>
              ))}{needs(edges, at).length === 0 && <span class="faint">–</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

const needs = (edges: NonNullable<FolderGraph["edges"]>, at: number) => edges.filter((edge) => edge.source === at);

const short = (text: string, width: number): string => {
  const most = Math.floor((width - 22) / 6.6);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
};
