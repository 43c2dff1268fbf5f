// One parent: what it is made of, what waits for what, and who wrote each line of a child.
import type { JSX, VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Details, type Edge, type Edges, type Group, type ManifestLine, type Parent, reader, type TreeNode } from "./api";
import { ChildChanges, ParentChanges } from "./changes";
import { Conditions, Events, Readiness } from "./details";
import { useFlash } from "./overview";
import { Age, Copy, groupOf, Loaded, now, Page, Source, State, stateWord, Tabs, useKeys, useSize } from "./parts";
import { type Reading, useBeat, useRead, useStream } from "./read";
import { API, go, place, templateAddress, UI, withQuery } from "./router";
import { Band, History } from "./timeline";
import { arcs, conditionOf, groupOfParent, named, ROW, type TreeRow, treeRows, windowOf } from "./tree";
import { age, clock, command, curl, kindOf, kubectl, located, number, shortened, split } from "./words";

export function ParentPage({ address }: { address: string }) {
  const parts = address.split("/");
  const folder = parts[0]!, name = parts.at(-1)!, namespace = parts.length > 2 ? parts[1]! : "";
  const path = `${API}parents/${parts.map(encodeURIComponent).join("/")}`;
  const stream = useStream<Parent>(`${path}?stream=1`);
  const shown = stream.value.value;

  // The edges follow from the templates and the children: they are read again when a state changes.
  const states = useMemo(() => (shown && !shown.left ? childrenOf(shown).map(([, { state, message }]) => (state === "Waiting" ? message : state)).join() : ""), [shown]);
  const last = useRef(UNKNOWN), needs = useRead<Edges>(shown ? `${path}/edges` : "", states).value ?? last.current;
  last.current = needs;
  const { edges } = needs;

  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [unfolded, setUnfolded] = useState("");
  const rows = useRows(shown, needs, opened, unfolded);
  const selected = place.value.query.get("child") ?? "", tab = place.value.query.get("tab") ?? "";
  const at = rows.findIndex((row) => row.key === selected);
  // An object that is selected stays in view: also where it is in a fold, or comes into one.
  useEffect(() => {
    if (selected && at < 0 && shown?.nodes[selected]) setUnfolded(selected);
  }, [selected, at, shown]);
  const select = (key: string) => go(withQuery({ child: key }), { replace: true });
  // On a narrow page, that of the parent itself is another one.
  const selectRow = (key: string) => (key ? select(key) : go(withQuery({ child: "", tab: tab || "conditions" }), { replace: true }));
  const toggle = (key: string, open: boolean) => setOpened((before) => {
    const after = new Set(before);
    if (open) after.add(key);
    else after.delete(key);
    return after;
  });
  const move = (by: number) => {
    const next = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
    if (next) select(next.key);
  };
  const row = rows[at];
  useKeys({
    j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
    ArrowRight: () => row?.fold && toggle(row.key, true),
    ArrowLeft: () => row?.fold && toggle(row.key, false),
    Enter: () => row?.fold && toggle(row.key, !row.open),
    Escape: () => go(withQuery({ child: "", tab: "" }), { replace: true }),
  });
  const beat = useBeat(EVENTS_BEAT);
  const details = useRead<Details>(shown ? `${path}/details` : "", `${beat} ${states} ${shown?.parent.conditions.map((each) => `${each.type}${each.status}${each.reason}${each.message}`).join()}`);
  const kind = shown?.parent.kind ?? "";
  useEffect(() => {
    document.title = `${kind} ${name} · ssa-operator`;
  }, [kind, name]);

  return (
    <Page stream={stream} shown={shown} crumbs={[[UI, "Overview"], [`${UI}?folder=${encodeURIComponent(folder)}`, folder.split(".")[0]!], ...(namespace ? [[`${UI}?namespace=${encodeURIComponent(namespace)}`, namespace] as [string, string]] : [])]} here={name} reading={READING} back={[UI, "All parents"]}>{(shown) => (
      <main class={selected || PARENT_TABS.some(([id]) => id === tab) ? "parent beside" : "parent"}>
        <Announced shown={shown} />
        <Head shown={shown} rows={rows} onSelect={select} />
        <Tree shown={shown} rows={rows} edges={edges} selected={selected} at={at} onSelect={selectRow} onToggle={toggle} />
        {row?.key && !row.fold && !isQuery(row)
          ? <Child key={row.key} path={path} parent={shown} row={row} needs={needs} onClose={() => select("")} onSelect={select} />
          : selected && shown.left ? <section class="side"><p class="empty">{READING}</p></section>
          : <Side path={path} shown={shown} tab={tab} details={details} onSelect={select} />}
        <Band entries={shown.timeline} events={details.value?.events ?? NO_EVENTS} present={present(shown)} onSelect={select} />
      </main>
    )}</Page>
  );
}

const READING = "Reading the objects …";

/** Children whose rows are made at once, and milliseconds after which more of them make a pause. */
const AT_ONCE = 500, SLICE = 8;

/** The rows of a parent. Those of many children come a moment later, so that the page goes on meanwhile; rows are made of the first portion and of the whole tree alone. */
function useRows(shown: Parent | null, edges: Edges, opened: ReadonlySet<string>, unfolded: string): TreeRow[] {
  const laid = useRef<Parent | null>(null);
  if (!shown?.left || !laid.current) laid.current = shown;
  const parent = laid.current;
  const width = useReasonWidth();
  const atOnce = useMemo(() => (parent && parent.order.length <= AT_ONCE ? finished(treeRows(parent, edges, opened, unfolded, width)) : null), [parent, edges, opened, unfolded, width]);
  const [later, setLater] = useState<TreeRow[]>([]);
  const wanted = useRef<(() => Generator<undefined, TreeRow[]>) | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  useEffect(() => {
    if (!parent) return;
    if (atOnce) {
      setLater(atOnce);
      return;
    }
    // Rows that are being made come to their end, also while changes follow one another.
    const idle = wanted.current === null;
    wanted.current = () => treeRows(parent, edges, opened, unfolded, width);
    if (!idle) return;
    const begin = () => {
      const begun = wanted.current!, steps = begun();
      const go = () => {
        for (const until = performance.now() + SLICE; performance.now() < until;) {
          const step = steps.next();
          if (!step.done) continue;
          setLater(step.value);
          if (wanted.current === begun) wanted.current = null;
          else timer.current = setTimeout(begin);
          return;
        }
        timer.current = setTimeout(go);
      };
      timer.current = setTimeout(go);
    };
    begin();
  }, [parent, edges, opened, unfolded, width]);
  return atOnce ?? later;
}

/** The width that a reason has in the tree, as style.css gives it. */
function useReasonWidth(): number {
  const measured = () => (innerWidth >= 1100 ? 0.54 * innerWidth - 130 : innerWidth - (innerWidth > 760 ? 130 : 40));
  const [width, setWidth] = useState(measured);
  useEffect(() => {
    const onResize = () => setWidth(measured());
    addEventListener("resize", onResize);
    return () => removeEventListener("resize", onResize);
  }, []);
  return width;
}

function finished<T>(steps: Generator<unknown, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

const NO_EVENTS: Details["events"] = [];

/** The edges before they are read. */
const UNKNOWN: Edges = { edges: [], objects: {} };

/** Seconds after which Events are read again: an Event changes no object. */
const EVENTS_BEAT = 20;

/** The parent's condition Ready, as the band begins with it. */
function present(shown: Parent) {
  const ready = conditionOf(shown, "Ready");
  return { group: groupOfParent(shown), reason: ready?.reason ?? "Unknown", since: Date.parse(ready?.lastTransitionTime ?? "") / 1000 || Date.now() / 1000 };
}

function Head({ shown, rows, onSelect }: { shown: Parent; rows: TreeRow[]; onSelect: (key: string) => void }) {
  const { kind, name, namespace, creationTimestamp } = shown.parent;
  const ready = conditionOf(shown, "Ready");
  const isReady = ready?.status === "True";
  const group = groupOfParent(shown);
  const counted = useMemo(() => readyChildren(shown), [shown]);
  const [cause, fix] = split(ready?.message ?? "");
  const { text: first, file, line } = located(cause);
  const parent = `${kind.toLowerCase()}/${name}`;
  // The message begins with the child that it is about.
  const about = useMemo(
    () => (first ? rows : []).find(({ key, node }) => shown.nodes[key] !== undefined && node.name && first.startsWith(`${node.kind} ${node.namespace ? `${node.namespace}/` : ""}${node.name}:`)),
    [rows, first],
  );
  const source = file ?? about?.edge?.file;
  const rest = shortened(about ? first.slice(first.indexOf(":")) : first, namespace);
  return (
    <section class="head">
      <div>
        <h1>{kind} {name}</h1>
        <p class="why"><State state={ready?.reason ?? "Unknown"} group={group} />{conditionOf(shown, "Suspended") && <span class="dim"> · suspended</span>}{" "}
          {!isReady && <span>{about && <button type="button" class="plain link" onClick={() => onSelect(about.key)}>{about.node.kind} {about.node.name}</button>}<Message text={rest} keys={about?.awaited ?? []} onSelect={onSelect} />{ready?.lastTransitionTime && <span class="faint"> (for <Age time={ready.lastTransitionTime} />)</span>}{source && <span class="faint"> · <Source file={source} line={file ? line : about?.edge?.line} /></span>}</span>}</p>
        {!isReady && fix && <p class="fix">{shortened(fix, namespace)}</p>}
        {shown.notes.map((note) => <p class="small dim" key={note}>{note}</p>)}
      </div>
      <div class="facts">
        {namespace && <span>{namespace}</span>}<span>created <Age time={creationTimestamp} /> ago</span><span>{shown.left ? `reading ${number(shown.left)} more …` : `${counted} children ready`}</span>
        <a class="link narrow" href={`${UI}${withQuery({ child: "", tab: "conditions" })}`}>Conditions, events, dry run</a>
        <Copy text={command("tree", parent, namespace ? "-n" : "", namespace ?? "")}>Copy as command</Copy>
      </div>
    </section>
  );
}

const childrenOf = (shown: Parent): [string, TreeNode][] => shown.order.flatMap((key) => (shown.nodes[key]?.depth === 1 ? [[key, shown.nodes[key]] as [string, TreeNode]] : []));

/** `2 of 3`: how many of the children are ready. */
function readyChildren(shown: Parent): string {
  const children = childrenOf(shown);
  return `${children.filter(([, { state }]) => groupOf(state) === "ready").length} of ${children.length}`;
}

/** Milliseconds between two sentences of a screen reader, and how many objects one names. */
const SPEAK = 10_000, SPOKEN = 2;

/** Says politely which children changed, and that the parent did: one sentence for all that happens together. */
function Announced({ shown }: { shown: Parent }) {
  const said = useRef<{ states: Map<string, string>; at: number } | null>(null), due = useRef(0);
  const [words, setWords] = useState("");
  useEffect(() => {
    if (shown.left) return;
    const now = new Map([["", conditionOf(shown, "Ready")?.reason ?? ""], ...childrenOf(shown).map(([key, { state }]): [string, string] => [key, state ?? ""])]);
    said.current ??= { states: now, at: 0 };
    const before = said.current.states;
    const changed = [...now].filter(([key, state]) => before.get(key) !== state).map(([key]) => key);
    if (changed.length === 0) {
      due.current = 0;
      return;
    }
    due.current ||= Math.max(Date.now() + 300, said.current.at + SPEAK);
    const wait = setTimeout(() => {
      due.current = 0;
      said.current = { states: now, at: Date.now() };
      setWords(sentence(shown, changed));
    }, due.current - Date.now());
    return () => clearTimeout(wait);
  }, [shown]);
  return <p class="hidden" role="status">{words}</p>;
}

function sentence(shown: Parent, changed: string[]): string {
  const { kind, name } = shown.parent;
  const children = changed.filter(Boolean);
  const named = children.length > SPOKEN ? [`${number(children.length)} children changed`] : children.map((key) => `${shown.nodes[key]!.kind} ${shown.nodes[key]!.name} is ${stateWord(shown.nodes[key]!.state) || "Unknown"}`);
  const parent = changed.includes("") ? [`${kind} ${name} is ${stateWord(conditionOf(shown, "Ready")?.reason ?? "Unknown")}`] : [];
  return `${[...named, ...parent].join(", ")}; ${readyChildren(shown)} children are ready.`;
}

interface TreeProps {
  shown: Parent;
  rows: TreeRow[];
  edges: Edge[];
  selected: string;
  /** The number of its row, -1 without one. */
  at: number;
  onSelect: (key: string) => void;
  onToggle: (key: string, open: boolean) => void;
}

function Tree({ shown, rows, edges, selected, at, onSelect, onToggle }: TreeProps) {
  const [view, setView] = useState<[number, number]>([0, innerHeight]);
  const measure = (element: HTMLDivElement) => setView([element.scrollTop, element.clientHeight]);
  const box = useSize(measure);
  const made = useRef(new Map<TreeRow, { on: boolean; made: VNode }>());
  const slots = useRef(0);
  useEffect(() => {
    const row = rows[at], element = box.current;
    if (row === undefined || element === null) return;
    if (row.top < element.scrollTop) element.scrollTop = row.top;
    else if (row.top + row.height > element.scrollTop + element.clientHeight - ROW) element.scrollTop = row.top + row.height - element.clientHeight + ROW;
  }, [selected, at >= 0]);
  const [from, to] = windowOf(rows, view[0], view[1]);
  const last = rows.at(-1);
  const total = last ? last.top + last.height : 0;
  const drawn = useMemo(() => arcs(rows, edges, selected), [rows, edges, selected]);
  // A line that stays in view while others come and go is not rendered again, and the elements of one that went are used
  // for another: to make them takes longer than all else.
  slots.current = Math.max(slots.current, to - from);
  const kept = rows.slice(from, to).map((row, index) => {
    const on = row.key === selected, known = made.current.get(row);
    return known?.on === on ? known : { on, made: <Row key={(from + index) % slots.current} row={row} on={on} {...(row.key ? {} : { group: groupOfParent(shown) })} onSelect={onSelect} onToggle={onToggle} /> };
  });
  made.current = new Map(kept.map((each, at) => [rows[from + at]!, each]));
  return (
    <section class={total <= view[1] ? "tree fits" : "tree"} aria-label="Objects">
      <div class="row head" aria-hidden="true"><span>Object</span><span>State</span><span class="num">Ready</span><span class="num">Age</span><span>Needs</span></div>
      <div class="rows" ref={box} onScroll={(event) => measure(event.currentTarget)} tabIndex={0} role="tree" aria-label={`Objects of ${shown.parent.kind} ${shown.parent.name}`} aria-activedescendant={rowId(selected)}>
        <div class="all" style={{ height: `${total}px` }}>
          {kept.map((each) => each.made)}
          {drawn.length > 0 && (
            <svg class="arcs" width="56" height={total} aria-hidden="true">
              <defs><marker id="tip" markerWidth="7" markerHeight="7" refX="5" refY="3" orient="auto"><path d="M0 0l6 3-6 3z" fill="context-stroke" /></marker></defs>
              {drawn.map((arc) => {
                const reach = 14 + 36 * arc.lane;
                return <path key={`${arc.from}-${arc.to}`} class={arc.blocked ? "blocked" : ""} d={`M4 ${arc.from}C${reach} ${arc.from} ${reach} ${arc.to} 8 ${arc.to}`} marker-end="url(#tip)" />;
              })}
            </svg>
          )}
        </div>
        {rows.length === 1 && <p class="empty">It has no children yet.</p>}
      </div>
    </section>
  );
}

/** A time that a screen reader names: an age would be another one each second. */
const time = (of: string): string => {
  const at = Date.parse(of), today = Date.now() - at < DAY;
  return today ? clock(at / 1000) : new Date(at).toLocaleDateString();
};

const DAY = 86_400_000;

const rowId = (key: string): string => `object-${key.replaceAll(/[^\w-]/g, "_")}`;

const shownState = (node: TreeNode): string => (node.kind === "Pod" && node.state === "Current" ? "Ready" : node.state ?? "");

function Row({ row, on, group, onSelect, onToggle }: { row: TreeRow; on: boolean; /** Of the parent. */ group?: Group; onSelect: (key: string) => void; onToggle: (key: string, open: boolean) => void }) {
  const { node } = row;
  const flash = useFlash(`${node.state} ${node.message} ${node.restarts} ${row.fold}`, row.key);
  const style = { top: `${row.top}px`, height: `${row.height}px` };
  const click = () => (row.fold ? onToggle(row.key, !row.open) : onSelect(row.key));
  return (
    <div id={rowId(row.key)} class={`row ${on ? "on" : ""} ${flash ? "flash" : ""}`} style={style} role="treeitem" aria-level={row.depth + 1} aria-posinset={row.place} aria-setsize={row.of} aria-selected={on} aria-expanded={row.fold ? row.open : undefined} onClick={click}>
      <span class="name">
        {row.ends.map((end, at) => <i key={at} class={at === row.ends.length - 1 ? (end ? "i l" : "i t") : end ? "i" : "i v"} aria-hidden="true" />)}
        {row.fold ? <><span class="faint" aria-hidden="true">{row.open ? "▾" : "▸"}</span> <b>{row.fold}</b></> : <><b>{node.name}</b> <span class="kind">{node.kind}{row.external && !isQuery(row) && ", looked up"}</span></>}
      </span>
      {row.external && !node.state ? <span class="faint" aria-hidden="true">–</span> : <State state={shownState(node)} {...(group && { group })} />}
      <span class="num dim">{row.pods && <><span aria-hidden="true">{row.pods}</span><span class="hidden">{row.key ? "pods" : "children"}: {row.pods.replace("/", " of ")} ready</span></>}</span>
      <span class="num dim"><span aria-hidden="true"><Age time={node.creationTimestamp} otherwise="–" /></span>{node.creationTimestamp && <span class="hidden">created {time(node.creationTimestamp)}</span>}</span>
      <span />
      {row.reason && (
        <span class="reason" style={{ "--depth": row.depth }} title={node.message ?? row.reason}>
          <span><Message text={row.reason} keys={row.awaited} onSelect={onSelect} /></span>{" "}
          {node.since && <span aria-hidden="true">(for <Age time={node.since} />)</span>}{" "}
          {node.restarts && node.restartedAt && <><span aria-hidden="true">· last <Age time={node.restartedAt} /> ago</span>{" "}</>}
          {row.edge?.file && <span><span aria-hidden="true">· </span><Source file={row.edge.file} line={row.edge.line} /></span>}
          {node.since && <span class="hidden"> since {time(node.since)}</span>}
        </span>
      )}
      {row.fix && <span class="fix" style={{ "--depth": row.depth }}><Message text={row.fix} keys={row.awaited} onSelect={onSelect} /></span>}
    </div>
  );
}

/** A message whose objects lead to their rows. */
function Message({ text, keys, onSelect }: { text: string; keys: string[]; onSelect: (key: string) => void }) {
  return (
    <>
      {named(text, keys).map((part, at) => (part.key
        ? <button type="button" key={at} class="plain link" onClick={(event) => { event.stopPropagation(); onSelect(part.key); }}>{part.text}</button>
        : part.text))}
    </>
  );
}

const PARENT_TABS = [["conditions", "Conditions"], ["events", "Events"], ["history", "History"], ["change", "Would change"]] as const;

interface SideProps { path: string; shown: Parent; tab: string; details: Reading<Details>; onSelect: (key: string) => void }

/** What is known of the parent itself. */
function Side({ path, shown, tab, details, onSelect }: SideProps) {
  const chosen = PARENT_TABS.find(([id]) => id === tab)?.[0] ?? "conditions";
  const { kind, name, namespace } = shown.parent;
  return (
    <section class="side" aria-label={`${kind} ${name}`}>
      <div class="top">
        <h2>{kind} {name} <span class="dim">{namespace}</span></h2>
        <Copy quiet text={chosen === "events" ? kubectl(namespace || "default", "events", "--for", `${kindOf(shown.parent)}/${name}`)
          : chosen === "history" ? curl(path, reader.value !== "")
          : command(...(chosen === "change" ? ["diff", `${kind.toLowerCase()}/${name}`] : ["status", `${kind.toLowerCase()}/${name}`, "-o", "yaml"]), ...(namespace ? ["-n", namespace] : []))}>copy as command</Copy>
        <button type="button" class="plain narrow" aria-label="Close" onClick={() => go(withQuery({ tab: "" }), { replace: true })}>×</button>
      </div>
      <Tabs of="object" tabs={PARENT_TABS.map(([id, label]) => [id, label, id === "events" ? details.value?.events.length ?? 0 : 0] as const)} chosen={chosen} />
      <div id="part" role="tabpanel" aria-labelledby={`tab-${chosen}`}>
      {chosen === "conditions" ? <Conditions conditions={shown.parent.conditions} empty="The operator has not reported anything yet." />
        : chosen === "events" ? <EventsOf details={details} />
        : chosen === "history" ? <History entries={shown.timeline} onSelect={onSelect} />
        : <ParentChanges path={path} />}
      </div>
    </section>
  );
}

const EventsOf = ({ details }: { details: Reading<Details> }) => <Loaded reading={details} wait="Reading them …">{({ events, notes }) => <Events events={events} notes={notes} />}</Loaded>;

/** Whether a row is a question such as `every NeonBranch in default`, and no object. */
const isQuery = ({ external, node }: TreeRow): boolean => external && node.namespace === undefined;

interface ChildProps { path: string; parent: Parent; row: TreeRow; needs: Edges; onClose: () => void; onSelect: (key: string) => void }

function Child({ path, parent, row, needs: all, onClose, onSelect }: ChildProps) {
  const { node, key } = row;
  const needs = all.edges.filter((edge) => edge.source === key), needed = all.edges.filter((edge) => edge.target === key);
  const version = `${node.state} ${node.message} ${node.restarts}`;
  const exists = node.uid !== undefined || node.depth > 1;
  const beat = useBeat(EVENTS_BEAT);
  const details = useRead<Details>(exists ? `${path}/details?child=${encodeURIComponent(key)}` : "", `${beat} ${version}`);
  const other = row.external, own = node.depth === 1 && !other;
  const tabs = ([
    ["manifest", "Manifest", 0, own || (other && exists)], ["change", "Would change", 0, own], ["conditions", "Conditions", details.value?.conditions.length ?? 0, !other || exists], ["events", "Events", details.value?.events.length ?? 0, !other || exists],
    ["needs", "Needs", needs.length, own], ["needed", "Needed by", needed.length, own || other], ["history", "History", 0, own],
  ] as const).flatMap(([id, label, count, shown]) => (shown ? [[id, label, count] as const] : []));
  const wanted = place.value.query.get("tab") ?? "";
  const tab = tabs.find(([id]) => id === wanted)?.[0] ?? tabs[0]![0];
  const { kind, name, namespace } = parent.parent;
  /** What prints the same as this part of the page. */
  const commandOf = (): string => {
    const of = `${kind.toLowerCase()}/${name}`, within = namespace ? ["-n", namespace] : [];
    if (tab === "history") return curl(path, reader.value !== "");
    if (tab === "change") return command("diff", of, ...within);
    if (tab === "needs" || tab === "needed") return command("graph", of, ...within);
    if (tab === "events") return kubectl(node.namespace || "default", "events", "--for", `${kindOf(node)}/${node.name}`);
    if (tab === "manifest" && !other) return command("blame", of, `${kindOf(node)}/${node.name}`, ...within);
    // It prints no content of a Secret.
    if (tab === "conditions" || node.kind === "Secret") return kubectl(node.namespace, "describe", kindOf(node), node.name);
    return kubectl(node.namespace, "get", kindOf(node), node.name, "-o", "yaml", "--show-managed-fields");
  };
  return (
    <section class="side" aria-label={`${node.kind} ${node.name}`}>
      <div class="top">
        <h2>{node.kind} {node.name} <span class="dim">{node.namespace}</span></h2>
        {node.state && <State state={node.state} />}
        <Copy quiet text={commandOf()}>copy as command</Copy>
        <button type="button" class="plain" aria-label="Close" onClick={onClose}>×</button>
      </div>
      {!other && node.message && groupOf(node.state) !== "ready" && <p class="message"><Message text={shortened(node.message, namespace)} keys={row.awaited} onSelect={onSelect} />{node.since && ` (for ${age(node.since, now.value)})`}{row.edge?.file && <> · <Source file={row.edge.file} line={row.edge.line} /></>}</p>}
      {other && <p class="message">{node.state === "NotFound" ? "It does not exist. " : node.state ? "" : `Its state is not shown, because ${node.message ?? "it is not read"}. `}No template of this parent makes it: they look it up.</p>}
      {node.state === "Waiting" && needs.map(({ target }) => <Blocker key={target} node={parent.nodes[target] ?? all.objects[target]} of={target} namespace={namespace} onSelect={onSelect} />)}
      <Tabs of="object" tabs={tabs} chosen={tab} home="manifest" />
      <div id="part" role="tabpanel" aria-labelledby={`tab-${tab}`}>
      {tab === "change" ? <ChildChanges path={path} child={key} version={version} />
        : tab === "history" ? <History entries={parent.timeline} child={key} onSelect={onSelect} />
        : tab === "needs" || tab === "needed" ? <EdgesOf edges={tab === "needs" ? needs : needed} all={all} end={tab === "needs" ? "target" : "source"} parent={parent} onSelect={onSelect} />
        : !exists ? <><p class="message">It does not exist yet. An apply now:</p><ChildChanges path={path} child={key} version={version} /></>
        : tab === "manifest" ? <Manifest path={path} child={key} version={version} />
        : tab === "events" ? <EventsOf details={details} />
        : <Loaded reading={details} wait="Reading it …">{({ readiness, conditions }) => <>{readiness && <Readiness readiness={readiness} />}<Conditions conditions={conditions} empty="It has no conditions." /></>}</Loaded>}
      </div>
    </section>
  );
}

/** What a waiting child waits for, beside it: its state, and why it isn't ready. */
function Blocker({ node, of, namespace, onSelect }: { node: Omit<TreeNode, "depth"> | undefined; of: string; namespace: string | undefined; onSelect: (key: string) => void }) {
  return <p class="message blocker">waits for <button type="button" class="plain link" onClick={() => onSelect(of)}>{node ? `${node.kind} ${node.name}` : of.split("/").filter(Boolean).join(" ")}</button> {node?.state && <State state={node.state} />} {node?.message && shortened(node.message, namespace)}</p>;
}

function EdgesOf({ edges, all, end, parent, onSelect }: { edges: Edge[]; all: Edges; end: "source" | "target"; parent: Parent; onSelect: (key: string) => void }) {
  if (all === UNKNOWN) return <p class="empty">Reading them …</p>;
  if (edges.length === 0) return <p class="empty">{end === "target" ? "It reads no other object, and comes after none." : "No other child reads it, or comes after it."}</p>;
  return (
    <ul class="edges">
      {edges.map((edge) => {
        const node = parent.nodes[edge[end]] ?? all.objects[edge[end]];
        return (
          <li key={`${edge[end]}${edge.label}`}>
            {node ? <button type="button" class="plain link" onClick={() => onSelect(edge[end])}>{node.kind} {node.name}</button> : <b>{edge[end].split("/").filter(Boolean).join(" ")}</b>}
            {node?.state && <State state={node.state} />}
            <span class="small dim">{edge.label}{edge.file && <> · <Source file={edge.file} line={edge.line} /></>}{edge.cycle && <span class="s failed"> · part of a cycle</span>}</span>
          </li>
        );
      })}
    </ul>
  );
}

const WRITERS: Record<string, string> = { template: "w1", operator: "w1", "earlier template": "w1", manager: "w2" };

function Manifest({ path, child, version }: { path: string; child: string; version: string }) {
  const found = useRead<{ lines: ManifestLine[]; note?: string }>(`${path}/manifest?child=${encodeURIComponent(child)}`, version);
  return <Loaded reading={found} wait="Reading it …">{({ lines, note }) => <ManifestLines lines={lines} note={note} />}</Loaded>;
}

function ManifestLines({ lines, note }: { lines: ManifestLine[]; note: string | undefined }) {
  const [unfolded, setUnfolded] = useState<ReadonlySet<number>>(new Set());
  const managers = [...new Set(lines.flatMap((line) => (line.writer === "manager" && line.manager ? [line.manager] : [])))];
  const colour = (line: ManifestLine): string =>
    line.writer === "manager" ? (managers.indexOf(line.manager ?? "") % 2 ? "w3" : "w2") : WRITERS[line.writer ?? ""] ?? (line.writer ? "w4" : "w0");
  return (
    <>
      {note && <p class="message">{note}</p>}
      {lines.length > 0 && (
        <p class="legend small">
          <span><i class="w1" />our templates</span>
          {managers.map((manager, at) => <span key={manager}><i class={at % 2 ? "w3" : "w2"} />{manager}</span>)}
          <span><i class="w4" />default or API server</span>
        </p>
      )}
      <div class="code" tabIndex={0}>
        {runs(lines).map(([from, to, quiet]) => (quiet && !unfolded.has(from)
          ? <button type="button" key={from} class="plain quiet" onClick={() => setUnfolded(new Set([...unfolded, from]))}>▸ {to - from} lines that Kubernetes wrote</button>
          : lines.slice(from, to).map((line, at) => (
            <div key={from + at}>
              <Writer line={line} /><i class={colour(line)} aria-hidden="true" />
              <span>{text(line.text)}{line.origin && line.origin !== "literal" && <span class="from">{line.origin}</span>}</span>
            </div>
          ))))}
      </div>
    </>
  );
}

/** So many lines in a row that Kubernetes itself wrote are one line, until the reader opens it. */
const QUIET = 4;

/** Whether the API server, a default or a controller of Kubernetes wrote a line; undefined for a line without a writer. */
const isQuiet = ({ writer, manager, subresource }: ManifestLine): boolean | undefined =>
  writer === undefined ? undefined : writer === "manager" ? /^kube-|^kubelet$/.test(manager ?? "") || subresource === "status" : !WRITERS[writer];

/** The lines in runs: from, to, and whether the run folds. A line without a writer goes with the one below it. */
function runs(lines: ManifestLine[]): [number, number, boolean][] {
  const found: [number, number, boolean][] = [];
  for (let to = lines.length, from = to; to > 0; to = from) {
    const quiet = isQuiet(lines[--from]!) ?? false;
    while (from > 0 && (isQuiet(lines[from - 1]!) ?? quiet) === quiet) from -= 1;
    found.unshift([from, to, quiet && to - from >= QUIET]);
  }
  return found;
}

/** Who wrote a line: a line of ours is a link to the template. */
function Writer({ line }: { line: ManifestLine }) {
  const title = writer(line, false), text = writer(line, true);
  const address = line.writer === "template" && line.file ? templateAddress(line.file, line.line) : "";
  return address ? <a class="g" title={title} href={address}>{text}</a> : <span class="g" title={title}>{text}</span>;
}

/** Who wrote a line. Times and whole paths are in its title. */
function writer(line: ManifestLine, short: boolean): string {
  switch (line.writer) {
    case undefined: return "";
    case "template": return short ? `${line.file?.split("/").at(-1)}:${line.line}` : `${line.file}:${line.line}`;
    case "manager": {
      const name = line.manager + (line.subresource ? ` (${line.subresource})` : "");
      return short ? `${line.manager} · ${age(line.time, now.value)}` : `${name} at ${line.time}`;
    }
    case "operator": return "ssa-operator";
    case "earlier template": return "earlier template";
    case "API server": return short ? "" : "written by the API server";
    default: return short ? "" : "no manager recorded: a default, or written without a record";
  }
}

function text(line: string): JSX.Element {
  const found = /^(\s*(?:- )*)((?:"[^"]*"|[^\s"][^:]*):)(?= |$)/.exec(line);
  if (!found) return <>{line}</>;
  return <>{found[1]}<span class="k">{found[2]}</span>{line.slice(found[0].length)}</>;
}
